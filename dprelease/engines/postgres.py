"""PostgreSQL as a source: the named columns of one table, in batches, read-only.

One server-side cursor in a read-only transaction of its own (repeatable read: one state of the
table); `BATCH` rows are in memory at a time. Whole numbers, doubles and booleans come as such;
everything else as its text, so that a date that Python cannot hold or a text that is not valid in
its encoding is a cell like any other and never a failure. Numerics are text too: no number is
rounded before the engine reads it as a double.

Nothing of psycopg's errors is passed on: they quote rows and connection strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dprelease.core.errors import SourceError
from dprelease.core.secret import unquoted
from dprelease.engines.identity import text_of_bytes
from dprelease.engines.physical import Physical
from dprelease.engines.source import Source
from dprelease.engines.table_names import quoted, quoted_name

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 20_000

_LOGS_PARAMETERS, _GRANTS_PARAMETERS = 130_000, 150_000
"""The first versions that can leave parameters out of their log, and let a role say so."""
_LIMITS_TRANSACTIONS = 170_000
"""The first version with a time limit for transactions."""

_PHYSICAL = {
    "int2": Physical.whole,
    "int4": Physical.whole,
    "int8": Physical.whole,
    "numeric": Physical.exact,
    "float4": Physical.float,
    "float8": Physical.float,
    "bool": Physical.boolean,
    "date": Physical.date,
    "timestamp": Physical.timestamp,
    "timestamptz": Physical.instant,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid"), Physical.text),
}
_AS_STORED = {
    "int2": "int8",
    "int4": "int8",
    "int8": "int8",
    "float4": "float8",
    "float8": "float8",
    "bool": "bool",
}
_CODECS = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "LATIN1": "latin-1",
    "LATIN9": "iso8859-15",
    "WIN1252": "cp1252",
}


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A column's type: what it stores, and what it is read as.

    Attributes:
        scaled: numbers have a scale of their own each: 1.1 and 1.10 are stored apart, and are equal.
    """

    name: str
    physical: Physical
    scaled: bool = False

    @property
    def read_as(self) -> str:
        return _AS_STORED.get(self.name, "text")


def describe(source: Source) -> dict[str, PostgresType]:
    """Return the table's columns from the catalogue; no row is read.

    Raises:
        SourceError: psycopg is not installed (DPR507), or the database, the table or its encoding
            does not open (DPR512).
    """
    with Session(source) as session:
        return session.catalogue()


