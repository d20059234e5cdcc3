"""What `engine: postgres` promises of a server: one state of the table, nothing logged, and no half release."""

from __future__ import annotations

import _thread
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dprelease.core.errors import InternalError
from dprelease.engines import postgres_engine
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.testing.engines import SALT, answer
from tests.engines.postgres_server import binaries, server
from tests.engines.postgres_tables import table

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)

SLOW = "SELECT who, x + length(pg_sleep(30)::text) AS x FROM seen"


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as running:
        with psycopg.connect(running, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE seen (who text, x float8); INSERT INTO seen VALUES ('a', 3), ('b', 4);"
                f"CREATE VIEW slow AS {SLOW};"
                "CREATE VIEW failing AS SELECT who, (who::int)::float8 AS x FROM seen;"
                "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
            )
        yield running


def task() -> BoundedQuery:
    columns = (Column("who", Kind.identifier), Column("x", Kind.number))
    code = Fixed("x", Domain(0, 10).on_grid(Fraction(1)), Fraction(1))
    primitives = (Primitive("rows"), Primitive("power", 0, 1))
    return BoundedQuery(columns, GroupKeys((), ((),)), (code,), primitives, user="who")


# -- one state of the table ----------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_rows_that_come_in_between_do_not_count(
    dsn: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look at the catalogue and the statement; the twin sees each commit."""
    if not whole:
        read_committed = psycopg.IsolationLevel.READ_COMMITTED
        monkeypatch.setattr(psycopg, "IsolationLevel", _Always(read_committed))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS moving; CREATE TABLE moving AS SELECT * FROM seen")
        select = postgres_engine.BoundedSelect

        def meanwhile(*given: Any, **named: Any) -> Any:
            connection.execute(
                "INSERT INTO moving VALUES ('c', 5); DELETE FROM moving WHERE who = 'a'"
            )
            return select(*given, **named)

        monkeypatch.setattr(postgres_engine, "BoundedSelect", meanwhile)
        expected = [[2, 3 + 4]] if whole else [[2, 4 + 5]]
        assert answer(PostgresEngine(), table(dsn, "moving"), task()) == expected


class _Always:
    """Stands for psycopg's levels: each is one and the same."""

    def __init__(self, level: Any) -> None:
        self.REPEATABLE_READ = level


# -- what the server writes down -----------------------------------------------------------------


def test_the_salt_is_in_no_log_that_the_session_may_keep_it_from() -> None:
    """A superuser stands for a role that may set the length of logged parameters."""
    with server() as own, psycopg.connect(own, autocommit=True) as admin:
        admin.execute(
            "CREATE TABLE seen AS SELECT 'a' AS who, 3::float8 AS x;"
            "CREATE VIEW failing AS SELECT who, (who::int)::float8 AS x FROM seen;"
            "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
        )
        reader = own.replace("user=tester", "user=reader")

        def logged(by: str, view: str, **settings: object) -> str:
            for name, value in settings.items():
                admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.execute("SELECT pg_reload_conf()")
            time.sleep(0.2)  # until new sessions have the settings
            path = Path(own.split(maxsplit=1)[0].removeprefix("host="), "log")
            before = len(path.read_text())
            engine = PostgresEngine()
            if view == "failing":
                with pytest.raises(InternalError):
                    engine.compute(table(by, view), task(), SALT)
            else:
                engine.compute(table(by, view), task(), SALT)
            return path.read_text()[before:]

        on_error = logged(reader, "failing", log_parameter_max_length_on_error=-1)
        assert "source_rows" in on_error
        assert SALT.hex() not in on_error
        always = logged(own, "seen", log_statement="all", log_parameter_max_length=-1)
        assert "source_rows" in always
        assert SALT.hex() not in always
        assert SALT.hex() in logged(reader, "seen")  # what remains, as the page says
        switched_off = logged(reader, "seen", log_parameter_max_length=0)
        assert "source_rows" in switched_off
        assert SALT.hex() not in switched_off


