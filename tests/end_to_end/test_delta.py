"""A release with a delta from rows to a verified folder, charged to a budget that composes by zCDP."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from tests.folders import remade, write
from tests.planning.requests import declared

GROUPS = [f"k{i}" for i in range(12)]
SCHEMA = declared(
    ["count", "mean(x)", "variance(x)"],
    epsilon=2,
    delta="0.000001",
    unit={"user": "who", "max_groups": 12, "max_rows_per_group": 3},
    by=["g"],
    groups=GROUPS,
)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 20_000
    return pd.DataFrame(
        {
            "who": rng.integers(0, 2000, n),
            "x": np.round(rng.normal(5, 2, n) * 2) / 2,
            "g": rng.choice(GROUPS, n),
        }
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    home = tmp_path_factory.mktemp("delta")
    ledger = dp.create_ledger(
        home / "l.db", SCHEMA, epsilon=3, delta="0.00001", dataset="small", composition="zcdp"
    )
    release = frame().dp.release(SCHEMA, ledger=ledger, dataset="small", period="p1")
    release.publish(home / "out")
    return home, ledger, release, next((home / "out").rglob("release.json")).parent


def test_the_folder_verifies_and_names_the_composition(published):
    home, ledger, release, folder = published
    assert release.plan.composition.method == "zcdp/1"
    assert dp.verify(folder, ledger=ledger).ok
    manifest = json.loads((folder / "release.json").read_text())
    assert manifest["plan"]["composition"]["method"] == "zcdp/1"
    assert "delta=1e-06" in manifest["guarantee"]["statement"]
    assert {b["mechanism"] for b in manifest["plan"]["blocks"]} == {"rectified_gaussian"}
    assert home in folder.parents


def test_values_are_near_the_truth_and_inside_their_intervals(published):
    *_, release, _ = published
    table = release.table.to_pandas()
    means = table[table.statistic == "mean_x"]
    assert ((means.lower <= means.value) & (means.value <= means.upper)).all()
    assert (np.abs(means.value - 5) < 1.5).all()


def test_a_forged_rho_in_the_manifest_is_refused(published, tmp_path):
    *_, folder = published
    manifest = json.loads((folder / "release.json").read_text())
    block = manifest["plan"]["blocks"][0]
    block["rho"] = "1/1000000"
    from dprelease.core.errors import InternalError
    from dprelease.release_plan.plan import ReleasePlan
    from dprelease.wall import execute

    with pytest.raises(InternalError) as refused:
        execute.check(ReleasePlan.from_json(manifest["plan"]))
    assert refused.value.code == "DPR901"


def test_the_ledger_shows_rho_and_a_new_one_can_be_reconciled(published, tmp_path):
    home, ledger, release, _ = published
    shown = CliRunner().invoke(app, ["ledger", "show", "--ledger", str(ledger)]).output
    assert "zcdp: rho" in shown
    value = CliRunner().invoke(app, ["ledger", "show", "--ledger", str(ledger), "--json"]).output
    assert "spent_rho" in json.loads(value)["datasets"]["small"]
    other = Ledger.open(
        dp.create_ledger(
            tmp_path / "l.db",
            SCHEMA,
            epsilon=3,
            delta="0.00001",
            dataset="small",
            composition="zcdp",
        )
    )
    assert other.reconcile([home / "out"]) == 1
    assert other.budget("small").spent_rho == Ledger.open(ledger).budget("small").spent_rho
    assert other.budget("small").spent < release.plan.epsilon


@pytest.mark.parametrize(
    "change",
    [
        {"spent": "1/1000", "history": ["1/1000"]},
        {"delta": "1/1000000000"},
        {"delta": "0"},
        {"composition": "basic"},
    ],
)
def test_a_budget_of_rho_that_cannot_be_is_refused_without_the_ledger(published, tmp_path, change):
    """What this release's rho is worth at the stated delta is spent, whatever was spent before."""
    *_, folder = published
    manifest = json.loads((folder / "release.json").read_text())
    stated = manifest["budget"]
    assert (stated["composition"], stated["delta"]) == ("zcdp", "1/100000")
    manifest["budget"] = manifest["receipt"]["budget"] = {**stated, **change}
    found = dp.verify(write(tmp_path / "release", remade(manifest)))
    assert not found.ok
    assert "the stated budget cannot be" in str(found)


def test_a_raised_delta_leaves_what_was_stated_true(published, tmp_path):
    """What a sum of rho is worth depends on the delta: the receipt's own, as deltas only rise."""
    _, ledger, _, folder = published
    shutil.copy(ledger, tmp_path / "l.db")
    copy = Ledger.open(tmp_path / "l.db")
    copy.add_budget("small", 1, "0.0001")
    assert dp.verify(folder, ledger=copy.path).ok
    manifest = json.loads((folder / "release.json").read_text())
    larger = {**manifest["budget"], "delta": "1/100"}
    manifest["budget"] = manifest["receipt"]["budget"] = larger
    forged = write(tmp_path / "release", remade(manifest))
    assert "the budget as of entry" in str(dp.verify(forged, ledger=copy.path))
