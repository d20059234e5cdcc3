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
from dprelease.core.errors import ConfigError, DpreleaseError, LedgerError, SourceError
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger, open_source, run
from dprelease.results import rules as statuses
from tests.end_to_end.projects import clinic, plans_once, tree
from tests.rules_alone import built_in_rules_only

PERIOD = "2026-W46"


@pytest.fixture(autouse=True)
def rules(monkeypatch, request):
    plans_once(monkeypatch)
    if request.function is not test_the_stages_come_in_order_and_say_public_things:
        built_in_rules_only(monkeypatch)


@pytest.fixture
def whole(tmp_path):
    """Return the starter's pipeline as it is."""
    return clinic(tmp_path)


@pytest.fixture
def pipeline(whole):
    """Return it without a page: one takes three plans more, at other budgets."""
    replace(whole, ", html]", "]")
    return whole


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_stages_come_in_order_and_say_public_things(whole):
    told = []
    result = run(whole, period=PERIOD, progress=lambda stage, detail: told.append((stage, detail)))
    assert [stage for stage, said in told if not said.endswith("say nothing")] == [
        "plan", "preflight", "charge", "draw", "validate", "validate", "publish",
    ]  # fmt: skip
    assert told[-1][1] == str(result.folder)
    again = []
    run(whole, period=PERIOD, progress=lambda stage, _: again.append(stage))
    assert again == ["plan", "charge", "publish"]  # no row is read for a repeat


def test_a_run_says_how_many_values_say_nothing(pipeline, monkeypatch):
    monkeypatch.setattr(statuses, "WEAK", ("ok", "at_bound", "no_interval", *statuses.WEAK))
    told = []
    run(pipeline, period=PERIOD, progress=lambda *said: told.append(said))
    assert ("validate", "20 of 20 values say nothing") in told


def test_the_result_as_json(pipeline):
    result = run(pipeline, period=PERIOD)
    said = json.loads(json.dumps(result.to_json()))
    assert said["files"] == {p.name: p.stat().st_size for p in result.folder.iterdir()}
    assert (said["charged"], said["spent"], said["budget"]) == ("1", "1", "10")
    assert run(pipeline, period=PERIOD).to_json() == {**said, "fresh": False, "charged": "0"}


def test_a_plan_without_a_period_costs_what_one_with_it_costs(pipeline):
    config = load_pipeline(pipeline)
    open_plan, one = plan_pipeline(config), plan_pipeline(config, PERIOD)
    assert open_plan.epsilon == one.epsilon
    assert open_plan.hash != one.hash  # the window is part of what is released


def test_the_run_of_a_pipeline_without_a_period_is_once_or_named(pipeline):
    lines = pipeline.read_text().splitlines(keepends=True)
    pipeline.write_text("".join(x for x in lines if not x.startswith(("period:", "schedule:"))))
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
    replace(pipeline, ", first: 2026-W44, last: 2026-W47", "")
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
    assert run(pipeline, period="2026-W45").receipt.fresh


