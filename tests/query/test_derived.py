"""Derived columns: what they may be made from, and that they act like stored ones."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.derived import MOST_LEVELS, derived_columns
from dprelease.query.expression import parse_condition
from dprelease.query.load import schema_from_dict
from dprelease.schema.table import TableSchema

COLUMNS: dict[str, dict[str, Any]] = {
    "leaves": {"kind": "timestamp"},
    "arrives": {"kind": "timestamp"},
    "miles": {"kind": "number", "range": [0, 5000], "step": 1},
    "minutes": {
        "kind": "number",
        "from": "minutes_between(leaves, arrives)",
        "range": [0, 600],
        "step": 1,
    },
    "speed": {"kind": "number", "from": "miles / minutes * 60", "range": [0, 700], "step": 1},
    "long": {"kind": "boolean", "from": "minutes > 60"},
    "band": {"kind": "category", "from": "if(long, 'long', 'short')", "values": ["long", "short"]},
}


def schema(columns: dict[str, Any] | None = None, **release: Any) -> TableSchema:
    block = {"epsilon": 1, "statistics": ["mean(minutes)"], **release}
    return schema_from_dict(
        {
            "dprelease": "schema/1",
            "name": "flights",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 1000},
            "columns": {**COLUMNS, **(columns or {})},
            "release": block,
        }
    )


def frame() -> pd.DataFrame:
    start = pd.Timestamp("2020-01-01 10:00")
    minutes = [0, 30, 60, 61, 90, 700, -5, None]
    return pd.DataFrame(
        {
            "leaves": [start] * len(minutes),
            "arrives": [None if m is None else start + pd.Timedelta(minutes=m) for m in minutes],
            "miles": [0.0, 100, 1e9, 61, float("nan"), 7, 8, 9],
        }
    )


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_a_derived_column_is_clamped_filtered_and_grouped_like_a_stored_one(engine: Any) -> None:
    stored = frame()
    gap = (stored["arrives"] - stored["leaves"]).dt.total_seconds() / 60
    stored["minutes"] = gap
    # of miles and minutes as they are cleaned: 5,000 of 1e9, 600 of 700, 0 of -5
    stored["speed"] = [None, 200.0, 5000.0, 60.0, None, 0.7, None, None]  # 0 / 0, 8 / 0 and nulls
    stored["long"] = [None if pd.isna(g) else bool(g > 60) for g in gap]
    stored["band"] = ["long" if g else "short" for g in stored["long"]]
    plain = {n: {k: v for k, v in c.items() if k != "from"} for n, c in COLUMNS.items()}
    request = {
        "by": ["band"],
        "where": "minutes < 650 or minutes is null",
        "statistics": ["count", "mean(minutes)", "mean(speed)", "proportion(long)"],
    }

    def sums(declared: TableSchema, data: pd.DataFrame) -> Any:
        query = dp.plan(declared).query
        return engine().compute(as_source(data), query, b"").reveal_to_mechanism().sums.tolist()

    found = sums(schema(**request), frame())
    assert found == sums(schema(plain, **request), stored)
    assert found[0] != found[1]
    assert any(cell > 100 for row in found for cell in row)


def test_the_plan_carries_the_expression_and_its_hash() -> None:
    plan = dp.plan(schema())
    assert plan.to_json()["query"]["derived"] == [
        {"column": "minutes", "from": "minutes_between(leaves, arrives)"}
    ]
    other = {**COLUMNS["minutes"], "from": "minutes_between(arrives, leaves)"}
    assert dp.plan(schema({"minutes": other})).hash != plan.hash
    assert "derived" not in dp.plan(schema(statistics=["mean(miles)"])).to_json()["query"]
    spaced = {**COLUMNS["minutes"], "from": "minutes_between( leaves,arrives )"}
    assert dp.plan(schema({"minutes": spaced})).hash == plan.hash


def test_names_stand_for_columns_and_what_they_are_made_from_comes_first() -> None:
    columns = schema().columns
    condition = parse_condition("speed > 500 and band = 'long'", columns, origin="test")
    assert condition.columns == {"speed", "band"}
    assert parse_condition(condition.canonical, columns, origin="test").tree == condition.tree
    made = derived_columns(condition.columns, columns)
    assert [d.column for d in made] in (
        ["minutes", "speed", "long", "band"],
        ["minutes", "long", "band", "speed"],
    )


@pytest.mark.parametrize(
    ("column", "code", "said"),
    [
        ({"kind": "number", "from": "miles +"}, "DPR120", "ends too early"),
        ({"kind": "number", "from": "mile"}, "DPR122", "did you mean `miles`"),
        ({"kind": "number", "from": "new"}, "DPR139", "`new` from `new`"),
        ({"kind": "number", "from": "miles > 3"}, "DPR138", "kind: boolean"),
        ({"kind": "category", "values": ["a"], "from": "miles"}, "DPR138", "kind: number"),
        ({"kind": "identifier", "from": "band"}, "DPR138", "cannot be derived"),
        ({"kind": "date", "from": "leaves"}, "DPR138", "kind: timestamp"),
        ({"kind": "number", "from": "mean(miles)"}, "DPR124", "unknown function"),
        ({"kind": "number", "from": "random()"}, "DPR124", "unknown function"),
        ({"kind": "number", "from": "arrives - leaves"}, "DPR123", "minutes_between"),
        ({"kind": "number", "from": 5}, "DPR108", "quote it"),
    ],
)
def test_faulty_declarations(column: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        schema({"new": column})
    assert caught.value.code == code
    assert said in str(caught.value)


def test_cycles_through_others_are_refused() -> None:
    a = {"kind": "number", "from": "b + 1"}
    b = {"kind": "number", "from": "a - 1"}
    with pytest.raises(ConfigError, match="made from itself") as caught:
        schema({"a": a, "b": b})
    assert caught.value.code == "DPR139"


def _chain(levels: int, *, top_first: bool) -> dict[str, Any]:
    made = [
        {"kind": "number", "from": f"c{i - 1} + c{i - 1}" if i else "miles", "range": [0, 5000]}
        for i in range(levels)
    ]
    named = [(f"c{i}", column) for i, column in enumerate(made)]
    return dict(reversed(named) if top_first else named)


@pytest.mark.parametrize("top_first", [True, False])
def test_chains_are_as_long_as_their_levels_and_end_somewhere(top_first: bool) -> None:
    declared = schema(
        _chain(MOST_LEVELS, top_first=top_first), statistics=[f"mean(c{MOST_LEVELS - 1})"]
    )
    query = dp.plan(declared).query
    data = as_source(frame().assign(miles=[1.0, 2, 3, 4, 5, 6, 7, 5000]))
    found = [
        e().compute(data, query, b"").reveal_to_mechanism().sums.tolist()
        for e in (DuckDBEngine, ReferenceEngine)
    ]
    assert found[0] == found[1]  # every level doubles, and is clamped before the next one reads it
    assert 8 * 50_000 in found[0][0] or 8 * 5_000 in found[0][0]
    with pytest.raises(ConfigError) as caught:
        schema(_chain(MOST_LEVELS + 1, top_first=top_first))
    assert caught.value.code == "DPR121"


def test_a_unit_is_stored() -> None:
    with pytest.raises(ConfigError) as caught:
        schema_from_dict(
            {
                "dprelease": "schema/1",
                "name": "t",
                "adjacency": "add_remove",
                "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 1},
                "columns": {
                    "x": {"kind": "integer"},
                    "who": {"kind": "integer", "from": "x % 10"},
                },
            }
        )
    assert caught.value.code == "DPR115"
