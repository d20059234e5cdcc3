"""Views inside PostgreSQL: the reference's integers on hostile tables, proofs and refusals as in DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dprelease.core.errors import DpreleaseError, InternalError, SourceError
from dprelease.engines import postgres_view
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical, writes
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, postgres_table, tables_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Label, Primitive
from dprelease.query.read_view import parse_view
from dprelease.query.view import UNPROVEN, View
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.labels import spelt
from dprelease.testing.engines import SALT, answer, query_of, rows_of, table_of
from tests.engines.postgres_server import binaries, server
from tests.engines.postgres_tables import load, table
from tests.engines.test_duckdb_view import (
    PUBLIC,
    REPEATED,
    VIEWS,
    query,
    sources,
    sums,
    view,
    visits,
)
from tests.engines.test_grouped_view import agree
from tests.sizes import FULL

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)

TABLES = 300 if FULL else 3


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as running:
        yield running


# -- agreement ---------------------------------------------------------------------------------

KEYS: list[Any] = [
    "north",
    "south",
    "it's",
    "é",
    "",
    "elsewhere",
    "1",
    "2.50",
    "7",
    "true",
    None,
    None,
]
KEYS += [
    "1.0",
    "2020-01-01",
    "2020-01-01 01:00:00",
    "123456.789",
    "1e+308",
    "9007199254740993",
    "inf",
]
ITEMS = {
    "region": ["t.region", "p.name AS region", "coalesce(p.name, t.region) AS region", "p.code AS region",
               "case when t.x > p.weight then 'north' else p.name end AS region"],
    "flag": ["t.flag", "p.flag", "t.x > p.weight AS flag", "p.name AS flag", "p.weight AS flag"],
    "x": ["t.x", "t.x / p.weight AS x", "t.x * t.Y AS x", "p.weight AS x", "p.code AS x", "t.Y AS x",
          "if(t.flag, t.x, p.weight - t.Y) AS x", "p.whole AS x", "t.x % p.weight AS x"],
    "Y": ["t.Y", "p.whole AS Y", "floor(t.x / 7) AS Y", "coalesce(p.weight, t.Y) AS Y", "t.flag AS Y"],
    "at": ["t.at", "p.at", "timestamp(t.day) AS at", "p.day AS at", "coalesce(t.at, p.at) AS at"],
    "day": ["t.day", "p.day", "t.at AS day", "p.at AS day"],
}  # fmt: skip
WHERE = ["t.x > 1", "p.weight is null or t.Y >= 7", "p.name in ('north', 'it''s') or t.flag",
         "hour(t.at) >= hour(p.at)", "t.day < p.day or p.flag", "t.x / p.weight < 9"]  # fmt: skip
JOINS = ["p.code = t.region", "p.code = t.x", "p.code = t.Y", 'p.code = t."user id"', "p.code = t.at",
         "p.code = t.day AND p.code = t.region", "p.whole = t.Y", "p.weight = t.x AND p.code = t.region"]  # fmt: skip
OTHERS = ["q.code = p.name", "q.code = t.region", "q.code = t.flag"]


def public(rng: random.Random) -> pa.Table:
    """Return public rows with every column a key of its own."""
    keys = rng.sample(KEYS, rng.randint(0, len(KEYS)))

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([rng.choice([*values, None]) for _ in keys], kind)

    numbers = [
        0.0,
        -0.0,
        1.0,
        2.5,
        -3.7,
        1e308,
        5e-324,
        float("nan"),
        float("inf"),
        float("-inf"),
        40.0,
    ]
    pairs = [
        (1.0, 1),
        (2.5, 7),
        (-3.7, 0),
        (float("nan"), None),
        (1e308, 2**53 + 1),
        (50.0, -(2**63)),
    ]
    unique = [pairs[i] if i < len(pairs) else (None, None) for i in range(len(keys))]
    by_key = rng.random() < 0.5
    return pa.table(
        {
            "code": pa.array(keys, pa.string()),
            "name": some(["north", "south", "it's", "é", "West", ""], pa.string()),
            "weight": pa.array([w for w, _ in unique], pa.float64()) if by_key else some(numbers, pa.float64()),
            "whole": pa.array([w for _, w in unique], pa.int64()),
            "flag": some([True, False], pa.bool_()),
            "at": some([datetime(2020, 1, 1, 23), datetime(2020, 1, 2), datetime(1, 1, 1)], pa.timestamp("us")),
            "day": some([date(2020, 1, 1), date(9999, 12, 31)], pa.date32()),
        }
    )  # fmt: skip


def view_of(rng: random.Random) -> View:
    """Return a random proven view of the generated columns."""
    items = ['t."user id"', *(rng.choice(options) for options in ITEMS.values())]
    kinds = [rng.choice(["LEFT JOIN", "JOIN", "LEFT JOIN"]) for _ in range(2)]
    sql = f"FROM rows t {kinds[0]} first p ON {rng.choice(JOINS)}"
    if rng.random() < 0.5:
        sql += f" {kinds[1]} second q ON {rng.choice(OTHERS)}"
        items = [item.replace("p.", "q.") if rng.random() < 0.3 else item for item in items]
    if rng.random() < 0.4:
        sql += f" WHERE {rng.choice(WHERE)}"
    return parse_view(
        f"SELECT {', '.join(items)} {sql}", private=("rows",), public=("first", "second")
    )


def test_the_references_integers_on_generated_views(dsn: str, evidence: Any) -> None:
    nonzero = users = refused = 0
    with psycopg.connect(dsn) as connection:
        for seed in range(TABLES):
            rng = random.Random(f"postgres view {seed}")
            rows, found, task = rows_of(rng, rng.choice([1, 12, 40])), view_of(rng), query_of(rng)
            task = replace(task, view=found)
            tables = {"first": as_source(public(rng)), "second": as_source(public(rng))}
            named = {name: tables[name] for name in found.tables if name in tables}
            here = tables_source({"rows": as_source(table_of(rows)), **named})
            load(connection, rows, "rows")
            there = tables_source({"rows": table(dsn, "rows"), **named})
            refusal = _refusal(DuckDBEngine(), here, task)
            assert _refusal(PostgresEngine(), there, task) == refusal, seed
            if refusal is not None:
                refused += 1
                continue
            expected = answer(ReferenceEngine(), here, task)
            assert answer(PostgresEngine(), there, task) == expected, seed
            nonzero += any(map(any, expected[: len(task.groups.keys)]))
            users += task.user is not None
    assert refused <= TABLES // 3
    assert nonzero >= TABLES // 8
    evidence(
        "views in PostgreSQL",
        f"{TABLES:,} generated views and tables, {users:,} of user units, {refused:,} refused",
        "the reference's integers or its refusal",
    )


def _refusal(engine: Any, source: Source, task: BoundedQuery) -> str | None:
    """Return the code of what is refused before the charge; None where nothing is."""
    try:
        engine.preflight(source, task)
    except DpreleaseError as refused:
        return refused.code if refused.spent == "nothing" else "spent"
    return None


@pytest.mark.parametrize("kind", ["parquet", "csv", "duckdb"])
def test_public_files_of_every_kind(dsn: str, kind: str, tmp_path: Path) -> None:
    # text is not a number in CSV
    views = {
        "csv": [VIEWS[2], VIEWS[4]],
        "parquet": VIEWS[:2],
        "duckdb": VIEWS if FULL else VIEWS[2:4],
    }[kind]
    nonzero = 0
    with psycopg.connect(dsn) as connection:
        for seed, sql in enumerate(views):
            rng = random.Random(f"{kind} {seed}")
            rows = visits(rng, 40)
            load(connection, rows.to_pydict(), "visits")
            task = query(view(sql), user=rng.choice([None, "pid"]), max_rows=2, max_groups=3)
            source = in_the_server(dsn, sources(rows, tmp_path, kind))
            PostgresEngine().preflight(source, task)
            found = sums(PostgresEngine(), source, task)
            assert (found == sums(DuckDBEngine(), sources(rows, tmp_path), task)).all(), sql
            nonzero += bool(found.any())
    assert nonzero >= 2


def test_views_that_group_have_the_references_integers(dsn: str, tmp_path: Path) -> None:
    def stored(source: Source, rows: pa.Table) -> Source:
        with psycopg.connect(dsn) as connection:
            load(connection, rows.to_pydict(), "visits")
        return in_the_server(dsn, source)

    agree(PostgresEngine(), stored, tmp_path, "arrow")


def test_a_public_file_has_signs_of_its_own(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("code;x;name\n1;12,5;A,1\n2;1.007,25;B\n", encoding="utf-8")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE signs (code text, k text)")
        connection.execute("INSERT INTO signs VALUES ('1', 'a'), ('2', 'b'), ('12,5', 'c')")
    columns = (Column("k", Kind.identifier), Column("x", Kind.number))
    x = Fixed("x", Domain(0, 10_000).on_grid(Fraction(1, 4)), Fraction(1, 4))
    named = {"v": postgres_table(lambda: dsn, "signs")}
    named["p"] = as_source({"csv": {"path": str(tmp_path / "p.csv"), "decimal": ","}})

    def task(join: str) -> BoundedQuery:
        select = f"SELECT v.k AS k, p.x AS x FROM v v LEFT JOIN p p ON p.{join} = v.code WHERE p.name = 'A,1' OR p.x > 9"
        view = parse_view(select, private=("v",), public=("p",), allow=())
        return BoundedQuery(columns, GroupKeys((), ((),)), (x,), (Primitive("power", 0, 0), Primitive("power", 0, 1)), view=view)  # fmt: skip

    for engine in (PostgresEngine(), DuckDBEngine(), ReferenceEngine()):
        source = tables_source(named)
        engine.preflight(source, task("code"))
        found = engine.compute(source, task("code"), b"").reveal_to_mechanism().sums.tolist()
        assert found == [[2, 50 + 4029]], engine.name
    for refusing in (PostgresEngine(), DuckDBEngine()):
        with pytest.raises(SourceError, match="as a number and as a text"):
            refusing.preflight(tables_source(named), task("x"))


def in_the_server(dsn: str, source: Source) -> Source:
    """Return the tables with the private one in the server."""
    named: Any = source.payload
    return tables_source({**named, "visits": table(dsn, "visits")})


TEXTS = {
    "bigint": ["9007199254740993", "-1", None], "numeric": ["1.50", "1.5", "NaN", "1e400", "7", None],
    "double precision": ["1.5", "1e15", "1.2345e16", "NaN", "Infinity", "-0", "5e-324"],
    "text": ["1.50", " 7 ", "", "nan", "x" * 3000, "true", None], "boolean": ["true", None],
    "date": ["2020-01-01", "infinity", "4000-01-01 BC", None],
    "timestamptz": ["2020-01-01 10:00:00.5+02", "infinity", "294276-12-31 23:59:59+00", None],
}  # fmt: skip

HELD = {
    "bigint": Physical.whole, "numeric": Physical.exact, "double precision": Physical.float,
    "text": Physical.text, "boolean": Physical.boolean, "date": Physical.date,
    "timestamptz": Physical.instant,
}  # fmt: skip
SPELT = ("1.5", "1" + 400 * "0", "1000000000000000", "1.2345e+16", "inf", "2020-01-01 08:00:00.5+00")  # fmt: skip
"""How a declared value writes cells that are written otherwise above."""


@pytest.mark.parametrize("stored", TEXTS)
def test_every_stored_cell_is_passed_on_joined_by_and_calculated_with(
    dsn: str, stored: str
) -> None:
    """The same integers as of the cells themselves, whatever they hold: a view of `t.x` is the table."""
    texts = [*(text for text in TEXTS[stored] if text), *SPELT]
    fit = [text for text in texts if writes(HELD[stored], text)]  # another is refused
    assert fit
    same = str if stored == "text" else spelt  # so is 1.50 beside 1.5
    column = Column("x", Kind.category, values=tuple({same(text): text for text in fit}.values()))
    labels = Label("x", column.values)
    counts = (Primitive("rows"), Primitive("power", 0, 1), Primitive("distinct", 0))
    task = BoundedQuery((column,), GroupKeys((), ((),)), (labels,), counts)
    keys = pa.table({"k": list(column.values), "v": list(column.values)})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS kept; CREATE TABLE kept (x {stored})")
        for text in TEXTS[stored]:
            connection.execute(f"INSERT INTO kept VALUES (%s::{stored})", [text])
    expected = answer(PostgresEngine(), table(dsn, "kept"), task)
    assert expected[0][0] == len(TEXTS[stored])
    for select in (
        "SELECT t.x FROM kept t LEFT JOIN keys k ON k.k = t.x",
        "SELECT k.v AS x FROM kept t LEFT JOIN keys k ON k.k = t.x",
    ):
        found = parse_view(select, private=("kept",), public=("keys",))
        source = tables_source({"kept": table(dsn, "kept"), "keys": as_source(keys)})
        PostgresEngine().preflight(source, replace(task, view=found))
        assert answer(PostgresEngine(), source, replace(task, view=found)) == expected, select


# -- what is proved ----------------------------------------------------------------------------


@pytest.mark.parametrize("sql", VIEWS)
def test_one_private_row_moves_one_row_of_the_view(dsn: str, sql: str, tmp_path: Path) -> None:
    rows = visits(random.Random(sql), 12)
    task, source = query(view(sql)), in_the_server(dsn, sources(rows, tmp_path))

    def counted(gone: int | None) -> Any:
        kept = {
            n: [c for i, c in enumerate(cells) if i != gone]
            for n, cells in rows.to_pydict().items()
        }
        with psycopg.connect(dsn) as connection:
            load(connection, kept, "visits")
        return sums(PostgresEngine(), source, task)[:, 0]

    whole = counted(None)
    moved = [int(abs(whole - counted(gone)).sum()) for gone in range(4 if FULL else 2)]
    assert max(moved) <= 1
    if view(sql).keeps_rows:
        assert int(whole.sum()) == 12
        assert set(moved) == {1}


def repeated(dsn: str, folder: Path) -> Source:
    rows = {"pid": ["a"], "postcode": ["1"], "year": [2020], "age": [5]}
    with psycopg.connect(dsn) as connection:
        load(connection, rows, "visits")
    named: Any = in_the_server(dsn, sources(pa.table(rows), folder)).payload
    return tables_source({**named, "postcodes": as_source(REPEATED)})


def test_a_public_key_that_repeats_is_refused_before_the_charge(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, task = repeated(dsn, tmp_path), query(view(VIEWS[0]))
    with pytest.raises(SourceError) as caught:
        PostgresEngine().preflight(source, task)
    assert (caught.value.code, caught.value.spent) == ("DPR510", "nothing")
    with pytest.raises(InternalError):  # the table changed after the preflight
        PostgresEngine().compute(source, task, SALT)
    PostgresEngine().preflight(source, query(view(VIEWS[1])))  # together the two columns are a key
    # the guard's broken twin counts the row twice
    monkeypatch.setattr(postgres_view, "check_keys", lambda *_: None)
    assert sums(PostgresEngine(), source, task)[:, 0].sum() == 2


# -- what is refused, before the charge ----------------------------------------------------------


def test_faults_are_those_of_duckdb(dsn: str, tmp_path: Path) -> None:
    source = in_the_server(dsn, sources(visits(random.Random(1), 3), tmp_path))
    with psycopg.connect(dsn) as connection:
        load(connection, visits(random.Random(1), 3).to_pydict(), "visits")
    for sql, code in {
        VIEWS[0].replace("v.age,", "v.agee AS age,"): "DPR503",
        VIEWS[0].replace("p.code =", "p.cod ="): "DPR503",
        VIEWS[2].replace("age > 40", "agee > 40"): "DPR122",
        VIEWS[2].replace("age > 40", "pid > 40"): "DPR123",
        VIEWS[0].replace("p.region,", ""): "DPR503",
    }.items():
        assert _refusal(PostgresEngine(), source, query(view(sql))) == code, sql
    wide = "SELECT pid, 'n' AS region, max(age) AS age, max(age) AS score FROM visits GROUP BY pid"
    with pytest.raises(SourceError) as caught:
        PostgresEngine().preflight(source, query(view(wide, UNPROVEN)))
    assert (caught.value.code, caught.value.spent) == ("DPR516", "nothing")
    assert "proven" in caught.value.what
    task = query(view(VIEWS[0]))
    assert _refusal(PostgresEngine(), table(dsn, "visits"), task) == "DPR509"
    assert _refusal(PostgresEngine(), source, replace(task, view=None)) == "DPR509"
    assert (
        _refusal(PostgresEngine(), sources(visits(random.Random(1), 3), tmp_path), task) == "DPR516"
    )


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("region", pa.array(["n", "s\0"])),
        ("weight", pa.array(["9" * 2**24 + "9", "1"])),
    ],
)
def test_public_cells_that_the_server_cannot_take_are_refused(
    dsn: str, name: str, cells: pa.Array, tmp_path: Path
) -> None:
    rows = visits(random.Random(3), 5)
    with psycopg.connect(dsn) as connection:
        load(connection, rows.to_pydict(), "visits")
    named: Any = in_the_server(dsn, sources(rows, tmp_path)).payload
    made = {
        "code": ["1", "2"],
        "region": ["n", "s"],
        "weight": [1.0, 2.0],
        "area": ["A", "B"],
        name: cells,
    }
    region, where = {
        "region": ("p.region", ""),
        "weight": ("p.weight AS region", ""),
    }[name]
    found = view(
        f"SELECT v.pid, {region}, v.age, v.age AS score FROM visits v "
        f"LEFT JOIN postcodes p ON p.code = v.postcode{where}"
    )
    refusals = []
    for rows_of_it in (pa.table(made), pa.table(made).slice(1 - (name == "region"), 1)):
        source = tables_source({**named, "postcodes": as_source(rows_of_it)})
        refusals.append(_refusal(PostgresEngine(), source, query(found)))
    assert refusals == ["DPR516", None]


# -- what the server sees ------------------------------------------------------------------------


def test_no_text_of_the_view_and_no_public_cell_stands_in_the_statement(
    dsn: str, tmp_path: Path
) -> None:
    sql = (
        "SELECT vvv.pid, if(vvv.age > 12345, 'canary', ppp.region) AS region, vvv.age, vvv.age AS score "
        "FROM visits vvv LEFT JOIN postcodes ppp ON ppp.code = vvv.postcode"
    )
    rows = visits(random.Random(2), 5)
    with psycopg.connect(dsn) as connection:
        load(connection, rows.to_pydict(), "visits")
    engine = PostgresEngine()
    sums(engine, in_the_server(dsn, sources(rows, tmp_path)), query(view(sql)))
    (statement,) = engine.statements
    assert not any(word in statement for word in ("canary", "12345", "vvv", "ppp", "region"))
    assert set(PUBLIC["areas"]["id"].to_pylist()) == {"A", "B"}


def test_a_pipeline_with_a_view_computes_in_the_server(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dprelease.pipeline.run import init_ledger, load_pipeline, run
    from dprelease.verification.verify import verify

    with psycopg.connect(dsn) as connection:
        load(connection, {"who": ["a", "b", None], "age": [30, 40, 50], "code": [1, 2, 9]}, "stays")
    (tmp_path / "codes.csv").write_text("code,region\n1,n\n2,s\n")
    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: visits\nunit: {user: who, max_groups: 1, max_rows_per_group: 2}\nadjacency: add_remove\nrows: {max: 100}\n"
        "columns:\n  who: {kind: identifier}\n  age: {kind: integer, range: [0, 120]}\n  region: {kind: category, values: [n, s]}\n"
        "release: {epsilon: 1, by: [region], statistics: [count, mean(age)]}\n"
    )
    select = "SELECT v.who, v.age, c.region FROM stays v LEFT JOIN codes c ON c.code = v.code"
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\nengine: postgres\nsource:\n"
        f'  view: "{select}"\n  tables: {{stays: {{postgres: {{dsn: "${{env:VISITS_DSN}}", table: stays}}}}}}\n'
        "  public_tables: {codes: {csv: codes.csv}}\n"
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
