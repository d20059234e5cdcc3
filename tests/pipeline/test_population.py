"""Two pipelines over two tables of the same people: one budget for each of them, and one sentence everywhere."""

from __future__ import annotations

import json
from fractions import Fraction

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import ArgumentError, BudgetError, ConfigError, LedgerError
from dprelease.pipeline import stages
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.query.load import schema_from_dict
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.schema.written import schema_to_json
from dprelease.verification.verify import verify
from tests.end_to_end.projects import plans_once
from tests.rules_alone import built_in_rules_only

SCHEMA = """\
dprelease: schema/1
name: NAME
unit_name: {one: member, many: members, rows: rows}
population: members
unit: {user: id, max_groups: 1, max_rows_per_group: 2}
adjacency: add_remove
rows: {max: 1000, expected: 20}
columns:
  id:  {kind: identifier}
  age: {kind: integer, range: [0, 100]}
release: {epsilon: 1, statistics: [count]}
"""
PIPELINE = """\
dprelease: pipeline/1
name: NAME
source: {csv: ../data/NAME.csv}
schema: ../schemas/NAME.yaml
budget: {ledger: ../.dprelease/ledger.db, dataset: NAME, epsilon: 9, population: {epsilon: 1.5}}
release: {epsilon: 1}
publish: {to: ../public, formats: [csv, html]}
"""
SO_FAR = "one of the members, over everything that this office has published from"


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


@pytest.fixture
def files(tmp_path):
    """Return the pipelines of two tables, with their ledger."""
    return [project(tmp_path, name) for name in ("visits", "drugs")]


def project(folder, name, *, init=True):
    for part in ("schemas", "pipelines", "data", ".dprelease"):
        (folder / part).mkdir(exist_ok=True)
    rows = pd.DataFrame({"id": [f"p{i}" for i in range(30)], "age": range(20, 50)})
    rows.to_csv(folder / "data" / f"{name}.csv", index=False)
    (folder / "schemas" / f"{name}.yaml").write_text(SCHEMA.replace("NAME", name))
    file = folder / "pipelines" / f"{name}.yaml"
    file.write_text(PIPELINE.replace("NAME", name))
    if init:
        init_ledger(load_pipeline(file))
    return file


