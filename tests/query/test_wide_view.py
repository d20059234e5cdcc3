"""Unproven views: what is calculated of one row is null where it fails, and stops nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source, tables_source
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger
from dprelease.query import wide_view
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.query.read_view import parse_view
from dprelease.query.view import STOPS, UNPROVEN
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.sizes import FULL

LARGEST = 2**63 - 1
PLAIN = {"pid": 1, "s": "1", "n": 2, "age": 30}
ODD = {
    "a text": {"pid": 2, "s": "no number", "n": 3, "age": 40},
    "an end of integers": {"pid": 2, "s": "1", "n": LARGEST, "age": 40},
    "the other end": {"pid": 2, "s": "1", "n": -LARGEST - 1, "age": 40},
}
WIDE = "WITH x AS (SELECT * FROM t) "
"""No view with it is proven."""

TOTAL = {
    "text beside a number": "SELECT pid, age FROM x WHERE s = 1 OR age > 35",
    "a text as a condition": "SELECT pid, age FROM x WHERE s OR age > 0",
    "a bare text as a condition": "SELECT pid, age FROM x WHERE s",
    "the same in CASE": "SELECT pid, CASE WHEN s THEN age ELSE 0 END AS age FROM x",
    "not a text": "SELECT pid, age FROM x WHERE NOT s",
    "a product": "SELECT pid, n * 2 AS age FROM x",
    "a sum of columns": "SELECT pid, n + age AS age FROM x",
    "a difference": "SELECT pid, n - age AS age FROM x",
    "a sign": "SELECT pid, -n AS age FROM x",
    "an absolute value": "SELECT pid, abs(n) AS age FROM x",
    "between": "SELECT pid, age FROM x WHERE n * 2 BETWEEN 0 AND 7",
    "a list": "SELECT pid, age FROM x WHERE s IN (1, 2)",
    "parts of texts": "SELECT pid, age FROM x WHERE substring(s, n, 2) = '1' OR age > 0",
    "groups": "SELECT max(pid) AS pid, n * 2 AS age FROM x GROUP BY n * 2",
    "below a statistic": "SELECT pid, max(n * 2) AS age FROM x GROUP BY pid HAVING max(n) > 0",
    "below a window": "SELECT pid, max(n * 2) OVER (PARTITION BY s = 1) AS age FROM x",
    "a subquery of two rows": "SELECT pid, (SELECT age FROM x) AS age FROM x",
    "a join with more": "SELECT a.pid, a.age FROM x a JOIN x b ON a.pid = b.pid AND a.s = 1",
}
OPEN = {
    "two columns": "SELECT pid, age FROM x WHERE s = n",
    "totals": "SELECT pid, sum(n) * 99999999999999999999999999999 AS age FROM x GROUP BY pid",
}
"""What DuckDB leaves: one cell stops it, and plan, error and threat model say so."""


def _table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def _query(sql: str) -> BoundedQuery:
    view = parse_view(WIDE + sql, private=("t",), public=(), allow=(UNPROVEN,))
    return BoundedQuery(
        (Column("pid", Kind.identifier), Column("age", Kind.integer)),
        GroupKeys((), ((),)),
        (Fixed("age", Domain(0, 120).on_grid(1), 1),),
        (Primitive("rows"), Primitive("power", 0, 1)),
        view=view,
    )


def _answered(sql: str, table: pa.Table) -> Any:
    DuckDBEngine().preflight(tables_source({"t": as_source(table)}), _query(sql))
    return _computed(sql, table)


def _computed(sql: str, table: pa.Table) -> Any:
    source = tables_source({"t": as_source(table)})
    answer = DuckDBEngine().compute(source, _query(sql), b"salt")
    return answer.reveal_to_mechanism().sums.tolist()


def _pairs() -> list[tuple[str, str]]:
    """Return every view with each odd cell that it calculates with; in `make evidence` with all."""
    used = {name: set(re.findall(r"\b[sn]\b", sql)) or {"s"} for name, sql in TOTAL.items()}
    column = {odd: "s" if odd == "a text" else "n" for odd in ODD}
    return [(name, odd) for name in TOTAL for odd in ODD if FULL or column[odd] in used[name]]


@pytest.mark.parametrize(("name", "odd"), _pairs())
def test_no_cell_stops_what_is_calculated_of_one_row(name: str, odd: str) -> None:
    assert _answered(TOTAL[name], _table(PLAIN, ODD[odd]))
    if FULL:
        assert _answered(TOTAL[name], _table(PLAIN))


def test_a_failure_is_null_and_the_rest_of_the_condition_stands() -> None:
    sql = TOTAL["text beside a number"]
    assert _answered(sql, _table(PLAIN, ODD["a text"])) == [[2, 70]]
    assert _answered(sql, _table(PLAIN, {**ODD["a text"], "age": 30})) == [[1, 30]]


def test_a_build_that_wraps_nothing_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_view, "_make_total", lambda tree: None)
    stopped = 0
    for name, odd in _pairs():
        try:
            _computed(TOTAL[name], _table(PLAIN, ODD[odd]))
        except InternalError:
            stopped += 1
    assert stopped > len(TOTAL)


@pytest.mark.parametrize("sql", OPEN.values(), ids=OPEN)
def test_what_is_left_says_what_it_means(sql: str) -> None:
    assert _answered(sql, _table(PLAIN))
    said = []
    for odd in ODD.values():
        try:
            _answered(sql, _table(PLAIN, odd))
        except InternalError as stopped:
            said.append(str(stopped.why))
    assert said
    assert all(STOPS in why for why in said)


def test_a_join_by_two_columns_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrapped, its key would be a condition on a product: 10^10 pairs here."""
    many = pa.table({"pid": range(10**5), "s": ["1"] * 10**5, "n": [1] * 10**5, "age": [1] * 10**5})
    assert _answered("SELECT a.pid, b.age FROM x a JOIN x b ON a.pid = b.pid", many) == [
        [10**5] * 2
    ]


