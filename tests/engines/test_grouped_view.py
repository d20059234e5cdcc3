"""Views that group by the unit: the engines agree, neighbouring tables have neighbouring views, sums have one order."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import yaml
from sqlglot import exp

import dprelease as dp
from dprelease.core.errors import ConfigError, PlanError
from dprelease.engines import view_sql
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source, tables_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Window
from dprelease.query.view import Over, of_period
from dprelease.schema.column import Column, Kind
from tests.engines.test_duckdb_view import query, sources, sums, view, visits
from tests.sizes import some

GROUPED = [
    "SELECT v.pid, min(v.age) AS age, count(*) AS score FROM visits v GROUP BY v.pid",
    (
        "SELECT v.pid, p.region, sum(v.age) AS age, avg(p.weight / 3) AS score FROM visits v LEFT JOIN "
        "postcodes p ON p.code = v.postcode WHERE v.age > 10 GROUP BY v.pid, p.region"
    ),
    "SELECT pid, count(DISTINCT age) AS age, count(year) AS score FROM visits GROUP BY pid, age",
    (
        "SELECT v.pid, a.region, max(v.age) AS age, sum(p.weight / 7) AS score FROM visits v LEFT JOIN "
        "postcodes p ON p.code = v.postcode LEFT JOIN areas a ON a.id = p.area GROUP BY v.pid, a.region"
    ),
    "SELECT pid, age, sum(if(age > 20, 1e300, -1e300)) AS score FROM visits GROUP BY pid, age",
]


def asked(sql: str, **changes: Any) -> BoundedQuery:
    whole = {} if ".region" in sql else {"groups": GroupKeys((), ((),))}
    return query(view(sql), **{"user": "pid", **whole, **changes})


def agree(engine: Any, prepared: Callable[[Any, pa.Table], Any], folder: Path, kind: str) -> None:
    """Compare an engine's integers with the reference's."""
    found = []
    for seed, sql in enumerate(GROUPED):
        rng = random.Random(f"grouped {seed}")
        rows = visits(rng, 40)
        source = sources(rows, folder, kind)
        task = asked(sql, max_rows=2, max_groups=rng.choice([1, 3]))
        there = prepared(source, rows)
        engine.preflight(there, task)
        found.append(sums(engine, there, task))
        assert (found[-1] == sums(ReferenceEngine(), source, task)).all(), sql
    assert all(each.any() for each in found)


@pytest.mark.parametrize("kind", some(["arrow", "parquet", "duckdb"], 2))
def test_duckdb_has_the_references_integers(kind: str, tmp_path: Path) -> None:
    agree(DuckDBEngine(), lambda source, _: source, tmp_path, kind)


ROWS = [(1, "n"), (1, "s"), (7, "n")]
PERSONS = [c for size in range(3) for c in itertools.combinations_with_replacement(ROWS, size)]
"""Every multiset of at most two rows that a person can have."""

BY_UNIT = "SELECT pid, sum(age) AS age, count(*) AS score FROM visits GROUP BY pid"
BY_TWO = "SELECT pid, region, sum(age) AS age, count(*) AS score FROM visits GROUP BY pid, region"
OF_ALL = "SELECT region AS pid, sum(age) AS age, count(*) AS score FROM visits GROUP BY region"


def rows_of(sql: str) -> Callable[[dict[str, Any]], Counter[Any]]:
    """Return what makes a view's rows, in DuckDB, of the rows that each person has."""
    found, connection = view(sql), duckdb.connect()
    stored = {
        "pid": ("pid", Physical.text),
        "age": ("age", Physical.whole),
        "region": ("region", Physical.text),
    }
    parts = {"visits": view_sql.SqlRows("rows", stored)}
    scope = view_sql.scope(found, {"visits": {n: p for n, (_, p) in stored.items()}}, {})
    made = view_sql.build_view(found, parts, scope)
    statement, bound = made.tree.sql(dialect="duckdb"), dict(made.parameters)
    connection.execute("CREATE TABLE rows (pid VARCHAR, age INTEGER, region VARCHAR)")

    def rows(persons: dict[str, Any]) -> Counter[Any]:
        flat = [(pid, *row) for pid, rows in persons.items() for row in rows]
        connection.execute("DELETE FROM rows")
        if flat:
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", flat)
        return Counter(connection.execute(statement, bound).fetchall())

    return rows


