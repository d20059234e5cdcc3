"""A release of several tables with medians: written, read, computed with, and verified from its folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ArgumentError
from dprelease.release_plan.tables import APART
from tests.several_tables import REGION, people, schema

TWO = ["count", "median(income)"]
QUARTILES = [*TWO, "quantile(income, 0.25)", {"statistic": "variance(income)"}]
INTERVAL = {"statistic": "median(income)", "interval": True}
TABLES: list[dict[str, Any]] = [
    {"name": "nation", "by": [], "statistics": TWO},
    {"name": "regions", "by": ["region"], "statistics": QUARTILES},
    {"name": "districts", "by": ["district"], "statistics": ["count", INTERVAL]},
]
EPSILON = 600
"""So much that every value is the exact one, but for a chance below 1e-6."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("own")
    made = schema(TABLES, release={"epsilon": EPSILON})
    ledger = dp.create_ledger(where / "own.db", made, epsilon=EPSILON)
    release = people().dp.release(made, ledger=ledger, period="2026")
    return Path(release.publish(where / "public"))


@pytest.fixture(scope="module")
def read(folder: Path) -> Any:
    return dp.read(folder)


def kept() -> pd.DataFrame:
    found = people()
    found = found[found["district"].isin(list(REGION))]
    return found.assign(region=found["district"].map(REGION))


def held(values: Any, value: float, share: float) -> bool:
    """Return whether the value is at the rank: as many rows below and above as there may be."""
    rank = share * len(values)
    return bool((values < value).sum() <= rank + 1 and (values <= value).sum() >= rank - 1)


def test_values_of_every_table_are_of_its_own_rows(read: Any) -> None:
    rows = kept()
    nation, regions = read.to_pandas("nation"), read.to_pandas("regions").set_index("region")
    assert held(rows["income"], nation["median_income"][0], 0.5)
    for region, mine in rows.groupby("region")["income"]:
        assert held(mine, regions["median_income"][region], 0.5)
        assert held(mine, regions["quantile_income_0_25"][region], 0.25)
        assert abs(regions["variance_income"][region] - mine.var(ddof=0)) < 5
    districts = read.to_pandas("districts").set_index("district")
    for district, mine in rows.groupby("district")["income"]:
        low, high = (districts[f"median_income_{end}"][district] for end in ("lower", "upper"))
        assert low <= np.quantile(mine, 0.5, method="inverted_cdf") <= high


def test_files_hold_them(folder: Path) -> None:
    wide = pd.read_csv(folder / "regions_wide.csv")
    tidy = pd.read_parquet(folder / "regions.parquet")
    mine = tidy[tidy["statistic"] == "median_income"]
    assert wide["median_income"].tolist() == mine["value"].tolist()
    assert set(mine["status"]) == {"no_interval"}
    assert mine["lower"].isna().all()
    assert set(mine["block"]) == {"regions.median_income+quantile_income_0_25"}
    assert "consistent" not in tidy


def test_pages_say_that_they_do_not_add_up(folder: Path, read: Any) -> None:
    page = (folder / "report.html").read_text()
    assert "<code>median(income)</code>, <code>quantile(income, 0.25)</code>" in page
    assert "do not add up: each table’s values were drawn by themselves" in page
    assert page.count(APART) >= 2
    assert APART in " ".join(str(read.plan).split())
    assert any(APART in note for note in read.plan.notes)


def test_computed_with_as_in_one_table(read: Any) -> None:
    gap = read.derive("variance_income / count", by=["region"], table="regions")
    assert len(gap.to_pandas()) == 2
    median = read.derive("median_income", by=["region"], table="regions").to_pandas()
    assert median["value"].tolist() == read.to_pandas("regions")["median_income"].tolist()
    for expression, by, code in (
        ("median_income", [], "DPR663"),  # of both regions it is no function of each
        ("median_income - quantile_income_0_25", ["region"], "DPR662"),
    ):
        with pytest.raises(ArgumentError) as caught:
            read.derive(expression, by=by, table="regions")
        assert caught.value.code == code


def test_verified_from_the_folder_alone(folder: Path) -> None:
    assert dp.verify(folder).ok
    manifest = folder / "release.json"
    said = manifest.read_text()
    other = said.replace('"statistic":"median(income)"', '"statistic":"max(income)"', 1)
    assert other != said
    try:
        manifest.write_text(other)
        assert not dp.verify(folder).ok
    finally:
        manifest.write_text(said)


def test_rules_and_impossible_groups() -> None:
    tables = [
        {"name": "nation", "by": [], "statistics": TWO},
        {"name": "districts", "by": ["district"], "statistics": TWO, "zeros": [["d5"]]},
    ]
    rules = {"suppress": {"below": 60}}
    made = schema(tables, release={"epsilon": EPSILON, "rules": rules})
    found = people().dp.release(made).to_pandas("districts").set_index("district")
    assert found["median_income_status"]["d5"] == "impossible"
    assert found["median_income_status"]["d4"] == "suppressed"
    assert pd.isna(found["median_income"]["d4"])
    assert found["median_income_status"]["d0"] == "no_interval"
