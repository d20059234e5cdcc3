"""The Spark engine: DuckDB's statement in Spark's dialect, integers out.

One statement, one scan of the rows. Public key tables are broadcast, so rows are shuffled only to
meet the other rows of their unit (user units) and, as partial sums, their group. What comes back
is one row of integers per group, one per code near a rank, one per edge of a graph.

While a statement is made and run, its session has ANSI mode off (no cell can raise), time zone UTC
and a quiet log; afterwards it is as before. Temporary views have random names and are dropped.

Every failure while rows are read becomes one fixed InternalError. Spark's messages quote cells, so
the exception is dropped altogether, as in `engines.duckdb`, and so is what PySpark would log of it.

Limits. Groups of 2**48 rows or more are refused (`spark_sql`). A DataFrame is a recipe: one whose
own expressions raise, or change from run to run, does so here. Plans and event logs of the cluster
hold the statement's constants, the salt among them: keep them as private as the rows. Executors of
a cluster log by their own settings. Tallies pass through the driver's memory, about 200 bytes per
code near a rank: a public number of them at most, whatever the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from dprelease.core.errors import ConfigError, SourceError
from dprelease.core.secret import Secret, unquoted
from dprelease.engines.digits import apart
from dprelease.engines.physical import check_columns, check_times
from dprelease.engines.request import check_query, found_keys, unread, used_columns
from dprelease.engines.scan import cancellable
from dprelease.engines.source import Source
from dprelease.engines.spark_session import collected, hushed, quiet, settings
from dprelease.engines.spark_sql import MOST_ROWS, spark_statement
from dprelease.engines.tally import answer_of, whole
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery

_LEAST_HEAP = 512 << 20
_ONE_AT_A_TIME = RLock()
"""A session's settings are its own, not a thread's: two computations must not restore in turn."""


class SparkEngine:
    """Exact primitives by Spark.

    Args:
        master: a Spark master such as `local[2]` or `spark://host:7077`.
        remote: gives the Spark Connect address when the session opens; it is kept nowhere else.
        threads: of a local master, which then is `local[threads]`.
        memory_limit: bytes of the local Java process's heap; what Spark holds outside it comes on top.
        temp_directory: where a local master spills.

    The last three are of a local session that starts here: a cluster has limits of its own, and a
    session that runs already keeps those that it started with. A session that this process has already
    is used as it is; else one is started, and without either argument as Spark's own configuration says
    (`SPARK_REMOTE`, `spark-defaults.conf`). A DataFrame brings its own session.

    Attributes:
        statements: the SQL of the last call. Rows never enter it.
    """

    name = "spark"
    reads = ("spark", "parquet", "csv")
    timeout = None

    def __init__(
        self,
        *,
        master: str | None = None,
        remote: Callable[[], str] | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        temp_directory: Path | None = None,
    ) -> None:
        self._limits = local_settings(threads, memory_limit, temp_directory)
        local = remote is None and (master or "local").startswith("local")
        if self._limits and not local:
            raise _limits_elsewhere(
                "the pipeline names a cluster", "set them where the cluster is configured"
            )
        self._master = (
            f"local[{threads}]"
            if threads is not None
            else master or ("local[*]" if self._limits else None)
        )
        self._remote = remote
        self.statements: list[str] = []

    @cancellable()
    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check by names and types that `compute` will find what it reads; read no row.

        Spark analyses the very statement that will run.

        Raises:
            SourceError: PySpark is missing (DPR507), Spark does not start (DPR515), the source is
                none of Spark's (DPR516) or does not open (DPR502, DPR506, DPR517), lacks a column
                (DPR503), stores one unfit (DPR504) or twice (DPR505), or an expression is too
                deep for Spark (DPR519).
            ConfigError: limits that the session has not (DPR149), a faulty expression of the view.
            PlanError: the query itself is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)

        def analysed() -> None:
            with (
                self._session(source) as session,
                self._prepared(session, source, apart(query)[0], b"", rows=False),
            ):
                pass

        refusal = SourceError(
            f"{source.name} does not open in Spark",
            fix="check that it exists, is complete, and that this session may read it",
            code="DPR502",
        )
        unquoted(analysed, refusal)

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Args:
            source: has passed `preflight`.
            query: the whole task.
            salt: secret; orders the rows and groups of each unit.

        Raises:
            InternalError: anything failed while rows were read (DPR900); no detail is given.
            PlanError: the query is unsafe to run (DPR230 to DPR236).
            KeyboardInterrupt: Ctrl-C; Spark's jobs are stopped.
        """
        check_query(query)
        with cancellable() as cancelled:
            answer = self._answered(source, query, salt)
        if cancelled.is_set():
            raise KeyboardInterrupt
        if answer is None:
            raise unread(
                "Spark failed while reading the source; details could quote its rows",
                "check the source and the cluster; `preflight` sees names and types only",
            )
        return Secret(answer)

    def _answered(self, source: Source, query: BoundedQuery, salt: bytes) -> Answer | None:
        """Return the integers, or None where anything failed."""
        narrow, together = apart(query)
        try:
            with (
                self._session(source) as session,
                self._prepared(session, source, narrow, salt, rows=True) as found,
            ):
                if narrow.groups.found:
                    keys = collected(session, found.toArrow)
                    return found_keys(keys.select([0, 1]))
                rows = collected(session, found.collect)
                return together(answer_of(narrow, [whole(rows)], MOST_ROWS))
        except Exception:  # noqa: BLE001 - not chained: see the module's docstring
            return None

    @contextmanager
    def _prepared(
        self, session: Any, source: Source, query: BoundedQuery, salt: bytes, *, rows: bool
    ) -> Iterator[Any]:
        """Give the analysed statement as a DataFrame; its views exist meanwhile."""
        from dprelease.engines.bounded_sql import BoundedSelect
        from dprelease.engines.spark_view import open_frames

        self.statements = []
        found = open_frames(session, source, query, rows=rows)
        stored = {name: physical for name, (_, physical) in found.opened.stored.items()}
        check_columns(source.name, used_columns(query), stored, found.opened.repeated)
        check_times(source.name, query, stored)
        prefix = f"dprelease_{uuid.uuid4().hex}"
        built = BoundedSelect(query, found.opened.stored, salt, view=found.view).sums()
        names = {name: f"{prefix}_{name}" for name in (*found.frames, *built.tables)}
        sql, parameters = spark_statement(built, query, names)
        try:
            for name, frame in found.frames.items():
                frame.createOrReplaceTempView(names[name])
            for name, table in built.tables.items():
                _public(session, table).createOrReplaceTempView(names[name])
            found.check_keys(session, names)
            self.statements.append(sql)
            yield session.sql(sql, args=parameters)
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)

    @contextmanager
    def _session(self, source: Source) -> Iterator[Any]:
        with _ONE_AT_A_TIME, quiet():
            session = self._opened(source)
            with settings(session), hushed(session):
                yield session

    def _opened(self, source: Source) -> Any:
        """Return the session.

        Raises:
            SourceError: PySpark is missing (DPR507), or no session starts (DPR515).
        """
        from dprelease.engines.spark_view import session_frame

        frame = session_frame(source)
        if frame is not None:
            return self._under_limits(frame.sparkSession)
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise SourceError(
                "the Spark engine needs PySpark",
                fix="pip install 'dprelease[spark]'",
                code="DPR507",
            ) from None
        remote = None if self._remote is None else self._remote()

        def started() -> Any:
            builder: Any = SparkSession.builder.appName("dprelease")
            if remote is not None:
                builder = builder.remote(remote)
            elif self._master is not None:
                builder = builder.master(self._master)
                for name, value in self._limits.items():
                    builder = builder.config(name, value)
                if self._master.startswith(
                    "local"
                ):  # its web page would show the salt to the network
                    builder = builder.config("spark.ui.enabled", "false")
                    builder = builder.config("spark.ui.showConsoleProgress", "false")
            return builder.getOrCreate()

        refusal = SourceError(
            "Spark does not start",
            why="Java 17 or newer is missing, or the master does not answer",
            fix="check `java -version`, and `engine: {kind: spark, master: …}`",
            code="DPR515",
        )
        return self._under_limits(unquoted(started, refusal))

    def _under_limits(self, session: Any) -> Any:
        """Return the session if it has the limits that were asked for.

        Raises:
            ConfigError: it started without them (DPR149).
        """
        for name, value in self._limits.items():
            if session.conf.get(name, None) != value:
                raise _limits_elsewhere(
                    "this process has a Spark session already, which started without them",
                    "start that session with them, or release in a process of its own",
                )
        return session


