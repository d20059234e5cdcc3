"""Clean first, then everything: two ways to ask one thing are one answer, in every engine."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError
from dprelease.engines.clean_rows import cleaned
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source, file_source
from dprelease.inspection.rows import inspect_rows
from dprelease.query.cleaning import is_cleaned, snapping
from dprelease.query.load import schema_from_dict
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.table import TableSchema
from tests.sizes import FULL, sized

NUMBERS = [
    None,
    float("nan"),
    -7.0,
    0.0,
    3.3,
    9.96,
    18.0,
    64.9,
    65.0,
    66.0,
    67.5,
    69.0,
    70.0,
    99.0,
    1e308,
    float("inf"),
]
LABELS = [None, "a", "b", "rest", "none", "z", ""]
FLAGS = [None, True, False]


def schema(x: dict[str, Any], b: dict[str, Any], k: dict[str, Any], **release: Any) -> TableSchema:
    columns = {
        "x": {"kind": "number", "range": [0, 90], "step": 0.5, **x},
        "b": {"kind": "boolean", **b},
        "k": {"kind": "category", "values": ["a", "b"], **k},
        "twin": {"kind": "number", "from": "x", "range": [0, 90], "step": 0.5},
        "old": {"kind": "boolean", "from": "x > 65"},
        "tens": {"kind": "integer", "from": "floor(x / 10) * 10", "range": [10, 60], "step": 10},
    }
    block = {"epsilon": 1, "statistics": ["count"], **release}
    return schema_from_dict(
        {
            "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove", "rows": {"max": 1000},
            "columns": columns, "release": block,
        }
    )  # fmt: skip


XS = [
    {},
    {"nulls": {"default": 20}},
    {"forbidden": [[65, 70]]},
    {"forbidden": [[65, 70]], "nulls": {"default": 70}},
]
BS = [{}, {"nulls": {"default": True}}, {"nulls": {"default": False}}, {"nulls": {"as": "unsaid"}}]
KS: list[dict[str, Any]] = [
    {}, {"other": {"as": "rest"}}, {"nulls": {"as": "none"}}, {"other": {"as": "rest"}, "nulls": {"as": "rest"}},
    {"other": {"as": "a"}}, {"other": {"as": "rest"}, "nulls": {"as": "b"}},
]  # fmt: skip
ENGINES = [DuckDBEngine, ReferenceEngine]


def counted(engine: Any, frame: Any, declared: TableSchema) -> dict[tuple[str, ...], int]:
    """Return the rows of every group."""
    plan = dp.plan(declared)
    place = next(i for i, p in enumerate(plan.query.primitives) if p.kind == "rows")
    sums = engine().compute(as_source(frame), plan.query, b"").reveal_to_mechanism().sums
    return {key: int(row[place]) for key, row in zip(plan.query.groups.keys, sums, strict=True)}


def known(engine: Any, frame: pd.DataFrame, declared: TableSchema) -> tuple[int, int, int]:
    """Return rows known, their codes' sum and squares, of the one statistic: a mean or a proportion."""
    plan = dp.plan(declared)
    query = plan.query
    moments = [
        replace(query.primitives[0], kind="power", code=0, power=p, low=0, high=0)
        for p in (0, 1, 2)
    ]
    task = replace(query, codes=query.codes[:1], primitives=tuple(moments))
    found = engine().compute(as_source(frame), task, b"").reveal_to_mechanism().sums[0]
    return int(found[0]), int(found[1]), int(found[2])


ASKED = [
    (seed, engine)
    for seed in range(sized(6, 96))
    for engine in ENGINES
    if FULL or engine is ReferenceEngine or seed not in {0, 2}  # the others declare more
]


