"""Groups that can hold no row, in everything that is published: a status, no value, no interval, no mechanism."""

from __future__ import annotations

import csv
import json
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.planning.tables import make
from dprelease.results.formats import sdmx
from dprelease.results.rules import IMPOSSIBLE
from dprelease.results.series.collect import collect
from dprelease.results.validate.gx import gx_validate
from dprelease.results.validate.rules import check
from tests.rules_alone import rules_alone
from tests.several_tables import REGION, TREE, people, schema

ZEROS = [["d0", "f"], ["d1", "f"], ["d1", "m"]]
STATISTICS = ["count", "mean(age)"]
TABLES = [
    {**TREE[0], "statistics": STATISTICS},
    {**TREE[1], "statistics": STATISTICS},
    {"name": "places", "by": ["district"], "statistics": STATISTICS},
    {**TREE[2], "statistics": STATISTICS, "zeros": ZEROS},
]
MADE = schema(TABLES)


def published(root: Path, made=MADE):
    ledger = dp.create_ledger(root / "ledger.db", made, epsilon=1)
    release = dp.release(people(), made, ledger=ledger, period="2026")
    with rules_alone():
        return release, release.publish(root / "public")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return published(tmp_path_factory.mktemp("impossible"))


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_files_hold_a_status_and_nothing_else(both) -> None:
    release, folder = both
    assert dp.verify(folder).ok
    for name, keys in (("districts", ["district", "sex"]), ("places", ["district"])):
        gone = ZEROS if name == "districts" else [["d1"]]
        lines = rows(folder, f"{name}.csv")
        table = pq.read_table(folder / f"{name}.parquet").to_pylist()
        assert table == [
            {**r, "region": REGION[r["district"]]} for r in release.tables[name].to_pylist()
        ]
        for line, row in zip(lines, table, strict=True):
            none = [row[k] for k in keys] in gone
            assert (row["status"] == line["status"] == IMPOSSIBLE) == none
            for column in ("value", "lower", "upper", "mechanism"):
                assert ((row[column] is None) and not line[column]) == none, (name, column)
            assert not none or (row["estimate"], row["unbiased"]) == (None, None)
            assert row["block"]
            assert line["region"] == row["region"] == REGION[row["district"]]
        wide = [r for r in rows(folder, f"{name}_wide.csv") if [r[k] for k in keys] in gone]
        assert len(wide) == len(gone)
        for row in wide:
            said = [row[f"{s}{p}"] for s in ("count", "mean_age") for p in ("", "_lower", "_upper", "_status")]  # fmt: skip
            assert said == ["", "", "", IMPOSSIBLE] * 2


def test_frames_hold_it_too(both) -> None:
    release, folder = both
    for found in (release, dp.read(folder)):
        frame = found.to_pandas("districts").set_index(["district", "sex"])
        assert frame.loc[("d0", "f"), "count"] is pd.NA
        assert frame.loc[("d0", "f"), "mean_age_status"] == IMPOSSIBLE
        assert frame["region"].tolist() == [REGION[d] for d, _ in frame.index]
        turned = found.to_pandas("districts", pivot="sex", intervals=False, status=False)
        assert turned.loc["d0", ("count", "f")] is pd.NA
        assert turned.loc["d0", ("count", "m")] >= 0
        assert "region" not in turned
    assert IMPOSSIBLE in release._html("districts")  # in notebooks, in place of a number
    assert release.plot("count", table="districts").svg


def test_sums_and_quotients_of_them(both) -> None:
    """Of no row a count is 0, for certain; a mean is none."""
    release, _ = both
    counts = release.derive("count", table="districts", by=["district"]).table.to_pylist()
    places = {row["district"]: row for row in release.to_pandas("places").to_dict("records")}
    for row in counts:
        if row["district"] == "d1":
            assert (row["value"], row["lower"], row["upper"]) == (0, 0, 0)
        else:
            assert row["value"] == places[row["district"]]["count"]
    whole = release.derive("count", table="districts", by=[]).table.to_pylist()
    assert whole[0]["value"] == release.to_pandas("nation")["count"][0]
    means = release.derive("mean_age", table="districts").table.to_pylist()
    for row in means:
        assert (row["value"] is None) == ([row["district"], row["sex"]] in ZEROS)


