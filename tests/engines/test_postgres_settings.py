"""No collation of a column and no setting of a database or role changes an integer, or ends a release."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.source import Source, as_source, tables_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.query.read_view import parse_view
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.testing.engines import answer
from tests.engines.postgres_server import binaries, server
from tests.engines.postgres_tables import table

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)

CELLS = ["5", "7.5", "1,5", "-,5", "1 5", "1\x015", "1x5", "5;", ".", "-", "", " ", "1\\5", "٣"]
"""Two numbers, and texts that some collation holds equal to one, or a pattern without its backslash."""

COLLATIONS = {
    "none": "",
    "case does not count": "und-u-ks-level2",
    "nor do accents": "und-u-ks-level1",
    "nor does punctuation": "und-u-ka-shifted-ks-level1",
}
SETTINGS = (
    ("standard_conforming_strings = off",), ("array_nulls = off",),
    ("transform_null_equals = on", "extra_float_digits = -15", "DateStyle = 'SQL, DMY'",
     "IntervalStyle = 'sql_standard'", "timezone = 'Asia/Kolkata'", "bytea_output = escape"),
)  # fmt: skip

KEYS = pa.table({"k": ["5", "7.5", None, "NULL"], "v": pa.array([1, None, 1, 1], pa.int64()), "t": ["a", None, "b", "c"]})  # fmt: skip


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as running, psycopg.connect(running, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE other TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
        )
        yield running.replace("dbname=postgres", "dbname=other")


def loaded(dsn: str, collation: str = "") -> None:
    """Make the table `kept`, one text column of a collation with every cell, and one null."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS kept; DROP COLLATION IF EXISTS own")
        if collation:
            connection.execute(
                f"CREATE COLLATION own (provider = icu, locale = '{collation}', deterministic = false)"
            )
        connection.execute(f"CREATE TABLE kept (x text {'COLLATE own' if collation else ''})")
        for cell in (*CELLS, None):
            connection.execute("INSERT INTO kept VALUES (%s)", [cell])


def asked(source: Source, select: str = "") -> list[int]:
    """Return rows, rows with a number, and the sum of x in halves."""
    code = Fixed("x", Domain(0, 100).on_grid(Fraction(1, 2)), Fraction(1, 2))
    counts = (Primitive("rows"), Primitive("power", 0, 0), Primitive("power", 0, 1))
    view = parse_view(select, private=("kept",), public=("keys",)) if select else None
    task = BoundedQuery(
        (Column("x", Kind.number),), GroupKeys((), ((),)), (code,), counts, view=view
    )
    PostgresEngine().preflight(source, task)
    found: Any = answer(PostgresEngine(), source, task)
    return list(found[0])


def joined(dsn: str) -> Source:
    return tables_source({"kept": table(dsn, "kept"), "keys": as_source(KEYS)})


@pytest.mark.parametrize("collation", COLLATIONS.values(), ids=COLLATIONS)
def test_a_text_is_a_number_by_its_bytes_whatever_its_collation(dsn: str, collation: str) -> None:
    """A collation may ignore what makes a text no number: cast unseen, it would end every release."""
    loaded(dsn, collation)
    rows = len(CELLS) + 1
    assert asked(table(dsn, "kept")) == [rows, 2, 10 + 15]
    every = "SELECT t.x FROM kept t LEFT JOIN keys q ON q.k = t.x"
    assert asked(joined(dsn), every) == [rows, 2, 25]
    found = "SELECT if(q.k is null, 0, 50) AS x FROM kept t LEFT JOIN keys q ON q.k = t.x"
    assert asked(joined(dsn), found) == [rows, rows, 200]  # two keys are found, nothing like them


VIEWS = (
    "",
    "SELECT if(q.v = 1, 50, 2) AS x FROM kept t LEFT JOIN keys q ON q.k = t.x",
    "SELECT if(q.t is null, 50, 2) AS x FROM kept t LEFT JOIN keys q ON q.k = t.x",
)


def every(dsn: str) -> list[list[int]]:
    """Return what is read of the table and by each view."""
    return [asked(joined(dsn) if select else table(dsn, "kept"), select) for select in VIEWS]


@cache
def as_usual(dsn: str) -> list[list[int]]:
    loaded(dsn)
    return every(dsn)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: s[0].split()[0])
def test_no_setting_of_a_database_changes_what_is_read(dsn: str, settings: tuple[str, ...]) -> None:
    plain = as_usual(dsn)
    loaded(dsn)
    assert plain[1] != plain[2]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting in settings:
            connection.execute(f"ALTER DATABASE other SET {setting}")
        try:
            assert every(dsn) == plain
        finally:
            connection.execute("ALTER DATABASE other RESET ALL")


def test_a_time_limit_of_a_role_ends_no_release(dsn: str) -> None:
    """Whether it is reached depends on the rows; here each row takes 20 ms."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT 5 AS x FROM generate_series(1, 20) WHERE pg_sleep(0.02) IS NOT NULL"
        )
        connection.execute("ALTER DATABASE other SET statement_timeout = '200ms'")
        try:
            assert asked(table(dsn, "slow")) == [20, 20, 200]
        finally:
            connection.execute("ALTER DATABASE other RESET ALL")


def test_a_materialized_view_without_rows_yet_is_refused_before_the_charge(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE MATERIALIZED VIEW unfilled AS SELECT 5 AS x WITH NO DATA")
        with pytest.raises(SourceError, match="DPR502"):
            asked(table(dsn, "unfilled"))
        connection.execute("REFRESH MATERIALIZED VIEW unfilled")
    assert asked(table(dsn, "unfilled")) == [1, 1, 10]
