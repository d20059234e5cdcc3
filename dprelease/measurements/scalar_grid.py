"""The grid on which the law of a scalar works.

A scalar's cell is an integer already; where its sensitivity is thousands of cells, 1,024
or a few more grid steps per sensitivity lose at most 0.1 % and keep tables small. What noise is left at a
large epsilon falls as e^(-epsilon / 2) (staircase), and from epsilon 8 on the grid gets finer at that
rate, down to the cells themselves, so that rounding never is what a release is wrong by. Where rounding
remains, half a step is in the interval and its expectation in the stated error (`rounded_error`).

Units: steps and origins in the statistic's unit, exact.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.measurements.base import cell_hull
from dprelease.measurements.members import BlockLayout
from dprelease.measurements.of_scalar import scalar_of
from dprelease.measurements.steps import best_step
from dprelease.schema.domain import Domain, GridSet
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity

MOST_POINTS = 2**15
"""Points of a grid that no declared step asks for, at most."""

_FINE = 1024
_LARGE = 8
_EXACT_DOUBLE = 2**53


def scalar_domain(block: BlockLayout, measurement: Measurement) -> Domain:
    """Return the domain the law itself respects: the member's where it is the cell, else the cell's."""
    first = block.members[0]
    if len(block.members) > 1 or scalar_of(first.kind, (measurement,)) is not None:
        return cell_hull(measurement)
    return first.domain


def additive_grid(
    measurement: Measurement, domain: Domain, s: Sensitivity, epsilon: Fraction
) -> tuple[Fraction, Fraction, GridSet]:
    """Return (step, origin, allowed): cells as they are, or coarsened to `_steps` per sensitivity.

    They are coarsened, too, where an end of the domain is more than 2**53 cells from 0.
    """
    fine = _steps(epsilon)
    far = max(abs(Fraction(domain.lower)), abs(Fraction(domain.upper))) / measurement.step_size
    factor = max(1, s.l1_per_group // fine) if s.l1_per_group > 4 * fine else 1
    factor = max(factor, math.ceil(far / _EXACT_DOUBLE))
    whole = _divisor(s.l1_per_group, factor) if factor > 1 else []
    for f in dict.fromkeys((*whole, factor, 1)):
        step = measurement.step_size * f
        if f > 1 and any(b - a < step for a, b in domain.exact_pieces):
            continue
        return step, measurement.offset, domain.on_grid(step, measurement.offset)
    raise AssertionError("the last factor is 1")  # pragma: no cover


def grid_sensitivity(s: Sensitivity, step_size: Fraction, step: Fraction, *, linear: bool) -> int:
    """Return how many grid steps rounded answers move: in one group, or (linear) in all together.

    A group whose cell moves by the integer c moves by at most ceil(c step_size / step) steps. Over d
    groups that really move (at most the changed ones, at most one per cell step) the sum is *not*
    ceil(total step_size / step): with step_size / step = q / p each ceiling adds up to (p - 1) / p, so it is
    at most floor((q total + d (p - 1)) / p), and at most d times the most of one group
    (`docs/theory/sensitivities-and-contribution-bounding.md#several-groups`). Where nothing is
    rounded, p = 1 and it is q total.
    """
    q, p = (step_size / step).as_integer_ratio()
    each = -(-s.l1_per_group * q // p)
    if not linear:
        return each
    moving = min(s.changed_groups, s.l1_over_groups)
    return min(moving * each, (q * s.l1_over_groups + moving * (p - 1)) // p)


def _steps(epsilon: Fraction) -> int:
    """Return how many grid steps a sensitivity should have at `epsilon`."""
    return (
        _FINE * math.ceil(math.exp(min(float(epsilon) - _LARGE, 100.0) / 2))
        if epsilon > _LARGE
        else _FINE
    )


def rounded_error(error: float, step: float, *, squared: bool, worst: bool = False) -> float:
    """Return an error in the statistic's unit (or its square) with that of rounding to `step` in it.

    Rounding is about uniform on half a step to either side, and independent of the noise: its mean
    square adds, and for absolute errors the root of the mean squares' sum. At worst it is half a step.
    """
    if worst:
        return (math.sqrt(error) + step / 2) ** 2 if squared else error + step / 2
    return error + step * step / 12 if squared else math.hypot(error, step / 4)


def in_steps(error: float, step: float, away: float, *, squared: bool) -> tuple[float, float]:
    """Return (mean, most) of `error`, as of two-sided exponential noise, of what is then rounded to `step`.

    The mean over all places of an answer between two steps, where rounding is uniform and independent of the noise, and the
    error of an answer `away` from its step, the farthest one. Of squared errors the second is an upper bound.
    """
    if squared:
        return error + step * step / 12, error + step * step / 4
    if not 0 < error < math.inf:
        return max(error, step / 4), max(error, away)
    s, x = step / error, away / error
    mean = step / 4 + error * 2 / s * -math.expm1(-s / 2)
    beyond = step / 2 * (math.exp(x - 1.5 * s) + math.exp(-x - s / 2)) / -math.expm1(-s)
    return mean, away + (step - 2 * away) / 2 * math.exp(x - s / 2) + beyond


def _divisor(steps: int, factor: int) -> list[int]:
    """Return the largest divisor of `steps` in (factor / 2, factor], if there is one.

    Found as moved / m, m rising: at most 4 * `_FINE` candidates, however large it is.
    """
    for m in range(
        -(-steps // factor), min(2 * steps // factor, -(-steps // factor) + 4 * _FINE) + 1
    ):
        if steps % m == 0:
            return [steps // m] if 2 * (steps // m) > factor else []
    return []


def truncated_grid(
    block: BlockLayout, measurement: Measurement, domain: Domain, s: Sensitivity, epsilon: Fraction
) -> tuple[Fraction, Fraction, GridSet]:
    """Return a grid on which outputs are published as drawn: no rounding may make point masses."""
    first = block.members[0]
    own = scalar_of(first.kind, (measurement,)) is None  # else a step is of values, not of cells
    delta = s.l1_per_group * measurement.step_size / max(Fraction(1), epsilon)
    step = (first.statistic.spec.step if own else None) or _law_step(
        domain, delta, measurement.step_size if measurement.offset == 0 else None
    )
    return step, Fraction(0), domain.on_grid(step)


def _law_step(domain: Domain, delta: Fraction, step_size: Fraction | None) -> Fraction:
    """Return a step with about 16 steps per `delta`, or the cells' own where that is no finer.

    Laws on one interval need no table, so it may have any number of points: a cap of `rows.max` far
    above the rows costs nothing. Between forbidden intervals there are at most `MOST_POINTS`.
    """
    width, whole = Fraction(domain.width), len(domain.exact_pieces) == 1
    if step_size is not None and step_size.denominator <= 10**6:
        few = width / step_size <= MOST_POINTS
        if few or (whole and step_size >= delta / 16):
            return step_size
    return best_step(max(delta / 16, Fraction(0) if whole else width / MOST_POINTS), domain)
