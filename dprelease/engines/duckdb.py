"""The default engine: one locked-down DuckDB connection, one SELECT, integers out.

A connection lives for one computation. Inputs are made visible first; then file access, Python
variables, extensions and further settings are switched off and the configuration is locked, so
the statement can read its rows and nothing else.

Every failure while rows are read becomes one fixed InternalError. DuckDB's messages quote cells,
so its exception is dropped altogether, not chained: `raise … from None` would still carry it in
`__context__`, where a logger finds it.

Limits. A CSV line that cannot be split, or is not UTF-8, is left out; a quote that is never
closed takes the following lines with it. That is a property of the file as text, the same for
every run over it. Rows are read once; spilling goes to a private folder that is removed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.engines import in_memory
from dprelease.engines.csv_header import read_header
from dprelease.engines.physical import Physical, check_columns, of_arrow, of_duckdb
from dprelease.engines.request import check_query, used_columns
from dprelease.engines.source import Source
from dprelease.errors import InternalError, SourceError
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.column import Column
from dprelease.secret import Secret

__all__ = ["DuckDBEngine"]

_ROWS = "source_rows"
_HARMFUL = (
    # moves casts into the CSV reader, where a cell that fails drops its row; TRIM in typed_sql is
    # enough today, this says it outright
    "type_pushdown",
    # turns ROW_NUMBER() <= k into an aggregate that cannot spill: 5 million rows ran out of 1 GB,
    # and took longer with more
    "top_n_window_elimination",
    # decides conditions from the column's least and greatest value, wrongly for abs(-abs(x)) in
    # DuckDB 2.0: then one row's value would change what a filter says of the others
    "statistics_propagation",
)
_LOCK = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET lock_configuration = true",
)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a connection can see: names, their storage, and the identifier of each."""

    stored: dict[str, tuple[str, Physical]]
    repeated: frozenset[str]