def most_changed(sql: str) -> tuple[int, int]:
    """Return the most rows of other units, and of the unit's own, that another set of its rows changes."""
    others, own, made = 0, 0, rows_of(sql)
    for rest in PERSONS:
        views = [made({"a": mine, "b": rest}) for mine in PERSONS]
        for one, two in itertools.combinations(views, 2):
            changed = [*(one - two).elements(), *(two - one).elements()]
            others = max(others, sum(row[0] != "a" for row in changed))
            own = max([own, *(sum(row[0] == "a" for row in v.elements()) for v in (one, two))])
    return others, own


def test_a_units_rows_make_its_own_rows_of_the_view_alone() -> None:
    """All pairs of small tables that differ in one person's rows: none, replaced, added."""
    assert most_changed(BY_UNIT) == (0, 1)
    assert most_changed(BY_TWO) == (0, 2)


def test_a_view_that_groups_by_something_else_moves_the_rows_of_others() -> None:
    """Broken twin: what `check_unit` refuses."""
    assert most_changed(OF_ALL)[0] > 0


@pytest.mark.parametrize(("sql", "groups"), [(BY_UNIT, 1), (BY_TWO, 1), (BY_TWO, 2)])
def test_the_sums_move_by_what_is_stated(sql: str, groups: int, tmp_path: Path) -> None:
    """Persons by 1, rows by the groups kept, a column clamped to 0 to 120 by that many times 120."""
    region = Column("region", Kind.category, values=("n", "s"))
    by = {"groups": GroupKeys((region,), (("n",), ("s",)))} if sql is BY_TWO else {}
    columns = (region, *(c for c in query(view(sql)).columns if c.name != "region"))
    task = asked(sql, max_rows=1, max_groups=groups, columns=columns, **by)
    seen: dict[Any, Any] = {}
    for mine in [*some(PERSONS, 6), ((500, "n"), (500, "s"))]:
        flat = [("a", *row) for row in mine] + [("b", 7, "n"), ("b", 1, "s")]
        made = pa.table({n: [r[i] for r in flat] for i, n in enumerate(("pid", "age", "region"))})
        source = tables_source({"visits": as_source(made)})
        seen[mine] = np.array(sums(DuckDBEngine(), source, task), dtype=np.int64)
    pairs = list(itertools.combinations(seen.values(), 2))
    moved = [np.abs(one - two).sum(axis=0) for one, two in pairs]
    most = np.max(moved, axis=0)
    both = 2 if groups == 1 and sql is BY_TWO else 1  # replaced, a kept row moves to another group
    assert most[1] <= groups * both, "persons"
    assert most[0] <= groups * both, "rows"
    assert 0 < most[3] <= 120 * groups * both, "the clamped sum"


def test_of_a_period_its_rows_alone_are_grouped() -> None:
    times = [datetime(2026, 1, 31, 23), datetime(2026, 2, 1), datetime(2026, 2, 28, 23, 59, 59)]
    times += [datetime(2026, 3, 1), None]
    rows = pa.table({"pid": ["a"] * 5, "at": pa.array(times, pa.timestamp("us")), "age": [1] * 5})
    sql = "SELECT v.pid, min(v.at) AS at, count(*) AS age, sum(v.age) AS score FROM visits v GROUP BY v.pid"
    window = Window("at", datetime(2026, 2, 1), datetime(2026, 3, 1))
    found = of_period(view(sql), "at", window.start, window.end, dates=False)
    columns = (*query(found).columns, Column("at", Kind.timestamp))
    task = replace(asked(sql), view=found, window=window, columns=columns)
    source = tables_source({"visits": as_source(rows)})
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(source, task)  # type: ignore[attr-defined]
        assert sums(engine, source, task)[0][[0, 3]].tolist() == [1, 2]
    plain = view("SELECT pid, age FROM visits")
    assert of_period(plain, "at", window.start, window.end, dates=False) is plain


