"""Covariance, correlation and spectra as whole jobs: one frame, one pipeline, both sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.planning.make import make_plan
from tests.end_to_end import projects
from tests.planning.requests import asked
from tests.sizes import some

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
SCHEMA = """\
dprelease: schema/1
name: bodies
unit: row
adjacency: {adjacency}
rows: {rows}
columns:
  region: {{kind: category, values: [north, south, nobody]}}
  height: {{kind: number, measure: cm, range: [140, 210], step: 1{kept}}}
  weight: {{kind: number, measure: kg, range: [40, 140], step: 1{kept}}}
  age: {{kind: integer, measure: years, range: [18, 98]{kept}}}
release:
  epsilon: 6
{by}  statistics:
    - "covariance(height, weight)"
    - "correlation(weight, height)"
    - "eigenvalues(height, weight, age)"
    - "covariance(age, height)"
"""
PIPELINE = """\
dprelease: pipeline/1
name: bodies
source: {csv: data.csv}
schema: schema.yaml
budget: {ledger: .dprelease/ledger.db, dataset: bodies, epsilon: 12}
publish: {to: public, formats: [parquet, csv, html]}
"""
ROWS = 3000


def frame() -> pd.DataFrame:
    random = np.random.default_rng(4)
    height = random.normal(172, 10, ROWS)
    return pd.DataFrame(
        {
            "region": random.choice(["north", "south"], ROWS),
            "height": height,
            "weight": 70 + 0.9 * (height - 172) + random.normal(0, 9, ROWS),
            "age": random.integers(18, 99, ROWS).astype(float),
        }
    )


def schema_text(public: bool) -> str:
    if public:
        rows = f"{{exact: {ROWS}}}"
        return SCHEMA.format(
            adjacency="substitution", rows=rows, kept=", nulls: {default: 60}", by=""
        ).replace(
            "range: [140, 210], step: 1, nulls: {default: 60}",
            "range: [140, 210], step: 1, nulls: {default: 170}",
        )
    return SCHEMA.format(
        adjacency="add_remove", rows="{max: 90000, expected: 1500}", kept="", by="  by: [region]\n"
    )


@pytest.mark.parametrize("public", [False, True])
def test_a_frame_is_released_with_intervals_that_hold(public: bool, tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(schema_text(public), encoding="utf-8")
    table = frame()
    if not public:
        table.loc[3, "age"] = None
        table.loc[5, "height"] = np.nan
        table.loc[7, "weight"] = np.inf
    with pytest.warns(dp.UnledgeredWarning):
        release = table.dp.release(dp.Schema.load(path))
    found = release.table.to_pandas()
    groups = [None] if public else ["north", "south"]
    columns = ["height", "weight", "age"]
    held = 0
    for group in groups:
        here = table if group is None else table[table["region"] == group]
        own = found if group is None else found[found["region"] == group]
        clipped = here.assign(
            height=here["height"].clip(140, 210).round(),
            weight=here["weight"].clip(40, 140).round(),
        )
        matrix = clipped[columns].cov(ddof=0)
        truth = {
            "covariance_height_weight": matrix.loc["height", "weight"],
            "correlation_weight_height": clipped["height"].corr(clipped["weight"]),
            "covariance_age_height": matrix.loc["age", "height"],
        }
        for k, value in enumerate(np.linalg.eigvalsh(matrix)[::-1], start=1):
            truth[f"eigenvalues_height_weight_age[{k}]"] = float(value)
        for name, value in truth.items():
            (row,) = own[own["statistic"] == name].to_dict("records")
            width = row["upper"] - row["lower"]
            held += row["lower"] - width / 2 <= value <= row["upper"] + width / 2
            assert row["lower"] <= row["value"] <= row["upper"]
    # Twice the interval: a miss has odds below 1 in 1,000, three of them below 1 in 10^6.
    assert held >= 6 * len(groups) - 2
    if not public:  # a drawn spectrum of nobody may be "ok", but never as if there were rows
        empty = found[found["region"] == "nobody"]
        said = empty[~empty["status"].isin(["uninformative", "empty_signal", "at_bound"])]
        for row in said.to_dict("records"):
            filled = found[found["region"].isin(groups) & (found["statistic"] == row["statistic"])]
            assert row["upper"] - row["lower"] > 3 * (filled["upper"] - filled["lower"]).max()


@pytest.mark.parametrize("public", some([False, True], 2))
def test_a_pipeline_runs_verifies_and_reports(public: bool, tmp_path: Path) -> None:
    (tmp_path / ".dprelease").mkdir()
    (tmp_path / "schema.yaml").write_text(schema_text(public), encoding="utf-8")
    (tmp_path / "bodies.yaml").write_text(PIPELINE, encoding="utf-8")
    frame().to_csv(tmp_path / "data.csv", index=False)
    pipeline = str(tmp_path / "bodies.yaml")

    def done(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output
        return result.output

    done("ledger", "init", pipeline)
    done("run", pipeline)
    folder = tmp_path / "public" / "bodies" / "once"
    checked = done("verify", str(folder), "--ledger", str(tmp_path / ".dprelease/ledger.db"))
    assert "verified" in checked
    before = (folder / "report.html").read_bytes()
    done("report", str(folder), "--to", str(tmp_path / "again.html"))
    assert (tmp_path / "again.html").read_bytes() == before
    text = before.decode()
    assert "Covariance of height and weight" in text
    assert "Covariance spectrum of height and weight and age" in text
    assert "cm·kg" in text


def test_duckdb_and_the_reference_sum_the_same_products() -> None:
    data: dict[str, Any] = {"y": {"kind": "number", "range": [0, 3], "step": 1}}
    query = asked(["correlation(x, y)", "eigenvalues(x, y)"], columns=data, by=["g"])
    task = make_plan(query).query
    random = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "who": "u",
            "x": random.normal(5, 4, 300),
            "y": random.choice([0.0, 1.0, 9.0, np.nan], 300),
            "g": random.choice(["a", "b", "z"], 300),
        }
    )
    one, other = (
        engine.compute(as_source(table), task, b"salt").reveal_to_mechanism().sums.tolist()
        for engine in (DuckDBEngine(), ReferenceEngine())
    )
    assert one == other
    assert any(any(row) for row in one)