def invoke(*arguments, exit_code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == exit_code, result.output
    return " ".join(result.output.split())


def test_a_plan_counts_the_population_s_budget_too(files, tmp_path):
    visits, drugs = files
    said = "the whole budget, epsilon 9, with epsilon 1.5 for one of the members over all tables,"
    assert f"{said} pays for 1 such release;" in invoke(
        "plan", visits, "--html", tmp_path / "p.html"
    )
    assert f"ε = {said[26:]} enough for 1 such release<" in (tmp_path / "p.html").read_text()
    for stated, counted in (("40", "9"), ("3", "3"), ("0.5", "0")):
        visits.write_text(
            drugs.read_text().replace("1.5}", f"{stated}}}").replace("drugs", "visits")
        )
        assert f"all tables, pays for {counted} such releases;" in invoke("plan", visits)
    visits.write_text(visits.read_text().replace("0.5}", "3, delta: 1e-9, composition: zcdp}"))
    assert "pays for" not in invoke("plan", visits)


def test_the_second_release_is_refused_before_its_charge_and_draw(files, monkeypatch):
    visits, drugs = files
    run(visits)
    book = Ledger.open(load_pipeline(visits).budget.ledger)
    before, drawn = book.head(), []
    monkeypatch.setattr(stages, "draw", lambda *_, **__: drawn.append(1))
    with pytest.raises(BudgetError, match="population members does not cover") as caught:
        run(drugs)
    assert (caught.value.code, drawn, book.head()) == ("DPR309", [], before)
    assert "ledger add" in str(caught.value.fix)
    assert not (drugs.parent.parent / "public" / "drugs").exists()
    monkeypatch.undo()
    built_in_rules_only(monkeypatch)
    invoke("ledger", "add", "--ledger", book.path, "--population", "members", "--epsilon", "0.5")
    drugs.write_text(drugs.read_text().replace("epsilon: 1.5", "epsilon: 2"))
    assert f"{SO_FAR} 2 tables: ε = 2 of 2" in str(run(drugs).receipt)


def test_one_sentence_everywhere(files, monkeypatch):
    visits, drugs = files
    drugs.write_text(drugs.read_text().replace("release: {epsilon: 1}", "release: {epsilon: 0.5}"))
    first = run(visits)
    said = f"{SO_FAR} 1 table: ε = 1 of 1.5"
    assert said in str(first.receipt)
    made = run(drugs)
    said = f"{SO_FAR} 2 tables: ε = 1.5 of 1.5"
    assert said in str(made.receipt)
    manifest = json.loads((made.folder / "release.json").read_text())
    assert manifest["budget"]["member"] == {
        "population": "members",
        "tables": 2,
        "spent": "3/2",
        "total": "3/2",
    }
    assert manifest["request"]["schema"]["population"] == "members"
    for page in (made.folder / "report.html", made.folder.parent / "index.html"):
        assert said in page.read_text(), page
    assert (
        said
        in json.loads((made.folder.parent / "index.json").read_text())["periods"][0]["over_time"]
    )
    ledger = load_pipeline(drugs).budget.ledger
    assert said in invoke("ledger", "show", drugs)
    for folder in (first.folder, made.folder):
        assert said in invoke("verify", folder, "--ledger", ledger)
        assert verify(folder).ok
    run(visits)  # a repeat says what its own entry said
    assert said not in (first.folder / "report.html").read_text()


@pytest.mark.parametrize(
    "forged",
    [{"spent": "1/2"}, {"spent": "2"}, {"population": "others"}, {"tables": 0}],
)
def test_a_folder_that_understates_a_member_does_not_verify(files, monkeypatch, forged):
    """Consistent with itself: every file says the same."""
    spent_at = stages.spent_at

    def less(*given):
        said = spent_at(*given)
        return {**said, "member": {**said["member"], **forged}}

    monkeypatch.setattr(stages, "spent_at", less)
    assert not verify(run(files[0]).folder).ok


def test_the_ledger_decides_what_a_member_had_lost(files, monkeypatch):
    """A folder that states more than the ledger is possible by itself, and refused beside the ledger."""
    spent_at = stages.spent_at

    def more(*given):
        said = spent_at(*given)
        return {**said, "member": {**said["member"], "tables": 2}}

    monkeypatch.setattr(stages, "spent_at", more)
    made = run(files[0])
    assert verify(made.folder).ok
    assert not verify(made.folder, ledger=load_pipeline(files[0]).budget.ledger).ok


def test_a_withdrawn_release_stays_spent(files):
    made = run(files[0])
    invoke("withdraw", made.folder, "--reason", "a fault of ours")
    with pytest.raises(BudgetError):
        run(files[1])


def test_a_crash_that_is_charged_again_costs_a_member_again(files, monkeypatch):
    visits, _ = files
    visits.write_text(
        visits.read_text().replace("epsilon: 9,", "epsilon: 9, on_crash: charge_again,")
    )
    monkeypatch.setattr(stages, "draw", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(visits)
    with pytest.raises(BudgetError) as caught:
        run(visits)
    assert caught.value.code == "DPR309"


def test_a_receipt_that_paid_again_says_all_that_a_member_has_lost(tmp_path, monkeypatch):
    visits = project(tmp_path, "visits", init=False)
    text = visits.read_text().replace("epsilon: 9,", "epsilon: 9, on_crash: charge_again,")
    visits.write_text(text.replace("epsilon: 1.5", "epsilon: 3"))
    init_ledger(load_pipeline(visits))
    with monkeypatch.context() as crash:
        crash.setattr(stages, "draw", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(visits)
    assert f"{SO_FAR} 1 table: ε = 2 of 3" in str(run(visits).receipt)


def test_an_approval_is_of_the_population_too(files):
    visits, drugs = files
    for file in files:
        file.write_text(file.read_text().replace("epsilon: 9,", "epsilon: 9, approval: required,"))
    asked = request_for_all_periods(dp.plan(load_pipeline(visits).schema).request)
    assert asked["schema"]["population"] == "members"
    with pytest.raises(BudgetError) as caught:
        run(drugs)
    assert caught.value.code == "DPR306"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (", population: {epsilon: 1.5}", "", "stated together: members, no budget"),
        ("population: {epsilon: 1.5}", "population: {epsilon: 0}", "epsilon"),
        (
            "population: {epsilon: 1.5}",
            "population: {epsilon: 1, composition: zcdp}",
            "needs a delta",
        ),
    ],
)
def test_a_file_that_states_half_of_it_is_refused(tmp_path, old, new, says):
    file = project(tmp_path, "visits", init=False)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=says) as caught:
        load_pipeline(file)
    assert caught.value.code == "DPR168"


