"""Weighted least squares: real estimates of every cell from noisy integers, as fixed linear forms.

An estimator is made from public facts alone (structure, noise laws, which tables are known). Its
coefficients are exact rationals, so the error of every cell is a known combination of independent
draws, whose law the intervals use. Values are integers in units of 2^-32 step: the same bytes on
every machine.

Units    `ONE` units make a step.
Sources  `docs/theory/publications-that-add-up.md#least-squares`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import PlanError
from dprelease.fitting.structure import IntArray, Structure
from dprelease.intervals.law import SumLaw
from dprelease.intervals.noise import Noise, Term

BITS = 32
ONE = 1 << BITS
"""Units of a value per step."""

Objects = npt.NDArray[Any]
"""Python integers, of any size, in an array."""


Wanted = Mapping[str, Mapping[int, Fraction]]
"""`wanted[table][cell]`: the weight of an estimate in a sum of them."""


@dataclass(frozen=True)
class Estimates:
    """`values[table]`: one integer per cell, in units of 1 / `ONE` step.

    `slack` bounds how far, in steps, rounding moved any of them from its exact linear form.
    """

    values: dict[str, list[int]]
    slack: Fraction


@dataclass(frozen=True, slots=True)
class Behind:
    """What a weighted sum of estimates takes of each noisy integer and each public total.

    `weights[table][cell]` is the numerator, all over the one denominator `bottom`: exact, and quick
    where a table has thousands of cells.
    """

    weights: dict[str, Objects]
    bottom: int

    def fractions(self) -> dict[str, list[Fraction]]:
        """Return the weights themselves."""
        return {
            table: [Fraction(int(w), self.bottom) for w in of] for table, of in self.weights.items()
        }


class Estimator(Protocol):
    """Linear estimates of one statistic in every table; public."""

    def estimates(
        self, noisy: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
    ) -> Estimates:
        """Return the estimates from noisy integers of measured tables and public totals."""

    def classes(self, table: str) -> IntArray:
        """Return the class of every cell: cells of one class have errors of one law."""

    def variance(self, table: str) -> npt.NDArray[np.float64]:
        """Return the variance of every cell's estimate, in steps squared."""

    def terms(self, table: str, cell: int) -> tuple[Term, ...]:
        """Return the error of a cell, exact: a sum over independent draws."""

    def law(self, table: str, cell: int) -> SumLaw:
        """Return the same for computing quantiles: many small terms in one bulk."""

    def behind(self, wanted: Wanted) -> Behind:
        """Return what a weighted sum of estimates takes of each noisy integer and each public total.

        Exact: the estimates before they are rounded. `wanted[table][cell]` are the weights.
        """


def check_measured(
    structure: Structure, noises: Mapping[str, Noise | None], public: Collection[str]
) -> None:
    """Refuse what has no unbiased estimate.

    Raises:
        PlanError: the finest table is neither measured nor public, or a name is unknown (DPR280).
    """
    for name in (*noises, *public):
        structure.table(name)
    if noises.get(structure.finest.name) is None and structure.finest.name not in public:
        raise PlanError(
            f"the table `{structure.finest.name}` is not measured",
            why="its cells cannot be told apart from sums of them",
            fix="give the finest table a share",
            code="DPR280",
        )


def whole_numbers(values: Sequence[int]) -> Objects:
    """Return Python integers as an array."""
    out = np.empty(len(values), dtype=object)
    out[:] = [int(value) for value in values]
    return out


def by_parent(parent: IntArray) -> tuple[IntArray, IntArray]:
    """Return the order of children by their parents, and where each parent's begin."""
    order = np.argsort(parent, kind="stable")
    return order, np.flatnonzero(np.diff(parent[order], prepend=-1))


def alike(keys: IntArray, axis: int | None = None) -> IntArray:
    """Return one number for all cells of one key, in the order of keys."""
    _, found = np.unique(keys, axis=axis, return_inverse=True)
    return np.asarray(found, dtype=np.int64).reshape(-1)
