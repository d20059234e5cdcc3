"""The default engine: one locked-down DuckDB connection, one SELECT, integers out.

A connection lives for one computation. Inputs are made visible first; then file access, Python
variables, extensions and further settings are switched off and the configuration is locked, so
the statement can read its rows and nothing else.

Every failure while rows are read becomes one fixed InternalError. DuckDB's messages quote cells,
so its exception is dropped altogether, not chained: `raise … from None` would still carry it in
`__context__`, where a logger finds it.

CSV files are split by `csv_rows`, which loses no line. Rows are read once; spilling goes to a
private folder that is removed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.core.errors import DpreleaseError, SourceError
from dprelease.core.secret import Secret
from dprelease.engines import in_memory
from dprelease.engines.digits import apart
from dprelease.engines.duckdb_tables import ROWS, DuckDBTables, closed, reads_files
from dprelease.engines.parquet_rows import ParquetRows
from dprelease.engines.physical import check_columns, check_times
from dprelease.engines.relation_rows import SHARED, taking_turns
from dprelease.engines.request import check_query, found_keys, is_graph, unread, used_columns
from dprelease.engines.scan import Meter, cancellable, metered, stopped_after
from dprelease.engines.source import Source
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery
from dprelease.query.view import STOPS

_AT_ONCE = 2**16

_HARMFUL = (
    # moves casts into the readers of files, where a cell that fails may drop its row
    "type_pushdown",
    # turns ROW_NUMBER() <= k into an aggregate that cannot spill: 5 million rows ran out of 1 GB,
    # and took longer with more
    "top_n_window_elimination",
    # decides conditions from the column's least and greatest value, wrongly for abs(-abs(x)) in
    # DuckDB 2.0: then one row's value would change what a filter says of the others. It would also
    # drop a clamp because a Parquet file claims that no value needs it
    "statistics_propagation",
    # what a scan filters by, it first compares with the least and greatest value that the file claims
    # of each row group, and leaves out what a false claim excludes; an expression it even computes
    # on the claims. Files of Hive partitions that a filter excludes are left out in `hive`
    "filter_pushdown",
    "join_filter_pushdown",
    "row_group_pruner",
    # looks whether sums can move below a view's join, and writes every stage out in place of its name: each
    # stage took four times as long to plan as the one before, ten of them 11 s
    "partial_aggregate_pushdown",
)
LOCK = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET scalar_subquery_error_on_multiple_rows = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET lock_configuration = true",
)
"""What a connection is told last, in this order: after it no text of a query reaches a file or changes a setting."""


_OPENED_AGAIN = (*in_memory.IN_MEMORY, "csv")
"""Sources that Python opens, also behind the lock: `compute` takes the connection on which `preflight` planned."""

_PLAN = "EXPLAIN "

_SLOWER: deque[tuple[BoundedQuery, Any]] = deque(maxlen=64)
"""What was planned in the slower way: the task and the types of one Parquet file, of which its statement is made."""


class DuckDBEngine:
    """Exact primitives by DuckDB.

    Args:
        memory_limit: bytes, or as DuckDB writes it ("2GB"); above it, rows spill to disk.
        threads: at most so many; all processors when None.
        temp_directory: where the private spill folder is made; the system's when None.
        max_temp: bytes that may be spilled; DuckDB's 90% of the free disk when None.
        timeout: seconds after which `compute` is stopped; never when None.

    Attributes:
        timeout: as given; whether it is exceeded depends on the rows, so a plan must say it.
        statements: the SQL of the last call, in order. Rows never enter it.
        meter: told how far a scan is, for a terminal; None for nobody.
    """

    name = "duckdb"

    def __init__(
        self,
        *,
        memory_limit: int | str | None = None,
        threads: int | None = None,
        temp_directory: Path | None = None,
        max_temp: int | None = None,
        timeout: int | None = None,
    ) -> None:
        self._settings = {
            "memory_limit": f"{memory_limit}B" if isinstance(memory_limit, int) else memory_limit,
            "threads": threads,
            "max_temp_directory_size": None if max_temp is None else f"{max_temp}B",
        }
        self.timeout = timeout
        self._temp_directory = temp_directory
        self.statements: list[str] = []
        self.meter: Meter | None = None
        self._ready: tuple[Source, BoundedQuery, Any, Callable[..., Any], ExitStack] | None = None

    @cancellable()
    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check by public metadata that `compute` will find what it reads; read no row.

        DuckDB plans the very statement that will run, over the same types without rows; of Parquet files
        the one of the slower way too, which `compute` takes where the first fails.

        Raises:
            SourceError: the source does not open (DPR501, DPR502, DPR506, DPR509, DPR512, DPR518, DPR527, DPR528), lacks a
                column (DPR503), stores one unfit (DPR504) or twice (DPR505), or a public table of
                its view repeats a key (DPR510).
            ConfigError: an expression of its view is faulty (DPR12x).
            PlanError: the query itself is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)
        self.statements = []
        self._ready, bound, locked = None, True, False
        kind = _kind_of_rows(source, query) if source.kind == "parquet" else None
        slower = source.holds("parquet") and (kind is None or kind not in _SLOWER)
        for exact in (True, False) if slower else (False,):
            with taking_turns(source), ExitStack() as opened:
                connection = opened.enter_context(self._connection())
                try:
                    run = self._statement(
                        connection, source, apart(query)[0], b"", exact=exact, empty=True
                    )
                except DpreleaseError:  # ours: public facts only
                    raise
                except Exception as error:  # noqa: BLE001 - its message may quote the file's content
                    bound, locked = False, type(error).__name__ == "PermissionException"
                    break
                if exact and kind is not None:
                    _SLOWER.append(kind)
                elif kind is not None or source.kind in _OPENED_AGAIN:
                    self._ready = source, query, connection, run, opened.pop_all()
        if locked:
            raise reads_files(source)
        if not bound and self.statements[-1].startswith(_PLAN):
            raise SourceError(
                f"DuckDB does not take the statement that sums {source.name}",
                why="it was planned over the same types without rows, and nothing was read",
                fix="install versions of duckdb and sqlglot that dprelease allows: `pip install -U dprelease`",
                code="DPR527",
            )
        if not bound and source.kind == "duckdb_relation":
            raise SourceError(
                "the DuckDB relation does not open",
                why="its connection was closed, or what it reads is gone or was changed since",
                fix="make it again, and leave its connection open until the release is there",
                code="DPR502",
            )
        if not bound:
            raise closed(source)

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Args:
            source: has passed `preflight`.
            query: the whole task.
            salt: secret; orders the rows and groups of each unit.

        Raises:
            InternalError: anything failed while rows were read (DPR900); no detail is given.
            PlanError: the query is unsafe to run (DPR230 to DPR236).
            KeyboardInterrupt: Ctrl-C.
        """
        with taking_turns(source), cancellable() as cancelled:
            start = monotonic()
            answer = self._answer(source, query, salt, self.timeout, exact=False)
            left = None if self.timeout is None else self.timeout - (monotonic() - start)
            again = answer is None and not cancelled.is_set() and (left is None or left > 0)
            # the slower way (`parquet_rows`), or rows that have other types or places than they had before the charge
            if again and (source.holds("parquet") or source.kind in _OPENED_AGAIN):
                answer = self._answer(source, query, salt, left, exact=True)
        if cancelled.is_set():
            raise KeyboardInterrupt
        if answer is None:
            raise unread(
                "the engine failed while reading the source; details could quote its rows"
                + (f". {STOPS}" if query.view is not None and not query.view.proven else ""),
                "check the source, memory, disk space and the engine's limits; `preflight` sees "
                "public metadata only" + (f"; {SHARED}" if source.holds("duckdb_relation") else ""),
            )
        return Secret(answer)

    def _answer(
        self,
        source: Source,
        query: BoundedQuery,
        salt: bytes,
        seconds: float | None,
        *,
        exact: bool,
    ) -> Answer | None:
        """Return the integers, or None where anything failed."""
        check_query(query)
        self.statements = []
        whole = query
        query, together = apart(query)
        from dprelease.engines.tally import answer_of

        try:
            with ExitStack() as opened:
                ready, self._ready = self._ready, None
                same = ready is not None and ready[0] is source and ready[1] is whole
                if ready is not None and same and not exact and self.meter is None:
                    _, _, connection, run_with, before = ready
                    start = partial(run_with, salt)
                    opened.enter_context(before)
                else:
                    connection = opened.enter_context(self._connection())
                    start = partial(self._statement, connection, source, query, salt, exact=exact)
                opened.enter_context(stopped_after(seconds, connection.interrupt))
                opened.enter_context(metered(connection, self.meter))
                run = start()
                if query.groups.found:
                    return found_keys(run)
                batches: Iterable[Any] = iter(partial(run.fetchmany, _AT_ONCE), [])
                if is_graph(query):
                    found = run.fetchnumpy()
                    batches = [np.stack([found["low"], found["high"]], axis=1)]
                return together(answer_of(query, batches))
        except Exception:  # noqa: BLE001 - not chained: see the module's docstring
            return None

    def _statement(
        self,
        connection: Any,
        source: Source,
        query: BoundedQuery,
        salt: bytes,
        *,
        exact: bool,
        empty: bool = False,
    ) -> Any:
        """Run the statement, or with `empty` have DuckDB plan it over tables without rows, and return what runs it with a salt."""
        from dprelease.engines.bounded_sql import SALT, BoundedSelect
        from dprelease.engines.duckdb_view import open_rows

        columns = used_columns(query)
        tables = DuckDBTables(
            lambda: connection, self.statements, exact=exact, missing=query.missing
        )
        opened, view = open_rows(tables, source, query, empty=empty)
        stored = {name: physical for name, (_, physical) in opened.stored.items()}
        if empty:
            stored |= opened.source
        types: dict[str, str] = {}
        if empty and query.view is None:
            described = self._run(connection, f"DESCRIBE {ROWS}").fetchnumpy()
            found = dict(zip(described["column_name"], described["column_type"], strict=True))
            for name, (place, _) in opened.stored.items():
                types[name] = found.get(place, "")
        elsewhere = partial(in_memory.elsewhere, source)
        check_columns(source.name, columns, stored, opened.repeated, elsewhere, types)
        check_times(source.name, query, stored)
        select = BoundedSelect(query, opened.stored, salt, rows_table=ROWS, view=view, quick=True)
        statement = select.sums()
        for name, table in statement.tables.items():
            _copy(connection, name, table)
        for setting in LOCK:
            self._run(connection, setting)
        sql, used = statement.in_duckdb()
        if empty:
            self._run(connection, f"{_PLAN}{sql}", used).fetchall()

        over_types = empty and source.kind in _OPENED_AGAIN

        def run(salt: bytes) -> Any:
            if over_types and open_rows(tables, source, query)[0].stored != opened.stored:
                raise TypeError("the statement is of other types")
            bound = used | {SALT: salt.hex()} if SALT in used else used
            return (self._table if query.groups.found else self._run)(connection, sql, bound)

        return run if empty else run(salt)

    def _table(self, connection: Any, sql: str, parameters: dict[str, object]) -> pa.Table:
        self.statements.append(sql)
        return connection.sql(sql, params=parameters).to_arrow_table()

    def _run(self, connection: Any, sql: str, parameters: dict[str, object] | None = None) -> Any:
        self.statements.append(sql)
        return connection.execute(sql, parameters) if parameters else connection.execute(sql)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import duckdb

        # a folder of its own: DuckDB's default would spill rows to .tmp in the working one
        folder = tempfile.mkdtemp(prefix="dprelease-", dir=self._temp_directory)
        try:
            with closing(duckdb.connect(":memory:")) as connection:
                connection.execute("SET temp_directory = $folder", {"folder": folder})
                for name, value in self._settings.items():
                    if value is not None:
                        connection.execute(f"SET {name} = $value", {"value": value})
                self._run(connection, "SET TimeZone = 'UTC'")
                self._set_bar(connection)
                self._run(connection, "SET preserve_insertion_order = false")
                known = self._run(connection, "SELECT name FROM duckdb_optimizers()").fetchall()
                off = ",".join(name for name in _HARMFUL if (name,) in known)
                self._run(connection, f"SET disabled_optimizers = '{off}'")
                yield connection
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _set_bar(self, connection: Any) -> None:
        """Let the bar that measures progress be there for a meter alone, and never print.

        Nothing is set where it is off: in a notebook without ipywidgets every such setting is refused.
        """
        (on,) = self._run(connection, "SELECT current_setting('enable_progress_bar')").fetchone()
        if on or self.meter is not None:
            on = "false" if self.meter is None else "true"
            self._run(connection, f"SET enable_progress_bar = {on}")
            self._run(connection, "SET enable_progress_bar_print = false")


def _kind_of_rows(source: Source, query: BoundedQuery) -> tuple[BoundedQuery, Any] | None:
    """Return a task and the types of the one Parquet file that holds all its columns, once each; None for other rows.

    Columns that are made of others are equal whatever they are made by, so a task with one has no kind.
    """
    paths: Any = source.payload
    if source.keys or query.view is not None or len(paths) != 1:
        return None
    rows = ParquetRows(paths, tuple(c.name for c in used_columns(query)))
    try:
        whole = rows.read_of(paths[0]) == [*rows.columns]
        made = any(c.made is not None for c in query.columns)
        return (query, rows.schema) if whole and not made else None
    except Exception:  # noqa: BLE001 - no such file, or none that Arrow reads: DuckDB says so
        return None


def _copy(connection: Any, name: str, table: Any) -> None:
    """Copy a public table: DuckDB knows no progress of a statement that scans an Arrow one."""
    connection.from_arrow(table).create(name)