PROJECT = {
    "s.yaml": (
        "dprelease: schema/1\nname: visits\nadjacency: add_remove\nrows: {max: 100}\n"
        "unit: {user: pid, max_groups: 1, max_rows_per_group: 1}\n"
        "columns:\n  pid: {kind: identifier}\n  age: {kind: integer, range: [0, 120]}\n"
        "release: {epsilon: 1, allow: [unproven-view], statistics: [count]}\n"
    ),
    "p.yaml": (
        "dprelease: pipeline/1\nname: p\nschema: s.yaml\nsource:\n"
        '  view: "VIEW"\n  tables: {t: {parquet: t.parquet}}\n'
        "budget: {ledger: .dprelease/l.db, dataset: d, epsilon: 20}\npublish: {to: out}\n"
    ),
}


@pytest.mark.parametrize("sql", [TOTAL["text beside a number"], OPEN["two columns"]])
def test_the_command_line_ends_alike_or_has_said_that_it_may_not(sql: str, tmp_path: Any) -> None:
    (tmp_path / ".dprelease").mkdir()
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text.replace("VIEW", WIDE + sql))
    init_ledger(load_pipeline(tmp_path / "p.yaml"))
    pipeline = str(tmp_path / "p.yaml")
    pq.write_table(_table(PLAIN, ODD["a text"]), tmp_path / "t.parquet")
    planned = CliRunner().invoke(app, ["plan", pipeline, "--json"])
    assert STOPS in " ".join(json.loads(planned.stdout)["notes"])
    done = CliRunner().invoke(app, ["run", pipeline])
    assert done.exit_code == (0 if sql in TOTAL.values() else 3), done.output
    error = " ".join(done.output.partition("error:")[2].split())
    assert ("it is one bit about one row" in error) == (sql in OPEN.values())
