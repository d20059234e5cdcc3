"""The reference engine: the meaning of a bounded query, one row at a time, in plain Python.

Slow and obvious on purpose: it shares with the default engine the reading of in-memory tables and
the doubles of a code, and nothing else. Tests require the two to return the same integers.

Limits. Everything is held in memory. Unit ids of a floating type beyond 2**53 may print
differently from DuckDB's, which changes the choice of rows, never how many are kept.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from dprelease.engines import in_memory
from dprelease.engines.csv_header import read_header
from dprelease.engines.physical import Physical, check_columns, of_arrow
from dprelease.engines.request import (
    check_query,
    declared_labels,
    empty_tallies,
    rounding,
    row_cap,
    used_columns,
)
from dprelease.engines.source import Source, partition, partitioned
from dprelease.engines.view_rows import view_rows
from dprelease.errors import InternalError
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Code, Condition, Label, Primitive
from dprelease.query.expression import evaluate
from dprelease.schema.column import Column, Kind
from dprelease.secret import Secret

__all__ = ["Coded", "ReferenceEngine", "coded_rows"]

Row = dict[str, object]

_NUMBER = re.compile(
    r"[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+(_\d+)*)?", re.ASCII
)
_INFINITE = re.compile(r"\+?(inf|infinity)", re.IGNORECASE)


class ReferenceEngine:
    """Exact primitives, row by row. For tests and for reading; `DuckDBEngine` is the fast one."""

    name = "reference"

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check that the columns exist and fit. Unlike the default engine, this opens the rows.

        Raises:
            SourceError: as `DuckDBEngine.preflight`.
            PlanError: the query is unsafe to run (DPR230 to DPR233).
        """
        check_query(query)
        _load(source, query)

    def compute(
        self, source: Source, query: BoundedQuery, salt: bytes
    ) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Raises:
            InternalError: anything failed while rows were read (DPR900).
            PlanError: the query is unsafe to run (DPR230 to DPR233).
        """
        check_query(query)
        out: Answer | None
        try:
            kept = list(coded_rows(source, query))
            numbered = (
                [(row, 1) for row in kept] if query.user is None else _bound(kept, query, salt)
            )
            out = _sum(numbered, query)
        except Exception:  # noqa: BLE001 - dropped, not chained: it may quote a cell
            out = None
        if out is None:
            raise InternalError("the rows could not be aggregated", code="DPR900")
        return Secret(out)


def coded_rows(source: Source, query: BoundedQuery) -> Iterator[Coded]:
    """Yield the rows that `query` keeps (steps 1 and 2 of `query.bounded`), in the table's order.

    For engines that bound and sum in their own way. Call it inside the engine's own guard: what
    it raises may quote a cell.
    """
    return (kept for row in _load(source, query) if (kept := _code(row, query)) is not None)


@dataclass(frozen=True, slots=True)
class Coded:
    """One row that a query keeps: its unit ("" for the row unit), its group, its codes."""

    unit: str
    group: int
    codes: tuple[int | None, ...]


def _code(row: Row, query: BoundedQuery) -> Coded | None:
    """Return the row's unit, group and codes, or None when the row is left out."""
    unit = "" if query.user is None else row[query.user]
    if unit is None or not _in_window(row, query):
        return None
    if query.where is not None and evaluate(query.where, row) is not True:
        return None
    labels = []
    for place, column in enumerate(query.groups.columns):
        label = _label(row[column.name], query, place)
        if label is None:
            return None
        labels.append(label)
    if tuple(labels) not in query.groups.keys:
        return None
    group = query.groups.keys.index(tuple(labels))
    return Coded(str(unit), group, tuple(_value(code, row) for code in query.codes))


def _in_window(row: Row, query: BoundedQuery) -> bool:
    if query.window is None:
        return True
    moment = row[query.window.column]
    if moment is None:
        return False
    if not isinstance(moment, datetime):
        assert isinstance(moment, date)
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - naive is UTC
    return _naive(query.window.start) <= moment < _naive(query.window.end)


