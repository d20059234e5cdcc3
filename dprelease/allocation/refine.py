"""One step from the closed form towards the least total error, on the planner's own prices.

The closed form assumes that every error falls exactly as a power of its budget. Bounded errors
saturate, post-processed ones fall faster than 1 / epsilon while groups are small. So each free block
is priced at its start and at three quarters of it; around the start its error is

    r_j(e) = r_j (e_j / e)^p_j,      p_j from the two prices,

and the sum of w_j r_j^q (q = 1 for absolute, 2 for squared error) under a fixed total is least where
w_j q p_j r_j(e_j)^q / e_j is the same for all j: one bisection. The step is kept only if the prices
there, not the model, give a lower total. Prices are public simulations: nothing here reads a row.

Limits  one step, at most `MOST` free blocks (beyond, the closed form stands): bounded work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dprelease.numeric import NANO

__all__ = ["MOST", "refine"]

MOST = 12
"""Free blocks up to which a step is worth its pricings."""

_LOOK = Fraction(3, 4)
_GAIN = 0.995
_DENOMINATOR = 10**9


def refine(
    start: Sequence[Fraction],
    weights: Sequence[float],
    price: Callable[[int, Fraction], float],
    power: int,
) -> tuple[Fraction, ...]:
    """Return budgets of the same total as `start` with a total error that is no larger.

    Args:
        start: budgets above 0, one per free block.
        weights: of the blocks' errors in the total.
        price: expected error of the block at a place, at a budget.
        power: 1 for absolute, 2 for squared errors.
    """
    if not 2 <= len(start) <= MOST:
        return tuple(start)
    errors = [price(i, e) for i, e in enumerate(start)]
    nearer = [price(i, e * _LOOK) for i, e in enumerate(start)]
    if not all(math.isfinite(r) and r > 0 for r in (*errors, *nearer)):
        return tuple(start)
    slopes = [
        power * min(max(math.log(b / a) / -math.log(_LOOK), 0.0), 4.0)
        for a, b in zip(errors, nearer, strict=True)
    ]
    goals = [w * p * r**power for w, p, r in zip(weights, slopes, errors, strict=True)]
    if sum(g > 0 for g in goals) < len(goals):  # one error does not move at all: no common rate
        return tuple(start)
    found = _level(goals, slopes, start)
    if min(found) * NANO < 1:  # a ledger's unit: less is nothing
        return tuple(start)
    before = sum(w * r**power for w, r in zip(weights, errors, strict=True))
    after = sum(
        w * price(i, e) ** power for i, (w, e) in enumerate(zip(weights, found, strict=True))
    )
    return found if after < _GAIN * before else tuple(start)


def _level(
    goals: Sequence[float], slopes: Sequence[float], start: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """Return the budgets e_j = s_j (g_j / (s_j t))^(1 / (p_j + 1)) whose total is that of `start`."""
    firsts = [float(s) for s in start]
    total = sum(start, Fraction(0))

    def at(log_rate: float) -> list[float]:
        return [
            s * math.exp((math.log(g / s) - log_rate) / (p + 1))
            for s, g, p in zip(firsts, goals, slopes, strict=True)
        ]

    low = min(math.log(g / s) for g, s in zip(goals, firsts, strict=True)) - 60
    high = low + 200
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) > float(total) else (low, middle)
    # No block loses more than 7/8 of its start: the model is trusted around the start only.
    held = [max(e, s / 8) for e, s in zip(at(high), firsts, strict=True)]
    parts = [Fraction(max(1, round(e * _DENOMINATOR)), _DENOMINATOR) for e in held]
    scale = total / sum(parts, Fraction(0))  # exact, so that the total is neither more nor less
    return tuple(p * scale for p in parts)
