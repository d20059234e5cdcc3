"""PostgreSQL: the same integers as from a frame, whatever the rows hold, and nothing said of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import postgres
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source, postgres_table
from dprelease.query.bounded import BoundedQuery, Condition, Fixed, GroupKeys, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.engines.postgres_server import binaries, server

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)

CREATE = """
CREATE SCHEMA clinic;
CREATE DOMAIN clinic.years AS integer;
CREATE TYPE clinic.side AS ENUM ('left', 'right');
CREATE TABLE clinic."the visits" (
  "user id" bigint, region varchar(20), age clinic.years, bmi numeric(6, 2), weight double precision,
  smoker boolean, seen timestamp, seen_at timestamptz, born date, side clinic.side, note jsonb
);
INSERT INTO clinic."the visits" VALUES
  (1, 'north', 30, 21.25, 'NaN', true, '2020-01-01 10:00', '2020-01-01 10:00+02', '1990-01-01', 'left', '{}'),
  (1, 'n' || chr(233), -5, 9999.99, 'Infinity', false, '2020-01-02', '2020-01-02 23:30+00', 'infinity', 'left', '[1]'),
  (2, 'north', NULL, 'NaN', 70.5, NULL, 'infinity', '-infinity', '4000-01-01 BC', 'right', NULL),
  (NULL, NULL, 2147483647, 0.05, 1e300, true, NULL, NULL, NULL, NULL, NULL),
  (3, '', 64, 24, -0.0, false, '2020-01-31 23:59:59.999999', '2020-01-31 23:59:59.999999+00', '2020-02-29', 'right', '3');
