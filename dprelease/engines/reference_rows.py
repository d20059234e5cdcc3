"""How the reference engine reads rows: any source as dictionaries of cells of their declared types.

Slow and obvious, as the engine itself: one row, one cell at a time, in plain Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

from dprelease.engines import in_memory
from dprelease.engines.clean_rows import cleaned
from dprelease.engines.csv_header import decimal_labels, opened_after_header, read_header
from dprelease.engines.csv_rows import LONGEST_CELL, LONGEST_RECORD
from dprelease.engines.identity import Moment, text_of_plain
from dprelease.engines.physical import Physical, check_columns, of_arrow, twice_named
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source
from dprelease.engines.table_names import quoted_name
from dprelease.engines.view_rows import view_rows
from dprelease.query.bounded import BoundedQuery
from dprelease.query.expression import evaluate
from dprelease.schema.column import NUMERIC, Column, Kind

Row = dict[str, object]

UNIT = ""
"""Where a row has the canonical text of its unit's id, as it is stored; no column has no name."""

_SPACES = " \u00a0\u202f"
_NUMBER = re.compile(
    r"[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+(_\d+)*)?", re.ASCII
)
_MOMENT = re.compile(
    r"""(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)
        ([ T](?P<hour>\d\d?):(?P<minute>\d\d?)(:(?P<second>\d\d?)(\.(?P<part>\d*))?)?
        (?P<zone>Z|[ ]UTC|(?P<sign>[+-])(?P<hours>0\d|1[0-7])(:?(?P<minutes>[0-5]\d))?)?)?""",
    re.ASCII | re.VERBOSE,
)
_INFINITE = re.compile(r"\+?(inf|infinity)", re.IGNORECASE)


def load_rows(source: Source, query: BoundedQuery) -> Iterator[tuple[Row, Row]]:
    """Check the columns and return each row twice: cells of their declared types, and cleaned ones."""
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
    labels = decimal_labels(columns if query.view is None else ())
    declared = {c.name: c for c in (*query.groups.columns, *columns, *query.columns)}

    def read(row: Row) -> tuple[Row, Row]:
        typed = {
            c.name: _typed(kinds[c.name], _met(row[c.name]) if c.name in labels else row[c.name])
            for c in columns
        }
        clean = {name: cleaned(declared[name], cell) for name, cell in typed.items()}
        for made in query.derived:
            typed[made.column] = evaluate(made.expression, clean)
            clean[made.column] = cleaned(declared[made.column], typed[made.column])
        unit = {} if query.user is None else {UNIT: text_of_plain(row[query.user])}
        return {**unit, **typed}, clean

    return (read(row) for row in rows)


def _whole(source: Source) -> tuple[dict[str, Physical], Iterator[Row]]:
    """Return every column of a table that is there once, as stored."""
    if source.kind == "csv":
        names = list(read_header(cast("Any", source.payload), source.dialect).names)
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
        header, cells = _read_csv(source)
        stored = dict.fromkeys(header, Physical.text)
        check_columns(source.name, columns, stored, twice_named(header))
        wanted = {c.name: header.index(c.name) for c in columns}
        return (
            {n: line[i] if i < len(line) else None for n, i in wanted.items()} for line in cells
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
    elsewhere = partial(in_memory.elsewhere, source)
    check_columns(source.name, columns, stored, twice_named(counted), elsewhere)
    names = [c.name for c in columns]
    plain = in_memory.plain_table(table, names)
    if names:
        lists = [_cells(plain.column(i)) for i in range(len(names))]
        return (dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True))
    length = len(whole) if table.kind == "pandas" else whole.shape[0]
    return ({} for _ in range(length))


def _cells(array: Any) -> list[object]:
    """Return the cells of a plain array; dates and timestamps as counts, as Python holds few of them."""
    import pyarrow as pa

    kind = array.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return list(array.to_pylist())
    if pa.types.is_date(kind):
        per_second, zoned, counts = 0, False, array.cast(pa.int32())
    else:
        per_second, zoned = {"us": 1_000_000, "ns": 1_000_000_000}[kind.unit], kind.tz is not None
        counts = array.cast(pa.int64())
    return [None if n is None else Moment(n, per_second, zoned) for n in counts.to_pylist()]