def _naive(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _label(value: object, query: BoundedQuery, place: int) -> str | None:
    column = query.groups.columns[place]
    if value is None:
        return column.null_label
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text in declared_labels(query, place) else column.other


def _value(code: Code, row: Row) -> int | None:
    if isinstance(code, Condition):
        truth = evaluate(code.expression, row)
        return None if truth is None else int(bool(truth))
    value = row[code.column]
    if isinstance(code, Label):
        return code.values.index(str(value)) if value in code.values else None
    if value is None:
        return code.default
    doubles = rounding(code)
    x = float(value)  # type: ignore[arg-type]
    steps = min(max(x, doubles.low), doubles.high) * doubles.den / doubles.num + 0.5
    if math.isinf(steps):
        step = code.grid.lower if steps < 0 else code.grid.upper
    else:
        step = math.floor(steps)
    # the nearest allowed step, the lower of two at the same distance
    ends = [min(max(step, low), high) for low, high in code.grid.runs]
    nearest = min(ends, key=lambda end: (abs(end - step), end))
    return nearest - code.grid.lower


def _hash(salt: bytes, *parts: object) -> str:
    return hashlib.md5("|".join([salt.hex(), *map(str, parts)]).encode()).hexdigest()  # noqa: S324 - an order, not a seal


def _bound(rows: list[Coded], query: BoundedQuery, salt: bytes) -> list[tuple[Coded, int]]:
    """Return the rows that a unit may contribute, each with its number in (unit, group)."""
    units: dict[str, dict[int, list[Coded]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        units[row.unit][row.group].append(row)
    most = max((row_cap(query, p) for p in query.primitives), default=1)
    out = []
    for unit, groups in units.items():
        order = sorted(groups, key=lambda g: (_hash(salt, unit, g), g))[: query.max_groups]
        chosen = []
        for rank, group in enumerate(order):
            cells = [(_hash(salt, unit, group, *_cells(r)), r) for r in groups[group]]
            cells.sort(key=lambda pair: pair[0])
            chosen += [(n, rank, r) for n, (_, r) in enumerate(cells, start=1) if n <= most]
        chosen.sort(key=lambda c: (c[0], c[1]))
        out += [(r, n) for n, _, r in chosen[: query.max_rows_total]]
    return out


def _cells(row: Coded) -> list[str]:
    return ["-" if c is None else str(c) for c in row.codes]


def _sum(rows: list[tuple[Coded, int]], query: BoundedQuery) -> Answer:
    out = np.zeros((len(query.groups.keys), len(query.primitives)), dtype=object)
    tables = empty_tallies(query)
    for place, primitive in enumerate(query.primitives):
        kept = [r for r, n in rows if query.user is None or n <= row_cap(query, primitive)]
        known = [(r.group, c) for r in kept if (c := _code_of(primitive, r)) is not None]
        match primitive.kind:
            case "edges":
                tables[place] = _edges(primitive, kept)
            case "tally":
                for group, code in known:
                    tables[place][group, code] += 1
            case "distinct":
                for group, _ in set(known):
                    out[group, place] += 1
            case _:
                for row in kept:
                    out[row.group, place] += _summand(primitive, row.codes)
    return Answer(out, tables)


def _edges(primitive: Primitive, rows: list[Coded]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the simple graph that the rows name, `(edges, 2)`, smaller node first, sorted."""
    assert primitive.code is not None
    assert primitive.other is not None
    edges = set()
    for row in rows:
        one, other = row.codes[primitive.code], row.codes[primitive.other]
        if one is not None and other is not None and one != other:
            edges.add((min(one, other), max(one, other)))
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)


def _code_of(primitive: Primitive, row: Coded) -> int | None:
    return None if primitive.code is None else row.codes[primitive.code]


def _summand(primitive: Primitive, codes: tuple[int | None, ...]) -> int:
    if primitive.kind in ("rows", "persons"):
        return 1
    assert primitive.code is not None
    code = codes[primitive.code]
    if code is None:
        return 0
    if primitive.kind == "between":
        return int(primitive.low <= code <= primitive.high)
    if primitive.kind == "product":
        assert primitive.other is not None
        other = codes[primitive.other]
        return 0 if other is None else int(code**primitive.power * other**primitive.other_power)
    return int(code**primitive.power)


# -- reading -----------------------------------------------------------------------------------


def _load(source: Source, query: BoundedQuery) -> Iterator[Row]:
    """Check the columns and return the rows, cells of their declared types."""
    columns = used_columns(query)
    if query.view is not None:
        named: Any = source.payload
        readers = {name: partial(_whole, table) for name, table in named.items()}
        declared = {c.name: c for c in query.columns}
        stored, rows = view_rows(query.view, readers, declared, _typed)
        check_columns(source.name, columns, stored, ())
    else:
        rows = _stored(source, columns)
    kinds = {c.name: c.kind for c in columns}
    typed = ({c.name: _typed(kinds[c.name], row[c.name]) for c in columns} for row in rows)
    return ({**row, **{d.column: evaluate(d.expression, row) for d in query.derived}} for row in typed)


def _whole(source: Source) -> tuple[dict[str, Physical], Iterator[Row]]:
    """Return every column of a table that is there once, as stored."""
    if source.kind == "csv":
        names = list(read_header(cast("Any", source.payload)).names)
        kinds = dict.fromkeys(names, Physical.text)
    else:
        table = _read_table(source)
        names = [name for name, count in in_memory.names(table).items() if count == 1]
        types = in_memory.plain_table(table, names, rows=False).schema
        kinds = {n: of_arrow(types.field(i).type) for i, n in enumerate(names)}
    return kinds, _stored(source, tuple(Column(name, Kind.identifier) for name in names))


def _stored(source: Source, columns: tuple[Column, ...]) -> Iterator[Row]:
    """Check the columns and return the rows as they are stored."""
    if source.kind == "csv":
        header, cells = _read_csv(source.payload)
        stored = dict.fromkeys(header, Physical.text)
        repeated = {n for n in header if header.count(n) > 1}
        check_columns(source.name, columns, stored, repeated)
        wanted = {c.name: header.index(c.name) for c in columns}
        return (
            {n: line[i] if i < len(line) and line[i] else None for n, i in wanted.items()}
            for line in cells
        )
    table = _read_table(source)
    counted = in_memory.names(table)
    whole: Any = table.payload
    if table.kind == "arrow" and source.kind != "arrow":
        stored = {f.name: of_arrow(in_memory.plain_array(whole[f.name]).type) for f in whole.schema}
    else:
        unique = [n for n, count in counted.items() if count == 1]
        types = in_memory.plain_table(table, unique, rows=False).schema
        stored = {n: of_arrow(types.field(i).type) for i, n in enumerate(unique)}
    repeated = {n for n, count in counted.items() if count > 1}
    check_columns(source.name, columns, stored, repeated)
    names = [c.name for c in columns]
    plain = in_memory.plain_table(table, names)
    if names:
        lists = [plain.column(i).to_pylist() for i in range(len(names))]
        return (dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True))
    length = len(whole) if table.kind == "pandas" else whole.shape[0]
    return ({} for _ in range(length))


def _read_table(source: Source) -> Source:
    """Return the source as an in-memory one."""
    import pyarrow as pa

    payload: Any = source.payload
    match source.kind:
        case "parquet":
            tables = [_read_parquet(path, hive=partitioned(payload)) for path in payload]
            table = pa.concat_tables(tables, promote_options="permissive")
        case "duckdb_relation":
            table = payload.to_arrow_table()
        case "duckdb_table":
            import duckdb

            with duckdb.connect(str(payload[0]), read_only=True) as connection:
                table = connection.table(payload[1]).to_arrow_table()
        case "postgres":
            from dprelease.engines import postgres

            columns = postgres.describe(source)
            table = postgres.read(source, columns).read_all().rename_columns(list(columns))
        case _:
            return source
    return Source("arrow", table, source.name)


def _read_parquet(path: Path, *, hive: bool) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read()
    for name, value in partition(path) if hive else ():
        cells = pa.array([value] * table.num_rows, pa.string())
        place = table.schema.get_field_index(name)
        table = table.append_column(name, cells) if place < 0 else table.set_column(place, name, cells)
    return table


def _read_csv(paths: object) -> tuple[list[str], Iterator[list[str]]]:
    assert isinstance(paths, tuple)
    header = read_header(paths)

    def lines() -> Iterator[list[str]]:
        for path in paths:
            assert isinstance(path, Path)
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = io.StringIO(raw.decode("utf-8-sig", "replace"), newline="")
            reader = csv.reader(text, delimiter=header.delimiter)
            next(reader)
            yield from (line for line in reader if line)

    return list(header.names), lines()


def _typed(kind: Kind, value: object) -> object:
    """Return a cell as its declared type, None when it is missing or cannot be read as one."""
    if value is None:
        return None
    match kind:
        case Kind.integer | Kind.number:
            return _number(value)
        case Kind.boolean:
            return _boolean(value)
        case Kind.date:
            return _date(value)
        case Kind.timestamp:
            return _timestamp(value)
        case _:
            return in_memory.text_of(value)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip(" \t\n\v\f\r")
        sign = -1.0 if text.startswith("-") else 1.0
        if _INFINITE.fullmatch(text.lstrip("-") if sign < 0 else text):
            return sign * math.inf
        return float(text) if _NUMBER.fullmatch(text) else None
    if not isinstance(value, (bool, int, float, Decimal)):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _boolean(value: object) -> bool | None:
    if isinstance(value, str):
        word = value.strip(" ").lower()
        if word in ("true", "t", "yes", "y", "1"):
            return True
        return False if word in ("false", "f", "no", "n", "0") else None
    if not isinstance(value, (int, float, Decimal)):
        return None
    return bool(value) if value in (0, 1) else None


def _date(value: object) -> date | None:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value.strip(" ")[:10])
        except ValueError:
            return None
    if isinstance(value, datetime):
        return _naive(value).date()
    return value if isinstance(value, date) else None


def _timestamp(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            return _naive(datetime.fromisoformat(value.strip(" ")))
        except ValueError:
            return None
    if isinstance(value, datetime):
        return _naive(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - naive is UTC
    return None
