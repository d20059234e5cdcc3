"""A simulated year: the scheduler on every week of the 2013 flights, and what readers then see."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli.ledger_time import over_time
from dprelease.core.errors import BudgetError
from dprelease.pipeline import preflight
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.pipeline.schedule import Clock, job, tick
from tests.end_to_end.projects import flights, tree
from tests.rules_alone import built_in_rules_only
from tests.sizes import FULL, whole

FIRST = whole(39, 1)
"""The first week: all the year in `make evidence`; in every run the fortnight without a machine, the end of
summer time and the end of the data."""
WEEKS = [f"2013-W{i:02d}" for i in range(FIRST, 53)]
COUNT = len(WEEKS)
CARRIERS = ("AA", "DL", "UA")  # HA is declared, and has no rows here


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """Tick hour by hour where something happens: after every scheduled instant of the year."""
    folder = flights(tmp_path_factory.mktemp("year"))
    data = folder / "examples" / "data" / "flights_nyc_2013.parquet"
    table = pq.read_table(data)  # three carriers of sixteen: the year takes seconds
    kept = table.filter(pc.is_in(table["carrier"].cast(pa.utf8()), value_set=pa.array(CARRIERS)))
    pq.write_table(kept, data)
    schema = folder / "schemas" / "flights_year.yaml"
    schema.write_text(
        re.sub(r'values: \["9E".*\]', 'values: ["AA", "DL", "HA", "UA"]', schema.read_text())
    )
    path = folder / "pipelines" / "flights_year.yaml"
    text = path.read_text().replace("[parquet, csv, html]", "[parquet]")
    lines = [t for t in text.splitlines() if "proportion" not in t and "mean(" not in t]
    text = "\n".join(lines).replace(", share: 0.3", "")
    path.write_text(text + "\n")
    config = load_pipeline(path)
    init_ledger(config)
    engine, told, statuses = preflight.engine_named("duckdb"), [], []
    patch = pytest.MonkeyPatch()
    patch.setattr(preflight, "engine_named", lambda *_: engine)
    built_in_rules_only(patch)
    try:
        now = datetime(2013, 1, 9, 11, 0, 5, tzinfo=UTC) + timedelta(days=7 * (FIRST - 1))
        while now < datetime(2014, 1, 8, tzinfo=UTC):
            work = job([config], clock=Clock(now), report=told.append, catch_up=1)
            # A fortnight in October the machine is off; then it catches up.
            if not (now.month == 10 and 8 <= now.day <= 21):
                back = now.month == 10 and 22 <= now.day <= 28
                statuses.append(
                    tick(
                        job([config], clock=Clock(now), report=told.append, catch_up=3)
                        if back
                        else work
                    )
                )
            now += timedelta(days=7)
    finally:
        patch.undo()
    return folder, config, told, statuses


def test_every_week_is_released_once_in_order(year):
    _, config, told, statuses = year
    assert set(statuses) == {0}
    assert [e["period"] for e in told if e["event"] == "released"] == WEEKS
    ledger = Ledger.open(config.budget.ledger)
    budget = ledger.budget("flights_year")
    assert (budget.spent, budget.left) == (Fraction(1, 2), 0)
    said = next(over_time(ledger, "flights_year"))
    assert "one person's rows of one week: at most ε = 0.5" in said
    assert f"everything released so far from this table: at most {COUNT // 2}" in said


def test_instants_follow_new_york_s_clock(year):
    folder = year[0]
    seen = {
        week: json.loads((folder / "public" / "flights_year" / week / "release.json").read_text())[
            "scheduled"
        ]
        for week in WEEKS
    }
    if FULL:
        assert seen["2013-W08"] == "2013-02-27T11:00:00Z"  # 06:00 in winter
        # 06:00 in summer: the clocks changed on the 10th
        assert seen["2013-W10"] == "2013-03-13T10:00:00Z"
    assert seen["2013-W42"] == "2013-10-23T10:00:00Z"
    assert seen["2013-W44"] == "2013-11-06T11:00:00Z"
    assert len(set(seen.values())) == COUNT


def test_a_covered_week_has_nothing_left(year):
    folder, config, _, _ = year
    before = tree(folder / "public")
    told = []
    late = Clock(datetime(2014, 1, 8, 12, tzinfo=UTC))
    assert tick(job([config], clock=late, report=told.append, catch_up=1)) == 0
    assert [e["event"] for e in told] == ["idle"]  # the table ends with 2013, and the file says so
    beside = replace(config, name="beside")  # a second pipeline over a week that is covered
    with pytest.raises(BudgetError) as caught:
        run(beside, period="2013-W41", now=late.now())
    assert caught.value.code == "DPR301"
    assert tree(folder / "public") == before


def test_the_index_holds_the_year(year):
    place = year[0] / "public" / "flights_year"
    index = json.loads((place / "index.json").read_text())
    assert [p["period"] for p in index["periods"]] == WEEKS
    assert index["budget"]["pipeline_epsilon"] == "1/2"  # of one aircraft's week
    assert index["budget"]["person"] == {"epsilon": str(COUNT // 2), "delta": "0"}
    for track in index["tracks"]:
        for group in track["groups"]:
            assert len(group["values"]) == COUNT
            assert None not in group["values"]
    page = (place / "index.html").read_text()
    assert f"{COUNT} periods: week {FIRST} of 2013 to week 52 of 2013" in page
    assert "of 0.5, at most 0.5 is spent for any one of them" in page
    said = "one aircraft&#39;s flights of one week: ε = 0.5; one aircraft over everything"
    assert f"{said} released so far: at most {COUNT // 2}" in page
    assert (place / "latest").resolve().name == "2013-W52"


def test_the_year_s_counts_are_near_the_truth_they_may_show(year):
    """Kept rows are between one and all of an aircraft's; the noise is a few dozen flights."""
    folder = year[0]
    index = json.loads((folder / "public" / "flights_year" / "index.json").read_text())
    [counts] = [t for t in index["tracks"] if t["column"] == "count"]
    means = {g["key"][0]: sum(v[0] for v in g["values"]) / COUNT for g in counts["groups"]}
    assert all(means[c] > 200 for c in CARRIERS)
    assert means["HA"] < 60


@pytest.mark.parametrize("week", [WEEKS[0], "2013-W41", "2013-W52"])
def test_any_week_verifies(year, week):
    folder, config, _, _ = year
    checked = dp.verify(folder / "public" / "flights_year" / week, ledger=config.budget.ledger)
    assert checked.ok, str(checked)
