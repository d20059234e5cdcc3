"""Where a loss meets its budget: roots of rising functions inside a bracket.

False position with the kept side's value halved (the Illinois rule): a loss that is nearly linear
in its parameter takes a handful of evaluations where halving the interval takes forty, and each
evaluation here is a certificate or a pass over a table. The search only proposes or ranks: whatever
is returned was evaluated, and its certificate is the judge.

Sources  Dowell & Jarratt, "A modified regula falsi method", BIT 11, 1971 (the rule itself).
"""

from __future__ import annotations

import math
from collections.abc import Callable


def inside_root(
    excess: Callable[[float], float], bad: float, good: float, tolerance: float
) -> float:
    """Return an evaluated x between bad and good with -tolerance <= excess(x) <= 0.

    excess(bad) > 0 >= excess(good). The line is aimed half a tolerance inside the good side.
    """
    inside = tolerance / 2
    f, g = excess(bad) + inside, excess(good) + inside
    side = 0
    for _ in range(100):
        x = (bad * g - good * f) / (g - f) if f != g else math.inf
        if not min(bad, good) < x < max(bad, good):
            x = (bad + good) / 2
        found = excess(x)
        if found <= 0:
            good, g = x, found + inside
            if found >= -tolerance:
                break
            f = f / 2 if side == -1 else f
            side = -1
        else:
            bad, f = x, found + inside
            g = g / 2 if side == 1 else g
            side = 1
        if abs(bad - good) <= 2.0**-50 * abs(good):
            break
    return good


def last_within(excess: Callable[[int], float], good: int, bad: int) -> int:
    """Return an integer n in [good, bad) with excess(n) <= 0 < excess(n + 1).

    excess(good) <= 0 < excess(bad). Where `excess` rises, there is one such n.
    """
    g, f = excess(good), excess(bad)
    side = 0
    while bad - good > 1:
        aim = good + math.floor((bad - good) * (-g / (f - g))) if f - g < math.inf else good
        at = min(max(aim, good + 1), bad - 1)
        found = excess(at)
        if found <= 0:
            good, g = at, found
            f = f / 2 if side == -1 else f
            side = -1
        else:
            bad, f = at, found
            g = g / 2 if side == 1 else g
            side = 1
    return good
