"""The PostgreSQL engine: the statement runs where the rows are, and only integers leave the server.

One statement in one read-only transaction (repeatable read: one state of the table). The role needs
SELECT and nothing else: public key tables are parameters, and nothing is made in the database.

Every failure while rows are read becomes one fixed InternalError. PostgreSQL's messages quote cells,
so the exception is dropped altogether, as in `engines.duckdb`.

What the server keeps. The salt and all constants are bound parameters, never text of the statement, so
`pg_stat_activity` and `pg_stat_statements` show none. Of a statement that fails none is logged either. A
server that logs statements with their parameters (`log_statement`, `log_min_duration_statement` with
`log_parameter_max_length` other than 0, `auto_explain`) writes the salt to its log, unless the role may set
that length: the session then sets it to 0.

The server's own statistics of the table choose between two forms of the statement, which give the same
integers: they decide running time, which no release protects.

Limits. The database's encoding is UTF8. Texts of more than 16 MiB are missing values. Numbers and moments as texts of more than 1,000 characters
are none, and moments as texts are ISO 8601. Of views, proven ones are read
(`postgres_view`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from dprelease.core.errors import SourceError
from dprelease.core.secret import Secret, unquoted
from dprelease.engines.bounded_sql import BoundedSelect
from dprelease.engines.bounding_sql import least_cap
from dprelease.engines.digits import apart
from dprelease.engines.physical import Physical, check_columns, check_times
from dprelease.engines.postgres import opened
from dprelease.engines.postgres_cells import cell
from dprelease.engines.postgres_sql import postgres_statement
from dprelease.engines.postgres_stages import Projection
from dprelease.engines.postgres_view import ViewRows, private_source, view_rows
from dprelease.engines.request import check_query, listed_keys, unread, used_columns
from dprelease.engines.scan import stopped_after
from dprelease.engines.source import Source
from dprelease.engines.tally import answer_of, whole
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.column import NUMERIC, Kind

_AT_ONCE = 2**14


class PostgresEngine:
    """Exact primitives by the PostgreSQL server that holds the rows.

    Args:
        timeout: seconds after which `compute` is stopped; never when None.

    Attributes:
        timeout: as given; whether it is exceeded depends on the rows, so a plan must say it.
        statements: the SQL of the last call. Rows and constants never enter it.
    """

    name = "postgres"
    reads = ("postgres",)

    def __init__(self, *, timeout: int | None = None) -> None:
        self.timeout = timeout
        self.statements: list[str] = []

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check by the catalogue that `compute` will find what it reads; read no row.

        The server plans the very statement that will run.

        Raises:
            SourceError: the source is not a PostgreSQL table, or its view is unproven (DPR516); it does
                not open (DPR507, DPR512), lacks a column (DPR503), stores one unfit (DPR504), is not
                UTF8 (DPR512), or the server refuses the statement (DPR502); a public table of its
                view, as `postgres_view.view_rows`.
            ConfigError: an expression of its view is faulty (DPR12x).
            PlanError: the query itself is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)
        with opened(private_source(source, query)) as session:
            sql, parameters = self._statement(session, source, apart(query)[0], b"")
            refusal = SourceError(
                f"{source.name} does not open in PostgreSQL",
                fix="check that this role may read the table",
                code="DPR502",
            )
            execute = session.connection.execute
            unquoted(partial(execute, f"EXPLAIN {sql}", parameters), refusal)
            # a materialized view that was never filled is planned, and raises where it is opened
            unquoted(partial(execute, f"SELECT FROM {session.table} LIMIT 0"), refusal)

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Args:
            source: has passed `preflight`.
            query: the whole task.
            salt: secret; orders the rows and groups of each unit.

        Raises:
            InternalError: anything failed while rows were read (DPR900); no detail is given.
            PlanError: the query is unsafe to run (DPR230 to DPR236).
            KeyboardInterrupt: Ctrl-C; the statement is cancelled.
        """
        check_query(query)
        answer = self._answered(source, query, salt)
        if answer is None:
            raise unread(
                "PostgreSQL failed while reading the table; details could quote its rows",
                "check the server, its connections and its limits; `preflight` sees names and types only",
            )
        return Secret(answer)

    def _answered(self, source: Source, query: BoundedQuery, salt: bytes) -> Answer | None:
        """Return the integers, or None where anything failed."""
        narrow, together = apart(query)
        try:
            with (
                opened(private_source(source, query)) as session,
                stopped_after(self.timeout, session.connection.cancel),
            ):
                sql, parameters = self._statement(session, source, narrow, salt)
                with session.connection.cursor() as cursor:
                    cursor.execute(sql, parameters)
                    answer = _answer(cursor, narrow)
            return together(answer)
        except Exception:  # noqa: BLE001 - not chained: see the module's docstring
            return None

    def _statement(
        self,
        session: Any,
        source: Source,
        query: BoundedQuery,
        salt: bytes,
    ) -> tuple[str, dict[str, object]]:
        rows = _rows(session, source, query)
        check_columns(source.name, used_columns(query), rows.stored, ())
        check_times(source.name, query, rows.stored)
        projection = _projected(rows, query)
        quick = query.user is None or _mostly_light(session, query)
        sql, parameters = postgres_statement(
            BoundedSelect(query, projection.stored, salt, quick=quick).sums(),
            {**rows.stages, "source_rows": projection.rows},
            booleans=projection.booleans,
            doubles=projection.doubles,
            typed=projection.typed,
        )
        self.statements = [sql]
        return sql, {**rows.parameters, **parameters}


