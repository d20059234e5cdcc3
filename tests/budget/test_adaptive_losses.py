"""Optimal composition is not a filter: `docs/theory/composition.md#over-time`, in exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.budget.composition import pure_delta

LEVEL = 5  # epsilon, in units of ln 2
FIRST = (1, 1)
AFTER = {2: (2, 3), 0: (1, 1, 2, 2), -2: ()}
"""The losses that follow, by what the first two answers say, in units of ln 2."""


def outcomes(losses: tuple[int, ...]) -> dict[int, Fraction]:
    """Return the chance of each total loss of randomised responses, under one of the two tables."""
    found = {0: Fraction(1)}
    for loss in losses:
        right, made = Fraction(2**loss, 1 + 2**loss), {}
        for total, chance in found.items():
            for step, part in ((loss, right), (-loss, 1 - right)):
                made[total + step] = made.get(total + step, Fraction(0)) + chance * part
        found = made
    return found


def delta(losses: tuple[int, ...], before: int = 0) -> Fraction:
    """Return the hockey-stick divergence at `LEVEL`, given a loss of `before` so far."""
    return sum(
        (
            chance * (1 - Fraction(2) ** (LEVEL - before - total))
            for total, chance in outcomes(losses).items()
            if before + total > LEVEL
        ),
        Fraction(0),
    )


def test_optimal_composition_understates_adaptively_chosen_losses() -> None:
    fixed = max(delta(FIRST + later) for later in AFTER.values())
    adaptive = sum(
        (chance * delta(AFTER[total], total) for total, chance in outcomes(FIRST).items()),
        Fraction(0),
    )
    assert fixed == Fraction(32, 135)
    assert round(float(adaptive), 3) == 0.3


def test_the_ledger_s_own_curve_says_the_same_of_fixed_losses() -> None:
    unit = Fraction(round(math.log(2) * 10**9), 10**9)
    for later in AFTER.values():
        stated = pure_delta([unit * n for n in FIRST + later], LEVEL * unit)
        assert abs(stated - delta(FIRST + later)) < Fraction(1, 10**4)
