"""What an engine returns for a bounded query: exact integers, and nothing else.

Most primitives are one integer per group. A *table* primitive answers with an integer array of its
own shape instead, named where the kind is described (`query.bounded.Primitive`); its column among
the sums is 0. A *tally* is a table whose first column is the group. An `Answer` travels inside a
`Secret` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Objects = npt.NDArray[np.object_]

TABLE_LIMIT = 2**24
"""Most codes of a tally over all groups: 640 MiB of integers."""

TALLY_COLUMNS = 5

MOST_SUMS = 640
"""Bins of a code that are still summed one by one where its codes are many: a row in one sum takes five nanoseconds,
a code that is fetched three microseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Exact primitives.

    Attributes:
        sums: Python integers, shape `(groups, primitives)`.
        tables: index of a graph's primitive -> its int64 array.
        tallies: index of a tally -> its int64 array, `(codes, TALLY_COLUMNS)`.
        keys: where keys are found, the texts of all that somebody has, one for each row of `sums`: an Arrow array.
    """

    sums: Objects = field(repr=False)
    tables: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)
    tallies: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)
    keys: Any = field(default=None, repr=False)

    def repeated(self, groups: Sequence[int], copies: int) -> Answer:
        """Return the answer of `groups`, `copies` times one after the other; without tables."""
        tallies = {}
        for place, tally in self.tallies.items():
            parts = [np.zeros((0, TALLY_COLUMNS), dtype=np.int64)]
            for i, group in enumerate(groups):
                part = tally[tally[:, 0] == group]
                many = np.tile(part, (copies, 1))
                many[:, 0] = np.repeat(np.arange(copies) * len(groups) + i, len(part))
                parts.append(many)
            every = np.concatenate(parts)
            tallies[place] = every[np.argsort(every[:, 0], kind="stable")]
        return Answer(np.tile(self.sums[list(groups)], (copies, 1)), {}, tallies)
