"""Histograms of many bins: how edges are written, what engines count, what the wall proves, what files hold."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError, InternalError, PlanError
from dprelease.core.numeric import FEW, MOST_EDGES, bins, edges_of, edges_text
from dprelease.engines.digits import apart
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.request import check_query
from dprelease.engines.source import as_source
from dprelease.query import request as stored
from dprelease.query.answer import MOST_SUMS
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall.execute import check
from dprelease.wall.recompute import recompute

MANY = FEW + 36
PLAIN: Mapping[str, Any] = {"unit": "row", "adjacency": "add_remove"}
PERSONS = {"unit": {"user": "p", "max_groups": 1, "max_rows_per_group": 2}}


def schema(text: object, **more: Any) -> dp.Schema:
    return dp.Schema.from_dict(declared(text, **more))


def declared(text: object, **more: Any) -> dict[str, Any]:
    return {
        "dprelease": "schema/1",
        "name": "many",
        **PLAIN,
        "columns": {
            "x": {"kind": "number", "range": [-50, 150], "step": 0.5, "nulls": "drop"},
            "g": {"kind": "category", "values": ["a", "b"]},
            "p": {"kind": "identifier"},
        },
        "rows": {"max": 1000, "expected": 500},
        "release": {"epsilon": 2, "by": ["g"], "statistics": [text]},
        **more,
    }


def rows(seed: int = 5) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = np.where(random.random(400) < 0.1, np.nan, random.uniform(-60, 160, 400))
    return pd.DataFrame(
        {"x": x, "g": random.choice(["a", "b", "c"], 400), "p": random.integers(0, 90, 400)}
    )


# --- how edges are written --------------------------------------------------------------------


def test_a_range_is_its_edges_with_both_ends() -> None:
    assert edges_of("range(0, 24, 6)") == edges_of(" [0, 6, 12,18, 24.0] ")
    assert edges_of("range(-1, 0.5, 0.25)")[-2:] == (Fraction(1, 4), Fraction(1, 2))
    assert bins("h", "range(0, 1, 0.5)") == ("h[0,0.5)", "h[0.5,1]")


@pytest.mark.parametrize(
    "text",
    ["range(0, 10, 3)", "range(0, 10)", "range(0, 10, 0)", "range(10, 0, 1)", "range(0, 10, -1)", "[1]",
     f"range(0, {MOST_EDGES}, 1)", "range(0, inf, 1)", "range(0, nan, 1)", "[0, inf]", "range(a, b, c)", "0, 1", "[2, 1]"],
)  # fmt: skip
def test_faulty_edges_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        schema(f"histogram(x, {text})")
    assert caught.value.code == "DPR133"


def test_edges_are_written_as_what_they_are_read_from() -> None:
    for edges in (
        edges_of("range(0, 500, 0.1)"),
        edges_of("[0, 1, 5]"),
        edges_of(f"range(0, {FEW}, 1)"),
    ):
        assert edges_of(edges_text(edges)) == edges
    assert edges_text(edges_of(f"range(0, {FEW}, 1)")) == f"range(0, {FEW}, 1)"
    assert edges_text(edges_of("range(0, 2, 1)")) == "[0, 1, 2]"


def test_edges_of_a_file_stand_in_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = [round(i * 1.5 - 50 + (i % 2) / 10, 1) for i in range(MANY + 1)]
    (tmp_path / "edges.csv").write_text("edge\n" + "\n".join(map(str, edges)), encoding="utf-8")
    asked = {"statistic": "histogram(x)", "edges_from": "edges.csv", "as": "h"}
    path = tmp_path / "schema.yaml"
    path.write_text(json.dumps(declared(asked)), encoding="utf-8")
    plan = dp.plan(path)
    assert plan.statistics[0].columns == bins("h", str(edges))
    assert plan.request is not None
    said = json.loads(json.dumps(request_to_json(plan.request)))
    (tmp_path / "edges.csv").unlink()
    assert request_to_json(request_from_json(said)) == said
    statistic = said["release"]["statistics"][0]
    statistic |= {"statistic": "histogram(x)", "edges_from": "edges.csv"}
    with pytest.raises(ConfigError) as caught:
        request_from_json(said)
    assert caught.value.code == "DPR155"
    monkeypatch.setattr(stored, "MOST_STATISTICS", 0)
    with pytest.raises(ConfigError) as caught:
        request_from_json(request_to_json(plan.request))
    assert caught.value.code == "DPR185"


def test_a_callers_file_of_edges_lies_where_its_file_of_keys_lies(tmp_path: Path) -> None:
    place = tmp_path / "deep"
    place.mkdir()
    (place / "edges.csv").write_bytes(b"\xef\xbb\xbfedge\r\n0\r\n0.5\r\n20\r\n")
    (place / "schema.yaml").write_text(json.dumps(declared("count")), encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    asked = {"statistic": "histogram(x)", "edges_from": "deep/edges.csv"}
    made = dp.Schema.load(place / "schema.yaml")
    for more in (
        {"statistics": [asked]},
        {"tables": [{"name": "t", "by": ["g"], "statistics": [asked]}]},
    ):
        assert dp.plan(made, **more).statistics[0].columns[1].endswith("[0.5,20]")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"statistic": "histogram(x, [0, 1])", "edges_from": "edges.csv"}, "DPR135"),
        ({"statistic": "histogram(x)", "edges_from": 3}, "DPR135"),
        ({"statistic": "histogram(x)", "edges_from": "../edges.csv"}, "DPR116"),
        ({"statistic": "histogram(x)", "edges_from": "nowhere.csv"}, "DPR117"),
    ],
)
def test_a_faulty_file_of_edges_is_refused(
    asked: dict[str, Any], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        dp.Schema.from_dict(declared(asked))
    assert caught.value.code == code


# --- what engines count -----------------------------------------------------------------------


@pytest.mark.parametrize("more", [PLAIN, PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("text", ["range(-50, 150, 2)", "range(-10, 90, 1)", "range(-50, 30, 1)"])
def test_many_bins_are_counted_as_the_reference_counts_them(
    more: Mapping[str, Any], text: str
) -> None:
    query = dp.plan(
        schema(f"histogram(x, {text})", **more), statistics=["count", f"histogram(x, {text})"]
    ).query
    engine = DuckDBEngine()
    salt = os.urandom(8)
    found = engine.compute(as_source(rows()), query, salt).reveal_to_mechanism()
    wanted = ReferenceEngine().compute(as_source(rows()), query, salt).reveal_to_mechanism()
    assert len(query.primitives) > FEW
    assert len(apart(query)[0].primitives) < 5
    assert np.array_equal(found.sums, wanted.sums)
    assert found.sums.sum() > 100
    assert all(type(value) is int for value in found.sums.ravel())


def test_bins_that_overlap_or_hold_no_code_are_counted_too() -> None:
    query = dp.plan(schema("histogram(x, range(-50, 150, 2))")).query
    odd = [replace(p, high=p.low + i) for i, p in enumerate(query.primitives)]
    odd[3] = replace(odd[3], low=30, high=20)
    odd[4] = replace(odd[4], low=-(2**70), high=2**70)
    query = replace(query, primitives=tuple(odd))
    found = DuckDBEngine().compute(as_source(rows()), query, b"").reveal_to_mechanism()
    wanted = ReferenceEngine().compute(as_source(rows()), query, b"").reveal_to_mechanism()
    assert np.array_equal(found.sums, wanted.sums)


def test_codes_too_many_for_a_tally_are_summed_bin_by_bin() -> None:
    fine = {
        "x": {"kind": "number", "range": [0, 10**6], "step": 0.01},
        "g": {"kind": "category", "values": ["a", "b"]},
    }
    query = dp.plan(schema("histogram(x, range(0, 100, 1))", columns=fine)).query
    assert apart(query)[0] == query
    check_query(query)
    many = dp.plan(schema(f"histogram(x, range(0, {MOST_SUMS + 1}, 1))", columns=fine)).query
    with pytest.raises(PlanError) as caught:
        check_query(many)
    assert caught.value.code == "DPR219"
    check_query(replace(many, primitives=many.primitives[1:]))


# --- what the wall proves ---------------------------------------------------------------------


def test_the_wall_proves_many_bins_and_no_other_cells_without_weights() -> None:
    plan = dp.plan(schema("histogram(x, range(-50, 150, 2))"))
    (block,) = plan.blocks
    assert block.measurement.weights == ()
    assert check(plan) <= plan.epsilon
    first, second, *rest = plan.query.primitives
    codes = (*plan.query.codes, replace(plan.query.codes[0], column="y"))
    for other in (
        replace(second, kind="power", power=1),
        replace(second, low=first.low),
        replace(second, code=1),
    ):
        query = replace(plan.query, primitives=(first, other, *rest), codes=codes)
        changed = replace(plan, query=query)
        with pytest.raises(InternalError):
            check(changed)
    fewer = replace(block.measurement, primitives=block.measurement.primitives[1:])
    with pytest.raises(InternalError):
        check(replace(plan, blocks=(replace(block, measurement=fewer),)))


@pytest.mark.parametrize("change", ["add_remove", "substitution"])
@pytest.mark.parametrize(
    "more",
    [
        {"unit": "row"},
        {"unit": "row", "rows": {"exact": 300}},
        {"unit": {"user": "p", "max_groups": 2, "max_rows_per_group": 3}},
        {"unit": {"user": "p", "max_groups": 2, "max_rows_per_group": 3, "max_rows": 4}},
    ],
    ids=["row", "public", "person", "total"],
)
def test_many_bins_move_as_they_do_with_weights(change: str, more: Mapping[str, Any]) -> None:
    asked = declared("histogram(x, range(-50, 150, 2))", adjacency=change, **more)
    if "exact" in asked["rows"]:
        if change == "add_remove":
            pytest.skip("their number is not public")
        asked["columns"]["x"] |= {"nulls": {"default": 0}}
        asked["release"].pop("by")
    else:
        asked["release"]["where"] = "x > -20"
    plan = dp.plan(asked)
    (block,) = plan.blocks
    own, count = block.measurement, len(block.cells)
    assert (own.weights, count) == ((), 100)
    listed = replace(
        own, weights=tuple(tuple(int(i == j) for j in range(count)) for i in range(count))
    )
    bins = plan.query.primitives
    over = (replace(bins[0], high=bins[1].low), *bins[1:])
    again, twice = tuple(range(count)), (0, *range(count - 1))
    for query, places in (
        (plan.query, again),
        (plan.query, again[::-1]),
        (plan.query, twice),
        (replace(plan.query, primitives=over), again),
    ):
        said = {
            "max_rows": own.max_rows,
            "unit": plan.unit,
            "adjacency": plan.adjacency,
            "groups": len(plan.query.groups.keys),
            "whole": True,
            "per": None,
        }
        moved = recompute(query, own, places, **said)
        assert moved == recompute(query, listed, places, **said)
        apart = places is not twice and query is plan.query
        assert (moved.l1_per_group < count) == apart
        assert moved.sum_is_fixed == (apart and own.public_rows is not None)


# --- what files hold --------------------------------------------------------------------------


@pytest.mark.parametrize("regular", [True, False])
def test_a_long_histogram_is_published_short_and_verifies(tmp_path: Path, *, regular: bool) -> None:
    edges = (
        range(3001)
        if regular
        else np.cumsum(np.random.default_rng(3).integers(1, 9, 3001)).tolist()
    )
    text = "range(0, 3000, 1)" if regular else str(list(edges))
    asked = declared(
        f"histogram(x, {text})", columns={"x": {"kind": "integer", "range": [0, int(edges[-1])]}}
    )
    asked["release"].pop("by")
    made = dp.Schema.from_dict(asked)
    ledger = tmp_path / "ledger.db"
    dp.create_ledger(ledger, made, dataset="d", epsilon=4)
    frame = pd.DataFrame({"x": np.random.default_rng(4).integers(0, edges[-1], 5000)})
    release = dp.release(frame, made, ledger=ledger, dataset="d", period="once")
    folder = tmp_path / "public" / "many" / "once"
    release.publish(tmp_path / "public")
    size = (folder / "release.json").stat().st_size
    assert size <= 50 * 3000
    found = dp.verify(folder, ledger=ledger)
    assert found.ok, str(found)
    assert dp.read(folder).table.num_rows == dp.read(folder, verify=False).table.num_rows == 3000


def test_a_plan_reads_back_and_small_lists_stand_as_they_are() -> None:
    for text in ("range(-50, 150, 2)", "[0, 1, 5]"):
        plan = dp.plan(schema(f"histogram(x, {text})"))
        said = json.loads(json.dumps(plan.to_json()))
        again = ReleasePlan.from_json(said)
        assert again.to_json() == said
        assert again.blocks == plan.blocks
        assert again.statistics == plan.statistics
        assert again.query.primitives == plan.query.primitives
        assert isinstance(said["blocks"][0]["cells"], dict) == (len(plan.blocks[0].cells) > FEW)
    assert said["blocks"][0]["measurement"]["weights"] == [["1", "0"], ["0", "1"]]


@pytest.mark.parametrize(
    "wrong",
    [{"name": "h"}, {"name": "h", "edges": "[1]"}, {"name": 3, "edges": [1, 2]}, {"name": "h", "edges": "[1, 2]", "x": 1}],
)  # fmt: skip
def test_forged_labels_are_refused(wrong: object) -> None:
    said = dp.plan(schema("histogram(x, range(-50, 150, 2))")).to_json()
    said["statistics"][0]["columns"] = wrong
    with pytest.raises(ConfigError) as caught:
        ReleasePlan.from_json(said)
    assert caught.value.code == "DPR180"
