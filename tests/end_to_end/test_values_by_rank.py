"""Medians, quantiles, extremes and distinct values, from rows to a verified folder and its report."""

from __future__ import annotations

import csv
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.results.draw import Draw
from dprelease.results.validate.rules import check
from tests.end_to_end import projects

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
SCHEMA = """\
dprelease: schema/1
name: shop
unit: {user: customer, max_groups: 2, max_rows_per_group: 2}
adjacency: add_remove
rows: {max: 100000, expected: 2000}
columns:
  customer: {kind: identifier}
  town:     {kind: category, values: [north, south], other: drop}
  colour:   {kind: category, values: [red, green, blue, black], other: drop}
  price:    {kind: number, measure: euro, range: [0, 500], forbidden: [[100, 120]], step: 0.01}
  gift:     {kind: boolean}
release:
  epsilon: 80
  by: [town]
  statistics:
    - count
    - median(price)
    - "quantile(price, 0.9)"
    - {statistic: "max(price)", as: dearest, mechanism: permute_and_flip, domain: {range: [0, 400], step: 5}}
    - min(price)
    - count_distinct(colour)
    - count_distinct(gift)
"""
PIPELINE = """\
dprelease: pipeline/1
name: shop
source: {csv: ../data/sales.csv}
schema: ../schemas/shop.yaml
budget: {ledger: ../.dprelease/ledger.db, dataset: shop, epsilon: 100}
publish: {to: ../public, formats: [parquet, csv, html]}
"""
RANKED = ("median_price", "quantile_price_0_9", "dearest", "min_price")


def rows(count: int = 8000) -> pd.DataFrame:
    place = np.arange(count)
    price = np.round(20 + 79 * ((place * 7919) % count) / count, 2)
    price[::50] = 400.0
    return pd.DataFrame(
        {
            "customer": [f"c{i}" for i in place // 2],
            "town": np.where(place % 4 < 2, "north", "south"),
            "colour": np.array(["red", "blue", "pink"])[place % 3],
            "price": price,
            "gift": place % 5 == 0,
        }
    )


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in (("schemas/shop.yaml", SCHEMA), ("pipelines/shop.yaml", PIPELINE)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()
    (tmp_path / ".dprelease").mkdir()
    rows().to_csv(tmp_path / "data" / "sales.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def call(*arguments, exit_code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_a_pipeline_publishes_and_verifies_them(project):
    said = call("plan", "pipelines/shop.yaml")
    assert "in rank where rows differ" in said
    call("ledger", "init", "pipelines/shop.yaml")
    call("run", "pipelines/shop.yaml")
    folder = project / "public" / "shop" / "once"
    assert any(line.startswith("verified under") for line in call("verify", folder).splitlines())

    with (folder / "data.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    values = {(r["town"], r["statistic"]): float(r["value"]) for r in table}
    for town in ("north", "south"):
        assert 50 <= values[town, "median_price"] <= 70
        assert 85 <= values[town, "quantile_price_0_9"] <= 100
        assert values[town, "dearest"] % 5 == 0
        assert 15 <= values[town, "min_price"] <= 30
        assert values[town, "count_distinct_colour"] <= 4
    for r in table:
        unknown = r["statistic"] in RANKED
        assert (r["lower"] == r["upper"] == "") == unknown
        assert r["status"] in ("no_interval" if unknown else "ok", "at_bound")

    report = (folder / "report.html").read_text()
    section = re.search(r'<section id="s2".*?</section>', report, re.DOTALL)
    assert section is not None
    assert "Median of price" in section[0]
    assert "in rank where rows differ" in section[0]
    assert "expected error" not in section[0].split("<table")[0]
    assert "nan" not in report.lower().replace("financ", "").replace("nanayakkara", "")
    assert "Number of distinct colour" in report
    call("report", folder, "--to", "again.html")
    assert (project / "again.html").read_bytes() == (folder / "report.html").read_bytes()
    manifest = json.loads((folder / "release.json").read_text())
    laws = [
        (b["family"], b["law"]["draw"])
        for b in manifest["plan"]["blocks"]
        if "ranks" in b["family"]
    ]
    assert laws == 4 * [("ranks", "permute_and_flip")]


def test_a_released_value_lies_in_its_gapped_domain(project):
    schema = dp.Schema.load(project / "schemas" / "shop.yaml")
    with pytest.warns(dp.UnledgeredWarning):
        release = rows(400).dp.release(schema, epsilon="0.7")
    wide = release.to_pandas()
    for name in ("median_price", "quantile_price_0_9", "min_price"):
        assert not wide[name].between(100, 120, inclusive="neither").any()
        assert wide[name].between(0, 500).all()
    assert (wide["dearest"] <= 400).all()
    assert "80" not in str(release.plan.statistics[1].notes)  # nothing there is a value of the data


def test_two_validators_want_no_interval_for_a_choice_and_one_for_the_rest(project):
    from dprelease.results.validate.gx import gx_validate

    schema = dp.Schema.load(project / "schemas" / "shop.yaml")
    with pytest.warns(dp.UnledgeredWarning):
        release = rows(400).dp.release(schema, by=[])
    noised = Draw(release.plan, release.table, {})
    assert check(noised).ok
    assert gx_validate(noised).ok
    frame = release.table.to_pandas()
    for name, end in (("median_price", 1.0), ("count", math.nan)):
        wrong = frame.copy()
        wrong.loc[wrong["statistic"] == name, "lower"] = end
        import pyarrow as pa

        broken = Draw(release.plan, pa.Table.from_pandas(wrong, release.table.schema, False), {})
        for verdict in (check(broken), gx_validate(broken)):
            assert not verdict.ok
            assert [r.name for r in verdict.failures] == ["interval"]
