"""What an aggregate is, and the list of them.

One aggregate is one file plus one line in `AGGREGATES`. It states its induced output domain, how
it is measured (`encodings`, best first), and its post-processing. Sensitivity under the declared
adjacency and unit follows from the encoding (`dprelease.sensitivity`); nothing else in dprelease
knows a statistic by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from dprelease import registry
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.schema.domain import Domain

__all__ = ["Aggregate", "Estimating", "Floats", "Reading", "aggregate_named"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """A block's noisy cells, read back for intervals; all arrays `(groups, cells)`.

    Attributes:
        low, high: bounds that hold for all cells together at `level` (Bonferroni).
        raw: the cells as drawn, before they were raised to 0.
        scale: of the discrete Laplace noise on every cell; None for other laws.
        copies: every cell is the sum of this many cells with noise of their own.
        gaussian: the noise is a discrete Gaussian, and `scale` its standard deviation.
    """

    low: Floats
    high: Floats
    raw: Floats
    scale: float | None
    level: float
    copies: int = 1
    gaussian: bool = False


class Aggregate(Protocol):
    """One statistic.

    An attribute `measure`, a text, names the unit of its values where that is not the column's.
    """

    name: str

    def domain(self, context: Context) -> Domain:
        """Return the induced output domain, from public constants only."""

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        """Return the admissible encodings, preferred first."""

    def columns(self, context: Context) -> tuple[str, ...]:
        """Return the published column names."""

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        """Return values, shape `(groups, columns)`, from noisy `cells`, `(groups, cells)`."""

    def interval(self, encoding: Encoding, reading: Reading) -> tuple[Floats, Floats]:
        """Return a confidence interval per group and column, at the reading's level or above."""


@runtime_checkable
class Estimating(Protocol):
    """An aggregate of several cells that also has a median-unbiased estimate."""

    def estimate(self, encoding: Encoding, reading: Reading) -> Floats:
        """Return it per group, shape `(groups, 1)`, NaN where no signal is left."""


def aggregate_named(name: str) -> Aggregate:
    """Return the registered aggregate called `name`."""
    return cast("Aggregate", registry.load("aggregates", name))
