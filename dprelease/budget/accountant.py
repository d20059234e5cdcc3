"""Add up what a dataset has spent: basic composition, in integers, costs rounded up and budgets down.

Law      k adaptively chosen releases with losses (epsilon_i, delta_i) under one adjacency and
         unit are together (sum epsilon_i, sum delta_i): true for adaptive choice, any order, any
         accountant used for the single releases. Hence the default and the one recorded always.
Rounding every cost is rounded up to a whole nano-unit of epsilon and a whole atto-unit of delta,
         every budget down, and only then compared. Ten costs of 0.1 fit a budget of 1.0 exactly,
         which sums of floats get wrong in both directions (opendp #2131).
Units    1 nano-unit = 1e-9 epsilon; 1 atto-unit = 1e-18 delta (a delta of 1e-12 would be rounded
         up a thousandfold by a nano-unit).
Sources  `docs/theory/composition.md#basic-composition`;
         Dwork, Kenthapadi, McSherry, Mironov, Naor, EUROCRYPT 2006 (basic composition).
Limits   no advanced composition: a budget needs a rule that holds whatever is asked next.
         The mechanism descriptors are kept, so a better accountant may re-evaluate the past; it
         can never lower what this one enforced at the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO, nano_up, positive

BASIC = "basic/1"
"""The version a ledger entry names; its arithmetic never changes."""

ATTO = 10**18

LARGEST_EPSILON = 10**9
"""No cost and no budget is larger: as nano-units both then fit a 64-bit integer with room."""


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of privacy: `nano_epsilon` in 1e-9, `atto_delta` in 1e-18."""

    nano_epsilon: int
    atto_delta: int = 0

    @classmethod
    def rounded_up(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Self:
        """Return the cost of a release, rounded up.

        Raises:
            ArgumentError: epsilon is not in (0, 1e9] or delta not in [0, 1) (DPR650).
        """
        _check(epsilon, delta)
        return cls(nano_up(epsilon), math.ceil(delta * ATTO))

    @classmethod
    def budget(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Self:
        """Return a budget (or an increase of one), rounded down.

        Raises:
            ArgumentError: epsilon is below one nano-unit or above 1e9, or delta not in [0, 1)
                (DPR650).
        """
        _check(epsilon, delta)
        if epsilon < Fraction(1, NANO):
            raise ArgumentError(
                "a budget below 1e-9 is too small for any release",
                fix="declare an epsilon such as 1",
                code="DPR650",
            )
        return cls(math.floor(epsilon * NANO), math.floor(delta * ATTO))

    @classmethod
    def stated(cls, epsilon: object, delta: object) -> Self:
        """Return a budget that somebody states, in whatever kind of number; ArgumentError as `positive` and `budget`."""
        return cls.budget(positive(epsilon, "epsilon"), positive(delta, "delta", allow_zero=True))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.nano_epsilon + other.nano_epsilon, self.atto_delta + other.atto_delta)

    def within(self, budget: Cost) -> bool:
        """Return whether it fits the budget, in both units."""
        return self.nano_epsilon <= budget.nano_epsilon and self.atto_delta <= budget.atto_delta

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.nano_epsilon, NANO)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.atto_delta, ATTO)


def _check(epsilon: Fraction, delta: Fraction) -> None:
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ArgumentError(
            f"epsilon must be above 0 and at most {LARGEST_EPSILON:.0e}",
            fix="declare an epsilon such as 0.5",
            code="DPR650",
        )
    if not 0 <= delta < 1:
        raise ArgumentError(
            "delta must be at least 0 and below 1", fix="declare 0, or 0.000001", code="DPR650"
        )
