"""Several tables of one release: their groups, and how each is a sum of the finest groups.

The engine groups rows once, by the finest cross of all `by` columns; a level of a hierarchy stands
for its column. A table's cell is the sum of the finest groups that a public map sends to it, so
bounded tables add up before any noise, in every engine. A group that can hold no row (`zeros`) is
no group: its rows are left out of every table alike.

An axis is one column with its levels, coarse to fine. Cells of a table are the cross of its levels'
cells, in the order of the axes, the last one fastest.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import PlanError
from dprelease.query.arguments import syntax_of
from dprelease.query.bounded import GroupKeys
from dprelease.query.calendar import Calendar
from dprelease.query.keys import key_column
from dprelease.schema.column import Column
from dprelease.schema.release_spec import ReleaseSpec, TableSpec
from dprelease.schema.table import TableSchema

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TableAxis:
    """One column and its levels.

    Attributes:
        levels: their names, coarse to fine; the last one is the column.
        labels: per level, the labels of its cells.
        cells: per level, the cell of every key of the column, `(keys,)`.
    """

    levels: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    cells: tuple[Places, ...]

    @property
    def column(self) -> str:
        return self.levels[-1]

    def between(self, fine: int, coarse: int) -> Places:
        """Return the cell of level `coarse` for every cell of level `fine`."""
        out = np.zeros(len(self.labels[fine]), dtype=np.int64)
        out[self.cells[fine]] = self.cells[coarse]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class TableGroups:
    """One table's groups.

    Attributes:
        level: per axis, the place of its finest level among the axis's, -1 for none.
        keys: the labels of each cell, one per column of `by`; of: the cell of each finest group.
    """

    spec: TableSpec
    level: tuple[int, ...]
    keys: tuple[tuple[str, ...], ...] = field(repr=False)
    of: Places = field(repr=False)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def apart(self) -> bool:
        """Whether no two of the finest groups share a cell."""
        return np.unique(self.of).size == self.of.size


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All tables of a release.

    Attributes:
        axes: in the order of the engine's group columns; groups: the engine's, zeros left out.
    """

    axes: tuple[TableAxis, ...]
    tables: tuple[TableGroups, ...]
    groups: GroupKeys = field(repr=False)

    @property
    def margins(self) -> bool:
        """Whether no table is the finest: rows are counted in each, and their cross is never made."""
        return self.groups.whole

    def named(self, name: str) -> TableGroups:
        return next(t for t in self.tables if t.name == name)

    def finest_of(self, names: Sequence[str]) -> TableGroups | None:
        """Return the table among `names` whose groups all others' are sums of; None if there is none."""
        chosen = [self.named(name) for name in names]
        most = tuple(map(max, zip(*(table.level for table in chosen), strict=True)))
        return next((table for table in chosen if table.level == most), None)


def table_groups(
    schema: TableSchema, spec: ReleaseSpec, calendar: Calendar | None, most: int
) -> Tables:
    """Return the groups of a release of several tables.

    Args:
        calendar: the period that is released, of which parts of dates have their values.
        most: groups that a release may have.

    Raises:
        PlanError: there are too many groups (DPR205), two tables have the same (DPR290), or no group is left
            (DPR291).
    """
    bottom = {level: h.column for h in schema.hierarchies.values() for level in h.levels}
    wide = sorted(spec.tables, key=lambda table: -len(table.by))
    names = dict.fromkeys(bottom.get(name, name) for table in wide for name in table.by)
    made = {name: key_column(schema, calendar, spec.origin, name) for name in names}
    axes = tuple(_axis(schema, name, column.keys) for name, column in made.items())
    if (margins := _margins(spec, axes, tuple(made.values()))) is not None:
        return margins
    count = 1
    for axis in axes:
        count *= len(axis.labels[-1])
    if count > most:
        raise PlanError(
            f"the finest groups of the tables are {count:,}",
            where=spec.origin,
            why=f"rows are grouped once, by {', '.join(a.column for a in axes)}; at most {most:,}"
            " groups are supported",
            fix="group by fewer or coarser columns",
            code="DPR205",
        )
    tables = [_table(axes, table) for table in spec.tables]
    _check_different(axes, tables)
    shape = tuple(len(axis.labels[-1]) for axis in axes)
    finest = np.indices(shape).reshape(len(axes), -1) if axes else np.zeros((0, 1), dtype=np.int64)
    of = [_cells(axes, table.level, finest) for table in tables]
    possible = np.ones(count, dtype=bool)
    for table, cells in zip(tables, of, strict=True):
        possible &= ~np.isin(cells, _zeros(table))
    if not possible.any():
        raise PlanError(
            "the structural zeros leave no group",
            where=spec.origin,
            fix="check them",
            code="DPR291",
        )
    labels = [axis.labels[-1] for axis in axes]
    keys = tuple(itertools.compress(itertools.product(*labels), possible.tolist()))
    named = tuple(
        TableGroups(table.spec, table.level, table.keys, cells[possible])
        for table, cells in zip(tables, of, strict=True)
    )
    return Tables(axes, named, GroupKeys(tuple(made.values()), keys))