def test_a_budget_without_a_population_in_the_schema_is_refused(tmp_path):
    file = project(tmp_path, "visits", init=False)
    schema = tmp_path / "schemas" / "visits.yaml"
    schema.write_text(schema.read_text().replace("population: members\n", ""))
    with pytest.raises(ConfigError, match="stated together: no name"):
        load_pipeline(file)


def test_another_budget_in_the_file_is_refused(files):
    for file in files:
        file.write_text(file.read_text().replace("epsilon: 1.5", "epsilon: 1.4"))
        with pytest.raises(LedgerError, match="has other terms") as caught:
            run(file)
        assert caught.value.code == "DPR429"


def test_a_dataset_that_joined_after_the_backup_joins_again_by_its_folder(tmp_path):
    visits, drugs = project(tmp_path, "visits"), project(tmp_path, "drugs", init=False)
    declared, whole = tmp_path / "schemas" / "drugs.yaml", drugs.read_text()
    text = declared.read_text()
    declared.write_text(text.replace("population: members\n", ""))
    drugs.write_text(whole.replace(", population: {epsilon: 1.5}", ""))
    init_ledger(load_pipeline(drugs))
    place = load_pipeline(visits).budget.ledger
    saved = place.read_bytes()
    declared.write_text(text)
    drugs.write_text(whole)
    init_ledger(load_pipeline(drugs))
    made = run(drugs).folder
    for part in place.parent.glob(f"{place.name}*"):
        part.unlink()
    place.write_bytes(saved)
    assert "1 release debited" in invoke("ledger", "reconcile", visits)
    assert Ledger.open(place).populations().member == {"visits": "members", "drugs": "members"}
    with pytest.raises(BudgetError) as caught:
        run(visits)
    assert caught.value.code == "DPR309"
    assert verify(made, ledger=place).ok


def test_a_lost_ledger_is_told_what_its_folders_state_of_a_member(files, tmp_path):
    for file in files:
        file.write_text(
            file.read_text()
            .replace("release: {epsilon: 1}", "release: {epsilon: 0.5}")
            .replace("../public", f"../public/{file.stem}")
        )
    visits, drugs = files
    run(drugs)
    made = run(visits).folder
    place = load_pipeline(visits).budget.ledger
    for part in place.parent.glob(f"{place.name}*"):
        part.unlink()
    init = "ledger", "init", "--ledger", place, "--epsilon", 9, "--schema"
    stated = "--population-epsilon", "1.5"
    invoke(*init, tmp_path / "schemas" / "visits.yaml", *stated)
    said = invoke("ledger", "reconcile", visits, exit_code=1)
    assert "1 release debited" in said
    assert "one of the members has lost epsilon 1, delta 0, by 2 tables" in said
    assert "knows of epsilon 0.5, delta 0, by 1:" in said
    assert not verify(made, ledger=place).ok
    invoke(*init, tmp_path / "schemas" / "drugs.yaml", *stated)
    invoke("ledger", "reconcile", drugs)
    assert "0 releases debited" in invoke("ledger", "reconcile", visits)
    assert verify(made, ledger=place).ok


def test_a_folder_of_a_population_that_the_ledger_does_not_know_is_refused(tmp_path):
    visits = project(tmp_path, "visits")
    run(visits)
    place = load_pipeline(visits).budget.ledger
    for part in place.parent.glob(f"{place.name}*"):
        part.unlink()
    plain = {k: v for k, v in schema().items() if k != "population"}
    plain["unit"] = {**plain["unit"], "user": "id"}
    dp.create_ledger(place, plain, epsilon=9)
    said = invoke("ledger", "reconcile", visits, exit_code=1)
    assert "none, and a published release of it states members" in said
    assert Ledger.open(place).budget("visits").spent == 0
    declared = "--schema", tmp_path / "schemas" / "visits.yaml", "--epsilon", 9
    invoke("ledger", "init", "--ledger", place, *declared, "--population-epsilon", "1.5")
    invoke("ledger", "reconcile", visits)
    assert Ledger.open(place).populations().budget("members").spent == 1


