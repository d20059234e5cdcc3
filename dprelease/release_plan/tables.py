"""Several tables in a plan: their groups, what is measured of them, and what is fitted to each other.

    table   its keys, its statistics, and the public map from the engine's groups to its cells
    fit     one additive number that stands in several tables: a count, a sum, one bin

A fit's cells count steps of `step_size`. Everything is public, and enough to make the published values
again from the noisy integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

import numpy as np

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Digits, Note
from dprelease.fitting.structure import Dimension, Structure, apart, crossed, nested
from dprelease.release_plan.detail import PlannedDetail
from dprelease.release_plan.statistic import PlannedStatistic

STATED = "stated by the publisher"
"""What is said of public totals in place of an error."""

APART = "drawn for each table by itself: values of different tables do not add up and need not fit each other"
"""What is said of a statistic that is fitted to nothing."""


@dataclass(frozen=True, slots=True)
class PlannedTable(Stored):
    """One published table.

    Attributes:
        by: its key columns; keys: the labels of its cells; level: per axis, -1 for none.
        of: the cell of each of the engine's groups, `(groups,)`.
    """

    name: str
    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = field(repr=False)
    level: tuple[int, ...]
    of: tuple[int, ...] = field(repr=False)

    @property
    def apart(self) -> bool:
        """Whether no two of the engine's groups share a cell."""
        return len(set(self.of)) == len(self.of)


@dataclass(frozen=True, slots=True)
class FitTable(Stored):
    """One table's part of a fit.

    Attributes:
        column: the published column; block: what measures it, None where it is only added up.
        halves: half the width of the interval per class of cells, in steps.
        totals: public values, in steps.
    """

    table: str
    statistic: str
    column: str
    block: str | None
    halves: Annotated[tuple[Fraction, ...], Note.always] = field(default=(), repr=False)
    totals: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class PlannedFit(Stored):
    """One number that adds up over tables.

    Attributes:
        name: of the fit; cell: which of its blocks' cells it is; step_size: the size of a step.
        counts: the fit of the rows that it sums, where l count <= sum <= u count holds; low, high: l and u
            in steps.
        multiple: its values are multiples of so many steps.
    """

    name: str
    cell: Annotated[int, AtLeast(0)]
    step_size: Fraction
    tables: tuple[FitTable, ...]
    counts: str | None = None
    low: Digits = 0
    high: Digits = 0
    multiple: Annotated[int, AtLeast(1)] = 1

    def in_table(self, table: str) -> FitTable:
        return next(t for t in self.tables if t.table == table)

    @property
    def totals(self) -> dict[str, tuple[int, ...]]:
        """The public values, by table."""
        return {t.table: t.totals for t in self.tables if t.totals}

    @property
    def coarse_totals(self) -> dict[str, tuple[int, ...]]:
        """The public values in multiples, by table."""
        return {
            name: tuple(v // self.multiple for v in found) for name, found in self.totals.items()
        }


@dataclass(frozen=True, slots=True)
class PlannedRatio(Stored):
    """One statistic of one table that is a quotient of two fits: offset + step_size of the top * top / bottom.

    Attributes:
        top, bottom: the fits; low, high: the range of top / bottom, in steps.
        critical: per class of cells and piece of the range, the critical value of |top - t bottom|: how far
            the noise takes it from 0 at most.
        bend: 1 for pieces of one length, else finer ones towards `low` (`fitting.quotient.CriticalValues`).
    """

    table: str
    statistic: str
    top: str
    bottom: str
    offset: Fraction
    low: Digits
    high: Digits
    critical: tuple[tuple[Fraction, ...], ...] = field(repr=False)
    bend: Annotated[int, AtLeast(1)] = 1


@dataclass(frozen=True, slots=True)
class PlannedTables(Stored):
    """All tables of a release, and what is fitted.

    Attributes:
        axes: per axis and level, coarse to fine, the cell of each of the axis's keys.
        ratios: what is computed from two fits; hidden: numbers that are fitted for it alone, and not published.
        detail: how fine one of them is published; None where every cell of all is.
        impossible: groups that can hold no row are published as that, not as 0: in plans of today that have some.
    """

    axes: tuple[tuple[tuple[int, ...], ...], ...] = field(repr=False)
    tables: tuple[PlannedTable, ...]
    fits: Annotated[tuple[PlannedFit, ...], Note.always] = ()
    ratios: tuple[PlannedRatio, ...] = ()
    hidden: tuple[PlannedStatistic, ...] = ()
    detail: PlannedDetail | None = None
    impossible: bool = False

    def named(self, name: str) -> PlannedTable:
        return next(t for t in self.tables if t.name == name)

    def empty(self, table: str, rows: Sequence[tuple[str, int]] = ()) -> list[bool]:
        """Return which rows of a table are published as impossible; `rows`: table and cell of each, of several levels."""
        rows = rows or [(table, cell) for cell in range(len(self.named(table).keys))]
        some = {name: set(self.named(name).of) for name in dict(rows)}
        return [self.impossible and cell not in some[name] for name, cell in rows]

    def sums(self, table: str | None) -> tuple[tuple[int, ...], int] | None:
        """Return the cell of each of the engine's groups, and how many cells; None without a table."""
        return None if table is None else (self.named(table).of, len(self.named(table).keys))

    def fit(self, name: str) -> PlannedFit:
        return next(f for f in self.fits if f.name == name)

    def structure(self, names: Sequence[str]) -> Structure:
        """Return how the tables `names` add up; its finest cells are those of their finest table, if one is."""
        chosen = [self.named(name) for name in names]
        most = tuple(map(max, zip(*(table.level for table in chosen), strict=True)))
        finest = next((table for table in chosen if table.level == most), None)
        if finest is None:
            open_axes = [_axis(axis, len(axis) - 1) for axis in self.axes]
            return apart(open_axes, {n: tuple(k + 1 for k in self.named(n).level) for n in names})
        zeros = np.ones(len(finest.keys), dtype=bool)
        zeros[list(finest.of)] = False
        used = [i for i, at in enumerate(finest.level) if at >= 0]
        if not used:
            return nested({finest.name: np.zeros(1, dtype=np.int64)}, zeros)
        # A level of one cell (the year of one year's months) is the same as no level.
        whole = {i: int(finest.level[i] > 0 and not any(self.axes[i][0])) for i in used}
        axes = [_axis(self.axes[i][whole[i] :], finest.level[i] - whole[i]) for i in used]
        levels = {
            name: [max(0, self.named(name).level[i] + 1 - whole[i]) for i in used] for name in names
        }
        return crossed(axes, levels, zeros)


def _axis(levels: Sequence[Sequence[int]], finest: int) -> Dimension:
    """Return an axis whose finest cells are those of level `finest`."""
    fine = np.array(levels[finest], dtype=np.int64)
    maps = []
    for level in levels[: finest + 1]:
        out = np.zeros(int(fine.max()) + 1, dtype=np.int64)
        out[fine] = np.array(level, dtype=np.int64)
        maps.append(out)
    return Dimension(tuple(maps))
