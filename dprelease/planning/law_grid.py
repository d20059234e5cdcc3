"""The grid on which the law of a scalar works.

A scalar's cell is an integer already; where its sensitivity is thousands of cells, 1,024
or a few more grid steps per sensitivity lose at most 0.1 % and keep tables small.

Units: steps and origins in the statistic's unit, exact.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.encoding import Encoding
from dprelease.planning.layout import BlockLayout
from dprelease.planning.steps import best_step
from dprelease.schema.domain import Domain, GridSet
from dprelease.sensitivity import Sensitivity

__all__ = ["MOST_POINTS", "additive_grid", "scalar_domain", "truncated_grid"]

MOST_POINTS = 2**15
"""Points of a grid that no declared step asks for, at most."""

_FINE = 1024


def scalar_domain(block: BlockLayout, encoding: Encoding) -> Domain:
    """Return the domain the law itself respects: the first member's, or the cell's hull for std."""
    first = block.members[0]
    if len(block.members) > 1 or first.statistic.function == "std":
        low, high = encoding.lower, encoding.upper
        assert high is not None
        return Domain(encoding.offset + encoding.pitch * low, encoding.offset + encoding.pitch * high)
    return first.domain


def additive_grid(
    encoding: Encoding, domain: Domain, s: Sensitivity
) -> tuple[Fraction, Fraction, GridSet]:
    """Return (step, origin, allowed): cells as they are, or coarsened to about 1,024 per shift."""
    factor = max(1, s.in_group // _FINE) if s.in_group > 4 * _FINE else 1
    whole = _divisor(s.in_group, factor)
    for f in dict.fromkeys((*whole, factor, 1)):
        step = encoding.pitch * f
        if f > 1 and any(b - a < step for a, b in domain.exact_pieces):
            continue
        return step, encoding.offset, domain.on_grid(step, encoding.offset)
    raise AssertionError("the last factor is 1")  # pragma: no cover


def _divisor(shift: int, factor: int) -> list[int]:
    """Return the largest divisor of `shift` in (factor / 2, factor], if there is one.

    Found as shift / m, m rising: at most about 2 * `_FINE` candidates, however large the shift is.
    """
    for m in range(-(-shift // factor), 2 * shift // factor + 1):
        if shift % m == 0:
            return [shift // m] if 2 * (shift // m) > factor else []
    return []


def truncated_grid(
    block: BlockLayout, encoding: Encoding, domain: Domain, s: Sensitivity
) -> tuple[Fraction, Fraction, GridSet]:
    """Return a grid on which outputs are published as drawn: no rounding may make atoms."""
    spec = block.members[0].statistic.spec
    delta = s.in_group * encoding.pitch
    step = spec.step or _law_step(domain, delta, encoding.pitch if encoding.offset == 0 else None)
    return step, Fraction(0), domain.on_grid(step)


def _law_step(domain: Domain, delta: Fraction, pitch: Fraction | None) -> Fraction:
    """Return a step with about 16 steps per sensitivity and at most 2**15 points."""
    width = Fraction(domain.width)
    if pitch is not None and width / pitch <= MOST_POINTS and pitch.denominator <= 10**6:
        return pitch
    return best_step(max(delta / 16, width / MOST_POINTS), domain)