def test_the_data_package_says_it_and_frictionless_agrees(both) -> None:
    _, folder = both
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frictionless = pytest.importorskip("frictionless")
        package = frictionless.Package(str(folder / "datapackage.json"))
        package.resources = [r for r in package.resources if r.format == "csv"]
        result = package.validate()
        assert result.valid, result.flatten(["title", "message"])
    fields = {
        r["name"]: {f["name"]: f for f in r["schema"]["fields"]}
        for r in json.loads((folder / "datapackage.json").read_text())["resources"]
    }
    for name in ("districts-csv", "districts-wide-csv", "districts-parquet"):
        status = fields[name]["count_status" if "wide" in name else "status"]
        assert IMPOSSIBLE in status["constraints"]["enum"]
        assert "can hold no row" in status["description"]
        assert "required" not in fields[name]["count" if "wide" in name else "value"]["constraints"]
    assert fields["districts-parquet"]["region"]["constraints"]["enum"] == ["r0", "r1"]
    nation = fields["nation-csv"]
    assert IMPOSSIBLE not in nation["status"]["constraints"]["enum"]
    assert nation["value"]["constraints"]["required"]


def test_sdmx_says_that_the_value_cannot_exist(both) -> None:
    release, _ = both
    part = release.noised.parts["districts"]
    lines = sdmx.write(part, release.manifest)["sdmx.csv"].decode().splitlines()
    read = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    for row in read:
        none = [row["DISTRICT"], row["SEX"]] in ZEROS
        assert (row["OBS_STATUS"] == "M") == none
        assert (row["OBS_VALUE"] == row["LOWER"] == "") == none
        assert row["CONF_STATUS"] == "F"


def test_the_page_and_the_index_have_no_number_for_it(both) -> None:
    _, folder = both
    text = (folder / "report.html").read_text()
    assert "impossible" in text
    series = collect(folder.parent)
    [track] = [t for t in series.tracks if (t.table, t.column) == ("districts", "count")]
    assert not {tuple(z) for z in ZEROS} & {key for key in track.lines if track.lines[key][0]}


def test_validation_wants_it_there_and_nowhere_else(both) -> None:
    release, _ = both
    noised = release.noised
    assert check(noised).ok
    assert gx_validate(noised).ok
    part = noised.parts["districts"]
    statuses = part.table.column("status").to_pylist()
    first, other = statuses.index(IMPOSSIBLE), statuses.index("ok")

    def with_cells(row: int, **cells: object) -> bool:
        table = part.table
        for name, value in cells.items():
            column = table.column(name).to_pylist()
            column[row] = value
            place = table.column_names.index(name)
            kind = table.schema.field(place).type
            table = table.set_column(place, name, [pa.array(column, kind)])
        return check(
            replace(noised, parts={**noised.parts, "districts": replace(part, table=table)})
        ).ok

    assert with_cells(other)
    none = dict.fromkeys(("value", "lower", "upper", "estimate", "unbiased"))
    assert not with_cells(other, status=IMPOSSIBLE, **none)
    assert not with_cells(first, status="ok", value=0.0, lower=0.0, upper=0.0)
    assert not with_cells(first, value=0.0)
    assert not with_cells(first, lower=0.0, upper=0.0)


def test_a_folder_from_before_holds_zeros_and_verifies(tmp_path, monkeypatch) -> None:
    """Its plan does not say `impossible`: it is made again as it was."""
    today = make._tables
    monkeypatch.setattr(make, "_tables", lambda query: replace(today(query), impossible=False))
    _, folder = published(tmp_path)
    monkeypatch.undo()
    assert "impossible" not in json.loads((folder / "release.json").read_text())["plan"]["tables"]
    lines = rows(folder, "districts.csv")
    zeros = [r for r in lines if [r["district"], r["sex"]] in ZEROS and r["statistic"] == "count"]
    assert [(r["value"], r["status"]) for r in zeros] == [("0", "ok")] * 3
    assert dp.verify(folder).ok
    assert dp.read(folder).to_pandas("districts")["count"].notna().all()


def test_rows_of_several_levels_say_it_too() -> None:
    """A branch without a row that may be stands at one level, and its row says so."""
    counts = [{**t, "statistics": ["count"]} for t in TABLES]
    counts[3]["detail"] = {"statistic": "count", "max_error": 1000, "levels": ["places"]}
    release = dp.release(people(), schema(counts))
    assert check(release.noised).ok
    frame = release.to_pandas("districts")
    none = frame[frame["count_status"] == IMPOSSIBLE]
    keys = set(zip(none["district"], none["sex"], strict=True))
    assert keys == {("d0", "f"), ("d1", "all")}  # no row of d1 can be: it stands as a whole
    assert none["count"].isna().all()


def test_suppressed_cells_are_not_taken_for_impossible_ones() -> None:
    made = schema([{**t, "statistics": ["count"]} for t in TABLES])
    made["release"]["rules"] = {"suppress": {"below": 30}}
    release = dp.release(people(), made)
    frame = release.to_pandas("districts")
    none = [[d, s] in ZEROS for d, s in zip(frame["district"], frame["sex"], strict=True)]
    assert (frame["count_status"] == IMPOSSIBLE).tolist() == none
    assert check(release.noised).ok
