"""How fine a table is published: which rows of which level, from public errors and a draw of its own.

    branch   a cell of the coarsest level; all its rows stand at one level
    level    one of the tables, coarse to fine; the last one is the table itself
    needed   what the branch's own noisy size must reach for a level: an integer, or None for never

The finest level whose need is met is the one; the coarsest needs nothing. Sizes are drawn apart and used
for nothing else, so intervals keep their level whatever is chosen.

Units: sizes and needs are steps of the statistic. Source: `docs/theory/publications-that-add-up.md#adaptive-detail`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored

if TYPE_CHECKING:
    from dprelease.release_plan.statistic import PlannedStatistic
    from dprelease.release_plan.tables import PlannedTables

LEVEL_COLUMN = "level"
"""The key column that names the table at whose level a row stands."""
ALL = "all"
"""What stands in a key column that a row's level does not have."""

Need = int | None
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DetailRow:
    """One row: a cell of the table that is its level."""

    table: str
    cell: int
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """Which branch each cell of each level is in: `of[level]`, `(cells,)`; `first`: one finest cell of each."""

    of: tuple[Places, ...]
    first: tuple[Places, ...]
    empty: tuple[npt.NDArray[np.bool_], ...]


@dataclass(frozen=True, slots=True)
class PlannedDetail(Stored):
    """How fine a table of several is published.

    Attributes:
        statistic: what decides; levels: coarse to fine, the table last; block: what draws sizes, or None.
        needed: per level after the first, per branch, the least noisy size; None: never.
        max_error, max_relative_error: the goals behind the needs.
    """

    table: str
    statistic: str
    levels: tuple[str, ...]
    block: str | None
    max_error: Fraction | None
    max_relative_error: Fraction | None
    needed: tuple[tuple[Need, ...], ...] = field(repr=False)

    def by(self, tables: PlannedTables) -> tuple[str, ...]:
        """Return the key columns of the rows."""
        return detail_by([tables.named(name).by for name in self.levels])

    def apart(self, tables: PlannedTables) -> set[str]:
        """Return the statistics whose rows do not add up: each level has values of its own."""
        found = [
            (p, fit.tables) for fit in tables.fits for p in fit.tables if p.table == self.table
        ]
        return {p.statistic for p, of in found if not {t.table for t in of} >= {*self.levels}}

    def added_up(self, tables: PlannedTables, statistics: Sequence[PlannedStatistic]) -> str:
        """Return which numbers of the rows add up, of all statistics."""
        own, apart = [s for s in statistics if s.table == self.table], self.apart(tables)
        said = ["the rows add up to every total"] if len(apart) < len(own) else []
        names = ", ".join(s.text for s in own if s.name in apart)
        others = f"{names} of the rows does not add up, as a person may be in several of them"
        return "; ".join([*said, others] if apart else said)

    def chosen(self, sizes: Sequence[int] | None) -> list[int]:
        """Return the place of each branch's level among `levels`.

        Args:
            sizes: drawn, per branch; None where public errors decide alone.
        """
        count = len(self.needed[0])
        known = [0] * count if sizes is None else sizes
        if len(known) != count:
            raise ValueError("there is not one size per branch")
        out = [0] * count
        for place, needed in enumerate(self.needed, start=1):
            for branch, need in enumerate(needed):
                if need is not None and (sizes is None or known[branch] >= need):
                    out[branch] = place
        return out

    def sizes(self, cells: Mapping[str, Sequence[Sequence[int]]]) -> list[int] | None:
        """Return the drawn size of each branch, of a release's noisy integers; None if none is drawn."""
        return None if self.block is None else [row[0] for row in cells[self.block]]

    def rows(
        self, tables: PlannedTables, cells: Mapping[str, Sequence[Sequence[int]]]
    ) -> tuple[DetailRow, ...]:
        """Return the rows that are published, branch by branch: every finest cell is in one of them."""
        at = np.array(self.chosen(self.sizes(cells)), dtype=np.int64)
        known = branches(tables, self.levels)
        found: list[tuple[int, int, int]] = []
        for place, of in enumerate(known.of):
            here = np.flatnonzero(at[of] == place)
            found += [(int(of[cell]), place, int(cell)) for cell in here]
        keys = [keys_of(tables, self.levels, known, place) for place in range(len(self.levels))]
        return tuple(
            DetailRow(self.levels[place], cell, keys[place][cell])
            for _, place, cell in sorted(found)
        )


def detail_by(levels: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the key columns of rows at these levels, given by their own, coarse to fine."""
    return (*dict.fromkeys(name for by in levels for name in by), LEVEL_COLUMN)


def branches(tables: PlannedTables, levels: Sequence[str]) -> Branches:
    """Return the branch of every cell of every level; the last level is the finest."""
    structure = tables.structure(list(levels))
    whole = structure.table(levels[0]).of
    made = [structure.table(name) for name in levels]
    first = [np.unique(table.of, return_index=True)[1] for table in made]
    return Branches(
        of=tuple(whole[cells] for cells in first),
        first=tuple(first),
        empty=tuple(structure.empty(table) for table in made),
    )


def keys_of(
    tables: PlannedTables, levels: Sequence[str], known: Branches, place: int
) -> list[tuple[str, ...]]:
    """Return the labels of every cell of one level: its own, those of coarser levels, `ALL` for finer ones."""
    structure = tables.structure(list(levels))
    by = detail_by([tables.named(name).by for name in levels])[:-1]
    count = len(known.first[place])
    columns: dict[str, list[str]] = {}
    for name in levels[: place + 1]:
        table = tables.named(name)
        cells = structure.table(name).of[known.first[place]]
        for i, column in enumerate(table.by):
            columns.setdefault(column, [table.keys[cell][i] for cell in cells])
    parts = [columns.get(column, [ALL] * count) for column in by]
    return list(zip(*parts, [levels[place]] * count, strict=True))
