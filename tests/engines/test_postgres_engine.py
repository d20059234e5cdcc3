"""The PostgreSQL engine: the reference's integers where the rows are, whatever they hold."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import postgres_engine
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.identity import float_text
from dprelease.engines.physical import Physical, writes
from dprelease.engines.postgres import PostgresType
from dprelease.engines.postgres_cells import LONGEST, cell
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.reference_rows import _date, _number, _timestamp
from dprelease.engines.source import as_source, postgres_table
from dprelease.query.bounded import BoundedQuery, Condition, Fixed, GroupKeys, Label, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.testing.engines import SALT, answer, query_of, rows_of, table_of
from tests.contracts.cells import CELLS, EXPECTED, KINDS, VALUES, answer_of
from tests.contracts.test_crosses import crossed, tallied
from tests.contracts.test_sums_of_groups import add_up, tables_before_noise
from tests.engines.postgres_server import binaries, server, start, stop
from tests.engines.postgres_tables import load, table
from tests.newer_statistics import FAMILIES, NOT_OF, answered, loose
from tests.several_tables import BOTH, TREE, people, schema
from tests.sizes import FULL, whole

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)

TABLES = whole(4, 3000)
CELL_TYPES = {"whole": "int", "double": "float8", "decimal": "numeric(4, 2)", "truth": "bool",
              "text": "text", "day": "date", "moment": "timestamp"}  # fmt: skip
NUMERIC = PostgresType("numeric", Physical.exact, scaled=True)
TEXT = PostgresType("text", Physical.text)
DOUBLE = PostgresType("float8", Physical.float)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as running:
        yield running


def test_the_references_integers_on_generated_tables(
    dsn: str, evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nonzero = users = 0
    with psycopg.connect(dsn) as connection:
        for seed in range(TABLES):
            rng = random.Random(f"postgres {seed}")
            rows = rows_of(rng, rng.choice([0, 1, 2, 12, 40]))
            query = query_of(rng) if seed % 7 else (crossed, tallied)[seed % 2](seed)
            load(connection, rows)
            # the server has no statistics of a table that has just been made
            monkeypatch.setattr(postgres_engine, "_mostly_light", lambda *_, light=seed % 2: light)
            if seed < 100:
                PostgresEngine().preflight(table(dsn), query)
            found = answer(PostgresEngine(), table(dsn), query)
            assert found == answer(ReferenceEngine(), table(dsn), query), seed
            nonzero += any(map(any, found[: len(query.groups.keys)]))
            users += query.user is not None
    assert nonzero >= TABLES // 4
    assert users >= TABLES // 3
    evidence(
        "PostgreSQL push-down",
        f"{TABLES:,} generated tables, {users:,} of user units",
        "the reference's integers",
    )


def test_light_units_are_spared_the_windows_where_statistics_say_that_most_are(dsn: str) -> None:
    def is_spared(name: str, query: BoundedQuery, reader: str = dsn) -> bool:
        engine = PostgresEngine()
        found = answer(engine, table(reader, name), query)
        assert found == answer(ReferenceEngine(), table(dsn, name), query)
        return "heavy AS MATERIALIZED" in engine.statements[0]

    two = replace(_simple(), max_rows=2)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE light AS SELECT 'p' || i AS who, i::float8 AS x FROM generate_series(1, 300) AS s(i);"
            "CREATE TABLE pairs AS SELECT 'p' || i / 2 AS who, i::float8 AS x FROM generate_series(1, 300) AS s(i);"
            "CREATE VIEW lightly AS SELECT * FROM light; CREATE ROLE blind LOGIN; GRANT SELECT ON light TO blind;"
            "GRANT CONNECT ON DATABASE postgres TO blind"
        )
        assert not is_spared("light", _simple())  # nothing is known yet
        connection.execute("ANALYZE light; ANALYZE pairs")
        assert is_spared("light", _simple())
        assert not is_spared("lightly", _simple())
        assert not is_spared("pairs", _simple())
        assert is_spared("pairs", two)
        as_blind = dsn.replace("user=tester", "user=blind")
        assert is_spared("light", _simple(), as_blind)
        connection.execute("REVOKE SELECT ON pg_catalog.pg_stats FROM PUBLIC")
        assert not is_spared("light", _simple(), as_blind)
        connection.execute("GRANT SELECT ON pg_catalog.pg_stats TO PUBLIC")


@pytest.mark.parametrize("unit", ["row", "user"])
def test_tables_that_add_up_do_so_before_any_noise(dsn: str, unit: str) -> None:
    frame = people()
    with psycopg.connect(dsn) as connection:
        load(connection, {str(name): frame[name].tolist() for name in frame})
    plan, cells = tables_before_noise(PostgresEngine(), table(dsn), unit)
    assert add_up(plan, cells)
    assert cells == tables_before_noise(DuckDBEngine(), as_source(frame), unit)[1]


def test_quotients_of_tables_and_a_detail_are_of_the_same_integers(dsn: str) -> None:
    tables: list[dict[str, Any]] = [{**t, "statistics": [*BOTH, "mean(income)"]} for t in TREE]
    tables[-1]["detail"] = {
        "statistic": "count", "max_relative_error": 0.2, "levels": ["regions"]
    }  # fmt: skip
    unit = {"user": "id", "max_groups": 2, "max_rows_per_group": 1, "max_rows": 2}
    plan = dp.plan(schema(tables, unit=unit))
    assert {block.name for block in plan.blocks} >= {"regions.count-detail"}
    frame = people()
    with psycopg.connect(dsn) as connection:
        load(connection, {str(name): frame[name].tolist() for name in frame})
    found = answer(PostgresEngine(), table(dsn), plan.query)
    assert found == answer(ReferenceEngine(), as_source(frame), plan.query)
    assert any(map(any, found))


@pytest.mark.parametrize("unit", ["row", "user"])
def test_what_is_drawn_by_rank_or_of_a_tree_is_of_the_same_integers(dsn: str, unit: str) -> None:
    """Winsorised statistics, intervals of quantiles, joint quantiles, ranges and cumulative shares, centred squares, weighted statistics, a ratio."""
    for seed in range(20 if TABLES > 12 else 1):
        rows = loose(seed=seed)
        cells = rows.astype(object).where(rows.notna(), None)
        with psycopg.connect(dsn) as connection:
            load(connection, {str(name): cells[name].tolist() for name in cells})
        found = answered(PostgresEngine(), table(dsn), unit)
        assert found == answered(DuckDBEngine(), as_source(rows), unit), seed
        assert {family for family, _ in found.values()} >= FAMILIES - NOT_OF[unit]


def test_bounds_cut_alike_whatever_the_order_of_rows(dsn: str) -> None:
    cut = 0
    with psycopg.connect(dsn) as connection:
        for seed in range(whole(2, 6)):
            rng = random.Random(seed)
            rows = rows_of(rng, 60)
            rows["user id"] = [rng.choice(["a", "a", "b", "c", None]) for _ in range(60)]
            query = query_of(
                rng, user="user id", where=None, window=None, max_groups=1 + seed % 3,
                max_rows=1 + seed % 2, max_rows_total=(None, 2, 4)[seed % 3],
            )  # fmt: skip
            order = rng.sample(range(60), 60)
            expected = answer(ReferenceEngine(), as_source(table_of(rows)), query)
            for cells in (rows, {n: [c[i] for i in order] for n, c in rows.items()}):
                load(connection, cells)
                assert answer(PostgresEngine(), table(dsn), query) == expected
            loose = replace(query, max_groups=99, max_rows=99, max_rows_total=None)
            cut += answer(ReferenceEngine(), as_source(table_of(rows)), loose) != expected
    assert cut >= whole(1, 4)


# -- cells -------------------------------------------------------------------------------------

HOSTILE_NUMBERS = [
    "1", " 7 ", "2.50", "-0", "1e3", "1e400", "-1e400", "1e-400", "abc", "", "12,5", "nan", "-inf", "0x1",
    "1_0", "1__0", "_1", "1_", "1e99999999999999", "0e99999999999", "-1e-99999999", "9" * 400, "1e0000005",
    "0." + "0" * 400 + "1", ".", " .5", "5.", "+.5e+3", "1.7976931348623158e308", "1.7976931348623159e308",
    "2.4703282292062327e-324", "2.4703282292062328e-324", "4.9e-324", "1.5e-310", "inf", "INFINITY", "+inf",
    "infinit", "1e", "1e+", "\u0661", "123456789012345678.9", "\t1\n", "NaN", "1 2", "--1", "1e1e1",
    str(2**1024 - 2**970), str(2**1024 - 2**970 - 1), "1" + "_0" * 300,
]  # fmt: skip
MOMENTS = [
    "2020-01-01", "2020-01-01 10:00:00", "2020-01-01T23:30:00Z", "2020-01-02T01:00:00+02:00", "noon", "",
    "2020-01-31 23:59:59.999999", "2020-13-01", " 2020-01-02 ", "2020-02-30", "2020-02-29", "1900-02-29",
    "2000-02-29", "0000-01-01", "9999-12-31 23:59:59.9999999", "2020-01-01 10:00", "2020-01-01 10:61",
    "2020-01-01 10:00:00+05:30", "2020-01-01 25:00:00", "0001-01-02 00:00:00+05:00", "2020-01-01 10:00:00.5",
]  # fmt: skip


def read(dsn: str, stored: PostgresType, kind: Kind, cells: list[Any], array: str) -> list[Any]:
    sql = cell("v", stored, kind, unit=False).sql
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TIME ZONE 'UTC'; SET extra_float_digits TO 3")
        query = f"SELECT {sql} FROM unnest(%s::{array}[]) AS rows(v)"
        return [row[0] for row in connection.execute(query, [cells]).fetchall()]


def test_texts_are_the_numbers_that_python_reads_in_them(dsn: str) -> None:
    rng = random.Random("texts")
    texts = HOSTILE_NUMBERS + [
        "".join(rng.choices("0123456789.eE+-_ ", k=rng.randint(1, 12))) for _ in range(3000)
    ]
    found = read(dsn, TEXT, Kind.number, texts, "text")
    assert found == [_number(text) for text in texts]
    assert sum(value is not None for value in found) > 500
    assert read(dsn, TEXT, Kind.number, ["9" * LONGEST, "9" * (LONGEST + 1)], "text") == [
        float("inf"),
        None,
    ]


def test_every_short_text_of_digits_signs_and_points_is_read_or_missing(dsn: str) -> None:
    """All of them: what the quick test of a cell lets through, the cast must take."""
    texts = ["".join(signs) for size in range(7) for signs in product("5.-", repeat=size)]
    texts += [f"{sign}{'7' * size}.{'3' * (15 - size)}" for size in range(16) for sign in ("", "-")]
    found = read(dsn, TEXT, Kind.number, texts, "text")
    assert found == [_number(text) for text in texts]
    assert sum(value is not None for value in found) == 45 + 32


def test_no_byte_of_a_short_text_ends_the_statement(dsn: str) -> None:
    """The quick test reads bytes, in which a backslash would begin an escape that PostgreSQL may refuse."""
    signs = [chr(code) for code in range(1, 256)] + ["\u0661", "\uff15", "\u5cf0", "\U0001d7ce"]
    texts = [
        text for sign in signs for text in (sign, f"5{sign}", f"{sign}5", f"5{sign}5", f"-{sign}5")
    ]
    texts += ["".join(signs) for size in range(5) for signs in product("\\5x.", repeat=size)]
    found = read(dsn, TEXT, Kind.number, texts, "text")
    assert found == [_number(text) for text in texts]
    assert found.count(5.0) == 18 and found.count(None) > 1_000


def test_numerics_are_the_nearest_doubles(dsn: str) -> None:
    rng = random.Random("numerics")
    texts = [t.strip() for t in HOSTILE_NUMBERS if "_" not in t and "999999" not in t]
    texts = [t for t in texts if _number(t) is not None and "inf" not in t.lower()]
    texts += [
        f"{rng.choice('-+')}{rng.randrange(10**20)}e{rng.randint(-350, 330)}" for _ in range(500)
    ]
    found = read(dsn, NUMERIC, Kind.number, texts, "numeric")
    assert found == [float(text) for text in texts]
    assert {0.0, float("inf"), float("-inf")} <= set(found)


def test_doubles_have_pythons_texts(dsn: str) -> None:
    rng = random.Random("doubles")
    values = [0.0, -0.0, 1e15 + 0.125, 1e15 + 0.625, -1e15 - 0.5, 2.0**53, 2.0**53 - 1, 1e16, 1e22, 5e-324,
              1e-5, 1e-4, 1e308, float("inf"), float("-inf"), float("nan")]  # fmt: skip
    values += [rng.choice((-1, 1)) * 10 ** rng.uniform(-20, 20) for _ in range(2000)]
    values += [rng.choice((-1, 1)) * 10 ** rng.uniform(14.5, 18.5) for _ in range(3000)]
    values += [float(rng.randrange(2**62) * 4 + 2) for _ in range(2000)]
    # with a digit less these are infinite, or a power of ten
    values += [sign * v for v in (sys.float_info.max, 1.797693134862315e308, 1.7e308, 1.5e308, 1e23) for sign in (1, -1)]  # fmt: skip
    values += [float(f"{digits}e{places}") for digits in (1, 15, 95, 96, 123, 995) for places in range(14, 306)]  # fmt: skip
    found = read(dsn, DOUBLE, Kind.identifier, values, "float8")
    assert found == [float_text(value) for value in values]


@pytest.mark.parametrize("kind", [Kind.date, Kind.timestamp])
def test_texts_are_the_moments_that_the_reference_reads(dsn: str, kind: Kind) -> None:
    expected = [(_date if kind is Kind.date else _timestamp)(text) for text in MOMENTS]
    assert read(dsn, TEXT, kind, MOMENTS, "text") == expected


UUID, ZONED = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "2020-01-01 08:00:00+00"
STORED = {
    "smallint": ["-32768", "0", "7", None],
    "bigint": ["-9223372036854775808", "9223372036854775807", "1", "0", "9007199254740993", None],
    "real": ["1", "0.1", "NaN", "-Infinity", "3e38", None],
    "double precision": ["0", "-0", "1e308", "5e-324", "NaN", "Infinity", "0.1", None],
    "numeric": ["1.50", "1.5", "NaN", "Infinity", "1e400", "1e-400", "-7", None],
    "numeric(6, 2)": ["1.50", "9999.99", "0", None],
    "boolean": ["true", "false", None],
    "text": ["1", "north", "yes", "", "2020-01-01", " true ", "é", "\u0130", "x" * 3000, "nan", None],
    "varchar(9)": ["1", "north", "F", None],
    "char(9)": ["1", "north", "n  ", None],
    "uuid": [UUID, None],
    "date": ["2020-01-01", "0001-01-01", "9999-12-31", None],
    "timestamp": ["2020-01-01 10:00:00.5", "0001-01-01", "9999-12-31 23:59:59.999999", None],
    "timestamptz": ["2020-01-01 10:00:00+02", "9999-12-31 23:59:59.999999+00", None],
}  # fmt: skip
HELD = {
    "smallint": Physical.whole, "bigint": Physical.whole, "real": Physical.float,
    "double precision": Physical.float, "numeric": Physical.exact, "numeric(6, 2)": Physical.exact,
    "boolean": Physical.boolean, "date": Physical.date, "timestamp": Physical.timestamp,
    "timestamptz": Physical.instant,
}  # fmt: skip
FITTING = {
    Kind.number: ("smallint", "bigint", "real", "double precision", "numeric", "numeric(6, 2)", "boolean",
                  "text", "varchar(9)", "char(9)", "uuid"),
    Kind.boolean: ("smallint", "bigint", "real", "double precision", "numeric", "numeric(6, 2)", "boolean",
                   "text", "varchar(9)", "char(9)"),
    Kind.date: ("date", "timestamp", "timestamptz", "text"),
    Kind.timestamp: ("date", "timestamp", "timestamptz", "text"),
    Kind.identifier: tuple(STORED),
    Kind.category: tuple(STORED),
}  # fmt: skip
CONSTANT = {
    Kind.number: "x > 1", Kind.boolean: "x", Kind.date: "x < date '2020-01-02'",
    Kind.timestamp: "hour(x) >= 10", Kind.identifier: "x = '1'",
}  # fmt: skip


def users(kind: Kind, stored: str) -> list[str | None]:
    """Return whether the column is asked, as the unit too or not: every type is, of some kind."""
    if FULL or list(FITTING[kind]).index(stored) % 4 == 0:
        return [None, "x"]
    return ["x"] if kind is Kind.identifier else [None]


@pytest.mark.parametrize("kind", FITTING)
def test_every_stored_type_answers_like_the_reference_whatever_the_cell(
    dsn: str, kind: Kind
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for stored in FITTING[kind]:
            connection.execute("DROP TABLE IF EXISTS cells")
            connection.execute(f"CREATE TABLE cells (x {stored})")
            for text in STORED[stored]:
                connection.execute(f"INSERT INTO cells VALUES (%s::{stored})", [text])
            for user in users(kind, stored):
                query = _cells(kind, user, stored)
                PostgresEngine().preflight(table(dsn, "cells"), query)
                found = answer(PostgresEngine(), table(dsn, "cells"), query)
                expected = answer(ReferenceEngine(), table(dsn, "cells"), query)
                assert found == expected, (stored, kind, user)


BEYOND = {
    "date": ["4000-01-01 BC", "infinity", "-infinity", "5000000-01-01"],
    "timestamp": ["infinity", "-infinity", "4700-01-01 BC", "294276-12-31 23:59:59"],
    "timestamptz": ["infinity", "-infinity", "4700-01-01 BC", "294276-12-31 23:59:59+00"],
}


@pytest.mark.parametrize("kind", [Kind.date, Kind.timestamp, Kind.identifier])
def test_dates_that_python_has_not_are_answered_as_well(dsn: str, kind: Kind) -> None:
    """Days and moments lie in the years 1 to 9999, in every engine; others are null."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for stored, texts in BEYOND.items():
            connection.execute(f"DROP TABLE IF EXISTS far; CREATE TABLE far (x {stored})")
            for text in texts:
                connection.execute(f"INSERT INTO far VALUES (%s::{stored})", [text])
            rows, persons, *_ = answer(PostgresEngine(), table(dsn, "far"), _cells(kind, "x"))[0]
            assert (rows, persons) == (4, 4)  # each its own unit
            nulls = answer(PostgresEngine(), table(dsn, "far"), _cells(kind, None))[0][3]
            assert nulls == (0 if kind is Kind.identifier else 4), (stored, kind)
            if kind is not Kind.identifier:
                for engine in (DuckDBEngine(), ReferenceEngine()):
                    assert answer(engine, table(dsn, "far"), _cells(kind, None))[0][3] == 4
                label = "4000-01-01 (BC)"
                assert (
                    answer_of(PostgresEngine(), table(dsn, "far"), Kind.category, (label,)) is None
                )