def _read_table(source: Source) -> Source:
    """Return the source as an in-memory one."""
    import pyarrow as pa

    payload: Any = source.payload
    match source.kind:
        case "parquet" | "objects":
            folders = source.in_folders
            tables = [_read_parquet(path, folders.get(path, {})) for path in payload]
            table = pa.concat_tables(tables, promote_options="permissive")
        case "duckdb_relation":
            table = payload.to_arrow_table()
        case "duckdb_table":
            import duckdb

            with duckdb.connect(str(payload[0]), read_only=True) as connection:
                sql = f"SELECT * FROM {quoted_name(payload[1])}"  # noqa: S608 - quoted
                table = connection.sql(sql).to_arrow_table()
        case "postgres":
            from dprelease.engines import postgres

            columns = postgres.describe(source)
            table = postgres.read(source, columns).read_all().rename_columns(list(columns))
        case _:
            return source
    return Source("arrow", table, source.name)


def _read_parquet(path: Any, folders: Mapping[str, str | None]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = (pq.ParquetFile(path) if isinstance(path, Path) else _downloaded(path)).read()
    for name, value in folders.items():
        cells = pa.array([value] * table.num_rows, pa.string())
        place = table.schema.get_field_index(name)
        table = (
            table.append_column(name, cells) if place < 0 else table.set_column(place, name, cells)
        )
    return table


def _downloaded(stored: Any) -> Any:
    """Return a stored object as a Parquet file: all its bytes, of whose footer nothing was kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with stored.store.open_input_stream(stored.key) as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read()))


class _Spelt(str):
    """A cell of a CSV file whose numbers have a decimal sign that was stated."""

    __slots__ = ("decimal",)

    decimal: str


def _read_csv(source: Source) -> tuple[list[str], Iterator[list[str | None]]]:
    paths: Any = source.payload
    header = read_header(paths, source.dialect)

    def rows() -> Iterator[list[str | None]]:
        for path in paths:
            file, end = opened_after_header(path)
            with file:
                between = header.delimiter.encode() or end
                for record in _records(file.read(), between, end):
                    yield [_spelt(_csv_text(cell), source.dialect.decimal) for cell in record]

    return list(header.names), rows()


def _spelt(cell: str | None, decimal: str | None) -> str | None:
    if cell is None or decimal is None:
        return cell
    spelt = _Spelt(cell)
    spelt.decimal = decimal
    return spelt


def _with_point(cell: _Spelt) -> str:
    """Return a number as it is written with a point and without groups; no number for what is none."""
    text = cell.strip(" \t\n\v\f\r")
    if not any(sign in text for sign in f".,'\u2019{_SPACES}"):
        return text
    other = "," if cell.decimal == "." else "."
    groups = "|".join(f"[0-9]{{1,3}}(?:[{s}][0-9]{{3}})+" for s in (other, _SPACES, "'\u2019"))
    number = rf"([+-]?)({groups}|[0-9]*)(?:[{cell.decimal}]([0-9]*))?([eE][+-]?[0-9]+)?"
    found = re.fullmatch(number, text)
    if found is None:
        return text if cell.decimal == "." else "none"
    sign, whole, rest, power = found.groups()
    return sign + re.sub("[^0-9]", "", whole) + "." + (rest or "") + (power or "")


def _met(cell: object) -> object:
    """Return the cell of a category of numbers, which are declared with a point."""
    if not isinstance(cell, _Spelt) or cell.decimal != ",":
        return cell
    return re.sub(r"\A( *[-+]?[0-9]+),([0-9]+ *)\Z", r"\1.\2", cell)


def _records(data: bytes, delimiter: bytes, end: bytes) -> Iterator[list[bytes]]:
    """Yield the cells of each record, by the rules of `csv_rows`.

    A record ends at the first line end with an even number of quotes before it, if it is then
    quoted without a fault; else it is one line.
    """
    lines = data.split(end)
    if not lines[-1]:
        del lines[-1]
    at = 0
    while at < len(lines):
        last, quotes = at, lines[at].count(b'"')
        while quotes % 2 and last + 1 < len(lines):
            last += 1
            quotes += lines[last].count(b'"')
        whole = end.join(lines[at : last + 1])
        cells, sound = _csv_cells(whole, delimiter, end)
        if last > at and not (sound and len(whole) < LONGEST_RECORD):
            last = at
            cells, _ = _csv_cells(lines[at], delimiter, end)
        yield cells
        at = last + 1


def _csv_cells(record: bytes, delimiter: bytes, end: bytes) -> tuple[list[bytes], bool]:
    """Return the cells of a record, and whether all of its quotes and line ends are in quoted ones."""
    if end == b"\n":
        record = record.removesuffix(b"\r")
    cells, sound, at = [], True, 0
    while True:
        close = at if record[at : at + 1] == b'"' else -1
        while close >= 0:
            close = record.find(b'"', close + 1)
            if close < 0 or record[close + 1 : close + 2] != b'"':
                break
            close += 1
        if close > 0 and record[close + 1 : close + 2] in (b"", delimiter):
            cells.append(record[at + 1 : close].replace(b'""', b'"'))
            at = close + 1
        else:
            until = record.find(delimiter, at)
            cells.append(record[at : until if until >= 0 else len(record)])
            at += len(cells[-1])
            sound = sound and b'"' not in cells[-1] and end not in cells[-1]
        if at == len(record):
            return cells, sound
        at += 1


def _csv_text(cell: bytes) -> str | None:
    try:
        return cell.decode("utf-8") if 0 < len(cell) <= LONGEST_CELL else None
    except UnicodeDecodeError:
        return None


def _typed(kind: Kind, value: object) -> object:
    """Return a cell as its declared type, None when it is missing or cannot be read as one."""
    if value is None:
        return None
    if isinstance(value, _Spelt):
        value = _with_point(value) if kind in NUMERIC else str(value)
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
            return text_of_plain(value)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip(" \t\n\v\f\r")
        sign = -1.0 if text.startswith("-") else 1.0
        if _INFINITE.fullmatch(text.lstrip("-") if sign < 0 else text):
            return sign * math.inf
        if _NUMBER.fullmatch(text):
            return float(text)
        return {"true": 1.0, "false": 0.0}.get(value.strip(" ").lower())
    if not isinstance(value, (bool, int, float, Decimal)):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _boolean(value: object) -> bool | None:
    if isinstance(value, str):
        word = value.strip(" ").lower()
        if word in ("t", "yes", "y"):
            return True
        if word in ("f", "no", "n"):
            return False
    number = _number(value)
    return bool(number) if number in (0, 1) else None


def _date(value: object) -> date | None:
    if isinstance(value, str):
        moment = _moment(value.strip(" "))
        return None if moment is None else moment.date()
    if isinstance(value, Moment):
        return value.date() if value.finite else None
    if isinstance(value, datetime):
        return naive(value).date()
    return value if isinstance(value, date) else None


def _timestamp(value: object) -> datetime | None:
    if isinstance(value, str):
        return _moment(value.strip(" "))
    if isinstance(value, Moment):
        return value.datetime() if value.finite else None
    if isinstance(value, datetime):
        return naive(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - naive is UTC
    return None


def _moment(text: str) -> datetime | None:
    """Return a written day or moment in UTC, naive; None for one that Python has not."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    zone, sign, hours, minutes = found["zone"], found["sign"], found["hours"], found["minutes"]
    behind = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) if zone else timedelta()
    parts = ("year", "month", "day", "hour", "minute", "second")
    year, month, day, hour, minute, second = (int(found[name] or 0) for name in parts)
    microseconds = int((found["part"] or "")[:6].ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, microseconds)  # noqa: DTZ001 - naive is UTC
        return moment + behind if sign == "-" else moment - behind
    except (ValueError, OverflowError):
        return None


def naive(moment: datetime) -> datetime:
    """Return a moment without a zone, which means UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
