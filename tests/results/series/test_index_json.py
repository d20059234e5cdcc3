"""`index.json`: every released value, exact losses, status; strict JSON."""

from __future__ import annotations

import json
from fractions import Fraction

import pyarrow.parquet as pq

from dprelease.results.series.collect import collect
from dprelease.results.series.correct import withdraw
from dprelease.results.series.index_json import write
from tests.results.series.made import year


def said(folder):
    def refuse(token):
        raise AssertionError(token)

    return json.loads(write(collect(folder)), parse_constant=refuse)


def test_every_released_value_is_there(tmp_path):
    folder = year(tmp_path, 3)
    index = said(folder)
    assert [p["period"] for p in index["periods"]] == ["2026-W01", "2026-W02", "2026-W03"]
    for i, period in enumerate(index["periods"]):
        table = pq.read_table(folder / period["period"] / "data.parquet").to_pylist()
        found = {
            (tuple(g["key"]), t["column"]): g["values"][i]
            for t in index["tracks"]
            for g in t["groups"]
        }
        assert found == {
            ((r["region"],), r["statistic"]): [r["value"], r["lower"], r["upper"], r["status"]]
            for r in table
        }


def test_losses_are_exact_and_spent_stays_spent(tmp_path):
    folder = year(tmp_path, 3)
    before = said(folder)["budget"]
    assert before == {
        "pipeline_epsilon": "3/2", "pipeline_delta": "0", "dataset_spent": "3/2", "dataset_total": "100",
    }  # fmt: skip
    entry = withdraw(folder / "2026-W02", reason="test rows")
    index = said(folder)
    assert index["budget"] == before
    assert [p["status"] for p in index["periods"]] == ["published", "withdrawn", "published"]
    assert index["periods"][1]["correction"]["reason"] == "test rows"
    assert index["corrections_head"] == entry.hash
    assert sum(Fraction(p["epsilon"]) for p in index["periods"]) == Fraction(3, 2)


def test_domains_keep_their_gaps(tmp_path):
    index = said(year(tmp_path, 1))
    assert "10" in json.dumps(index["tracks"][0]["domain"])
    assert index["tracks"][0]["step"] == "1"
