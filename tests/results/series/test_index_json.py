"""`index.json`: every released value, exact losses, status; strict JSON."""

from __future__ import annotations

import json
from fractions import Fraction

import pyarrow.parquet as pq

from dprelease.results.series.collect import collect
from dprelease.results.series.correct import withdraw
from dprelease.results.series.index_json import write
from tests.results.series.made import publish, year


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


def test_groups_that_come_and_go_keep_their_own_values(tmp_path):
    """All periods are written at once: what belongs to which is as each period's own lines say."""
    asked = (("a", "b"), ("b", "c", "d"), ("a",), ("d", "b"))
    for i, labels in enumerate(asked):
        text = "units" if i == 2 else "count"
        publish(tmp_path, f"2026-W0{i + 1}", i, labels=labels, text=text, weak=i == 1)
    series = collect(tmp_path / "weekly")
    found = said(tmp_path / "weekly")["tracks"]
    assert len(found) == len(series.tracks) == 4
    for track, written in zip(series.tracks, found, strict=True):
        for group in written["groups"]:
            line = track.lines[tuple(group["key"])]
            assert [None if v is None else list(v[:4]) for v in line] == group["values"]