def _cells(kind: Kind, user: str | None, stored: str = "text") -> BoundedQuery:
    known = ("1", "north", "é", "true", "1.50", "2020-01-01", "0001-01-01 00:00:00", UUID, ZONED)
    fit = tuple(value for value in known if writes(HELD.get(stored, Physical.text), value))
    values = fit if kind is Kind.category else ()
    column = Column("x", kind, values=values)
    asked = f"x = '{values[:2][-1]}'" if kind is Kind.category else CONSTANT[kind]
    conditions = (asked, "x is null")
    codes: list[Any] = [
        Condition(parse_condition(text, {"x": column}, origin="test")) for text in conditions
    ]
    if kind is Kind.number:
        codes.append(
            Fixed("x", Domain(-30, 120, [(2, 3)]).on_grid(Fraction(1, 10)), Fraction(1, 10))
        )
    if kind is Kind.category:
        codes.append(Label("x", values))
    primitives = [Primitive("rows"), Primitive("persons")]
    primitives += [
        Primitive("power", j, 1) for j in range(len(codes)) if kind is not Kind.category or j < 2
    ]
    primitives += [Primitive("distinct", j) for j in range(len(codes))]
    return BoundedQuery(
        (column,), GroupKeys((), ((),)), tuple(codes), tuple(primitives), user=user, max_rows=2
    )


