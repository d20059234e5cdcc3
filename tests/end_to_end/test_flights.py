"""The main job on the real flights: what it costs, what a repeat costs, how good the numbers are."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import BudgetError
from dprelease.pipeline import preflight
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger, open_source
from dprelease.results.draw import assemble
from dprelease.wall import execute
from tests.end_to_end import projects
from tests.end_to_end.projects import ROOT, flights, repeatable, tree
from tests.sizes import some

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
TINY = ("AS", "F9", "HA", "OO", "YV")
DATA = "examples/data/flights_nyc_2013.parquet"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project in which a week, a month and another week are released: the whole budget of 8; the two weeks."""
    folder = flights(tmp_path_factory.mktemp("flights"))
    weekly, monthly = (folder / "pipelines" / f"flights_{p}.yaml" for p in ("weekly", "monthly"))
    init_ledger(load_pipeline(weekly))
    init_ledger(load_pipeline(monthly))  # the same dataset, the same aircraft: a no-op
    first = dp.run(weekly, period="2013-W05")
    assert dp.run(monthly, period="2013-02").receipt.spent == "6"
    with pytest.raises(BudgetError, match="spent 6 of 8, asked 4, left 2"):
        dp.run(monthly, period="2013-03")
    return folder, weekly, [first, dp.run(weekly, period="2013-W06")]


def budget(folder):
    return Ledger.open(folder / ".dprelease" / "ledger.db").budget("flights")


def test_each_period_costs_its_epsilon_and_is_published_whole(project):
    folder, _, results = project
    assert [r.receipt.spent for r in results] == ["2", "8"]
    assert all(r.receipt.fresh and r.receipt.epsilon == "2" for r in results)
    assert (budget(folder).spent, budget(folder).left) == (8, 0)
    for result in results:
        assert sorted(p.name for p in result.folder.iterdir()) == [
            "data.csv", "data.parquet", "datapackage.json", "registry.yaml", "release.json", "report.html", "wide.csv",
        ]  # fmt: skip
    assert (results[0].folder.parent / "latest").resolve() == results[-1].folder.resolve()


def test_a_repeat_returns_the_same_bytes_reads_no_row_and_costs_nothing(project):
    folder, weekly, results = project
    before = tree(folder / "public")
    (folder / DATA).rename(folder / "away.parquet")  # there is nothing left to read
    try:
        again = dp.run(weekly, period="2013-W05")
    finally:
        (folder / "away.parquet").rename(folder / DATA)
    assert tree(folder / "public") == before
    assert not again.receipt.fresh
    assert again.to_json()["charged"] == "0"
    assert again.folder == results[0].folder
    assert budget(folder).spent == 8


def test_another_period_draws_again(project):
    first, second = (tree(r.folder)["data.csv"] for r in project[2][:2])
    assert first != second  # the control of the test above: bytes are not constant


def test_a_lost_folder_is_published_again_for_nothing(project):
    folder, weekly, results = project
    before = tree(results[1].folder)
    results[1].folder.rename(folder / "moved")
    dp.run(weekly, period="2013-W06")
    assert tree(results[1].folder) == before
    assert budget(folder).spent == 8


def test_one_week_more_is_refused_and_says_spent_asked_and_left(project):
    folder, weekly, _ = project
    with pytest.raises(BudgetError) as caught:
        dp.run(weekly, period="2013-W07")
    error = caught.value
    assert "spent 8 of 8" in error.what
    assert "asked 2" in error.what
    assert "left 0" in error.what
    assert f"`dprelease ledger add {weekly} --epsilon 2`" in error.fix
    assert (error.code, error.spent, error.exit_status) == ("DPR301", "nothing", 1)
    assert budget(folder).spent == 8
    assert not (folder / "public" / "flights_weekly" / "2013-W07").exists()


def test_verification_holds_with_and_without_the_ledger(project):
    folder, _, results = project
    for result in some(results, 2):
        assert dp.verify(result.folder).ok
        assert dp.verify(result.folder, ledger=folder / ".dprelease" / "ledger.db").ok