def read(source: Source, columns: Mapping[str, PostgresType]) -> pa.RecordBatchReader:
    """Return the rows of `columns` as batches, `c0`, `c1`, …; one unnamed cell if there are none.

    The connection opens with the first batch and closes after the last.

    Raises:
        SourceError: as `describe`, when the first batch is asked for.
    """
    import pyarrow as pa

    kinds = {
        "int8": pa.int64(),
        "float8": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.large_string(),
    }
    wanted = [(name, kind.read_as, kind.scaled) for name, kind in columns.items()] or [
        ("", "bool", False)
    ]
    schema = pa.schema([(f"c{i}", kinds[kind]) for i, (_, kind, _) in enumerate(wanted)])

    def batches() -> Iterator[pa.RecordBatch]:
        with Session(source) as session:
            for rows in session.rows(wanted):
                cells = zip(*rows, strict=True)
                arrays = [pa.array(c, f.type) for c, f in zip(cells, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def opened(source: Source) -> Session:
    """Return a session on the source's database, to be entered.

    Raises:
        SourceError: as `describe`.
    """
    return Session(source)


class Session:
    """One read-only connection; every failure to open is one public error."""

    def __init__(self, source: Source) -> None:
        payload: Any = source.payload
        reveal: Callable[[], str] = payload[0]
        self.table = quoted_name(str(payload[1]), "DPR512")
        self.name = source.name
        try:
            import psycopg
        except ImportError:
            raise SourceError(
                "reading from PostgreSQL needs psycopg",
                fix="pip install 'dprelease[postgres]'",
                code="DPR507",
            ) from None
        # the string gets no name: what logs a traceback may log variables with it
        self.connection: Any = unquoted(
            lambda: psycopg.connect(reveal(), client_encoding="UTF8", connect_timeout=30),
            self._closed(
                "the database does not open", "check the connection string and the server"
            ),
        )

    def _closed(self, what: str, fix: str) -> SourceError:
        return SourceError(f"{self.name}: {what}", fix=fix, code="DPR512")

    def __enter__(self) -> Self:
        from psycopg import IsolationLevel

        done = False
        try:
            self.connection.read_only = True
            self.connection.isolation_level = IsolationLevel.REPEATABLE_READ
            self.connection.execute("SET LOCAL TIME ZONE 'UTC'")
            self.connection.execute("SET LOCAL DateStyle TO 'ISO, YMD'")
            # all digits of a float, whatever the role or the database says: fewer, and two ids are one
            self.connection.execute("SET LOCAL extra_float_digits TO 3")
            # constants of the statement as SQL writes them, and nulls of arrays as nulls
            self.connection.execute("SET LOCAL standard_conforming_strings TO on")
            self.connection.execute("SET LOCAL array_nulls TO on")
            # whether a time limit is reached depends on the rows: only a plan may set one
            self.connection.execute("SET LOCAL statement_timeout TO 0")
            self.connection.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
            if self.connection.info.server_version >= _LIMITS_TRANSACTIONS:
                self.connection.execute("SET LOCAL transaction_timeout TO 0")
            done = True
        except Exception:  # noqa: BLE001 - as of `unquoted`
            done = False
        if not done:
            self.connection.close()
            raise self._closed("the session does not start", "check the server")
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def pinned(self) -> dict[str, PostgresType]:
        """Return `catalogue`; from now on names mean what is the server's own, and this one table.

        Raises:
            SourceError: as `catalogue`; or the database is not UTF8 (DPR512).
        """
        columns = self.catalogue()
        encoding = self.connection.info.parameter_status("server_encoding") or ""
        if encoding != "UTF8":
            raise self._closed(
                f"its encoding is {encoding}, and texts are compared as UTF8",
                "use `engine: duckdb`, which decodes them, or a UTF8 database",
            )
        found = self.connection.execute(
            "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s::regclass",
            [self.table],
        ).fetchone()
        self.table = ".".join(map(quoted, found))
        self.connection.execute("SET LOCAL search_path TO pg_catalog")
        # statements of many expressions took longer to compile than to run
        self.connection.execute("SET LOCAL jit TO off")
        self._unlogged()
        return columns

    def _unlogged(self) -> None:
        """Keep parameters out of the server's log from now on, as far as this role may."""
        version = self.connection.info.server_version
        if version < _LOGS_PARAMETERS:
            return
        self.connection.execute("SET LOCAL log_parameter_max_length_on_error TO 0")
        may = "pg_catalog.current_setting('is_superuser') = 'on'"
        if version >= _GRANTS_PARAMETERS:
            may = "pg_catalog.has_parameter_privilege('log_parameter_max_length', 'SET')"
        if self.connection.execute(f"SELECT {may}").fetchone()[0]:
            self.connection.execute("SET LOCAL log_parameter_max_length TO 0")

    def catalogue(self) -> dict[str, PostgresType]:
        """Return column -> type, domains resolved to what they are made of."""
        self._codec()
        found = unquoted(
            lambda: self.connection.execute(
                "SELECT a.attname, coalesce(b.typname, t.typname), t.typtype, a.atttypmod < 0 AND t.typtypmod < 0 "
                "FROM pg_catalog.pg_attribute a "
                "JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
                "LEFT JOIN pg_catalog.pg_type b ON b.oid = nullif(t.typbasetype, 0) "
                "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped "
                "ORDER BY a.attnum",
                [self.table],
            ).fetchall(),
            self._closed(
                "there is no such table, or it may not be read", "check its name and rights"
            ),
        )
        return {
            name: PostgresType(
                kind,
                Physical.text if form == "e" else _PHYSICAL.get(kind, Physical.other),
                kind == "numeric" and free,
            )
            for name, kind, form, free in found
        }

    def rows_of_each(self, name: str) -> float | None:
        """Return about how many rows the values of a column have each, by the server's statistics; None if it has none."""
        may = "SELECT pg_catalog.has_table_privilege('pg_catalog.pg_stats', 'SELECT')"
        if not self.connection.execute(may).fetchone()[0]:
            return None
        found = self.connection.execute(
            "SELECT c.reltuples, s.n_distinct FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname "
            "WHERE c.oid = %s::regclass AND s.attname = %s ORDER BY s.inherited DESC LIMIT 1",
            [self.table, name],
        ).fetchone()
        if found is None or not found[1]:
            return None
        rows, different = map(float, found)  # below zero: a part of the rows
        return -1 / different if different < 0 else max(rows, 0.0) / different

    def _codec(self) -> str:
        encoding = self.connection.info.parameter_status("server_encoding") or ""
        codec = _CODECS.get(encoding)
        if codec is None:
            raise self._closed(
                f"its encoding {encoding} is not read", "export the table, or use a UTF8 database"
            )
        return codec

    def rows(self, columns: list[tuple[str, str, bool]]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield batches of rows of (name, type to read, whether `scaled`); texts decoded without failing."""
        from psycopg.adapt import Loader

        codec = self._codec()

        class Text(Loader):
            def load(self, data: Any) -> str:
                return text_of_bytes(bytes(data), codec)

        parts = [
            (f"trim_scale({quoted(name)})::{kind}" if scaled else f"{quoted(name)}::{kind}")
            if name
            else "true"
            for name, kind, scaled in columns
        ]
        query = f"SELECT {', '.join(parts)} FROM {self.table}"  # noqa: S608 - quoted identifiers
        # the server converts nothing, so that no text can be inconvertible
        self.connection.execute("SET LOCAL client_encoding TO 'SQL_ASCII'")
        with self.connection.cursor(name="dprelease") as cursor:
            cursor.adapters.register_loader("text", Text)
            cursor.execute(query.encode(codec))
            while rows := cursor.fetchmany(BATCH):
                yield rows