def _margins(
    spec: ReleaseSpec, axes: tuple[TableAxis, ...], columns: tuple[Column, ...]
) -> Tables | None:
    """Return tables of counts of which none is the finest; None for others."""
    for table in spec.tables:
        for one in table.statistics:
            syntax = syntax_of(one.function)
            if one.arguments or one.where or syntax is None or not syntax.arguments.crossed:
                return None
        if table.zeros or table.detail or table.share or len(table.statistics) > 1 or spec.totals:
            return None
    made = [_table(axes, table) for table in spec.tables]
    _check_different(axes, made)
    tables = Tables(axes, tuple(made), GroupKeys(columns, ((),)))
    return None if tables.finest_of([t.name for t in made]) else tables


def _axis(schema: TableSchema, name: str, keys: tuple[str, ...]) -> TableAxis:
    """Return the axis of a column that some table groups by; the widest table's come first."""
    found = next((h for h in schema.hierarchies.values() if h.column == name), None)
    if found is None:
        return TableAxis((name,), (keys,), (np.arange(len(keys)),))
    rows = {row[-1]: row for row in found.keys}
    labels: list[tuple[str, ...]] = []
    cells: list[Places] = []
    for at in range(len(found.levels)):
        each = [rows[key][at] for key in keys]
        places = {label: i for i, label in enumerate(dict.fromkeys(each))}
        labels.append(tuple(places))
        cells.append(np.array([places[label] for label in each], dtype=np.int64))
    return TableAxis(found.levels, tuple(labels), tuple(cells))


def _table(axes: Sequence[TableAxis], spec: TableSpec) -> TableGroups:
    """Return a table's level per axis and its keys; its map is made by the caller."""
    level = tuple(
        max((axis.levels.index(n) for n in spec.by if n in axis.levels), default=-1)
        for axis in axes
    )
    used = [(axis, at) for axis, at in zip(axes, level, strict=True) if at >= 0]
    parts: list[list[dict[str, str]]] = []
    for axis, at in used:
        up = {i: axis.between(at, i) for i in range(at + 1) if axis.levels[i] in spec.by}
        parts.append(
            [
                {axis.levels[i]: axis.labels[i][cells[c]] for i, cells in up.items()}
                for c in range(len(axis.labels[at]))
            ]
        )
    keys = tuple(
        tuple(merged[name] for name in spec.by)
        for merged in (_merged(cell) for cell in itertools.product(*parts))
    )
    return TableGroups(spec, level, keys, np.zeros(0, dtype=np.int64))


def _merged(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {name: label for part in parts for name, label in part.items()}


def _cells(axes: Sequence[TableAxis], level: Sequence[int], finest: Places) -> Places:
    """Return the table's cell of every finest group, `(groups,)`."""
    out = np.zeros(finest.shape[1], dtype=np.int64)
    for axis, at, places in zip(axes, level, finest, strict=True):
        if at >= 0:
            out = out * len(axis.labels[at]) + axis.cells[at][places]
    return out


def _zeros(table: TableGroups) -> list[int]:
    places = {key: i for i, key in enumerate(table.keys)}
    strange = next((key for key in table.spec.zeros if key not in places), None)
    if strange is not None:
        raise PlanError(
            f"a structural zero of table `{table.name}` is not a group of it: {'/'.join(strange)[:80]}",
            where=table.spec.origin,
            fix="list groups of the table's `by` only",
            code="DPR291",
        )
    return [places[key] for key in table.spec.zeros]


def _check_different(axes: Sequence[TableAxis], tables: Sequence[TableGroups]) -> None:
    seen: dict[tuple[int, ...], str] = {}
    for table in tables:
        # a level of one cell divides nothing
        level = tuple(
            at if at >= 0 and len(axis.labels[at]) > 1 else -1
            for axis, at in zip(axes, table.level, strict=True)
        )
        other = seen.setdefault(level, table.name)
        if other != table.name:
            raise PlanError(
                f"the tables `{other}` and `{table.name}` have the same groups",
                where=table.spec.origin,
                why="they are one table, measured twice",
                fix="list the statistics of both in one of them; `all_pairs` takes one level of a hierarchy, and"
                " no column of one label",
                code="DPR290",
            )