@pytest.fixture(scope="module")
def long(dsn: str) -> str:
    """A table with a cell of 300 MB: most expressions of such a text raise in PostgreSQL."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE long (x text)")
        connection.execute("INSERT INTO long VALUES (repeat('1', 300000000)), ('1')")
        with pytest.raises(psycopg.errors.InternalError_):  # the twin without a limit
            connection.execute("SELECT x ~ '^[0-9]+$' FROM long").fetchall()
    return "long"


@pytest.mark.parametrize("kind", FITTING)
def test_one_long_cell_is_a_missing_value_and_ends_no_release(
    dsn: str, long: str, kind: Kind
) -> None:
    for user in (None, "x") if FULL or kind in {Kind.number, Kind.identifier} else (None,):
        rows, *_ = answer(PostgresEngine(), table(dsn, long), _cells(kind, user))[0]
        assert rows == (2 if user is None else 1), (kind, user)


# -- what the server sees, and may do ------------------------------------------------------------


def _simple(user: str | None = "who") -> BoundedQuery:
    columns = (Column("who", Kind.identifier), Column("x", Kind.number))
    code = Fixed("x", Domain(0, 10).on_grid(Fraction(1)), Fraction(1))
    return BoundedQuery(
        columns,
        GroupKeys((), ((),)),
        (code,),
        (Primitive("rows"), Primitive("power", 0, 1)),
        user=user,
    )


def test_a_role_that_may_only_read_is_enough_and_functions_of_others_are_not_called(
    dsn: str,
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE plain (who text, x float8); INSERT INTO plain VALUES ('a', 3), ('b', 4), ('b', 9);"
            "CREATE ROLE reader LOGIN; GRANT SELECT ON plain TO reader;"
            "REVOKE ALL ON DATABASE postgres FROM PUBLIC; GRANT CONNECT ON DATABASE postgres TO reader;"
            "CREATE FUNCTION public.abs(float8) RETURNS float8 LANGUAGE sql AS 'SELECT 99::float8';"
            "CREATE FUNCTION public.floor(float8) RETURNS float8 LANGUAGE sql AS 'SELECT 99::float8'"
        )
        connection.execute("ALTER ROLE reader SET search_path TO public, pg_catalog")
    as_reader = dsn.replace("user=tester", "user=reader")
    found = answer(PostgresEngine(), table(as_reader, "plain"), _simple())
    assert found in ([[2, 3 + 4]], [[2, 3 + 9]])
    assert answer(PostgresEngine(), table(as_reader, "plain"), _simple(None)) == [[3, 16]]


def test_no_constant_and_no_salt_stand_in_the_statement(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        load(connection, {"who": ["a"], "x": [1.0]}, "salted")
    engine = PostgresEngine()
    engine.compute(table(dsn, "salted"), _simple(), SALT)
    (sql,) = engine.statements
    assert SALT.hex() not in sql
    twin = PostgresEngine()
    twin.compute(table(dsn, "salted"), _simple(), b"another")
    assert twin.statements == [sql]


def test_failures_say_nothing_of_rows_and_leave_the_answer_to_a_later_run(dsn: str) -> None:
    canary = "CANARY-77"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS cut; CREATE TABLE cut (who text, x float8)")
        connection.execute("INSERT INTO cut VALUES (%s, 1)", [canary])
        connection.execute("CREATE VIEW failing AS SELECT who, (who::int)::float8 AS x FROM cut")
        connection.execute(
            "CREATE VIEW slow AS SELECT who, x + length(pg_sleep(30)::text) AS x FROM cut"
        )
    for name, engine in (("failing", PostgresEngine()), ("slow", PostgresEngine(timeout=1))):
        engine.preflight(table(dsn, name), _simple())
        with pytest.raises(InternalError) as caught:
            engine.compute(table(dsn, name), _simple(), SALT)
        error: BaseException | None = caught.value
        while error is not None:
            assert canary not in repr(error) + str(error)
            error = error.__context__
    assert answer(PostgresEngine(), table(dsn, "cut"), _simple()) == [[1, 1]]


def test_a_server_that_stops_in_the_middle_is_one_fixed_error(tmp_path: Any) -> None:
    from threading import Timer

    with server(durable=True) as own:
        with psycopg.connect(own, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE cut (who text, x float8); INSERT INTO cut VALUES ('a', 1)"
            )
            connection.execute(
                "CREATE VIEW slow AS SELECT who, x + length(pg_sleep(30)::text) AS x FROM cut"
            )
        engine = PostgresEngine()
        timer = Timer(1, stop, [own])
        timer.start()
        with pytest.raises(InternalError):
            engine.compute(table(own, "slow"), _simple(), SALT)
        timer.join()
        with pytest.raises(SourceError) as closed:
            engine.preflight(table(own, "cut"), _simple())
        assert closed.value.code == "DPR512"
        start(own)
        assert answer(engine, table(own, "cut"), _simple()) == [[1, 1]]


def test_other_sources_are_refused(dsn: str) -> None:
    with pytest.raises(SourceError) as caught:
        PostgresEngine().preflight(as_source(pa.table({"who": ["a"], "x": [1.0]})), _simple())
    assert (caught.value.code, caught.value.spent) == ("DPR516", "nothing")


def test_duckdb_agrees_on_a_large_table_of_heavy_units(dsn: str) -> None:
    rng = np.random.default_rng(7)
    size = 20_000
    rows = {
        "who": [f"p{i}" for i in rng.zipf(1.4, size) % 900],
        "x": rng.integers(-5, 20, size).astype(float).tolist(),
        "at": [datetime(2020, 1, 1)] * size,
    }
    with psycopg.connect(dsn) as connection:
        load(connection, rows, "heavy")
    query = _simple()
    found = answer(PostgresEngine(), table(dsn, "heavy"), query)
    assert found == answer(DuckDBEngine(), table(dsn, "heavy"), query)


def test_a_pipeline_computes_in_the_server(dsn: str, tmp_path: Path, monkeypatch: Any) -> None:
    from dprelease.pipeline.run import init_ledger, load_pipeline, run
    from dprelease.verification.verify import verify

    with psycopg.connect(dsn) as connection:
        load(connection, {"who": ["a", "b", None], "age": [30, 40, 50]}, "visits")
    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: visits\nunit: {user: who, max_groups: 1, max_rows_per_group: 2}\nadjacency: add_remove\nrows: {max: 100}\n"
        "columns:\n  who: {kind: identifier}\n  age: {kind: integer, range: [0, 120]}\n"
        "release: {epsilon: 1, statistics: [count, mean(age)]}\n"
    )
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\nengine: postgres\n"
        'source: {postgres: {dsn: "${env:VISITS_DSN}", table: visits}}\n'
        "budget: {ledger: .dprelease/l.db, dataset: d, epsilon: 2}\npublish: {to: out}\n"
    )
    (tmp_path / ".dprelease").mkdir()
    monkeypatch.setenv("VISITS_DSN", dsn)
    read: list[Any] = []
    monkeypatch.setattr("dprelease.engines.postgres.read", lambda *_: read.append(1))
    config = load_pipeline(tmp_path / "p.yaml")
    init_ledger(config)
    done = run(config)
    assert done.receipt.fresh
    assert verify(done.folder).ok
    assert not read  # no row left the server
    assert not any(dsn.encode() in path.read_bytes() for path in done.folder.rglob("*"))


def test_a_file_is_not_for_the_postgresql_engine(tmp_path: Path) -> None:
    from dprelease.core.errors import ConfigError
    from dprelease.pipeline.run import load_pipeline

    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: v\nunit: row\nadjacency: add_remove\nrows: {max: 9}\ncolumns: {x: {kind: integer, range: [0, 9]}}\n"
        "release: {epsilon: 1, statistics: [count]}\n"
    )
    (tmp_path / "t.csv").write_text("x\n1\n")
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\nengine: postgres\nsource: {csv: t.csv}\n"
        "budget: {ledger: l.db, dataset: d, epsilon: 2}\npublish: {to: out}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_pipeline(tmp_path / "p.yaml")
    assert caught.value.code == "DPR140"


@pytest.mark.parametrize("type_", CELL_TYPES)
def test_a_cell_means_here_what_it_means_elsewhere(type_: str, dsn: str) -> None:
    """As its own type and as text, every declared kind: the cases of `tests/contracts/test_cells.py`."""
    cells = CELLS[type_]
    texts = [None if c is None else str(c) for c in cells]
    wanted = {kind: EXPECTED.get((type_, kind)) for kind in KINDS}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for own, given in ((CELL_TYPES[type_], cells), ("text", texts)):
            connection.execute("DROP TABLE IF EXISTS cells")
            connection.execute(f"CREATE TABLE cells (x {own})")
            for cell in given:
                connection.execute("INSERT INTO cells VALUES (%s)", [cell])
            for kind in KINDS if FULL else KINDS[::2] if own == "text" else KINDS[1::2]:
                source = postgres_table(lambda: dsn, "cells")
                found = answer_of(PostgresEngine(), source, kind, VALUES[type_])
                assert wanted[kind] is None or found in (None, wanted[kind]), (own, kind)
                assert own != "text" or found is not None
