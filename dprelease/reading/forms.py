"""Linear forms in the exact cells behind a publication, and ratios of them.

A *source* is one noisy integer of one release: an exact cell plus noise of a certified law. A
`Linear` is c + S(w_i x_i) over exact cells x_i with public weights; at the noisy integers it misses
its true value by S(w_i D_i), whatever the data. Weights are exact rationals, so that what cancels,
cancels. An estimated cell of tables that add up is such a form by itself (`reading.estimated`) and
stands for it as one variable. A `RatioForm` is one linear form over another; nothing else has a pivot.

Units: of the statistic; weights in that unit per grid step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Union

from dprelease.intervals.noise import IntegerNoise

if TYPE_CHECKING:
    from dprelease.reading.estimated import Estimate


@dataclass(frozen=True, slots=True)
class NoisyInteger:
    """One noisy integer.

    Attributes:
        release, block, group, cell: which one; two sources are the same exactly if these are.
        raw: as drawn; noise: its law; moved: how far rounding may have moved the exact cell, in steps.
    """

    release: str
    block: str
    group: int
    cell: int
    raw: int = field(compare=False)
    noise: IntegerNoise = field(compare=False)
    rounding: Fraction = field(compare=False, default=Fraction(0))


Variable = Union[NoisyInteger, "Estimate"]
"""What a form is made of: exact cells, or estimates that stand for a form in them."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant` plus the weighted exact cells; what was left out of it is at most `slack`."""

    constant: Fraction = Fraction(0)
    terms: Mapping[Variable, Fraction] = field(default_factory=dict)
    slack: Fraction = Fraction(0)

    @property
    def observed(self) -> Fraction:
        """The form at the noisy integers."""
        return self.constant + sum((w * s.raw for s, w in self.terms.items()), Fraction(0))

    @property
    def rounding(self) -> Fraction:
        """The most that rounding before the draw, and what was left out, moved it."""
        return sum((abs(w) * s.rounding for s, w in self.cells), self.slack)

    @property
    def cells(self) -> list[tuple[NoisyInteger, Fraction]]:
        """The terms of a form over exact cells alone (`reading.estimated.expanded`)."""
        assert all(isinstance(variable, NoisyInteger) for variable in self.terms)
        return [
            (variable, w)
            for variable, w in self.terms.items()
            if isinstance(variable, NoisyInteger)
        ]

    def plus(self, other: Linear, times: Fraction = Fraction(1)) -> Linear:
        """Return self + times * other."""
        return _summed([(self, Fraction(1)), (other, times)])

    def times(self, factor: Fraction) -> Linear:
        return _summed([(self, factor)])


@dataclass(frozen=True, slots=True)
class RatioForm:
    """`top / bottom`; undefined where the exact bottom is 0.

    `cut`: the quantity is the nearest value of its domain, which may leave the exact quotient out.
    """

    top: Linear
    bottom: Linear
    cut: bool = False


def total(forms: Sequence[Linear]) -> Linear:
    """Return their sum; of thousands, too, in one pass."""
    return _summed([(form, Fraction(1)) for form in forms])


def _summed(parts: Sequence[tuple[Linear, Fraction]]) -> Linear:
    """Return the sum of forms, each times its factor."""
    terms: dict[Variable, Fraction] = {}
    for form, factor in parts:
        for variable, weight in form.terms.items():
            terms[variable] = terms.get(variable, Fraction(0)) + factor * weight
    return Linear(
        sum((factor * form.constant for form, factor in parts), Fraction(0)),
        {variable: weight for variable, weight in terms.items() if weight},
        sum((abs(factor) * form.slack for form, factor in parts), Fraction(0)),
    )