# -- in Python -----------------------------------------------------------------------------

ROWS = pd.DataFrame({"id": ["a", "b", "c"], "age": [30, 40, 50]})


def schema(name="visits", **more):
    return {
        "dprelease": "schema/1",
        "name": name,
        "population": "members",
        "unit": {"user": "id", "max_groups": 1, "max_rows_per_group": 2},
        "adjacency": "add_remove",
        "rows": {"max": 1000},
        "columns": {"id": {"kind": "identifier"}, "age": {"kind": "integer", "range": [0, 100]}},
        "release": {"epsilon": 1, "statistics": ["count"]},
        **more,
    }


def test_two_tables_of_a_session_share_a_budget(tmp_path):
    place = tmp_path / "ledger.db"
    for name in ("visits", "drugs"):
        dp.create_ledger(place, schema(name), epsilon=9, population_epsilon="1.5")
    dp.release(ROWS, schema("visits"), ledger=place)
    with pytest.raises(BudgetError) as caught:
        dp.release(ROWS, schema("drugs"), ledger=place)
    assert caught.value.code == "DPR309"
    receipt = dp.release(ROWS, schema("drugs"), epsilon="0.5", ledger=place).receipt
    assert "one of the members, over everything" in str(receipt)
    assert "2 tables: ε = 1.5 of 1.5" in str(receipt)


def test_what_a_person_loses_by_one_table_is_not_said_of_everything(tmp_path):
    place, unit = tmp_path / "ledger.db", {**schema()["unit"], "per": "week"}
    time = {"column": "at", "timezone": "UTC", "immutable": True}
    columns = {**schema()["columns"], "at": {"kind": "timestamp"}}
    weekly = schema(unit=unit, time=time, columns=columns)
    for asked in (weekly, schema("drugs")):
        dp.create_ledger(place, asked, epsilon=9, population_epsilon=3)
    dp.release(ROWS, schema("drugs"), ledger=place)
    rows = ROWS.assign(at=pd.Timestamp("2024-02-27", tz="UTC"))
    made = dp.release(rows, weekly, ledger=place, during="2024-W09")
    said = (
        "one id over everything released so far from this table: at most 1;"
        " one of the members, over everything that this office has published from 2 tables: ε = 2 of 3"
    )
    assert said in str(made.receipt)
    folder = made.publish(tmp_path / "public")
    assert said in (folder / "report.html").read_text()
    assert said in invoke("verify", folder, "--ledger", place)
    assert verify(folder).ok
    assert "released so far from this table: at most 1" in invoke(
        "ledger", "show", "--ledger", place
    )


def test_a_population_counts_rho_of_a_dataset_that_does_not(tmp_path):
    place, asked = tmp_path / "ledger.db", schema()
    more = {"population_epsilon": 3, "population_delta": "1e-6", "population_composition": "zcdp"}
    dp.create_ledger(place, asked, epsilon=9, **more)
    for period in range(8):
        dp.release(ROWS, asked, epsilon="0.2", ledger=place, period=f"p{period}")
    now = Ledger.open(place).populations().budget("members")
    assert Fraction(0) < now.spent_rho <= 8 * Fraction(1, 50)
    receipt = dp.release(ROWS, asked, epsilon="0.2", ledger=place, period="last").receipt
    assert "of 3, by zCDP at δ = 1e-06" in str(receipt)


def test_a_schema_whose_population_the_ledger_does_not_know_is_refused(tmp_path):
    place = tmp_path / "ledger.db"
    plain = {k: v for k, v in schema().items() if k != "population"}
    dp.create_ledger(place, plain, epsilon=9)
    with pytest.raises(LedgerError, match="holds none, and its schema says members") as caught:
        dp.release(ROWS, schema(), ledger=place)
    assert (caught.value.code, dp.open_ledger(place).balance("visits").spent) == ("DPR429", 0)
    dp.create_ledger(place, schema(), epsilon=9, population_epsilon=2)
    dp.release(ROWS, schema(), ledger=place)
    dp.release(ROWS, plain, ledger=place, period="second")  # and whoever says nothing is counted
    assert Ledger.open(place).populations().budget("members").left == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "population_epsilon=E"),
        ({"population": "members"}, "population_epsilon=E"),
        ({"population": "others", "population_epsilon": 2}, "leave the second out"),
    ],
)
def test_a_population_and_its_budget_are_stated_together(tmp_path, given, says):
    with pytest.raises(ArgumentError) as caught:
        dp.create_ledger(tmp_path / "ledger.db", schema(), epsilon=9, **given)
    assert caught.value.code == "DPR675"
    assert says in caught.value.fix
    assert not (tmp_path / "ledger.db").exists()


