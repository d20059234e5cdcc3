"""Tables of edges: every engine makes the same simple graph, whatever the rows look like."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprelease.core.errors import PlanError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Label, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind

COLUMNS = {
    c.name: c
    for c in (
        Column("from", Kind.node),
        Column("to", Kind.node),
        Column("w", Kind.number),
        Column("at", Kind.timestamp),
    )
}


def query(
    nodes: tuple[str, ...], where: str | None = None, window: Window | None = None
) -> BoundedQuery:
    return BoundedQuery(
        columns=tuple(COLUMNS.values()),
        groups=GroupKeys((), ((),)),
        codes=(Label("from", nodes), Label("to", nodes)),
        primitives=(Primitive("edges", 0, other=1, max_rows=1),),
        where=None if where is None else parse_condition(where, COLUMNS, origin="test"),
        window=window,
    )


def edges(engine: Any, table: pd.DataFrame, asked: BoundedQuery) -> list[tuple[int, int]]:
    answer = engine.compute(as_source(table), asked, b"").reveal_to_mechanism()
    assert answer.tables[0].dtype == np.int64
    assert answer.sums.tolist() == [[0]]
    return [tuple(e) for e in answer.tables[0].tolist()]


def both(table: pd.DataFrame, asked: BoundedQuery) -> list[tuple[int, int]]:
    found = edges(DuckDBEngine(), table, asked)
    assert found == edges(ReferenceEngine(), table, asked)
    return found


def some_table(rng: random.Random, kind: str, rows: int) -> pd.DataFrame:
    ids: list[Any] = [0, 1, 2, 3, 4, 7, None]
    if kind == "text":
        ids = ["Ann", "bob", "é", "it's", "Ann ", "nobody", "", None]
    ends = [[rng.choice(ids) for _ in range(rows)] for _ in range(2)]
    dtype = "object" if kind == "text" else "Int64" if kind == "integer" else "float64"
    return pd.DataFrame(
        {
            "from": pd.Series(ends[0], dtype=dtype),
            "to": pd.Series(ends[1], dtype=dtype),
            "w": [rng.choice([0.0, 1.5, np.nan]) for _ in range(rows)],
            "at": [datetime(2020, 1, rng.randint(1, 4)) for _ in range(rows)],
        }
    )


@pytest.mark.parametrize("kind", ["integer", "float", "text"])
def test_engines_agree_with_the_definition(kind: str) -> None:
    rng = random.Random(5)
    nodes = ("Ann", "bob", "é", "it's") if kind == "text" else ("0", "1", "2", "3", "4")
    for rows in (0, 1, 3, 12, 40):
        table = some_table(rng, kind, rows)
        number = {v: i for i, v in enumerate(nodes)}
        wanted = set()
        for a, b in zip(table["from"], table["to"], strict=True):
            ends = [
                None if pd.isna(v) else number.get(v if kind == "text" else str(int(v)))
                for v in (a, b)
            ]
            if None not in ends and ends[0] != ends[1]:
                wanted.add(tuple(sorted(ends)))  # type: ignore[type-var]
        assert both(table, query(nodes)) == sorted(wanted)  # type: ignore[type-var]


def test_an_edge_is_there_if_any_of_its_rows_passes() -> None:
    table = pd.DataFrame(
        {
            "from": [0, 1, 2, 2],
            "to": [1, 0, 3, 3],
            "w": [0.0, 5.0, 0.0, 0.5],
            "at": [datetime(2020, 1, d) for d in (1, 2, 3, 4)],
        }
    )
    nodes = ("0", "1", "2", "3")
    assert both(table, query(nodes)) == [(0, 1), (2, 3)]
    assert both(table, query(nodes, "w > 1")) == [(0, 1)]
    window = Window("at", datetime(2020, 1, 3, tzinfo=UTC), datetime(2020, 1, 4, tzinfo=UTC))
    assert both(table, query(nodes, window=window)) == [(2, 3)]


def test_kept_repeats_would_be_caught() -> None:
    table = pd.DataFrame(
        {"from": [0, 1, 0, 1], "to": [1, 0, 1, 1], "w": [1.0] * 4, "at": [None] * 4}
    )
    found = both(table, query(("0", "1")))
    assert found == [(0, 1)]
    twin = [tuple(sorted(e)) for e in zip(table["from"], table["to"], strict=True)]
    assert twin != found


@pytest.mark.parametrize("engine", [DuckDBEngine(), ReferenceEngine()], ids=lambda e: e.name)
def test_edges_beside_anything_else_are_refused(engine: Any) -> None:
    good = query(("0", "1"))
    rows = Primitive("rows", max_rows=1)
    other = Label("to", ("0", "1", "2"))
    for bad in (
        BoundedQuery(good.columns, good.groups, good.codes, (*good.primitives, rows)),
        BoundedQuery(good.columns, good.groups, (good.codes[0], other), good.primitives),
        BoundedQuery(good.columns, good.groups, good.codes, good.primitives, user="w"),
        BoundedQuery(good.columns, good.groups, good.codes, (Primitive("edges", 0),)),
    ):
        with pytest.raises(PlanError) as caught:
            engine.preflight(as_source(pd.DataFrame({"from": [0], "to": [1], "w": [1.0]})), bad)
        assert caught.value.code == "DPR272"


def test_one_statement_reads_the_rows() -> None:
    engine = DuckDBEngine()
    edges(engine, some_table(random.Random(1), "integer", 5), query(("0", "1")))
    assert sum("source_rows" in s for s in engine.statements) == 1
    # comparing node numbers makes DuckDB cross both node tables: quadratic in the nodes
    assert '"v0" <> "v1"' not in engine.statements[-1]
