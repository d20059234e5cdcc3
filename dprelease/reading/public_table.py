"""A public table beside a release: denominators and weights, one row per key.

It may be a pandas or polars frame, an arrow table, or a path to CSV or Parquet. Its columns of the
release's `by` are keys, compared as text; the others are exact numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from dprelease.core.errors import ArgumentError

if TYPE_CHECKING:
    from dprelease.engines.source import ArrowStream


PublicLike: TypeAlias = "ArrowStream | str | Path"
"""What a public table may be given as."""


class PublicTable:
    """Exact public numbers by key."""

    def __init__(self, data: PublicLike, by: Sequence[str]) -> None:
        table = _arrow(data)
        self.keys = tuple(name for name in by if name in table.column_names)
        self.names = tuple(name for name in table.column_names if name not in self.keys)
        labels = [list(map(str, table.column(k).to_pylist())) for k in self.keys]
        places = list(zip(*labels, strict=True)) if labels else [()] * table.num_rows
        if len(set(places)) < len(places):
            twice = next(p for p in places if places.count(p) > 1)
            raise ArgumentError(
                f"the public table has several rows for {' · '.join(twice) or 'all groups'}",
                where="public",
                fix="give one row per key; a table without key columns has one row",
                code="DPR665",
            )
        self._numbers = {
            name: dict(zip(places, table.column(name).to_pylist(), strict=True))
            for name in self.names
        }

    def number(self, name: str, row: dict[str, str]) -> Fraction:
        """Return the number of one row of the result.

        Raises:
            ArgumentError: it is missing, or is none (DPR666).
        """
        missing = [k for k in self.keys if k not in row]
        place = tuple(row.get(k, "") for k in self.keys)
        try:
            if missing:
                raise KeyError(missing[0])
            return _exact(self._numbers[name][place])
        except (KeyError, ValueError, TypeError, ArithmeticError):
            shown = " · ".join(place) or "all groups"
            raise ArgumentError(
                f"the public table has no number `{name}` for {shown}",
                where="public",
                why=f"the result has no column `{missing[0]}`" if missing else None,
                fix="give a finite number for every group of the release",
                code="DPR666",
            ) from None


def _exact(value: Any) -> Fraction:
    if isinstance(value, float):
        return Fraction(repr(value))  # 0.1 is a tenth: a public table is decimal
    return Fraction(str(value)) if not isinstance(value, int) else Fraction(int(value))


def _arrow(data: PublicLike) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, str | Path):
        return _file(Path(data))
    if type(data).__name__ == "Series":
        raise ArgumentError(
            "a Series is one column, not a table",
            where="public",
            fix="pass a data frame that has the keys as columns, e.g. `series.reset_index()`",
            code="DPR667",
        )
    if type(data).__module__.split(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise ArgumentError(
        f"cannot read a public table from an object of type {type(data).__name__}",
        where="public",
        fix="pass a data frame, an arrow table, or a path to CSV or Parquet",
        code="DPR667",
    )


def _file(path: Path) -> pa.Table:
    from pyarrow import csv, parquet

    try:
        if path.suffix == ".parquet":
            return parquet.read_table(path)
        return csv.read_csv(path)
    except (OSError, pa.ArrowException) as problem:
        raise ArgumentError(
            f"the public table cannot be read: {type(problem).__name__}",
            where=str(path),
            fix="give a CSV file with a header, or Parquet",
            code="DPR667",
        ) from None