def _rows(session: Any, source: Source, query: BoundedQuery) -> ViewRows:
    """Return the rows under the statement: those of the table, or of the query's view."""
    columns_stored = session.pinned()
    table = session.table.replace("%", "%%")
    if query.view is not None:
        return view_rows(table, columns_stored, source, query)
    columns = {name: (name, kind) for name, kind in columns_stored.items()}
    stored = {name: kind.physical for name, kind in columns_stored.items()}
    return ViewRows(table, {}, {}, columns, stored)


@dataclass(frozen=True, slots=True)
class _Projected:
    """The rows under the statement, and what is known of the columns of its stages."""

    rows: Projection
    stored: dict[str, tuple[str, Physical]]
    booleans: frozenset[str]
    doubles: frozenset[str]
    typed: frozenset[str]


def _projected(below: ViewRows, query: BoundedQuery) -> _Projected:
    """Return the SELECT under the statement, and what is known of the columns of its stages."""
    parts: dict[str, str] = {}
    found, booleans, doubles, typed = {}, set(), set(), set()
    columns = used_columns(query)
    for i, declared in enumerate(columns):
        name, stored = below.columns[declared.name]
        made = cell(name, stored, declared.kind, unit=declared.name == query.user)
        parts[f"c{i}"] = made.sql
        found[declared.name] = (f"c{i}", made.physical)
        if made.typed is not None:
            parts[f"n{i}"] = made.typed
            typed.add(f"c{i}")
            if declared.kind in (*NUMERIC, Kind.boolean):
                doubles.add(f"n{i}")
        if made.physical is Physical.boolean:
            booleans.add(f"c{i}")
        elif made.physical is Physical.float:
            doubles.add(f"c{i}")
    places = [(f"x{i}", c.kind) for i, c in enumerate(columns)]
    kinds = {c.name: c.kind for c in query.columns}
    places += [(f"y{i}", kinds[d.column]) for i, d in enumerate(query.derived)]
    for place, kind in places:
        names = {place, f"z_{place}"}
        if kind is Kind.boolean:
            booleans |= names
        elif kind in NUMERIC:
            doubles |= names
    rows = Projection(below.table, parts)
    return _Projected(rows, found, frozenset(booleans), frozenset(doubles), frozenset(typed))


def _mostly_light(session: Any, query: BoundedQuery) -> bool:
    """Return whether most units have so few rows that no cap cuts them; the integers are the same either way.

    Sparing them the windows is two to three times as fast then, and takes half as long again where most are cut.
    """
    if query.user is None or query.per is not None:
        return False
    rows = session.rows_of_each(query.user)
    return rows is not None and rows <= least_cap(query)


def _answer(cursor: Any, query: BoundedQuery) -> Answer:
    """Return the statement's rows as arrays."""
    if query.groups.found:
        return listed_keys(iter(partial(cursor.fetchmany, _AT_ONCE), []))
    return answer_of(query, map(whole, iter(partial(cursor.fetchmany, _AT_ONCE), [])))