def test_a_public_size_cannot_join_members_that_come_and_go(tmp_path):
    place = tmp_path / "ledger.db"
    dp.create_ledger(place, schema(), epsilon=9, population_epsilon=1)
    sized = schema("drugs", adjacency="substitution", rows={"exact": 3})
    with pytest.raises(LedgerError, match="number of rows is public"):
        dp.create_ledger(place, sized, epsilon=9, population_epsilon=1)


def test_a_size_that_becomes_public_after_joining_is_refused_before_the_charge(tmp_path):
    place, replaced = tmp_path / "ledger.db", {"adjacency": "substitution"}
    dp.create_ledger(place, schema(), epsilon=9, population_epsilon=2)
    capped = schema("drugs", **replaced)
    dp.create_ledger(place, capped, epsilon=9, population_epsilon=2)
    before = Ledger.open(place).head()
    means = {"release": {"epsilon": 1, "statistics": ["mean(age)"]}}
    with pytest.raises(LedgerError, match="number of rows is public") as caught:
        dp.release(ROWS, schema("drugs", rows={"exact": 3}, **replaced, **means), ledger=place)
    assert (caught.value.code, Ledger.open(place).head()) == ("DPR430", before)
    assert "rows: {max: N}" in caught.value.fix
    dp.release(ROWS, {**capped, **means}, ledger=place)


def test_a_folder_that_takes_a_size_for_public_is_refused_after_joining(tmp_path):
    old, place = tmp_path / "old.db", tmp_path / "ledger.db"
    given = {"adjacency": "substitution", "release": {"epsilon": 1, "statistics": ["mean(age)"]}}
    alone = schema("drugs", rows={"exact": 3}, **given)
    del alone["population"]
    dp.create_ledger(old, alone, epsilon=9)
    dp.release(ROWS, alone, ledger=old, period="once").publish(tmp_path / "public")
    for said in (schema(), schema("drugs", **given)):
        dp.create_ledger(place, said, epsilon=9, population_epsilon=2)
    before = Ledger.open(place).head()
    with pytest.raises(LedgerError, match="number of rows is public") as caught:
        Ledger.open(place).reconcile([tmp_path / "public"])
    assert (caught.value.code, Ledger.open(place).head()) == ("DPR430", before)
    fresh = tmp_path / "fresh.db"  # as the fix says
    dp.create_ledger(fresh, schema(), epsilon=9, population_epsilon=2)
    dp.create_ledger(fresh, alone, epsilon=9)
    assert Ledger.open(fresh).reconcile([tmp_path / "public"]) == 1
    with pytest.raises(LedgerError, match="number of rows is public"):
        dp.create_ledger(fresh, schema("drugs", **given), epsilon=9, population_epsilon=2)


def test_a_pipeline_whose_size_becomes_public_after_joining_is_refused(tmp_path):
    project(tmp_path, "visits")
    drugs, declared = project(tmp_path, "drugs", init=False), tmp_path / "schemas" / "drugs.yaml"
    text = declared.read_text().replace("add_remove", "substitution")
    declared.write_text(text)
    init_ledger(load_pipeline(drugs))
    declared.write_text(
        text.replace("max: 1000, expected: 20", "exact: 30").replace("[count]", "[mean(age)]")
    )
    with pytest.raises(LedgerError) as caught:
        run(drugs)
    assert caught.value.code == "DPR430"
    assert not (tmp_path / "public" / "drugs").exists()


@pytest.mark.parametrize(
    "unit", ["row", {"edge": {"source": "id", "target": "id2", "k": 1, "nodes": 9}}]
)
def test_a_table_of_rows_or_edges_has_no_population(unit):
    columns = {"id": {"kind": "node"}, "id2": {"kind": "node"}}
    columns = schema()["columns"] if unit == "row" else columns
    with pytest.raises(ConfigError, match="has a population") as caught:
        schema_from_dict(schema(unit=unit, columns=columns))
    assert caught.value.code == "DPR167"


