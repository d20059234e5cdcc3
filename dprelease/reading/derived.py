"""What `derive` and `diff` return: a small table with intervals, and how they were made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dprelease.core.caller import cannot_write, outside_published, path_from
from dprelease.core.numeric import counted
from dprelease.core.strict_json import json_text
from dprelease.reading.called import Called
from dprelease.results.formats.chart import Point, point
from dprelease.results.formats.csv_ import cell
from dprelease.results.formats.picture import Picture, below, dots
from dprelease.results.formats.words import period_words
from dprelease.results.rules import WEAK

if TYPE_CHECKING:
    import pandas as pd

Place = tuple[str, str]
"""A table and a published column of it."""


@dataclass(frozen=True)
class Derived:
    """Values computed from published ones, with intervals that cover the noise.

    Attributes:
        expression: what was asked; name: the value's title.
        table: key columns, then value, lower, upper, status, method. An end that nothing bounds is
            infinite; a value that is not defined (a division by 0) is null, its status uninformative. A choice by
            rank, which has no interval, has null ends and the method `none`.
        level: of the intervals, 1 of certain ones; domain: the values that the expression can have.
        source: what was read: folders or releases, in words.
        called: the publisher's words for key columns, statistics and groups.
    """

    expression: str
    table: pa.Table
    name: str
    level: float = 0.95
    domain: tuple[float, float] = (-math.inf, math.inf)
    source: str = ""
    keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    called: Called = field(default_factory=Called)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def plot(self) -> Picture:
        """Return a picture: a dot with its interval per row; of a comparison, a part per statistic."""
        parts = [
            self._dots(self.called.heading(place), rows, self.called.inner(self.keys))
            if place[1]
            else self._dots(self.name, rows, self.keys)
            for place, rows in self.apart().items()
        ]
        return parts[0] if len(parts) == 1 else below(self.name, parts)

    def apart(self) -> dict[Place, list[dict[str, Any]]]:
        """Return the rows by table and statistic, of which a comparison has several; else under two empty names."""
        found: dict[Place, list[dict[str, Any]]] = {}
        for row in self.table.to_pylist():
            found.setdefault(self.place(row), []).append(row)
        return found

    def place(self, row: Mapping[str, Any]) -> Place:
        """Return the table and statistic of a row of a comparison, which are of different units and sizes."""
        return self.called.place(row) if "p" in row else ("", "")

    def _dots(self, title: str, rows: list[dict[str, Any]], keys: Sequence[str]) -> Picture:
        points = [_point(row) for row in rows]
        ends = [v for p in points for v in p[:3] if not p.weak and math.isfinite(v)]
        low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
        hull = (low, high) if low < high else (low - 1, high + 1)
        names = [self.called.group(row, keys) for row in rows]
        what = f"{self.expression}; " * (title != self.expression)
        sure = any(row["lower"] is not None for row in rows)
        bars = f"bars are {self.said} intervals for the noise" if sure else "there is no interval"
        note = what + bars + ", hollow dots say nothing" * any(p.weak for p in points)
        return dots(title, note, names, points, hull, [])

    def write(self, path: str | Path) -> Path:
        """Write the table: .csv, .parquet, .json or .html by the name; return the path.

        Raises:
            ArgumentError: another ending, or the file cannot be written or lies in a published folder (DPR668);
                no path (DPR642).
        """
        target = outside_published(path_from(path, "a file to write", "growth.csv"))
        make = _WRITERS.get(target.suffix.lower())
        try:
            if make is None:
                raise OSError("no writer")
            target.write_bytes(make(self))
        except OSError as problem:
            why = (
                problem.strerror
                if make
                else f"`{target.suffix}` is not a format of a derived table"
            )
            fix = "name a file that ends in .csv, .parquet, .json or .html, in a folder that exists"
            raise cannot_write(target, why, fix) from None
        return target

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data; an end that nothing bounds is null."""
        rows = [{k: _finite(v) for k, v in row.items()} for row in self.table.to_pylist()]
        return {
            "expression": self.expression,
            "level": self.level,
            "source": self.source,
            "notes": list(self.notes),
            "rows": rows,
        }

    @property
    def said(self) -> str:
        """What its intervals are, in one word: `no` of choices by rank, which have none."""
        values, ends = self.table["value"], self.table["lower"]
        if values.null_count < len(ends) == ends.null_count:
            return "no"
        return "certain" if self.level == 1 else f"{100 * self.level:.6g} %"

    def __repr__(self) -> str:
        return f"<Derived {self.expression}: {counted(self.table.num_rows, 'row')} with {self.said} intervals>"

    def _repr_html_(self) -> str:
        shown = self.to_pandas().to_html(index=False, max_rows=40, escape=True, border=0)
        return f"{shown}<p>{self.plot().svg}</p>" if self.table.num_rows > 1 else shown


def _point(row: dict[str, Any]) -> Point:
    found = point(row["value"], row["lower"], row["upper"], weak=row["status"] in WEAK)
    return found._replace(lower=found.value, upper=found.value) if found.weak else found


def _csv(derived: Derived) -> bytes:
    names = derived.table.column_names
    rows = [names, *([row[name] for name in names] for row in derived.table.to_pylist())]
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows).encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return {math.inf: "Inf", -math.inf: "-Inf"}.get(value) or repr(value)
    return cell(str(value))


def _parquet(derived: Derived) -> bytes:
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(derived.table, sink)
    return bytes(sink.getvalue())


def _json(derived: Derived) -> bytes:
    text = json_text(derived.to_json(), indent=1)
    return (text + "\n").encode()


def _finite(value: Any) -> Any:
    """Return JSON: an end that nothing bounds is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _html(derived: Derived) -> bytes:
    from dprelease.reading.page import page

    return page(derived).encode()


_WRITERS = {".csv": _csv, ".parquet": _parquet, ".json": _json, ".html": _html}


def stacked(made: Mapping[str, Derived], *, source: str, notes: tuple[str, ...] = ()) -> Derived:
    """Return the results of several periods as one, with `period` as first key column, under the title with the first and last."""
    first = next(iter(made.values()))
    to = f" to {period_words(list(made)[-1])}" * (len(made) > 1)
    tables = [
        d.table.add_column(0, "period", pa.array([period] * d.table.num_rows, pa.utf8()))
        for period, d in made.items()
    ]
    return Derived(
        expression=first.expression,
        table=pa.concat_tables(tables),
        name=first.name,
        level=first.level,
        domain=(min(d.domain[0] for d in made.values()), max(d.domain[1] for d in made.values())),
        source=source,
        keys=("period", *first.keys),
        notes=notes,
        called=replace(first.called, read=first.called.read + to),
    )


def keyed(
    keys: Sequence[str],
    labels: Sequence[Sequence[str | None]],
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> pa.Table:
    """Return a table with its key columns first, then those called `names`; a label is null where a row has none."""
    texts = dict.fromkeys((*keys, "status", "method"), pa.utf8())
    columns = [*zip(*labels, strict=True), *zip(*rows, strict=True)]
    schema = pa.schema([(name, texts.get(name, pa.float64())) for name in (*keys, *names)])
    return pa.table(list(map(list, columns)), schema=schema)
