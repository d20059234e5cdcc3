"""The three examples of tables that add up run, and what they publish adds up."""

from __future__ import annotations

import csv
import re
import runpy
from pathlib import Path

import yaml

import dprelease as dp
from tests.end_to_end.projects import ROOT


def run(name: str, *arguments: object) -> None:
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](*arguments)


def test_the_flights_by_airline_airport_and_month(tmp_path: Path, capsys) -> None:
    run("flights_tables", tmp_path)
    said = capsys.readouterr().out
    for table, groups in (
        ("carriers", "16"),
        ("origins", "3"),
        ("routes", "35"),
        ("quarters", r"\d+"),
    ):
        assert re.search(rf"{table}: ({groups}) of \1 are the sums of their rows by month", said)
    assert "FAIL" not in said
    read = dp.read(tmp_path / "public" / "flights" / "2013")
    year = read.to_pandas("years")
    assert list(year["flights"]) == [read.to_pandas("months")["flights"].sum()]
    months = read.to_pandas("months")
    assert set(months["level"]) == {"routes", "quarters", "months"}
    # 31 % of 420 cells if every cell stood there; at most 4.5 % of rows in 200 draws (benchmarks/results/detail.md)
    mute = (months["flights_lower"] <= 0) & (months["flights_upper"] > 0)
    assert mute.mean() <= 0.1
    assert int(re.search(r"(\d+) of \d+ rows do not say", said)[1]) == mute.sum()
    routes = read.to_pandas("routes").set_index(["carrier", "origin"])
    assert routes["flights"].isna().sum() == 13
    assert routes.loc[("AS", "JFK"), "flights_status"] == "impossible"  # public, not measured


def test_the_survey_cross_tabulated(tmp_path: Path, capsys) -> None:
    run("fair_tables", tmp_path)
    said = capsys.readouterr().out
    assert "margins are the published ones: True" in said
    assert "all answers: 6366 (stated, not measured)" in said
    assert "FAIL" not in said
    read = dp.read(tmp_path / "public" / "fair" / "1978")
    for table in ("affairs", "moods", "ratings", "everything"):
        assert read.to_pandas(table)["answers"].sum() == 6366
    moods = read.to_pandas("moods").set_index(["mood", "affair"])["answers"]
    ratings = read.to_pandas("ratings").set_index(["rating", "affair"])["answers"]
    assert moods["unhappy", "yes"] == ratings["very poor", "yes"] + ratings["poor", "yes"]


def test_a_small_census(tmp_path: Path, capsys) -> None:
    run("census", tmp_path, 60)
    said = capsys.readouterr().out
    assert re.search(r"1,920 cells add up to [\d,]+", said)
    assert "FAIL" not in said
    with (tmp_path / "places.csv").open(encoding="utf-8") as file:
        region = {line["district"]: line["region"] for line in csv.DictReader(file)}
    read = dp.read(tmp_path / "public" / "census" / "2026")
    finest = read.to_pandas("districts_by_sex_and_age")
    added = finest.groupby(finest["district"].map(region))["residents"].sum()
    regions = read.to_pandas("regions").set_index("region")["residents"]
    assert dict(added) == dict(regions)
    assert len(added) == 50


def test_every_pipeline_can_be_tried_after_every_other() -> None:
    """A dataset in two ledgers is refused as soon as one of them has published: that would spend its budget twice."""
    ledgers: dict[str, set[str]] = {}
    for file in (ROOT / "pipelines").glob("*.yaml"):
        budget = yaml.safe_load(file.read_text(encoding="utf-8"))["budget"]
        ledgers.setdefault(budget["dataset"], set()).add(budget["ledger"])
    assert ledgers["flights"] == {"../.dprelease/ledger.db"}
    assert all(len(named) == 1 for named in ledgers.values()), ledgers