def test_a_sum_has_one_order() -> None:
    """Doubles are added in the order of their size: otherwise where other units' rows lie moves a last digit."""
    rng = np.random.default_rng(4)
    values = rng.standard_normal(200_000) * 10.0 ** rng.integers(-5, 12, 200_000)
    group = rng.integers(0, 20, 200_000)

    def added(sql: str, order: Any) -> dict[int, float]:
        with duckdb.connect(config={"threads": 4}) as connection:
            connection.register("t", pa.table({"g": group[order], "x": values[order]}))
            return dict(connection.execute(f"SELECT g, {sql} FROM t GROUP BY g").fetchall())

    here, there = np.arange(len(values)), rng.permutation(len(values))
    ordered = view_sql._over_rows(Over.total, exp.column("x")).sql(dialect="duckdb")
    found = added(ordered, here)
    assert found == added(ordered, there)
    for key, total in found.items():
        folded = 0.0
        for value in np.sort(values[group == key]):
            folded += float(value)
        assert folded == total
    assert added("sum(x)", here) != added("sum(x)", there)  # the broken twin


def test_a_group_has_no_sum_of_texts() -> None:
    source = tables_source({"visits": as_source(pa.table({"pid": ["a"], "age": ["x"]}))})
    for over in ("min(pid)", "avg(pid)"):
        task = asked(f"SELECT pid, {over} AS age, count(*) AS score FROM visits GROUP BY pid")
        with pytest.raises(PlanError, match="`pid` is text") as refused:
            DuckDBEngine().preflight(source, task)
        assert ("{kind: date}" in str(refused.value.fix)) == over.startswith("min")
    for over in ("sum(pid)", "min(pid)", "max(age > 3)", "avg(pid)", "max(*)", "max(DISTINCT age)"):
        task = asked(f"SELECT pid, {over} AS age, count(*) AS score FROM visits GROUP BY pid")
        for engine in (DuckDBEngine(), ReferenceEngine()):
            with pytest.raises((ConfigError, PlanError)) as caught:
                engine.preflight(source, task)  # type: ignore[attr-defined]
            assert caught.value.code in ("DPR120", "DPR122", "DPR264"), over


def test_what_the_refusal_of_a_sum_of_texts_says_makes_it_work(tmp_path: Path) -> None:
    """All cells of a CSV file are texts until the schema says what they are."""
    (tmp_path / "visits.csv").write_text("pid,fee\na,10\na,20\nb,5\n", encoding="utf-8")
    pipeline = {
        "dprelease": "pipeline/1",
        "name": "fees",
        "schema": "schema.yaml",
        "source": {
            "view": "SELECT pid, sum(fee) AS paid FROM visits GROUP BY pid",
            "tables": {"visits": {"csv": "visits.csv"}},
        },
        "budget": {"ledger": "l.db", "dataset": "fees", "epsilon": 1000},
        "publish": {"to": "public", "formats": ["csv"]},
    }
    schema = {
        "dprelease": "schema/1",
        "name": "fees",
        "unit": {"user": "pid", "max_groups": 1, "max_rows_per_group": 1},
        "adjacency": "add_remove",
        "rows": {"max": 10},
        "columns": {"pid": {"kind": "identifier"}, "paid": {"kind": "integer", "range": [0, 100]}},
        "release": {"epsilon": 1000, "statistics": ["sum(paid)"]},
    }
    file = tmp_path / "fees.yaml"
    file.write_text(json.dumps(pipeline), encoding="utf-8")
    (tmp_path / "schema.yaml").write_text(json.dumps(schema), encoding="utf-8")
    dp.create_ledger(tmp_path / "l.db", schema, epsilon=1000, dataset="fees")
    with pytest.raises(PlanError, match="takes no text") as caught:
        dp.run(file, period="final")
    said = re.search(r"`NAME: (\{.*\})`", str(caught.value.fix))
    assert said is not None
    schema["columns"]["fee"] = yaml.safe_load(said[1])  # type: ignore[index]
    (tmp_path / "schema.yaml").write_text(json.dumps(schema), encoding="utf-8")
    dp.run(file, period="final")
    assert dp.read(tmp_path / "public" / "fees" / "final").table["value"].to_pylist() == [35]