def test_the_unit_cannot_change_under_a_budget(pipeline):
    replace(pipeline.parents[1] / "schemas" / "clinic.yaml", "add_remove", "substitution")
    with pytest.raises(LedgerError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR411"


def test_a_raised_budget_may_stand_in_the_file_or_not(pipeline):
    ledger_of(pipeline).add_budget("clinic", 3)
    assert run(pipeline, period=PERIOD).receipt.budget == "13"
    replace(pipeline, "epsilon: 10", "epsilon: 13")
    assert run(pipeline, period="2026-W45").receipt.spent == "2"
    replace(pipeline, "epsilon: 13", "epsilon: 30")
    with pytest.raises(LedgerError) as caught:
        run(pipeline, period="2026-W44")
    assert caught.value.code == "DPR414"
    assert f"`dprelease ledger add {pipeline} --epsilon E`" in caught.value.fix


def test_a_loaded_configuration_runs_too_and_leaves_nothing_beside_the_release(whole):
    before = set(tree(whole.parents[1]))
    config = load_pipeline(whole)
    init_ledger(config)
    result = dp.run(config, period=PERIOD)
    new = set(tree(whole.parents[1])) - before
    beside = {
        f"public/clinic_weekly/{n}"
        for n in ("index.html", "index.json", "feed.xml", "catalog.jsonld")
    }
    assert beside <= new
    own = ("public/clinic_weekly/2026-W46/", ".dprelease/")
    assert all(n.startswith(own) for n in new - beside)
    assert len(result.files) == 7


def test_a_spark_table_is_named_without_starting_spark():
    from dprelease.pipeline.config import SourceConfig

    source = open_source(SourceConfig(kind="spark", table="visits"))
    assert (source.kind, source.payload, source.name) == ("spark_table", "visits", "spark:visits")


def test_the_source_of_a_kind_this_version_lacks():
    from dprelease.pipeline.config import SourceConfig

    with pytest.raises(SourceError) as caught:
        open_source(SourceConfig(kind="snowflake", table="visits"))
    assert caught.value.code == "DPR507"


def test_a_missing_period_names_the_file(pipeline):
    with pytest.raises(ConfigError) as caught:
        run(pipeline)
    assert str(pipeline) in caught.value.where


def view_project(folder, view, allow="", formats="csv"):
    (folder / ".dprelease").mkdir()
    pd.DataFrame(
        {"pid": range(40), "age": [30] * 40, "code": [i % 4 for i in range(40)]}
    ).to_parquet(folder / "visits.parquet")
    (folder / "codes.csv").write_text("code,region\n0,n\n1,s\n2,n\n")
    (folder / "s.yaml").write_text(
        "dprelease: schema/1\nname: visits\nadjacency: add_remove\nrows: {max: 100}\n"
        "unit: {user: pid, max_groups: 1, max_rows_per_group: 1}\n"
        "columns:\n  pid: {kind: identifier}\n  age: {kind: integer, range: [0, 120]}\n"
        "  region: {kind: category, values: [n, s]}\n"
        f"release: {{epsilon: 9, {allow} by: [region], statistics: [count, mean(age)]}}\n"
    )
    (folder / "p.yaml").write_text(
        f"dprelease: pipeline/1\nname: p\nschema: s.yaml\nsource:\n  view: |\n    {view}\n"
        "  tables: {visits: {parquet: visits.parquet}}\n"
        "  public_tables: {codes: {csv: codes.csv}}\n"
        "budget: {ledger: .dprelease/l.db, dataset: d, epsilon: 20}\n"
        f"publish: {{to: out, formats: [{formats}]}}\n"
    )
    config = load_pipeline(folder / "p.yaml")
    init_ledger(config)
    return config


VIEW = "SELECT v.pid, v.age, c.region FROM visits v JOIN codes c ON c.code = v.code WHERE v.age > 3"


def test_a_view_is_released_and_verified(tmp_path):
    done = run(view_project(tmp_path, VIEW))
    manifest = json.loads((done.folder / "release.json").read_text())
    assert manifest["plan"]["query"]["view"] == {"sql": VIEW, "proven": True, "keeps_rows": False}
    assert dp.verify(done.folder).ok


def test_a_repeated_public_key_spends_nothing(tmp_path):
    config = view_project(tmp_path, VIEW)
    with (tmp_path / "codes.csv").open("a") as stream:
        stream.write("2,s\n")
    with pytest.raises(SourceError) as caught:
        run(config)
    assert (caught.value.code, caught.value.spent) == ("DPR510", "nothing")
    assert Ledger.open(tmp_path / ".dprelease/l.db").budget("d").spent == 0


def test_an_unproven_view_is_named_in_the_manifest(tmp_path):
    wide = "SELECT pid, max(age) AS age, 'n' AS region FROM visits GROUP BY pid"
    done = run(view_project(tmp_path, wide, "allow: [unproven-view],", "html"))
    manifest = json.loads((done.folder / "release.json").read_text())
    assert manifest["plan"]["query"]["view"]["proven"] is False
    assert any("observed, not proved (unproven-view)" in note for note in manifest["plan"]["notes"])
    assert "unproven-view" in (done.folder / "report.html").read_text()
    assert dp.verify(done.folder).ok
