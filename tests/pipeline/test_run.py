"""One run: order of the stages, sources, keys, and the errors before the charge."""

from __future__ import annotations

import json

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

import dprelease as dp
from dprelease.budget.ledger import Key, Ledger
from dprelease.errors import ConfigError, DpreleaseError, LedgerError, SourceError
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, open_source, plan_pipeline, run
from tests.end_to_end.projects import clinic, tree

PERIOD = "2026-W46"


@pytest.fixture
def pipeline(tmp_path):
    return clinic(tmp_path)


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_stages_come_in_order_and_say_public_things(pipeline):
    told = []
    result = run(
        pipeline, period=PERIOD, progress=lambda stage, detail: told.append((stage, detail))
    )
    assert [stage for stage, _ in told] == [
        "plan", "preflight", "charge", "draw", "validate", "validate", "publish",
    ]  # fmt: skip
    assert told[-1][1] == str(result.folder)
    again = []
    run(pipeline, period=PERIOD, progress=lambda stage, _: again.append(stage))
    assert again == ["plan", "charge", "publish"]  # no row is read for a repeat


def test_the_result_as_json(pipeline):
    result = run(pipeline, period=PERIOD)
    said = json.loads(json.dumps(result.to_json()))
    assert said["files"] == {p.name: p.stat().st_size for p in result.folder.iterdir()}
    assert (said["charged"], said["spent"], said["budget"]) == ("1", "1", "12")
    assert run(pipeline, period=PERIOD).to_json() == {**said, "fresh": False, "charged": "0"}


def test_a_plan_without_a_period_costs_what_one_with_it_costs(pipeline):
    config = load_pipeline(pipeline)
    open_plan, one = plan_pipeline(config), plan_pipeline(config, PERIOD)
    assert open_plan.epsilon == one.epsilon
    assert open_plan.hash != one.hash  # the window is part of what is released


def test_the_run_of_a_pipeline_without_a_period_is_once_or_named(pipeline):
    replace(pipeline, "period: {column: visited_at, every: week, delay: 1d}\n", "")
    replace(pipeline, 'schedule: {cron: "0 6 * * TUE", timezone: Europe/Dublin, catch_up: 4}\n', "")
    assert run(pipeline).folder.name == "once"
    assert run(pipeline, period="final").folder.name == "final"
    assert [e.entry.key.period for e in ledger_of(pipeline).entries()] == ["once", "final"]


def ledger_of(pipeline):
    return Ledger.open(pipeline.parents[1] / ".dprelease" / "ledger.db")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "duckdb"])
def test_every_kind_of_source_releases(pipeline, kind):
    data = pipeline.parents[1] / "data"
    frame = pd.read_csv(data / "visits.csv", dtype=str)
    if kind == "parquet":
        frame.iloc[:4000].to_parquet(data / "visits-1.parquet")
        frame.iloc[4000:].to_parquet(data / "visits-2.parquet")
        source = "{parquet: ../data/visits-*.parquet}"
    elif kind == "arrow":
        pa.feather.write_feather(
            pa.Table.from_pandas(frame), data / "visits.arrow", compression="uncompressed"
        )
        source = "{arrow: ../data/visits.arrow}"
    else:
        with duckdb.connect(data / "visits.duckdb") as connection:
            connection.register("frame", frame)
            connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
        source = "{duckdb: {database: ../data/visits.duckdb, table: visits}}"
    replace(pipeline, "{csv: ../data/visits.csv}", source)
    wide = pd.read_csv(run(pipeline, period=PERIOD).folder / "wide.csv")
    assert list(wide.region) == ["north", "south", "east", "west"]
    assert wide.loc[0, "count"] > 300  # about 660 within noise of 10


def test_a_damaged_arrow_file_is_a_source_error(pipeline):
    path = pipeline.parents[1] / "data" / "visits.arrow"
    path.write_bytes(b"nothing of the kind")
    replace(pipeline, "{csv: ../data/visits.csv}", "{arrow: ../data/visits.arrow}")
    with pytest.raises(SourceError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR502"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda root: (root / "data" / "visits.csv").unlink(),
        lambda root: (root / "data" / "visits.csv").write_text("patient_id\n1\n"),
        lambda root: replace(root / "schemas" / "clinic.yaml", "mean(age)", "mean(region)"),
        lambda root: replace(root / "schemas" / "clinic.yaml", "epsilon: 1", "epsilon: 100"),
        lambda root: (
            (root / "public").mkdir()
            or (root / "public" / "clinic_weekly").symlink_to(root / "data")
        ),
    ],
    ids=["no file", "no column", "a category's mean", "too expensive", "a linked folder"],
)
def test_before_the_charge_every_failure_costs_nothing(pipeline, break_it):
    break_it(pipeline.parents[1])
    with pytest.raises(DpreleaseError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.spent == "nothing"
    assert not ledger_of(pipeline).has(Key("clinic", "clinic_weekly", PERIOD))
    assert ledger_of(pipeline).budget("clinic").spent == 0


def test_an_empty_period_is_released_like_any_other(pipeline):
    result = run(pipeline, period="1999-W01")
    wide = pd.read_csv(result.folder / "wide.csv")
    assert wide["mean_age"].between(0, 110).all()
    assert result.receipt.fresh


def test_another_plan_for_a_released_period_is_refused(pipeline):
    run(pipeline, period=PERIOD)
    replace(pipeline.parents[1] / "schemas" / "clinic.yaml", "range: [0, 110]", "range: [0, 100]")
    with pytest.raises(LedgerError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR410"
    assert run(pipeline, period="2026-W47").receipt.fresh


def test_the_unit_cannot_change_under_a_budget(pipeline):
    replace(pipeline.parents[1] / "schemas" / "clinic.yaml", "add_remove", "substitution")
    with pytest.raises(LedgerError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR411"


def test_a_raised_budget_may_stand_in_the_file_or_not(pipeline):
    ledger_of(pipeline).add_budget("clinic", 3)
    assert run(pipeline, period=PERIOD).receipt.budget == "15"
    replace(pipeline, "epsilon: 12", "epsilon: 15")
    assert run(pipeline, period="2026-W45").receipt.spent == "2"
    replace(pipeline, "epsilon: 15", "epsilon: 30")
    with pytest.raises(LedgerError) as caught:
        run(pipeline, period="2026-W44")
    assert caught.value.code == "DPR414"
    assert f"`dprelease ledger add {pipeline}`" in caught.value.fix


def test_a_loaded_configuration_runs_too_and_leaves_nothing_beside_the_release(pipeline):
    before = set(tree(pipeline.parents[1]))
    config = load_pipeline(pipeline)
    init_ledger(config)
    result = dp.run(config, period=PERIOD)
    new = set(tree(pipeline.parents[1])) - before
    assert all(n.startswith(("public/clinic_weekly/2026-W46/", ".dprelease/")) for n in new)
    assert len(result.files) == 6


def test_the_source_of_a_kind_this_version_lacks():
    from dprelease.pipeline.config import SourceConfig

    with pytest.raises(SourceError) as caught:
        open_source(SourceConfig(kind="spark", table="visits"))
    assert caught.value.code == "DPR507"


def test_a_missing_period_names_the_file(pipeline):
    with pytest.raises(ConfigError) as caught:
        run(pipeline)
    assert str(pipeline) in caught.value.where
