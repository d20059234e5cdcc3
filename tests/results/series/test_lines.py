"""Lines are read from columns as they would be from rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dprelease.results.formats import csv_, json_, parquet
from dprelease.results.formats.report_sections import Value
from dprelease.results.publish import publish_files
from dprelease.results.series import index_json, page
from dprelease.results.series.collect import collect
from dprelease.results.series.lines import Lines, released
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.domain import Domain
from tests.results.formats.releases import LEDGER, block, noised, plan, replaced, statistic

A, B, C = ("a",), ("b",), ("c",)


def tidy(rows: list[tuple[str, str, float]]) -> pa.Table:
    return pa.table(
        {
            "key": [key for key, *_ in rows],
            "statistic": [name for _, name, _ in rows],
            "value": [value for *_, value in rows],
            "lower": [value - 1 for *_, value in rows],
            "upper": [value + 1 for *_, value in rows],
            "status": ["ok" if value < 5 else "uninformative" for *_, value in rows],
        }
    )


def period(*rows: tuple[str, float]):
    return released(tidy([(key, "n", value) for key, value in rows]), 1)["n"]


def test_columns_of_a_table_may_have_groups_of_their_own() -> None:
    found = released(tidy([("a", "n", 1), ("b", "m", 2), ("b", "n", 3)]), 1)
    assert {name: one.keys for name, one in found.items()} == {"n": [A, B], "m": [B]}
    assert Lines([found["m"]])[B] == (Value(2, 1, 3, "ok"),)


def test_of_a_repeated_group_the_last_row_counts() -> None:
    lines = Lines([period(("a", 1), ("b", 2), ("a", 3))])
    assert list(lines) == [A, B]
    assert [line[0].value for line in lines.values()] == [3, 2]


def test_a_period_whose_rows_are_all_suppressed_has_no_place_in_any_line() -> None:
    table = tidy([("a", "n", 1), ("b", "n", 2)])
    hidden = table.drop_columns("status").append_column("status", [["suppressed"] * 2])
    assert released(hidden, 1) == {}
    assert list(Lines([None, period(("a", 1))])) == [A]


def test_a_table_without_keys_has_one_group() -> None:
    table = tidy([("a", "n", 1)]).drop_columns("key")
    assert released(table, 0)["n"].keys == [()]


def test_periods_with_other_groups_and_without_the_column() -> None:
    lines = Lines([period(("a", 1), ("b", 2)), None, period(("c", 3), ("a", 7))])
    assert list(lines) == [C, A, B]  # the newest period's come first
    assert [[v and v.value for v in line] for line in lines.values()] == [
        [None, None, 3], [1, None, 7], [2, None, None],
    ]  # fmt: skip
    assert lines.first(2) == {key: lines[key] for key in (C, A)}
    assert [p["value"].to_pylist() for p in lines.aligned()] == [
        [None, 1, 2],
        [None] * 3,
        [3, 7, None],
    ]
    assert lines.widths().tolist() == [2, 2, 2]  # 7 says nothing
    with pytest.raises(KeyError):
        lines[("d",)]
    assert not Lines([None])
    assert lines == Lines([period(("a", 1), ("b", 2)), None, period(("c", 3), ("a", 7))])
    assert lines != Lines([period(("a", 1), ("b", 2)), None, period(("c", 3), ("a", 6))])


@pytest.mark.parametrize("write", [parquet.write, csv_.write])
def test_a_choice_by_rank_has_no_interval_and_is_shown_all_the_same(tmp_path, write) -> None:
    asked = statistic(
        "middle", "median(age)", Domain(0, 99), "1", block="b", mechanism="exponential"
    )
    release = noised(
        plan([asked], [block("b")], keys=[A, B]),
        {"middle": [(41.0, None, None, "ok"), (7.0, None, None, "ok")]},
        LEDGER,
    )
    draft = json_.build_manifest(
        release, Verdict(ok=True, rules=(), engine="built-in"), {}, software={}
    )
    files = write(release, draft)
    manifest = {**draft, "files": json_.described(files)}
    publish_files(
        tmp_path, "clinic_weekly", "2026-W46", {**files, **json_.write(release, manifest)}
    )
    series = collect(tmp_path / "clinic_weekly")
    assert series.tracks[0].lines.first(2) == {
        A: (Value(41, None, None, "ok"),), B: (Value(7, None, None, "ok"),),
    }  # fmt: skip
    (track,) = json.loads(index_json.write(series))["tracks"]
    assert [g["values"] for g in track["groups"]] == [
        [[41, None, None, "ok"]],
        [[7, None, None, "ok"]],
    ]
    text = page.write(series).decode()
    assert "newest, 2026-W46: 41" in text
    assert "<td>41</td><td>–</td><td>–</td>" in text
    assert "dots have noise and no bars" in text


def test_a_folder_with_an_infinity_is_left_out_as_strict_json_cannot_hold_it(tmp_path) -> None:
    asked = statistic("n", "count", Domain(0, 99), "1", block="b")
    good = noised(plan([asked], [block("b")], keys=[A]), {"n": [(1.0, 0.0, 2.0, "ok")]}, LEDGER)
    bad = replaced(good, "lower", 0, float("inf"))
    draft = json_.build_manifest(
        bad, Verdict(ok=True, rules=(), engine="built-in"), {}, software={}
    )
    files = parquet.write(bad, draft)
    manifest = {**draft, "files": json_.described(files)}
    publish_files(tmp_path, "clinic_weekly", "2026-W46", {**files, **json_.write(bad, manifest)})
    series = collect(tmp_path / "clinic_weekly")
    assert (series.periods, series.unreadable) == ((), ("2026-W46",))
    assert json.loads(index_json.write(series))["unreadable"] == ["2026-W46"]