"""
COLUMNS = tuple(
    Column(name, kind, values=("north", "né", ""), other="elsewhere")
    if kind is Kind.category
    else Column(name, kind)
    for name, kind in {
        "user id": Kind.identifier,
        "region": Kind.category,
        "age": Kind.integer,
        "bmi": Kind.number,
        "weight": Kind.number,
        "smoker": Kind.boolean,
        "seen": Kind.timestamp,
        "seen_at": Kind.timestamp,
        "born": Kind.date,
    }.items()
)
BY_NAME = {c.name: c for c in COLUMNS}


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as where:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(CREATE)
        yield where


def source(dsn: str, table: str = "clinic.the visits") -> Any:
    return postgres_table(lambda: dsn, table)


def query(*where: str, **changes: Any) -> BoundedQuery:
    region = BY_NAME["region"]
    codes = tuple(
        Fixed(name, Domain(0, high).on_grid(Fraction(step)), Fraction(step))
        for name, high, step in (("age", 120, "1"), ("bmi", 80, "0.01"), ("weight", 100, "0.5"))
    )
    conditions = tuple(Condition(parse_condition(w, BY_NAME, origin="test")) for w in where)
    count = len(codes) + len(conditions)
    out: dict[str, Any] = {
        "columns": COLUMNS,
        "groups": GroupKeys((region,), tuple((k,) for k in region.keys)),
        "codes": (*codes, *conditions),
        "primitives": (
            Primitive("rows"),
            *(Primitive("power", j, p) for j in range(count) for p in (0, 1)),
        ),
    }
    return BoundedQuery(**{**out, **changes})


def sums(engine: Any, data: Any, task: BoundedQuery) -> list[list[int]]:
    found: list[list[int]] = engine.compute(data, task, b"salt").reveal_to_mechanism().sums.tolist()
    return found


QUERIES = [
    {},
    {"user": "user id", "max_rows": 2, "max_groups": 2},
    {"window": Window("seen", datetime(2020, 1, 1), datetime(2020, 2, 1))},
    {"window": Window("seen_at", datetime(2020, 1, 1, 8), datetime(2020, 1, 1, 9))},
    {"groups": GroupKeys((), ((),)), "codes": (), "primitives": (Primitive("rows"),)},
]


@pytest.mark.parametrize("changes", QUERIES)
def test_duckdb_and_the_reference_read_the_same_rows(dsn: str, changes: dict[str, Any]) -> None:
    where = () if changes else ("smoker", "hour(seen_at) = 8")
    task = query(*where, **changes)
    DuckDBEngine().preflight(source(dsn), task)
    ReferenceEngine().preflight(source(dsn), task)
    found = sums(DuckDBEngine(), source(dsn), task)
    assert any(map(any, found))
    if "window" not in changes:  # infinite times have no reading in Python
        assert found == sums(ReferenceEngine(), source(dsn), task)


def test_dates_that_python_cannot_hold_are_cells(dsn: str) -> None:
    found = sums(DuckDBEngine(), source(dsn), query("born > date '2000-01-01'"))
    assert [row[-1] for row in found] == [0, 0, 1, 0]
    found = sums(DuckDBEngine(), source(dsn), query("born is null"))
    assert [row[-1] for row in found] == [1, 1, 0, 0]  # neither infinity nor one BC is a date


def test_the_integers_are_those_of_the_same_frame(dsn: str) -> None:
    frame = pd.DataFrame(
        {
            "region": ["north", "né", "north", None, ""],
            "age": [30, -5, None, 2147483647, 64],
            "bmi": [21.25, 9999.99, None, 0.05, 24],
            "weight": [None, float("inf"), 70.5, 1e300, -0.0],
        }
    )
    assert sums(DuckDBEngine(), source(dsn), query()) == sums(
        DuckDBEngine(), as_source(frame), query()
    )


def test_batches_are_small_and_hold_the_asked_columns_only(dsn: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(postgres, "BATCH", 100)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE many AS SELECT i AS x, 'secret' AS y FROM generate_series(1, 1050) i"
        )
    described = postgres.describe(source(dsn, "many"))
    assert {n: k.physical for n, k in described.items()} == {
        "x": Physical.whole,
        "y": Physical.text,
    }
    reader = postgres.read(source(dsn, "many"), {"x": described["x"]})
    sizes = [(batch.num_rows, batch.num_columns) for batch in reader]
    assert sizes == [(100, 1)] * 10 + [(50, 1)]


def test_text_that_is_not_valid_in_its_encoding_is_a_cell(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0")
        connection.execute("CREATE DATABASE odd ENCODING 'EUC_JP' TEMPLATE template0")
    plain = dsn.replace("dbname=postgres", "dbname=bytes")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(
            r"CREATE TABLE t AS SELECT E'n\xc3\xa9' AS region UNION ALL SELECT E'\xff'"
        )
    task = query(codes=(), primitives=(Primitive("rows"),))
    for engine in (DuckDBEngine(), ReferenceEngine()):
        assert sums(engine, source(plain, "t"), task) == [[0], [1], [0], [1]]
    with pytest.raises(SourceError) as caught:
        DuckDBEngine().preflight(source(dsn.replace("dbname=postgres", "dbname=odd"), "t"), task)
    assert caught.value.code == "DPR512"


def test_the_session_cannot_write(dsn: str) -> None:
    with (
        postgres.opened(source(dsn)) as session,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        session.connection.execute("CREATE TABLE written (x int)")


@pytest.mark.parametrize(
    "table", ["nowhere", "clinic.nothing", 'clinic."; DROP TABLE many; --', "a.b.c.d"]
)
def test_a_missing_table_is_refused_before_anything_is_charged(dsn: str, table: str) -> None:
    with pytest.raises(SourceError) as caught:
        DuckDBEngine().preflight(source(dsn, table), query())
    assert caught.value.code == "DPR512"


def test_unfit_and_missing_columns_are_refused(dsn: str) -> None:
    for name, kind, code in (
        ("note", Kind.category, "DPR504"),
        ("born", Kind.number, "DPR504"),
        ("sid", Kind.number, "DPR503"),
    ):
        task = query(
            columns=(*COLUMNS[:5], Column(name, kind)),
            codes=(),
            user=name,
            primitives=(Primitive("rows"),),
        )
        with pytest.raises(SourceError) as caught:
            DuckDBEngine().preflight(source(dsn), task)
        assert caught.value.code == code, name


def test_errors_hold_neither_rows_nor_the_connection_string(dsn: str) -> None:
    canary = "CANARY-9f31"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE source (region text)")
        connection.execute("INSERT INTO source VALUES (%s)", [canary])
        connection.execute(
            "CREATE VIEW failing AS SELECT region, (region::int)::text AS other FROM source"
        )
    task = query(
        columns=(*COLUMNS, Column("other", Kind.identifier)), codes=(), user="other",
        primitives=(Primitive("rows"),),
    )  # fmt: skip
    DuckDBEngine().preflight(source(dsn, "failing"), task)
    with pytest.raises(InternalError) as broken:
        DuckDBEngine().compute(source(dsn, "failing"), task, b"")
    with pytest.raises(SourceError) as closed:
        DuckDBEngine().preflight(source(f"host=/nowhere password={canary} user=x"), task)
    for error in (broken.value, closed.value):
        chain: BaseException | None = error
        while chain is not None:
            assert canary not in repr(chain) + str(chain)
            chain = chain.__context__


def test_a_pipeline_reads_by_reference(dsn: str, tmp_path: Path, monkeypatch: Any) -> None:
    from dprelease.pipeline.run import init_ledger, load_pipeline, run
    from dprelease.verification.verify import verify

    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: visits\nunit: row\nadjacency: add_remove\nrows: {max: 100}\n"
        "columns:\n  age: {kind: integer, range: [0, 120]}\n"
        "release: {epsilon: 1, statistics: [count, mean(age)]}\n"
    )
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\n"
        'source: {postgres: {dsn: "${env:CLINIC_DSN}", table: clinic.the visits}}\n'
        "budget: {ledger: .dprelease/l.db, dataset: d, epsilon: 2}\npublish: {to: out}\n"
    )
    (tmp_path / ".dprelease").mkdir()
    config = load_pipeline(tmp_path / "p.yaml")
    init_ledger(config)
    monkeypatch.delenv("CLINIC_DSN", raising=False)
    with pytest.raises(SourceError) as caught:
        run(config)
    assert (caught.value.code, caught.value.spent) == ("DPR520", "nothing")
    monkeypatch.setenv("CLINIC_DSN", dsn)
    done = run(config)
    assert done.receipt.fresh
    assert verify(done.folder).ok
    assert not any(dsn.encode() in path.read_bytes() for path in done.folder.rglob("*"))


IDS = {
    "numeric": ("'1.1'", "'1.10'", "'1.11'", "'1000000000000000000000000000000000000000000000000001'", "'1000000000000000000000000000000000000000000000000000'"),
    "numeric(10,2)": ("1.10", "1.1", "1.11", "1.12", "1.13"),
    "int8": ("9007199254740992", "9007199254740992", "9007199254740993", "1", "2"),
    "text": ("'a'", "'a'", "'A'", "'á'", "'01'"),
    "uuid": (f"'{'0' * 32}'", f"'{'0' * 32}'", f"'{'0' * 31}1'", f"'{'0' * 31}2'", f"'{'0' * 31}3'"),
    "timestamptz": ("'2020-01-01 00:00:00+00'", "'2020-01-01 01:00:00+01'", "'infinity'", "'-infinity'", "'2020-01-01 00:00:00.000001+00'"),
}  # fmt: skip


@pytest.mark.parametrize("stored", IDS)
def test_ids_meet_where_they_are_equal_and_only_there(dsn: str, stored: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ids")
        connection.execute(f"CREATE TABLE ids (id {stored})")
        for value in IDS[stored]:
            connection.execute(f"INSERT INTO ids VALUES ({value})")
    numbers = (Kind.integer, Kind.number) if stored.startswith(("numeric", "int")) else ()
    for kind in (Kind.identifier, Kind.category, *numbers):
        task = BoundedQuery(
            (Column("id", kind),),
            GroupKeys((), ((),)),
            (),
            (Primitive("rows"), Primitive("persons")),
            user="id",
            max_rows=9,
        )
        for engine in (DuckDBEngine(), ReferenceEngine()):
            assert sums(engine, source(dsn, "ids"), task) == [[5, 4]], kind


@pytest.mark.parametrize("digits", [-15, 0, 1])
def test_no_setting_of_a_role_makes_two_ids_one(digits: int, dsn: str) -> None:
    table = f"doubles_{digits + 15}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id float8, narrow float4)")
        cells = [
            (0.1, 16777216),
            (0.10000000000000002, 16777218),
            (12345678.123456789, 0.1),
            (0.1, 16777216),
        ]
        connection.cursor().executemany(f"INSERT INTO {table} VALUES (%s, %s)", cells)
    of_role = f"{dsn} options='-c extra_float_digits={digits}'"
    for name in ("id", "narrow"):
        task = BoundedQuery(
            (Column(name, Kind.identifier),),
            GroupKeys((), ((),)),
            (),
            (Primitive("rows"), Primitive("persons")),
            user=name,
        )
        for engine in (DuckDBEngine(), ReferenceEngine()):
            assert sums(engine, source(of_role, table), task) == [[3, 3]], name
