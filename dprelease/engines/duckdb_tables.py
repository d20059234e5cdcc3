"""Sources made visible to one DuckDB connection, each under a name of ours.

Every opener is total on rows: CSV cells stay text, a repeated or unfit column is told by its name,
types come from public metadata. Files are the only paths that the connection may read afterwards.
Hive partition columns (`region=north/part.parquet`) are text, the same as in the folder's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dprelease.core.errors import SourceError, printable
from dprelease.engines import in_memory
from dprelease.engines.csv_header import decimal_labels, read_header, require_decimal
from dprelease.engines.csv_rows import CsvRows
from dprelease.engines.folders import Folders, folders_in
from dprelease.engines.parquet_rows import ParquetRows, check_alike, stored_columns
from dprelease.engines.physical import Physical, of_arrow, of_duckdb, twice_named
from dprelease.engines.relation_rows import batches_of, patiently
from dprelease.engines.source import Source
from dprelease.engines.table_names import quoted, quoted_name
from dprelease.schema.column import NUMERIC, Column

ROWS = "source_rows"


@dataclass(frozen=True, slots=True)
class Opened:
    """What a connection can see: names, their storage, and the identifier of each.

    `source` is how a table stores what is read of it as something else; the checks before the charge look at that.
    """

    stored: dict[str, tuple[str, Physical]]
    repeated: frozenset[str]
    source: dict[str, Physical] = field(default_factory=dict)


def closed(source: Source) -> SourceError:
    """Return the refusal of a source that does not open, whatever the reason."""
    return SourceError(
        f"{source.name} does not open as {source.kind}",
        fix="check that it exists, is complete, and is not locked by another process",
        code="DPR502",
    )


def reads_files(source: Source) -> SourceError:
    """Return the refusal of a view in a database that would open files, which the locked connection forbids."""
    return SourceError(
        f"{source.name} reads files outside its database",
        why="a source is opened by its own name: what a view in a database would open is not read",
        fix="make it a table (`CREATE TABLE rows AS FROM the_view`), or name the files as the source",
        code="DPR528",
    )


class DuckDBTables:
    """Opens sources on a connection; `statements` gets the SQL that does it.

    Args:
        connect: makes the connection, or returns it; asked once, when a statement first needs it.
            Tables in memory and CSV files are described without one, and to make one takes longer
            than all else that a small release does.
        exact: read Parquet in the slower way that takes everything (`parquet_rows`); else a text that
            is not UTF-8 stops the statement.
        missing: a Parquet file may lack a column that is read.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        statements: list[str],
        *,
        exact: bool = False,
        missing: bool = False,
    ) -> None:
        self._connect = connect
        self.statements = statements
        self.exact = exact
        self.missing = missing
        self._allowed: list[Path] = []

    @cached_property
    def connection(self) -> Any:
        """DuckDB's connection."""
        return self._connect()

    def open(
        self,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
        empty: bool = False,
        name: str = ROWS,
    ) -> Opened:
        """Make `source` visible under `name`; with `rows=False`, look at public metadata only.

        Args:
            columns: what will be read of it.
            empty: with `rows`, register a table of the same types without rows, where the rows are in hand.

        Raises:
            SourceError: a file has no header, or another one than the first (DPR518, DPR506), or one
                that leaves the decimal sign open (DPR526).
        """
        match source.kind:
            case "arrow" | "pandas" | "polars":
                return self._open_in_memory(source, columns, rows=rows, empty=empty, name=name)
            case "duckdb_relation":
                return self._open_relation(source, columns, rows=rows, empty=empty, name=name)
            case "csv":
                return self._open_csv(source, columns, rows=rows, name=name)
            case "parquet":
                return self._open_parquet(source, columns, rows=rows, name=name)
            case "objects":
                return self._open_objects(source, columns, rows=rows, name=name)
            case "duckdb_table":
                return self._open_table(source, name)
            case "postgres":
                return self._open_postgres(source, columns, rows=rows, name=name)
            case "spark_table" | "spark_frame":
                raise SourceError(
                    f"DuckDB does not read {source.name}",
                    fix="use `engine: spark`",
                    code="DPR516",
                )
            case "tables":
                raise SourceError(
                    "several tables are read through a view only",
                    fix="name the view in the pipeline's source",
                    code="DPR509",
                )

    def _open_in_memory(
        self,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
        empty: bool,
        name: str,
    ) -> Opened:
        counted = in_memory.names(source)
        wanted = [c.name for c in columns if counted[c.name] == 1]
        table = in_memory.plain_table(source, wanted, rows=rows and not empty)
        if rows:
            if not wanted:  # count(*) alone reads no column, but needs the rows
                table = _bare_rows(source, empty=empty)
            self.connection.register(name, table)
        stored = {n: (f"c{i}", of_arrow(table.schema.field(i).type)) for i, n in enumerate(wanted)}
        others = {n: ("", Physical.other) for n in counted if n not in stored}
        return Opened({**others, **stored}, twice_named(counted))

    def _open_relation(
        self,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
        empty: bool,
        name: str,
    ) -> Opened:
        import duckdb

        relation: Any = source.payload
        counted = Counter(relation.columns)
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        wanted = [c.name for c in columns if c.name in counted]
        _check_instants(relation, [n for n in wanted if kinds[n] == "TIMESTAMP WITH TIME ZONE"])
        own = {name: of_duckdb(kind) for name, kind in kinds.items()}
        stored = {name: ("", physical) for name, physical in own.items()}
        if rows:
            # numbers that Arrow would widen or wrap (HUGEINT) keep their value as text
            # SQL, not ColumnExpression: that takes a column called "*" for all of them
            parts = [
                duckdb.SQLExpression(quoted(n)).cast("VARCHAR")
                if "HUGEINT" in kinds[n] or kinds[n] in ("UUID", "BIGNUM")
                else duckdb.SQLExpression(quoted(n))
                for n in wanted
            ]
            bare = duckdb.ConstantExpression(1)
            chosen = patiently(lambda: relation.select(*(parts or [bare])))
            reader = batches_of(patiently(lambda: chosen.limit(0)) if empty else chosen)
            stored |= self._registered(reader, wanted, name)
        # SQL does not tell `Id` from `id`, and would read the first of them
        alike = Counter(name.lower() for name in counted.elements())
        return Opened(stored, frozenset(name for name in counted if alike[name.lower()] > 1), own)

    def _open_csv(
        self, source: Source, columns: tuple[Column, ...], *, rows: bool, name: str
    ) -> Opened:
        paths: Any = source.payload
        header = read_header(paths, source.dialect)
        require_decimal(source.name, header, source.dialect, columns)
        places = {n: i for i, n in enumerate(header.names)}
        if rows:
            wanted = tuple(dict.fromkeys(places[c.name] for c in columns if c.name in places))
            numbers = frozenset(
                places[c.name] for c in columns if c.kind in NUMERIC and c.name in places
            )
            sign = source.dialect.decimal
            labels = frozenset(places[n] for n in decimal_labels(columns) if n in places)
            read = CsvRows(paths, header.delimiter, wanted, numbers, sign, labels)
            self.connection.register(name, read)
        stored = {n: (f"c{i}", Physical.text) for n, i in places.items()}
        return Opened(stored, twice_named(header.names))

    def _open_parquet(
        self, source: Source, columns: tuple[Column, ...], *, rows: bool, name: str
    ) -> Opened:
        paths: Any = source.payload
        hive = source.keys
        self._run(
            f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet({path_list(paths)}, "  # noqa: S608 - quoted
            f"union_by_name = true, hive_partitioning = {str(bool(hive)).lower()}, "
            "hive_types_autocast = false, binary_as_string = false, utf8_validation = 'strict')",
        )
        self._allow(paths)
        opened = self._described(name)
        stored = stored_columns(self._run, path_list(paths))
        check_alike(source, columns, stored, missing=self.missing)
        # DuckDB takes `id` of one file and `ID` of the next for one column, and renames one of two in a file
        own = frozenset(stored) | {*hive}
        alike = len({n.lower() for n in own}) < len(stored) + len(hive)
        alike = alike or any(len({one.file for one in f}) < len(f) for f in stored.values())
        # and each folder `key=value` for a column, wherever it lies
        alike = alike or (bool(hive) and not all(map(_folders_alone, paths, source.folders)))
        there = {n: found for n, found in opened.stored.items() if not alike or n in own}
        wanted = tuple(c.name for c in columns if c.name in own)
        stops = any(one.stops for found in stored.values() for one in found)
        if not (self.exact or stops or alike) and all(
            one.exact for n in wanted for one in stored.get(n, ())
        ):
            return opened
        other = ParquetRows(paths, wanted, source.in_folders)
        if rows:
            self._run(f"DROP VIEW {name}")
            self.connection.register(name, other)
        unread = {n: ("", physical) for n, (_, physical) in there.items()}
        return Opened({**unread, **other.stored}, opened.repeated)

    def _open_objects(
        self, source: Source, columns: tuple[Column, ...], *, rows: bool, name: str
    ) -> Opened:
        from dprelease.engines.object_rows import ObjectRows, described

        objects: Any = source.payload
        stored, repeated = described(source, columns, missing=self.missing)
        wanted = tuple(dict.fromkeys(c.name for c in columns if c.name in stored))
        read = ObjectRows(objects, wanted, source.in_folders)
        if rows:
            self.connection.register(name, read)
        others = {n: ("", physical) for n, physical in stored.items()}
        return Opened({**others, **read.stored}, repeated)

    def _open_table(self, source: Source, name: str) -> Opened:
        payload: Any = source.payload
        database, table = payload
        path = quoted_name(str(table))
        attached = f"{name}_database"
        self._run(f"ATTACH {_text(str(database))} AS {attached} (READ_ONLY)")
        self._run(f"CREATE VIEW {name} AS SELECT * FROM {attached}.{path}")  # noqa: S608 - quoted
        return self._described(name)

    def _open_postgres(
        self, source: Source, columns: tuple[Column, ...], *, rows: bool, name: str
    ) -> Opened:
        from dprelease.engines import postgres

        described = postgres.describe(source)
        stored = {n: ("", kind.physical) for n, kind in described.items()}
        if rows:
            wanted = [c.name for c in columns if c.name in described]
            reader = postgres.read(source, {n: described[n] for n in wanted})
            stored |= self._registered(reader, wanted, name)
        own = {name: kind.physical for name, kind in described.items()}
        return Opened(stored, frozenset(), own)

    def _registered(
        self, reader: Any, wanted: Sequence[str], name: str
    ) -> dict[str, tuple[str, Physical]]:
        """Register rows as columns `c0`, `c1`, …; return the identifier and storage of each that is `wanted`."""
        plain = in_memory.plain_batches(reader, max(1, len(wanted)))
        self.connection.register(name, plain)
        return {n: (f"c{i}", of_arrow(plain.schema.field(i).type)) for i, n in enumerate(wanted)}

    def _described(self, view: str) -> Opened:
        found = self._run(f"DESCRIBE {view}").fetchall()
        return Opened({row[0]: (row[0], of_duckdb(row[1])) for row in found}, frozenset())

    def _allow(self, paths: tuple[Path, ...]) -> None:
        self._allowed += paths
        self._run(f"SET allowed_paths = {path_list(tuple(self._allowed))}")

    def _run(self, sql: str) -> Any:
        self.statements.append(sql)
        return self.connection.execute(sql)


def _bare_rows(source: Source, *, empty: bool) -> Any:
    import pyarrow as pa

    payload: Any = source.payload
    if hasattr(payload, "collect_schema") and hasattr(payload, "lazy"):
        payload = payload.lazy().collect()
    length = 0 if empty else payload.num_rows if source.kind == "arrow" else len(payload)
    return pa.table({"c0": pa.nulls(length, pa.bool_())})


def _folders_alone(path: Path, folders: Folders) -> bool:
    """Return whether no other folder above a file is a `key=value`."""
    try:
        return folders_in(path.parts[:-1]) == folders
    except SourceError:  # one that is not read
        return False


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def path_list(paths: tuple[Path, ...]) -> str:
    return "[" + ", ".join(_text(str(p)) for p in paths) + "]"


def _check_instants(relation: Any, names: Sequence[str]) -> None:
    """Refuse instants with a zone that a relation takes from Arrow.

    DuckDB counts them in microseconds while it scans, and one that does not fit would end the release after
    the charge; a table in hand is read by rules that take any value.
    """
    if names and "ARROW_SCAN" in patiently(relation.explain):
        raise SourceError(
            f"the column {printable(names[0])} of a relation over Arrow holds instants with a time zone",
            why="DuckDB converts each of them while it reads, and fails at one that is far away",
            fix="give the Arrow table itself, or a relation over a database or Parquet files",
            code="DPR504",
        )