class DuckDBEngine:
    """Exact primitives by DuckDB.

    Args:
        memory_limit: as DuckDB writes it ("2GB"); above it, rows spill to disk.
        threads: at most so many; all processors when None.
        temp_directory: where the private spill folder is made; the system's when None.

    Attributes:
        statements: the SQL of the last call, in order. Rows never enter it.
    """

    name = "duckdb"

    def __init__(
        self,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: Path | None = None,
    ) -> None:
        self._settings = {"memory_limit": memory_limit, "threads": threads}
        self._temp_directory = temp_directory
        self.statements: list[str] = []

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check by public metadata that `compute` will find what it reads; read no row.

        Raises:
            SourceError: the source does not open (DPR501, DPR502, DPR506), lacks a column
                (DPR503), stores one unfit (DPR504) or twice (DPR505).
            PlanError: the query itself is unsafe to run (DPR230 to DPR233).
        """
        check_query(query)
        columns = used_columns(query)
        opened: _Opened | None = None
        with self._connection() as connection:
            try:
                opened = self._open(connection, source, columns, rows=False)
            except SourceError:
                raise
            except Exception:  # noqa: BLE001 - its message may quote the file's content
                opened = None
        if opened is None:
            raise SourceError(
                f"{source.name} does not open as {source.kind}",
                fix="check that it exists, is complete, and is not locked by another process",
                code="DPR502",
            )
        stored = {name: physical for name, (_, physical) in opened.stored.items()}
        check_columns(source.name, columns, stored, opened.repeated)

    def compute(
        self, source: Source, query: BoundedQuery, salt: bytes
    ) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Args:
            source: has passed `preflight`.
            query: the whole task.
            salt: secret; orders the rows and groups of each unit.

        Raises:
            InternalError: anything failed while rows were read (DPR900); no detail is given.
            PlanError: the query is unsafe to run (DPR230 to DPR233).
        """
        check_query(query)
        out = np.zeros((len(query.groups.keys), len(query.primitives)), dtype=object)
        done = False
        try:
            with self._connection() as connection:
                for group, *sums in self._rows(connection, source, query, salt):
                    out[group] = sums
            done = True
        except Exception:  # noqa: BLE001 - not chained: see the module's docstring
            done = False
        if not done:
            raise InternalError(
                "the rows could not be aggregated",
                why="the engine failed while reading the source; details could quote its rows",
                fix="check the source, memory and disk space; `preflight` sees public metadata only",
                code="DPR900",
            )
        return Secret(Answer(out))

    def _rows(
        self, connection: Any, source: Source, query: BoundedQuery, salt: bytes
    ) -> list[tuple[int, ...]]:
        from dprelease.engines.bounded_sql import build

        columns = used_columns(query)
        opened = self._open(connection, source, columns, rows=True)
        stored = {name: physical for name, (_, physical) in opened.stored.items()}
        check_columns(source.name, columns, stored, opened.repeated)
        statement = build(query, opened.stored, salt, rows_table=_ROWS)
        for name, table in statement.tables.items():
            connection.register(name, table)
        for setting in _LOCK:
            self._run(connection, setting)
        sql = statement.tree.sql(dialect="duckdb")
        used = {k: v for k, v in statement.parameters.items() if f"${k}" in sql}
        rows: list[tuple[int, ...]] = self._run(connection, sql, used).fetchall()
        return rows

    def _run(self, connection: Any, sql: str, parameters: dict[str, object] | None = None) -> Any:
        self.statements.append(sql)
        return connection.execute(sql, parameters) if parameters else connection.execute(sql)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import duckdb

        self.statements = []
        # DuckDB's own default would spill rows to .tmp in the working folder
        spill = tempfile.mkdtemp(prefix="dprelease-", dir=self._temp_directory)
        connection = duckdb.connect(":memory:")
        try:
            connection.execute("SET temp_directory = $folder", {"folder": spill})
            for name, value in self._settings.items():
                if value is not None:
                    connection.execute(f"SET {name} = $value", {"value": value})
            self._run(connection, "SET TimeZone = 'UTC'")
            self._run(connection, "SET enable_progress_bar = false")
            self._run(connection, "SET preserve_insertion_order = false")
            known = self._run(connection, "SELECT name FROM duckdb_optimizers()").fetchall()
            off = ",".join(name for name in _HARMFUL if (name,) in known)
            self._run(connection, f"SET disabled_optimizers = {_text(off)}")
            yield connection
        finally:
            connection.close()
            shutil.rmtree(spill, ignore_errors=True)

    # -- making rows visible -----------------------------------------------------------------

    def _open(
        self,
        connection: Any,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
    ) -> _Opened:
        match source.kind:
            case "arrow" | "pandas" | "polars":
                return self._open_in_memory(connection, source, columns, rows=rows)
            case "duckdb_relation":
                return self._open_relation(connection, source, columns, rows=rows)
            case "csv":
                return self._open_csv(connection, source)
            case "parquet":
                return self._open_parquet(connection, source)
            case "duckdb_table":
                return self._open_table(connection, source)

    def _open_in_memory(
        self,
        connection: Any,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
    ) -> _Opened:
        counted = in_memory.names(source)
        repeated = frozenset(name for name, count in counted.items() if count > 1)
        wanted = [c.name for c in columns if counted[c.name] == 1]
        table = in_memory.plain_table(source, wanted, rows=rows)
        if rows:
            if not wanted:  # count(*) alone reads no column, but needs the rows
                table = _bare_rows(source)
            connection.register(_ROWS, table)
        stored = {n: (f"c{i}", of_arrow(table.schema.field(i).type)) for i, n in enumerate(wanted)}
        others = {n: ("", Physical.other) for n in counted if n not in stored}
        return _Opened({**others, **stored}, repeated)

    def _open_relation(
        self,
        connection: Any,
        source: Source,
        columns: tuple[Column, ...],
        *,
        rows: bool,
    ) -> _Opened:
        import duckdb

        relation: Any = source.payload
        counted = Counter(relation.columns)
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        wanted = [c.name for c in columns if c.name in counted]
        stored = {name: ("", of_duckdb(kind)) for name, kind in kinds.items()}
        if rows:
            # numbers that Arrow would widen or wrap (HUGEINT) keep their value as text
            parts = [
                duckdb.ColumnExpression(n).cast("VARCHAR")
                if "HUGEINT" in kinds[n] or kinds[n] in ("UUID", "BIGNUM")
                else duckdb.ColumnExpression(n)
                for n in wanted
            ]
            bare = duckdb.ConstantExpression(1)
            reader = relation.select(*(parts or [bare])).to_arrow_reader(65_536)
            plain = in_memory.plain_batches(reader, max(1, len(wanted)))
            connection.register(_ROWS, plain)
            for i, name in enumerate(wanted):
                stored[name] = (f"c{i}", of_arrow(plain.schema.field(i).type))
        repeated = frozenset(name for name, count in counted.items() if count > 1)
        return _Opened(stored, repeated)

    def _open_csv(self, connection: Any, source: Source) -> _Opened:
        paths: Any = source.payload
        header = read_header(paths)
        types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header.names)))
        self._run(
            connection,
            f"CREATE VIEW {_ROWS} AS SELECT * FROM read_csv({_path_list(paths)}, "  # noqa: S608 - quoted
            f"auto_detect = false, header = true, delim = {_text(header.delimiter)}, "
            "quote = '\"', escape = '\"', "
            f"columns = {{{types}}}, strict_mode = false, null_padding = true, "
            # parallel reading refuses quoted line ends, a failure that depends on rows
            "ignore_errors = true, parallel = false)",
        )
        self._allow(connection, paths)
        counted = Counter(header.names)
        stored = {n: (f"c{i}", Physical.text) for i, n in enumerate(header.names)}
        return _Opened(stored, frozenset(n for n, count in counted.items() if count > 1))

    def _open_parquet(self, connection: Any, source: Source) -> _Opened:
        paths: Any = source.payload
        self._run(
            connection,
            f"CREATE VIEW {_ROWS} AS SELECT * FROM read_parquet({_path_list(paths)}, "  # noqa: S608 - quoted
            "union_by_name = true, hive_partitioning = false, binary_as_string = true, "
            "utf8_validation = 'replace')",
        )
        self._allow(connection, paths)
        return self._described(connection, _ROWS)

    def _open_table(self, connection: Any, source: Source) -> _Opened:
        payload: Any = source.payload
        database, table = payload
        name = ".".join(_quoted(part) for part in str(table).split("."))
        self._run(connection, f"ATTACH {_text(str(database))} AS source_database (READ_ONLY)")
        view = f"CREATE VIEW {_ROWS} AS SELECT * FROM source_database.{name}"  # noqa: S608 - quoted
        self._run(connection, view)
        return self._described(connection, _ROWS)

    def _described(self, connection: Any, view: str) -> _Opened:
        found = self._run(connection, f"DESCRIBE {view}").fetchall()
        return _Opened({row[0]: (row[0], of_duckdb(row[1])) for row in found}, frozenset())

    def _allow(self, connection: Any, paths: tuple[Path, ...]) -> None:
        self._run(connection, f"SET allowed_paths = {_path_list(paths)}")


def _bare_rows(source: Source) -> Any:
    import pyarrow as pa

    payload: Any = source.payload
    if hasattr(payload, "collect_schema") and hasattr(payload, "lazy"):
        payload = payload.lazy().collect()
    length = payload.num_rows if source.kind == "arrow" else len(payload)
    return pa.table({"c0": pa.nulls(length, pa.bool_())})


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _path_list(paths: tuple[Path, ...]) -> str:
    return "[" + ", ".join(_text(str(p)) for p in paths) + "]"