@pytest.mark.parametrize(("seed", "engine"), ASKED)
def test_two_ways_to_ask_one_thing_agree(seed: int, engine: Any) -> None:
    rng = random.Random(f"agree {seed}")
    x, b, k = XS[seed % 4], BS[seed // 2 % 4], KS[seed % 6]
    rows = [(rng.choice(NUMBERS), rng.choice(FLAGS), rng.choice(LABELS)) for _ in range(40)]
    cells = list(zip(*rows, strict=True))
    frame = pd.DataFrame(
        {
            "x": pd.Series(cells[0], dtype="float64"),
            "b": pd.Series(cells[1], dtype="boolean"),
            "k": pd.Series(cells[2], dtype="object"),
        }
    )

    def of(**release: Any) -> TableSchema:
        return schema(x, b, k, **release)

    @cache  # some are asked for more than once
    def where(text: str) -> int:
        return counted(engine, frame, of(where=text))[()]

    @cache
    def groups(name: str) -> dict[tuple[str, ...], int]:
        return counted(engine, frame, of(by=[name]))

    @cache
    def moments(text: str) -> tuple[int, int, int]:
        return known(engine, frame, of(statistics=[text]))

    # a proportion is the mean of its column, and the sum of a boolean the rows where it is true
    mean = moments("mean(b)")
    assert moments("proportion(b)") == mean
    assert moments("proportion(b = true)") == mean
    assert where("b") == mean[1]
    assert where("not b") == mean[0] - mean[1]
    # … and the rows of its groups
    assert (groups("b")[("true",)], groups("b")[("false",)]) == (mean[1], mean[0] - mean[1])
    assert (
        groups("b").get(("unsaid",), where("b is null"))
        == where("b is null")
        == len(rows) - mean[0]
    )
    # a filter keeps the rows of a group, and all groups together the rows that have one
    for name in ("k", "b"):
        for (key,), size in groups(name).items():
            text = {"unsaid": "b is null"}.get(key, f"{name} = {key if name == 'b' else repr(key)}")
            assert where(text) == size
    # a proportion of a range is the share of its bins, and of a derived column that says the same
    n, _, _ = moments("mean(x)")
    above = [where(f"x > {end}") for end in (65, 74.5, 17)]
    plan = dp.plan(of(statistics=["histogram(x, [0, 17.5, 65.5, 75, 90])"]))
    bins = engine().compute(as_source(frame), plan.query, b"").reveal_to_mechanism().sums[0]
    assert sum(bins) == n
    assert above == [bins[2] + bins[3], bins[3], bins[1] + bins[2] + bins[3]]
    assert moments("proportion(x > 65)")[:2] == (n, above[0])
    assert moments("mean(old)")[:2] == (n, above[0])
    # a copy is what it copies
    assert moments("mean(twin)") == moments("mean(x)")
    assert where("twin > 65 and x <= 65") == 0
    assert where("x is null") == len(rows) - n
    # no cleaned value is outside what is declared, stored or derived
    assert where("x < 0 or x > 90 or tens < 10 or tens > 60") == 0
    assert where("tens >= 60") == where("x >= 60")  # clamped from below 70, 80 and 90
    if "forbidden" in x:
        assert where("x > 65 and x < 70") == 0


def test_the_cases_of_the_report() -> None:
    frame = pd.DataFrame(
        {
            "x": [66.0, 69.0, 10.0, 65.0],
            "b": pd.Series([True, None, None, False], dtype="boolean"),
            "k": "a",
        }
    )
    declared = {"forbidden": [[65, 70]]}, {"nulls": {"default": True}}, {}
    for engine in ENGINES:
        assert counted(engine, frame, schema(*declared, by=["b"])) == {("false",): 1, ("true",): 3}
        assert known(engine, frame, schema(*declared, statistics=["proportion(b)"])) == (4, 3, 3)
        assert (
            counted(engine, frame, schema(*declared, where="x > 65"))[()] == 1
        )  # 66 is 65, 69 is 70


@pytest.mark.parametrize("nulls", [{}, {"nulls": {"default": 20}}])
def test_inspection_counts_what_a_release_would_filter(nulls: dict[str, Any]) -> None:
    frame = pd.DataFrame(
        {"x": [None, 66.0, 69.0, 1e9], "b": [True, None, False, True], "k": ["a", "z", None, "b"]}
    )
    declared = schema({"forbidden": [[65, 70]], **nulls}, {"nulls": {"default": True}}, {"other": {"as": "rest"}},
                      where="x >= 20 and b and k in ('rest', 'b', 'a')")  # fmt: skip
    plan: ReleasePlan = dp.plan(declared)
    found = {f.what: f.rows for f in inspect_rows(plan, as_source(frame))}
    passing = next(rows for what, rows in found.items() if what.startswith("pass the filter"))
    assert passing == counted(DuckDBEngine, frame, declared)[()] == (3 if nulls else 2)


def test_a_text_that_no_cleaned_value_is_is_refused_where_it_stands() -> None:
    for text in (
        "k = 'A'",
        "'A' != k",
        "k in ('a', 'A')",
        "case when k = 'A' then true else b end",
    ):
        with pytest.raises(ConfigError, match="not a value of `k`") as caught:
            schema({}, {}, {"other": {"as": "rest"}}, where=text)
        assert caught.value.code == "DPR164"
        assert "did you mean 'a'" in str(caught.value.fix)
    assert schema({}, {}, {"other": {"as": "rest"}}, where="k = 'rest'")


def test_the_plan_s_hash_covers_how_a_condition_s_cells_are_cleaned() -> None:
    kinds = itertools.product(
        ({}, {"forbidden": [[65, 70]]}, {"nulls": {"default": 3}}), ({}, {"other": {"as": "rest"}})
    )
    plans = [dp.plan(schema(x, {}, k, where="x > 3 or k = 'a'")) for x, k in kinds]
    assert len({plan.hash for plan in plans}) == len(plans)
    told = plans[-1].to_json()["query"]["cleaned"]
    assert [c["column"] for c in told] == ["k", "x"]
    plain = dp.plan(schema({}, {}, {}, where="tens is null")).to_json()["query"]
    assert [c["column"] for c in plain["cleaned"]] == ["tens", "x"]
    assert "cleaned" not in dp.plan(schema({}, {}, {})).to_json()["query"]


def test_the_grid_of_a_column_is_made_once_for_all_cells() -> None:
    column = schema(XS[3], {}, {}).columns["x"]
    assert snapping(column) is snapping(replace(column)) is not None


@pytest.mark.parametrize("ends", [[0, 10**9], [-(10**9), 10**9], [0, ".inf"]])
def test_without_a_grid_of_doubles_a_cell_is_clamped_and_kept(ends: list[Any]) -> None:
    """A billion in steps of 1e-9 is finer than doubles: a filter on it still works, in both engines."""
    high = float("inf") if ends[1] == ".inf" else ends[1]
    declared = schema(
        {
            "range": [ends[0], high],
            "step": 1e-9 if high != float("inf") else 1,
            "forbidden": [[5, 6]],
        },
        {},
        {},
        where="x >= 6 or x = 5",
    )
    column = declared.columns["x"]
    assert snapping(column) is None
    assert is_cleaned(column)
    assert [cleaned(column, v) for v in (5.4, 5.5, 5.6, 0.25)] == [5, 5, 6, 0.25]
    frame = pd.DataFrame(
        {"x": [5.4, 5.5, 5.6, 4.9, -1e12, 1e12, None, float("nan")], "b": True, "k": "a"}
    )
    assert {counted(engine, frame, declared)[()] for engine in ENGINES} == {4}


def test_a_filter_on_hive_folders_reads_their_values_cleaned(tmp_path: Path) -> None:
    """Folders are left out by the rule that rows are: `z` is `rest`, and no folder at all is `none`."""
    rows = pa.table({"k": ["a", "z", "z", "b", None], "x": [1.0, 2, 3, 4, 5], "b": [True] * 5})
    pq.write_to_dataset(rows, tmp_path / "t", partition_cols=["k"])
    data = file_source("parquet", tmp_path / "t" / "**" / "*.parquet")
    other = {"other": {"as": "rest"}, "nulls": {"as": "none"}}
    for text, count in (("k = 'rest'", 2), ("k in ('a', 'none') and x > 0", 2), ("k != 'rest'", 3)):
        declared = schema({}, {}, other, where=text)
        assert {counted(engine, data, declared)[()] for engine in ENGINES} == {count}