def local_settings(
    threads: int | None, memory_limit: int | None, temp_directory: Path | None
) -> dict[str, str]:
    """Return the limits as settings of a local Spark, which reads them when it starts.

    Raises:
        ConfigError: less memory than Spark starts with (DPR149).
    """
    if memory_limit is not None and memory_limit < _LEAST_HEAP:
        raise _limits_elsewhere(
            "Spark does not start with less than 512 MiB", "allow it 512MiB or more"
        )
    settings = {
        "spark.master": None if threads is None else f"local[{threads}]",
        # Java's own unit: Spark takes a number of bytes only with it
        "spark.driver.memory": None if memory_limit is None else f"{memory_limit >> 20}m",
        "spark.local.dir": None if temp_directory is None else str(temp_directory),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _limits_elsewhere(why: str, fix: str) -> ConfigError:
    return ConfigError(
        "memory, threads and the folder for spilled rows cannot be limited here",
        where="`engine:` of the pipeline, or DPRELEASE_… in the environment",
        why=why,
        fix=fix + ", or remove the limits",
        code="DPR149",
    )


def _public(session: Any, table: Any) -> Any:
    """Return a public key table as a DataFrame that Spark sends to every executor.

    As Arrow, which Java reads by itself: rows of Python objects would need a Python of the same version on each executor.
    """
    from pyspark.sql.functions import broadcast

    return broadcast(session.createDataFrame(table))
