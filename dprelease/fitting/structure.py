"""Tables of one population: which cell of which table each finest cell belongs to.

Every table is a public map from the finest cells `0..n-1` to its own cells, and the finest cells
are one of the tables. Tables that refine each other form the `chain`, which is fitted parents
first; the others (margins of a cross) are its `sides`: sums of the finest cells.

Sources  `docs/theory/publications-that-add-up.md#structure`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import le

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.errors import PlanError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


Level = tuple[int, ...]
"""A table of a cross: of every axis its level, 0 for none."""


@dataclass(frozen=True, slots=True)
class MarginSource(Stored):
    """What is measured: the cells of a table, or its residuals alone, times `scale`."""

    level: Level
    scale: int = 1
    residual: bool = False


@dataclass(frozen=True, slots=True)
class Design(Stored):
    """How a set is measured.

    Attributes:
        axes: per axis and level, coarse to fine, the cell of each of the axis's keys.
        counted: the tables that rows are counted in, of which all margins are sums; tables: those that it is for.
    """

    axes: tuple[tuple[tuple[int, ...], ...], ...]
    counted: tuple[Level, ...]
    sources: tuple[MarginSource, ...]
    tables: tuple[Level, ...]

    def structure(self) -> Structure:
        """Return its tables, by their places."""
        axes = [Dimension(tuple(np.array(k, dtype=np.int64) for k in axis)) for axis in self.axes]
        return apart(axes, {str(i): level for i, level in enumerate(self.tables)})


@dataclass(frozen=True, eq=False)
class Dimension:
    """One hierarchy, or one plain column.

    Attributes:
        levels: `levels[k]` maps the axis' finest cells to the cells of level k + 1, coarse first;
            the last one is the identity. Level 0 is the whole axis: one cell.
    """

    levels: tuple[IntArray, ...]

    def __post_init__(self) -> None:
        if not self.levels or not np.array_equal(self.levels[-1], np.arange(self.size)):
            raise _odd("the last level of an axis is not its finest cells")
        for coarse, fine in zip(self.levels, self.levels[1:], strict=False):
            factor(coarse, fine)

    @property
    def size(self) -> int:
        return int(self.levels[-1].size)

    @property
    def even(self) -> bool:
        """Whether all groups of one level hold equally many cells."""
        return all(np.ptp(np.bincount(level)) == 0 for level in self.levels)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each level has, level 0 first."""
        return (1, *(int(level.max()) + 1 for level in self.levels))

    def map(self, level: int) -> IntArray:
        """Return the map from finest cells to the cells of `level`."""
        return self.levels[level - 1] if level else np.zeros(self.size, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Table:
    """One table: `of[i]` is the cell of the finest cell i; `level` per axis, () without axes."""

    name: str
    of: IntArray
    cells: int
    level: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Structure:
    """Tables of one population, coarse first; the last one is the finest.

    Attributes:
        zeros: finest cells that are 0 for public reasons, shape `(n,)`.
        chain: places of the tables that refine each other, coarse to fine; ends in the finest.
        axes: the axes of a cross, () where tables are given as maps.
    """

    tables: tuple[Table, ...]
    zeros: BoolArray
    chain: tuple[int, ...]
    axes: tuple[Dimension, ...] = ()

    @property
    def n(self) -> int:
        return int(self.zeros.size)

    @property
    def finest(self) -> Table:
        return self.tables[-1]

    @property
    def sides(self) -> tuple[int, ...]:
        """Places of the tables that are not in the chain."""
        return tuple(j for j in range(len(self.tables)) if j not in self.chain)

    def table(self, name: str) -> Table:
        """Return a table by its name.

        Raises:
            PlanError: there is none (DPR280).
        """
        for one in self.tables:
            if one.name == name:
                return one
        raise _odd(f"there is no table `{name}`")

    def parent(self, step: int) -> IntArray:
        """Return the map from cells of `chain[step]` to those of `chain[step - 1]`."""
        above, below = self.tables[self.chain[step - 1]], self.tables[self.chain[step]]
        return factor(above.of, below.of)

    def inside(self, fine: str, coarse: str) -> IntArray | None:
        """Return the cell of a table that each cell of another one lies in; None where one lies in several."""
        below, above = self.table(fine), self.table(coarse)
        return factor(above.of, below.of) if _refines(below, above) else None

    def empty(self, table: Table) -> BoolArray:
        """Return which cells of a table hold structural zeros alone; of tables without a finest one none."""
        if not self.chain:
            return np.zeros(table.cells, dtype=bool)
        full = np.zeros(table.cells, dtype=bool)
        full[table.of[~self.zeros]] = True
        return ~full


def crossed(
    axes: Sequence[Dimension],
    tables: Mapping[str, Sequence[int]],
    zeros: BoolArray | None = None,
) -> Structure:
    """Return the structure of a cross: its finest cells in C order, the last axis fastest.

    Args:
        tables: the level of every table on every axis; a table's cells are in C order too.
        zeros: structural zeros among the finest cells.

    Raises:
        PlanError: the finest cross is not a table, or a level does not exist (DPR280).
    """
    shape = tuple(axis.size for axis in axes)
    if not axes or math.prod(shape) == 0:
        raise _odd("a cross needs axes that have cells")
    finest = tuple(len(axis.levels) for axis in axes)
    made = []
    for name, level in tables.items():
        if len(level) != len(axes) or any(
            not 0 <= k < len(axis.sizes) for k, axis in zip(level, axes, strict=False)
        ):
            raise _odd(f"the table `{name}` is at a level that its axes do not have")
        cells = math.prod(axis.sizes[k] for axis, k in zip(axes, level, strict=True))
        made.append(Table(name, coarser(axes, finest, tuple(level)), cells, tuple(level)))
    return _ordered(made, zeros, tuple(axes))


def apart(axes: Sequence[Dimension], tables: Mapping[str, Level]) -> Structure:
    """Return the structure of tables of a cross of which none is the finest: the cross is never made."""
    none = np.zeros(0, dtype=np.int64)
    made = tuple(
        Table(name, none, math.prod(a.sizes[k] for a, k in zip(axes, level, strict=True)), level)
        for name, level in tables.items()
    )
    return Structure(made, none.astype(bool), (), tuple(axes))


def coarser(axes: Sequence[Dimension], fine: Level, coarse: Level) -> IntArray:
    """Return the cell of a coarser table of a cross that each cell of a finer one lies in."""
    out = np.zeros(1, dtype=np.int64)
    for axis, k, r in zip(axes, fine, coarse, strict=True):
        if k:
            out = (out[:, None] * axis.sizes[r] + factor(axis.map(r), axis.map(k))).reshape(-1)
    return out


def within(low: Sequence[int], high: Sequence[int]) -> bool:
    """Return whether a table's cells are sums of another's."""
    return all(map(le, low, high))


def sums_of(values: Sequence[int], of: IntArray, cells: int) -> list[int]:
    """Return the sums of finest cells per cell of a table, in integers of any size."""
    out = [0] * cells
    for cell, value in zip(of.tolist(), values, strict=True):
        out[cell] += value
    return out


def nested(tables: Mapping[str, IntArray], zeros: BoolArray | None = None) -> Structure:
    """Return the structure of tables that refine each other.

    Args:
        tables: a map from the finest cells per table, in any order; the finest is the identity.

    Raises:
        PlanError: they do not refine each other, or none is the finest (DPR280).
    """
    made = [
        Table(name, np.asarray(of, dtype=np.int64), int(np.max(of)) + 1)
        for name, of in tables.items()
    ]
    whole = _ordered(made, zeros, ())
    if whole.sides:
        raise _odd("these tables do not refine each other")
    return whole


def factor(coarse: IntArray, fine: IntArray) -> IntArray:
    """Return the map from cells of `fine` to cells of `coarse`.

    Raises:
        PlanError: a cell of `fine` lies in two cells of `coarse` (DPR280).
    """
    out = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    out[fine] = coarse
    if not np.array_equal(out[fine], coarse):
        raise _odd("a cell of one level lies in two cells of the level above")
    return out


def _refines(fine: Table, coarse: Table) -> bool:
    if fine.level:
        return within(coarse.level, fine.level)
    out = np.zeros(fine.cells, dtype=np.int64)
    out[fine.of] = coarse.of
    return bool(np.array_equal(out[fine.of], coarse.of))


def _ordered(made: list[Table], zeros: BoolArray | None, axes: tuple[Dimension, ...]) -> Structure:
    """Sort the tables coarse first and find the chain."""
    made = sorted(made, key=lambda table: (table.cells, table.level, table.name))
    n = made[-1].of.size if made else 0
    if not made or not np.array_equal(made[-1].of, np.arange(n)):
        raise _odd(
            "the finest cells are not one of the tables",
            fix="add the table by all columns; margins alone may fit no common table",
        )
    for one in made:
        if one.of.size != n or np.unique(one.of).size != one.cells:
            raise _odd(f"the table `{one.name}` has cells that no finest cell belongs to")
    zeros = np.zeros(n, dtype=bool) if zeros is None else np.asarray(zeros, dtype=bool)
    if zeros.shape != (n,):
        raise _odd("the structural zeros are not one per finest cell")
    return Structure(tuple(made), zeros, _chain(made), axes)


def _chain(made: list[Table]) -> tuple[int, ...]:
    """Return the longest run of refinements that ends in the finest; of equals the coarsest."""
    best: list[tuple[int, ...]] = []
    for j, one in enumerate(made):
        above = [best[k] for k in range(j) if _refines(one, made[k])]
        longest = max(above, key=lambda run: (len(run), [-k for k in run]), default=())
        best.append((*longest, j))
    return best[-1]


def _odd(what: str, fix: str = "let every level refine the one above") -> PlanError:
    return PlanError(what, why="published tables must add up", fix=fix, code="DPR280")
