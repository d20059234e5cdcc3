"""Accuracy goals: the smallest budget with which a block meets every `max_error` of its statistics.

A goal is compared with the planner's own expected error (the one the plan prints: E|error|, or its
root mean square under squared loss, at the public guess of the group's size). Errors fall as the
budget rises, so the least budget is found by false position in logarithms and bisection; the result
is a budget that was priced and meets the goals, at most 0.01 % above one that does not.

The answer reads no row: "which epsilon do I need for ±2?" costs nothing.

Units: a budget is epsilon, or rho where the release composes by zCDP; goals are in the statistic's
unit. Sources: `docs/theory/composition.md#allocation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dprelease.core.errors import PlanError
from dprelease.core.numeric import NANO, plain
from dprelease.measurements.members import BlockLayout
from dprelease.schema.release_spec import StatisticSpec

Errors = Callable[[BlockLayout, Fraction], Sequence[float | None]]
"""Prices a block at a budget: one error per member, None where none is known."""

_HIGHEST = Fraction(1000)
_CLOSE = 1 + 1e-4
_TRIES = 40
_LOOKS = 12
_SAME = 1 + 1e-6
"""An error that is above a goal by less is one that was rounded."""


def has_goal(block: BlockLayout) -> bool:
    """Return whether a statistic of `block` states a `max_error`."""
    return any(m.statistic.spec.max_error is not None for m in block.members)


def least_budget(block: BlockLayout, errors: Errors, lowest: Fraction) -> Fraction:
    """Return the smallest budget of at least `lowest` that meets all goals, in whole nano-units.

    Raises:
        PlanError: the error is not known beforehand (DPR241), or no budget up to 1000 meets the
            goals (DPR242).
    """
    goals = [m.statistic.spec.max_error for m in block.members]

    def ratio(budget: Fraction) -> float:
        """Return the largest error over its goal; at most 1 means that all are met."""
        found = errors(block, budget)
        worst = 0.0
        for goal, error in zip(goals, found, strict=True):
            if goal is not None:
                if error is None:
                    raise _unknown(block)
                worst = max(worst, error / float(goal))
        return worst

    low = _nano(lowest)
    at_low = ratio(low)
    if at_low <= 1:
        return low
    high, at_high = _upper(block, ratio, low, at_low)
    for _ in range(_TRIES):
        if high <= low * Fraction(_CLOSE):
            break
        middle = _between(low, at_low, high, at_high)
        at = ratio(middle)
        if at <= 1:
            high, at_high = middle, at
        else:
            low, at_low = middle, at
    return high


def _upper(
    block: BlockLayout, ratio: Callable[[Fraction], float], low: Fraction, at_low: float
) -> tuple[Fraction, float]:
    """Return a budget that meets the goals: guessed as if errors fell in proportion, then doubled."""
    high = min(_HIGHEST, max(_nano(low * Fraction(at_low * 1.01)), 2 * low))
    while True:
        at = ratio(high)
        if at <= 1:
            return high, at
        if high >= _HIGHEST:
            spec = next(m.statistic.spec for m in block.members if m.statistic.spec.max_error)
            raise PlanError(
                f"no useful epsilon brings {spec.text} to an expected error of {plain(spec.max_error or Fraction(0))}",
                where=spec.origin,
                why=f"even a budget of {plain(_HIGHEST)} leaves more"
                + (f": steps of {plain(spec.step)} leave up to half of one" if spec.step else ""),
                fix="raise `max_error`, or bound what one unit contributes more tightly"
                + (", or declare a finer `step`" if spec.step else ""),
                code="DPR242",
            )
        high = min(_HIGHEST, 2 * high)


def _between(low: Fraction, at_low: float, high: Fraction, at_high: float) -> Fraction:
    """Return where log(ratio), linear in log(budget), crosses 0; never too close to either end."""
    left, right = math.log(low), math.log(high)
    top, bottom = math.log(at_low), math.log(max(at_high, 1e-300))
    share = top / (top - bottom) if top > bottom else 0.5
    # A hair beyond the crossing, so that both ends close in.
    share = min(max(share + 2e-5 / max(right - left, 1e-9), 0.1), 0.9)
    if right - left < 1e-3:
        share = 0.5
    middle = _nano(Fraction(math.exp(left + share * (right - left))))
    return min(max(middle, low + Fraction(1, NANO)), high)


def _nano(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * NANO), NANO)


def largest(cost: Callable[[Fraction], Fraction], least: Fraction, limit: Fraction) -> Fraction:
    """Return a factor of at least `least` whose `cost`, which rises with it, is within `limit`.

    False position, the kept side halved; only factors that were priced are returned.
    """
    low, high = least, 2 * least
    at_low = cost(low)
    at_high = cost(high)
    while at_high <= limit and high < 2**10:
        low, at_low, high = high, at_high, 2 * high
        at_high = cost(high)
    for _ in range(_LOOKS):
        share = float((limit - at_low) / (at_high - at_low)) if at_high > at_low else 0.5
        middle = low + (high - low) * Fraction(min(max(share, 0.02), 0.98)).limit_denominator(2**20)
        found = cost(middle)
        if found <= limit:
            low, at_low = middle, found
        else:
            high, at_high = middle, found
        if limit - at_low <= limit / 500:
            break
    return low


def _unknown(block: BlockLayout) -> PlanError:
    spec = next(m.statistic.spec for m in block.members if m.statistic.spec.max_error)
    return PlanError(
        f"`max_error` of {spec.text} cannot be planned for",
        where=spec.origin,
        why="its error depends on the data, or on a group size that nobody has guessed publicly",
        fix="declare `rows: {expected: ...}` in the schema for a ratio; for a quantile use `share`",
        code="DPR241",
    )


def too_little(needed: Fraction, epsilon: Fraction, blocks: Sequence[BlockLayout]) -> PlanError:
    """Return the error of goals that the release's epsilon cannot pay for."""
    others = any(not has_goal(b) for b in blocks)
    spec = next(m.statistic.spec for b in blocks for m in b.members if m.statistic.spec.max_error)
    more = "more than " if others else ""
    return PlanError(
        f"the declared `max_error` goals need an epsilon of {more}{plain(needed)}",
        where=spec.origin,
        why=f"the release has {plain(epsilon)}"
        + ("; something must be left for the statistics without a goal" if others else ""),
        fix=f"raise epsilon to {'above ' if others else ''}{plain(needed)}, or raise a `max_error`",
        code="DPR240",
    )


def missed(spec: StatisticSpec, error: float) -> bool:
    """Return whether an expected error is above a statistic's `max_error`."""
    return spec.max_error is not None and error > float(spec.max_error) * _SAME


def goal_missed(spec: StatisticSpec, epsilon: Fraction, times: float) -> PlanError:
    """Return the error of a `max_error` that would take `times` as much epsilon."""
    needed = math.ceil(1000 * float(epsilon) * times) / 1000
    return PlanError(
        f"the declared `max_error` of {spec.text} needs an epsilon of about {needed:g}",
        where=spec.origin,
        why=f"the release has {plain(epsilon)}, and all its tables are measured with it",
        fix=f"raise epsilon to {needed:g}, or raise a `max_error`",
        code="DPR240",
    )
