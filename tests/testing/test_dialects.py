"""The questions to a warehouse's SQL: what they ask is true of DuckDB, and a lie is noticed."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import duckdb
import pytest

from dprelease.testing import check_dialect
from dprelease.testing.dialects import QUESTIONS
from tests.engines.postgres_server import binaries, server
from tests.engines.spark_session import needs_spark, session


@cache
def ask_duckdb(sql: str) -> list[Any]:
    """Return the rows; a question is asked by many tests, and its answer is one."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def test_duckdb_answers_every_question() -> None:
    found = check_dialect(ask_duckdb, "duckdb", stop=True)
    assert [f.question for f in found] == list(QUESTIONS)
    assert all(str(f).startswith("holds") for f in found)


def test_the_md5_that_is_asked_for_is_the_one_of_utf8() -> None:
    (question,) = (q for q in QUESTIONS if "the MD5 of a text" in q.name)
    assert hashlib.md5("ä|1".encode(), usedforsecurity=False).hexdigest() in question.sql


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_a_wrong_answer_and_a_failure_are_told(number: int) -> None:
    asked = iter(range(len(QUESTIONS)))

    def ask(sql: str) -> list[Any]:
        rows = ask_duckdb(sql)
        return [*rows, rows[0]] if next(asked) == number else rows

    found = check_dialect(ask, "duckdb")
    assert [f.verdict for f in found].index("differs") == number
    assert [f.verdict for f in found].count("differs") == 1
    assert QUESTIONS[number].matters in str(found[number])

    def refuse(sql: str) -> list[Any]:
        raise RuntimeError(sql)

    assert {f.verdict for f in check_dialect(refuse, "duckdb")} == {"fails"}
    with pytest.raises(AssertionError, match="bytes"):
        check_dialect(refuse, "duckdb", stop=True)


def test_a_dialect_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="nosuch"):
        check_dialect(ask_duckdb, "nosuch")


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "redshift", "spark", "trino"])
def test_every_question_can_be_written_for(dialect: str) -> None:
    asked: list[str] = []

    def note(sql: str) -> list[Any]:
        asked.append(sql)
        return []

    assert len(check_dialect(note, dialect)) == len(QUESTIONS) == len(asked)


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed")
def test_postgresql_differs_where_its_engine_says_so() -> None:
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    with server() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        found = check_dialect(lambda sql: connection.execute(sql).fetchall(), "postgres")
    names = {f.question.name for f in found if f.verdict != "holds"}
    assert names == {
        "a cast that fails is null",
        "a sum beyond 2^63 is exact",  # there is no HUGEINT; numeric has no end
        "an overflow of doubles is not a failure",
        "a division by zero is not a failure",
        "a remainder of doubles takes the sign of the dividend",  # it has none of doubles
    }


@needs_spark
def test_spark_differs_where_its_engine_says_so() -> None:
    before = session().conf.get("spark.sql.ansi.enabled")
    try:
        session().conf.set("spark.sql.ansi.enabled", "false")
        found = check_dialect(lambda sql: session().sql(sql).collect(), "spark")
    finally:
        session().conf.set("spark.sql.ansi.enabled", before)
    names = {f.question.name for f in found if f.verdict != "holds"}
    assert names == {
        "a sum beyond 2^63 is exact",  # there is no HUGEINT; DECIMAL(38, 0) holds what is summed
        "a cast that fails is null",  # it is, but '1d' is a number
    }