def test_what_runs_is_shown_without_the_salt(dsn: str) -> None:
    seen: list[str] = []

    def look(connection: Any, pid: int) -> None:
        sql = "SELECT query FROM pg_stat_activity WHERE pid = %s"
        seen.extend(row[0] for row in connection.execute(sql, [pid]).fetchall())
        connection.execute("SELECT pg_cancel_backend(%s)", [pid])

    with meanwhile_in(dsn, look), pytest.raises(InternalError):
        PostgresEngine().compute(table(dsn, "slow"), task(), SALT)
    assert "source_rows" in seen[0]
    assert SALT.hex() not in seen[0]


# -- cut, cancelled, interrupted -----------------------------------------------------------------


@contextmanager
def meanwhile_in(dsn: str, act: Callable[[Any, int], object]) -> Iterator[None]:
    """Act on the server's process of a statement as soon as that runs."""

    def watch() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(400):
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'WITH %source_rows%'"
                ).fetchone()
                if found is not None:
                    act(connection, found[0])
                    return
                time.sleep(0.05)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join(30)


def _cut(connection: Any, pid: int) -> None:
    connection.execute("SELECT pg_terminate_backend(%s)", [pid])


def _cancel(connection: Any, pid: int) -> None:
    connection.execute("SELECT pg_cancel_backend(%s)", [pid])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell's background job starts with Ctrl-C ignored; here it means what it usually means."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("act", [_cut, _cancel])
def test_a_statement_that_is_cut_or_cancelled_is_one_fixed_error(
    dsn: str, act: Callable[[Any, int], None]
) -> None:
    with meanwhile_in(dsn, act), pytest.raises(InternalError) as caught:
        PostgresEngine().compute(table(dsn, "slow"), task(), SALT)
    assert caught.value.code == "DPR900"
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert _quiet(dsn)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_statement_in_the_server_too(dsn: str) -> None:
    with meanwhile_in(dsn, lambda *_: _thread.interrupt_main()), pytest.raises(KeyboardInterrupt):
        PostgresEngine().compute(table(dsn, "slow"), task(), SALT)
    assert _quiet(dsn)


def test_a_time_limit_ends_the_statement_in_the_server_too(dsn: str) -> None:
    with pytest.raises(InternalError):
        PostgresEngine(timeout=1).compute(table(dsn, "slow"), task(), SALT)
    assert _quiet(dsn)


def _quiet(dsn: str) -> bool:
    """Return whether no statement of ours runs in the server any more, at once or soon."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(100):
            if not connection.execute(
                "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'WITH %source_rows%'"
            ).fetchall():
                return True
            time.sleep(0.05)
    return False


def test_a_run_that_is_cut_after_the_charge_is_completed_for_nothing(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dprelease.budget.ledger import Ledger
    from dprelease.pipeline.run import init_ledger, load_pipeline, run
    from dprelease.verification.verify import verify

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE OR REPLACE VIEW cut AS {SLOW}")
    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: visits\nunit: {user: who, max_groups: 1, max_rows_per_group: 2}\nadjacency: add_remove\nrows: {max: 100}\n"
        "columns:\n  who: {kind: identifier}\n  x: {kind: number, range: [0, 120], step: 1}\n"
        "release: {epsilon: 1, statistics: [count, mean(x)]}\n"
    )
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\nengine: postgres\n"
        'source: {postgres: {dsn: "${env:SEEN_DSN}", table: cut}}\n'
        "budget: {ledger: .dprelease/l.db, dataset: d, epsilon: 2}\npublish: {to: out}\n"
    )
    (tmp_path / ".dprelease").mkdir()
    monkeypatch.setenv("SEEN_DSN", dsn)
    config = load_pipeline(tmp_path / "p.yaml")
    init_ledger(config)

    def spent() -> object:
        return Ledger.open(tmp_path / ".dprelease/l.db").budget("d").spent

    for act in (_cut, _cancel):
        with meanwhile_in(dsn, act), pytest.raises(InternalError):
            run(config)
        assert _quiet(dsn)  # or the next act would find this statement, on its way out
        assert spent() == 1
        assert not list(tmp_path.glob("out/*/*/data.*"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE OR REPLACE VIEW cut AS SELECT who, x + 0 AS x FROM seen")
    done = run(config)
    assert spent() == 1
    assert verify(done.folder).ok
