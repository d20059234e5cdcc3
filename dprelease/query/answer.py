"""What an engine returns for a bounded query: exact integers, and nothing else.

Most primitives are one integer per group. A *table* primitive answers with an integer array of its
own shape instead, named where the kind is described (`query.bounded.Primitive`); its column among
the sums is 0. An `Answer` travels inside a `Secret` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["TABLE_LIMIT", "Answer", "Objects"]

Objects = npt.NDArray[np.object_]

TABLE_LIMIT = 2**24
"""Most cells of a tally, groups times codes: 128 MiB of integers."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Exact primitives.

    Attributes:
        sums: Python integers, shape `(groups, primitives)`.
        tables: index of a table primitive -> its int64 array.
    """

    sums: Objects = field(repr=False)
    tables: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)