def test_every_value_is_in_its_domain_and_small_counts_are_suppressed(project):
    for result in project[2]:
        table = pd.read_parquet(result.folder / "data.parquet")
        assert len(table) == 16 * 13
        assert np.isfinite(table[["value", "lower", "upper"]]).all(axis=None)
        count = table.loc[table.statistic == "count", "value"]
        assert ((count == 0) | (count >= 10)).all()
        delay = table.loc[table.statistic == "mean_dep_delay", "value"]
        assert delay.between(-20, 120).all()
        assert (table.lower <= table.value).all()
        assert (table.value <= table.upper).all()


def test_the_manifest_states_the_guarantee_with_its_unit_and_adjacency(project):
    manifest = json.loads((project[2][0].folder / "release.json").read_text())
    assert manifest["guarantee"]["epsilon"] == "2"
    assert manifest["guarantee"]["adjacency"] == "add_remove"
    assert manifest["guarantee"]["unit"]["user"] == "tailnum"
    total = sum(Fraction(b["certificate"]["epsilon_upper"]) for b in manifest["plan"]["blocks"])
    assert total <= 2


def test_weeks_and_months_share_one_budget(project):
    """What each has spent of it stands where the project is made."""
    folder = project[0]
    month = folder / "public" / "flights_monthly" / "2013-02"
    assert dp.verify(month, ledger=folder / ".dprelease" / "ledger.db").ok
    assert not (month.parent / "2013-03").exists()


def test_the_tiniest_carriers_are_marked_uninformative(monkeypatch):
    repeatable(monkeypatch, "tiny carriers")
    frame = pd.read_parquet(ROOT / DATA)
    week = frame[(frame.time_hour >= "2013-01-28 05:00") & (frame.time_hour < "2013-02-04 05:00")]
    table = week.dp.release(ROOT / "schemas" / "flights.yaml").table.to_pandas()
    means = table[table.statistic.isin(["mean_dep_delay", "mean_air_time", "mean_distance"])]
    tiny, large = means[means.carrier.isin(TINY)], means[means.carrier.isin(["UA", "B6", "AA"])]
    honest = tiny.status.isin(["uninformative", "empty_signal", "at_bound"])
    assert honest.sum() >= 12  # of 15
    assert tiny.status.isin(["uninformative", "empty_signal"]).sum() >= 9
    assert (large.status == "ok").all()  # the control: the mark is not given to everything


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("pipeline", "period", "promised"),
    [("flights_weekly", "2013-W05", 0.9), ("flights_monthly", "2013-02", 0.4)],
)
def test_the_mean_delay_of_united_is_as_exact_as_promised(tmp_path, pipeline, period, promised):
    config = load_pipeline(flights(tmp_path) / "pipelines" / f"{pipeline}.yaml")
    plan = plan_pipeline(config, period)
    block = next(b for b in plan.blocks if b.name.startswith("mean_dep_delay"))
    exact = preflight.engine_named("duckdb").compute(
        open_source(config.source), plan.query, bytes(32)
    )
    cells = execute._cells(plan, exact.reveal_to_mechanism(), block)
    united = plan.keys.index(("UA",))
    _, b1, b2 = (int(c) for c in cells[united])
    truth = -20 + 140 * (b1 / 2 + b2) / sum(int(c) for c in cells[united])
    assert 6 < truth < 10  # the unbounded mean is 9.2 (week) and 7.7 (month)

    statistic = next(s for s in plan.statistics if s.name == "mean_dep_delay")
    draws = 4000  # of one group, as if it stood in the table that often
    raw = block.law.draw(
        np.repeat(cells[united : united + 1], draws, axis=0), ReplayBits(f"united {period}")
    )
    drawn = {block.name: tuple(tuple(int(v) for v in row) for row in raw)}
    table = assemble(("carrier",), [("UA",)] * draws, (statistic,), (block,), drawn).to_pandas()
    error = (table.value - truth).abs().mean()
    assert error < promised
    assert error > promised / 10  # the control: noise was drawn
    # 4000 draws at 95 %: 5 standard deviations below is 93.3 %
    assert ((table.lower <= truth) & (truth <= table.upper)).mean() > 0.933
    inner = table.lower + 0.25 * (table.upper - table.lower)
    outer = table.lower + 0.75 * (table.upper - table.lower)
    assert ((inner <= truth) & (truth <= outer)).mean() < 0.933  # the control: half as wide fails