def test_a_request_without_a_population_is_as_it_was():
    with_one, without = schema(), {k: v for k, v in schema().items() if k != "population"}
    plans = [dp.plan(asked) for asked in (with_one, without)]
    said = [request_to_json(plan.request)["schema"] for plan in plans]
    assert [s.pop("population", None) for s in said] == ["members", None]
    assert (said[0], plans[0].hash) == (said[1], plans[1].hash)
    again = schema_from_dict(schema_to_json(plans[0].request.schema))
    assert again.population == "members"


def test_a_ledger_of_the_command_line(tmp_path):
    place, file = tmp_path / "ledger.db", tmp_path / "visits.yaml"
    file.write_text(SCHEMA.replace("NAME", "visits").replace("population: members\n", ""))
    words = (
        "ledger",
        "init",
        "--ledger",
        place,
        "--schema",
        file,
        "--epsilon",
        "9",
        "--population",
        "members",
    )
    said = invoke(
        *words,
        "--population-epsilon",
        "3",
        "--population-delta",
        "1e-6",
        "--population-interval",
        "week",
        exit_code=1,
    )
    assert "a member's of one week" in said
    invoke(
        *words,
        "--population-epsilon",
        "3",
        "--population-delta",
        "1e-6",
        "--population-composition",
        "zcdp",
    )
    terms = Ledger.open(place).populations().known["members"][-1]
    assert (terms.composition, terms.interval, float(terms.budget.delta)) == ("zcdp", None, 1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--dataset", "visits", "--epsilon", "1"), "--population NAME without it"),
        (("--per-period", "1"), "without --per-period"),
        (("--delta", "0.1"), "epsilon must be"),
        ((), "epsilon must be"),
    ],
)
def test_a_raise_of_a_population_drops_nothing_that_is_given(files, given, says):
    book = Ledger.open(load_pipeline(files[0]).budget.ledger)
    before = book.head()
    raising = "ledger", "add", "--ledger", book.path, "--population", "members"
    assert says in invoke(*raising, *given, exit_code=2)
    assert book.head() == before


def test_a_dataset_that_is_not_known_is_declared_by_the_fix(tmp_path):
    visits = project(tmp_path, "visits")
    place = load_pipeline(visits).budget.ledger
    project(tmp_path, "drugs", init=False)
    with pytest.raises(LedgerError, match="has no budget") as alone:
        dp.release(ROWS, schema("drugs"), ledger=place)
    assert "population_epsilon=..." in alone.value.fix
    with pytest.raises(LedgerError, match="has no budget") as raw:
        Ledger.open(place).add_budget("drugs", 1)
    assert "with --population-epsilon E" in raw.value.fix
    words = ("--schema", tmp_path / "schemas" / "drugs.yaml", "--dataset", "drugs", "--epsilon", 9)
    invoke("ledger", "init", "--ledger", place, *words, "--population-epsilon", "1.5")
    assert set(Ledger.open(place).populations().member) == {"visits", "drugs"}
    more = project(tmp_path, "more", init=False)
    said = invoke("run", more, exit_code=1)
    assert "dataset more has no budget in this ledger" in said
    assert f"dprelease ledger init {more}" in said
    invoke("ledger", "init", more)
    invoke("run", more)


@pytest.mark.parametrize(
    "given", [("--population", "members"), ("--population-epsilon", "3"), ("--epsilon", "3")]
)
def test_a_population_beside_a_pipeline_is_refused_and_not_dropped(tmp_path, given):
    file = project(tmp_path, "visits", init=False)
    assert "DPR100" in invoke("ledger", "init", file, *given, exit_code=2)
    assert not (tmp_path / ".dprelease" / "ledger.db").exists()


def test_a_folder_that_holds_no_release_is_not_reconciled_in_silence(tmp_path):
    """The folder of one pipeline gave `0 releases debited` and exit code 0: nothing had been read."""
    visits = project(tmp_path, "visits")
    run(visits)
    place = load_pipeline(visits).budget.ledger
    asked = "ledger", "reconcile", "--ledger", place, "--public"
    assert "0 releases debited" in invoke(*asked, tmp_path / "public")
    for folder in (tmp_path / "public" / "visits", tmp_path / "none"):
        said = invoke(*asked, tmp_path / "public", "--public", folder, exit_code=2)
        assert "the one above those of pipelines" in " ".join(said.split())
