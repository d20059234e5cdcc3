"""What an aggregate is, and the list of them.

One aggregate is one file plus one line in `AGGREGATES`. It states its induced output domain, how
it is measured (`encodings`, best first), and its post-processing. Sensitivity under the declared
adjacency and unit follows from the encoding (`dprelease.sensitivity`); nothing else in dprelease
knows a statistic by name.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease import registry
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.schema.domain import Domain

__all__ = ["Aggregate", "Floats", "aggregate_named"]

Floats = npt.NDArray[np.float64]


class Aggregate(Protocol):
    """One statistic."""

    name: str

    def domain(self, context: Context) -> Domain:
        """Return the induced output domain (semantics 2.5), from public constants only."""

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        """Return the admissible encodings, preferred first."""

    def columns(self, context: Context) -> tuple[str, ...]:
        """Return the published column names."""

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        """Return values, shape `(groups, columns)`, from noisy `cells`, `(groups, cells)`."""

    def box(self, encoding: Encoding, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the range of `finish` over the box `low <= cells <= high`, per group."""


def aggregate_named(name: str) -> Aggregate:
    """Return the registered aggregate called `name`."""
    return registry.load("aggregates", name)  # type: ignore[no-any-return]
