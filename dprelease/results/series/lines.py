"""Released values of one published column over time, group by group, kept as columns.

A series can hold millions of values. They stay in the arrays they were read into; a `Value` is made
when somebody asks for a group's line, and `index.json` is written from the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.release_plan.statistic import CERTAIN_NAMES
from dprelease.results.formats.report_sections import Value
from dprelease.results.formats.text_columns import one_array
from dprelease.results.rules import WEAK, WITHOUT_VALUE

Key = tuple[str, ...]
Floats = npt.NDArray[np.float64]
NUMBERS = ("value", "lower", "upper")
COLUMNS = dict.fromkeys(NUMBERS, pa.float64()) | {"status": pa.utf8()}
COLUMNS |= dict.fromkeys(CERTAIN_NAMES, pa.float64())


@dataclass(frozen=True)
class PeriodColumn:
    """One published column of one period; `table` has the columns `COLUMNS`, `(groups,)`."""

    keys: list[Key]
    table: pa.Table

    @cached_property
    def places(self) -> dict[Key, int]:
        """Every group's row."""
        return {key: row for row, key in enumerate(self.keys)}


def released(table: pa.Table, keys: int) -> dict[str, PeriodColumn]:
    """Return a tidy table's values by published column; of a repeated group the last row counts.

    Raises:
        KeyError: a column is missing.
    """
    # By name, after the keys: an older folder may have fewer columns than this version writes.
    at = {name: i for i, name in enumerate(table.column_names) if i >= keys}
    blank = {*CERTAIN_NAMES} - {*at}
    values = pa.table(
        {
            n: pa.nulls(table.num_rows, kind) if n in blank else table.column(at[n]).cast(kind)
            for n, kind in COLUMNS.items()
        }
    )
    if not {*WITHOUT_VALUE}.isdisjoint(values["status"].unique().to_pylist()):
        valued = pc.invert(pc.is_in(values["status"], value_set=pa.array(WITHOUT_VALUE)))
        table, values = table.filter(valued), values.filter(valued)  # no value, no place in a line
    numbers = values.drop_columns("status").columns
    names = table.column(at["statistic"])
    missing = names.null_count or values["value"].null_count or values["status"].null_count
    if missing or not all(pc.all(pc.is_finite(part), min_count=0).as_py() for part in numbers):
        raise ValueError("a row of no statistic, value or status, or an end that is no number")
    out: dict[str, PeriodColumn] = {}
    seen: tuple[list[pa.ChunkedArray], list[Key], pa.Array | None] | None = None
    coded = one_array(names).dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")  # rows by statistic, in their own order
    values, labels = values.take(order), [table.column(i).take(order) for i in range(keys)]
    first = 0
    for name, rows in zip(coded.dictionary.to_pylist(), np.bincount(codes).tolist(), strict=True):
        mine = [column.slice(first, rows) for column in labels]
        # Columns share their groups, nearly always: then their keys are made and looked at once.
        if seen is None or not _same(mine, seen[0]):
            seen = (mine, *_keys(mine, rows))
        _, found, last = seen
        own = values.slice(first, rows)
        out[name] = PeriodColumn(found, own if last is None else own.take(last))
        first += rows
    return out


def _same(labels: Sequence[pa.ChunkedArray], others: Sequence[pa.ChunkedArray]) -> bool:
    return bool(labels) and all(a.equals(b) for a, b in zip(labels, others, strict=True))


def _keys(labels: Sequence[pa.ChunkedArray], rows: int) -> tuple[list[Key], pa.Array | None]:
    """Return the groups, and the row of each one if they repeat."""
    columns = [column.to_pylist() for column in labels]
    keys: list[Key] = list(zip(*columns, strict=True)) if labels else [()] * rows
    places = {key: row for row, key in enumerate(keys)}
    if len(places) == rows:
        return keys, None
    return list(places), pa.array(places.values(), pa.int64())


class Lines(Mapping[Key, tuple[Value | None, ...]]):
    """One line per group, in order: its value in every period, None where there is none."""

    def __init__(self, periods: Sequence[PeriodColumn | None]) -> None:
        """Take the column's values period by period; the groups of the newest one come first."""
        known = [p.keys for p in reversed(periods) if p is not None]
        if all(keys is known[0] or keys == known[0] for keys in known):
            self.groups = known[0] if known else []
        else:
            self.groups = list(dict.fromkeys(key for keys in known for key in keys))
        self._periods = tuple(periods)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, key: Key) -> tuple[Value | None, ...]:
        if not any(p is not None and key in p.places for p in self._periods):
            raise KeyError(key)
        return self._made([key])[key]

    def first(self, count: int) -> dict[Key, tuple[Value | None, ...]]:
        """Return the lines of the first `count` groups, made at once."""
        return self._made(self.groups[:count])

    def aligned(self) -> Iterator[pa.Table]:
        """Yield every period's value, ends of intervals and status by group; no status, no value."""
        return (self._rows(period, self.groups) for period in self._periods)

    @property
    def certain(self) -> bool:
        """Whether a value of any period has a certain interval."""
        return any(
            p is not None and p.table[CERTAIN_NAMES[0]].null_count < p.table.num_rows
            for p in self._periods
        )

    def widths(self) -> Floats:
        """Return upper - lower of all values that say something and have an interval."""
        every = pa.concat_tables(self.aligned())
        clear = every.filter(pc.invert(pc.is_in(every["status"], pa.array(WEAK, pa.utf8()))))
        widths: Floats = pc.subtract(clear["upper"], clear["lower"]).drop_null().to_numpy()
        return widths

    def _made(self, keys: Sequence[Key]) -> dict[Key, tuple[Value | None, ...]]:
        every = pa.concat_tables(self._rows(period, keys) for period in self._periods)
        cells = zip(*(column.to_pylist() for column in every.columns), strict=True)
        made = [None if row[len(NUMBERS)] is None else Value(*row) for row in cells]
        return {key: tuple(made[i :: len(keys)]) for i, key in enumerate(keys)}

    @staticmethod
    def _rows(period: PeriodColumn | None, keys: Sequence[Key]) -> pa.Table:
        """Return a period's rows of `keys`, null where it has none."""
        if period is None:
            return pa.table({name: pa.nulls(len(keys), kind) for name, kind in COLUMNS.items()})
        if keys == period.keys[: len(keys)]:
            return period.table.slice(0, len(keys))
        return period.table.take(pa.array(map(period.places.get, keys), pa.int64()))
