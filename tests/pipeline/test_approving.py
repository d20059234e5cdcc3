"""A plan on its way to the privacy officer and back, and what runs without it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import BudgetError, DpreleaseError, VerificationError
from dprelease.pipeline.approving import approve, plan_file
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.query.written import request_for_all_periods
from dprelease.schema.json_schema import json_schema
from dprelease.verification.verify import verify
from tests.end_to_end.projects import plans_once
from tests.folders import write
from tests.pipeline.tiny import project
from tests.rules_alone import built_in_rules_only

AFTER = datetime(2026, 3, 1, tzinfo=UTC)
SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


@pytest.fixture
def file(tmp_path):
    path = project(tmp_path)
    required(path)
    init_ledger(load_pipeline(path))
    return path


def required(path):
    text = path.read_text().replace("epsilon: 100}", "epsilon: 100, approval: required}")
    path.write_text(text)


def invoke(*arguments, exit_code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def spent(file):
    return load_pipeline(file).budget.ledger, json.loads(invoke("ledger", "show", file, "--json"))[
        "datasets"
    ]["visits"]["spent"]


def allowed(file, tmp_path, *options):
    invoke("plan", file, "--out", tmp_path / "plan.json")
    return invoke("approve", tmp_path / "plan.json", "--pipeline", file, *options)


def test_unapproved_it_ends_with_exit_1_reads_no_source_and_spends_nothing(file, tmp_path):
    (tmp_path / "data" / "visits.parquet").unlink()  # it would be missed
    said = invoke("run", file, "--period", "2025-W50", exit_code=1)
    assert "DPR306" in said
    assert "nothing was spent" in said
    assert f"dprelease plan {file} --out plan.json" in " ".join(said.split())
    assert spent(file)[1] == "0"


def test_approved_once_it_runs_for_every_period_and_says_who(file, tmp_path):
    said = allowed(file, tmp_path, "--total", "2", "--until", "2099-12-31", "--note", "3 May")
    assert "epsilon 1 per period, 2 in all, until 2099-12-31" in said
    assert "anybody who can write the ledger can approve" in said
    for period in ("2025-W50", "2025-W51"):
        invoke("run", file, "--period", period, "--quiet")
    said = invoke("run", file, "--period", "2025-W52", exit_code=1)
    assert "DPR308" in said
    shown = invoke("ledger", "show", file)
    assert "3 May" in shown
    listed = json.loads(invoke("ledger", "show", file, "--json"))
    (approval,) = listed["datasets"]["visits"]["approvals"]
    assert {e["approval"] for e in listed["entries"]} == {approval["event"]}
    invoke("ledger", "verify", file)
    folder = tmp_path / "public" / "weekly" / "2025-W50"
    manifest = json.loads((folder / "release.json").read_text())
    Draft202012Validator(json_schema("manifest")).validate(manifest)
    assert manifest["receipt"]["approval"] == {
        "event": approval["event"], "request": approval["request_hash"],
    }  # fmt: skip
    assert verify(folder, ledger=tmp_path / ".dprelease" / "ledger.db").ok


def test_a_debit_from_before_approvals_shows_a_dash(tmp_path):
    path = project(tmp_path)
    init_ledger(load_pipeline(path))
    invoke("run", path, "--period", "2025-W49", "--quiet")
    required(path)
    allowed(path, tmp_path)
    invoke("run", path, "--period", "2025-W50", "--quiet")
    rows = [
        line
        for line in invoke("ledger", "show", path).splitlines()
        if "│" in line and "2025-W" in line
    ]
    assert "event" not in rows[0]
    assert rows[0].rstrip(" │").endswith("–")
    assert "event" in rows[1]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("epsilon: 1\n", "epsilon: 2\n", "release.epsilon: approved 1, asked 2"),
        ("mean(age)", "variance(age)", "release.statistics"),
        ("max: 1000", "max: 2000", "schema.rows.max: approved 1000, asked 2000"),
        ("  by: [region]\n", "", "release.by: approved region, not asked"),
        ("substitution", "substitution", None),  # control: nothing is changed
    ],
)  # fmt: skip
def test_what_the_schema_asks_for_by_now_is_compared(file, tmp_path, old, new, line):
    allowed(file, tmp_path)
    schema = tmp_path / "schemas" / "visits.yaml"
    schema.write_text(schema.read_text().replace(old, new))
    if line is None:
        assert run(file, period="2025-W50", now=AFTER).receipt.fresh
        return
    with pytest.raises(DpreleaseError) as caught:
        run(file, period="2025-W50", now=AFTER)
    assert caught.value.code == "DPR306"
    assert line in str(caught.value)
    assert spent(file)[1] == "0"


def test_the_line_taken_out_of_the_file_changes_nothing(file, tmp_path):
    allowed(file, tmp_path)
    file.write_text(file.read_text().replace(", approval: required", ""))
    schema = tmp_path / "schemas" / "visits.yaml"
    schema.write_text(schema.read_text().replace("epsilon: 1\n", "epsilon: 2\n"))
    with pytest.raises(BudgetError, match="not approved"):
        run(file, period="2025-W50", now=AFTER)


def test_the_other_door_is_held_to_it_too(file, tmp_path):
    """`dp.release` under the same name: the pipeline's name is the schema's there."""
    required_by_name = project(tmp_path, name="visits")
    required(required_by_name)
    allowed(required_by_name, tmp_path)
    with pytest.raises(BudgetError, match="not approved"):
        dp.release(
            tmp_path / "data" / "visits.parquet", tmp_path / "schemas" / "visits.yaml",
            ledger=tmp_path / ".dprelease" / "ledger.db", period="x",
        )  # fmt: skip


def test_a_drawn_period_needs_none(file, tmp_path):
    allowed(file, tmp_path, "--until", "2026-03-01")
    first = run(file, period="2025-W50", now=AFTER)
    late = datetime(2026, 3, 2, tzinfo=UTC)
    with pytest.raises(BudgetError, match="ended on 2026-03-01"):
        run(file, period="2025-W51", now=late)
    again = run(file, period="2025-W50", now=late)
    assert (again.receipt.fresh, again.files) == (False, first.files)


def test_the_file_must_be_what_the_pipeline_asks_for(file, tmp_path):
    config = load_pipeline(file)
    made = json.loads(plan_file(config, plan_pipeline(config), None))
    for change, line in (
        ({"epsilon": "1/2"}, "epsilon: approved 1/2, asked 1"),
        ({"pipeline": "other"}, "pipeline: approved other, asked weekly"),
        ({"dataset": "other"}, "dataset: approved other, asked visits"),
        ({"request": {}}, "request"),
    ):
        (tmp_path / "plan.json").write_text(json.dumps({**made, **change}))
        with pytest.raises(BudgetError) as caught:
            approve(config, tmp_path / "plan.json")
        assert caught.value.code == "DPR306"
        assert line in str(caught.value)
    (tmp_path / "plan.json").write_text(json.dumps(made))
    assert approve(config, tmp_path / "plan.json")[0] == 4  # control: after ledger, dataset, budget


FALSE_WORDS = {
    "a smaller price in words": ("guarantee", "differentially private with epsilon=0.01"),
    "another price in the plan": ("plan.epsilon", "1/100"),
    "a certificate of less": ("plan.blocks.0.certificate.epsilon_upper", "1/1000000"),
    "a bound that is not asked for": ("plan.unit", {"user": "who", "max_groups": 1, "max_rows_per_group": 1}),
    "another filter": ("plan.where", "age >= 65"),
    "a smaller error": ("plan.statistics.0.expected_error", 0.0001),
    "other words on a statistic": ("plan.statistics.0.sensitivity", "0 rows"),
    "no notes": ("plan.notes", ["nothing to see"]),
    "another hash": ("hash", "0" * 64),
    "another hash of the request": ("request_hash", "0" * 64),
    "a line that no plan has": ("approved_by", "the minister"),
    "no plan at all": ("plan", 5),
    "a number without end": ("plan.epsilon", "1e1000000000"),
}  # fmt: skip


@pytest.mark.parametrize("change", FALSE_WORDS)
def test_what_an_officer_reads_is_made_again_and_compared(file, tmp_path, change):
    config = load_pipeline(file)
    made = json.loads(plan_file(config, plan_pipeline(config), None))
    path, value = FALSE_WORDS[change]
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = made
    for step in way:
        place = place[step]
    assert not isinstance(place, dict) or place.get(last) != value
    place[last] = value
    (tmp_path / "plan.json").write_text(json.dumps(made))
    with pytest.raises(BudgetError, match="does not say what follows from its request") as caught:
        approve(config, tmp_path / "plan.json")
    assert caught.value.code == "DPR306"
    assert not Ledger.open(config.budget.ledger).approvals(config.budget.dataset)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dprelease": "plan-file/1"}', "x" * 100])
def test_what_is_not_a_plan_file_is_refused(file, tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(DpreleaseError) as caught:
        approve(load_pipeline(file), tmp_path / "plan.json")
    assert caught.value.code == "DPR182"


def test_the_request_is_the_same_for_all_periods(file):
    config = load_pipeline(file)
    found = [
        request_for_all_periods(plan_pipeline(config, p).request) for p in (None, "2025-W50", "2031-W01")
    ]  # fmt: skip
    assert found[0] == found[1] == found[2]
    assert found[0]["period"] == {
        "column": "at", "every": "week", "timezone": "Europe/Dublin", "delay": "1d",
    }  # fmt: skip


def test_an_officer_s_key_signs_and_only_by_reference(file, tmp_path, monkeypatch):
    monkeypatch.setenv("OFFICER", SECRET)
    invoke("plan", file, "--out", tmp_path / "plan.json")
    asked = ("approve", tmp_path / "plan.json", "--pipeline", file)
    assert "DPR658" in invoke(*asked, "--signing-key", SECRET, exit_code=2)
    assert "DPR520" in invoke(*asked, "--signing-key", "${env:NOBODY}", exit_code=1)
    said = invoke(*asked, "--signing-key", "${env:OFFICER}")
    assert f"signed by {PUBLIC[:16]}" in said
    assert SECRET not in said
    assert "DPR428" in invoke(*asked, exit_code=1)
    assert run(file, period="2025-W50", now=AFTER).receipt.fresh


def test_a_folder_cannot_claim_an_approval_of_another_request(file, tmp_path):
    allowed(file, tmp_path)
    folder = run(file, period="2025-W50", now=AFTER).folder
    files = {p.name: p.read_bytes() for p in folder.iterdir()}
    text = files["release.json"]
    stated = json.loads(text)["receipt"]["approval"]

    def claims(**changes) -> str:
        new = json.dumps({**stated, **changes}, separators=(",", ":")).encode()
        old = json.dumps(stated, separators=(",", ":")).encode()
        assert old in text
        place = write(tmp_path / f"forged{len(list(tmp_path.iterdir()))}", files)
        (place / "release.json").write_bytes(text.replace(old, new))
        try:
            found = verify(place, ledger=tmp_path / ".dprelease" / "ledger.db")
        except VerificationError as refused:
            return str(refused)
        return "" if found.ok else str(found)

    assert claims() == ""  # control
    assert "not of this request" in claims(request="0" * 64)
    assert "not of this request" in claims(event=99)
    assert "says otherwise whether it was approved" in claims(event=3)


def test_the_words_of_the_budget_block(file):
    file.write_text(file.read_text().replace("required", "perhaps"))
    with pytest.raises(DpreleaseError) as caught:
        load_pipeline(file)
    assert "approval" in str(caught.value)


def test_an_approval_that_allows_nothing_says_so(file, tmp_path):
    assert "allows nothing" not in allowed(file, tmp_path)
    assert "2020-01-01 is past" in allowed(file, tmp_path, "--until", "2020-01-01")
    said = " ".join(allowed(file, tmp_path, "--per-period", "0.5", "--total", "0.7").split())
    assert "epsilon 0.5 for one period allows nothing: one period asks for 1" in said
    assert "epsilon 0.7 for all of them allows nothing" in said


def test_a_plan_file_that_is_not_there_is_not_called_malformed(file, tmp_path):
    said = invoke("approve", tmp_path / "no.json", "--pipeline", file, exit_code=2)
    assert "does not exist" in said and "DPR182" in said


def test_a_weak_budget_is_called_weak_where_it_is_stated(file, tmp_path):
    assert "if all of it is spent: weak" in invoke("ledger", "add", file, "--epsilon", "1")
    (tmp_path / "other").mkdir()
    other = project(tmp_path / "other")
    other.write_text(other.read_text().replace("epsilon: 100}", "epsilon: 10}"))
    assert "all of it" not in invoke("ledger", "init", other)


def test_an_approval_that_a_later_one_replaces_is_not_shown_as_a_limit(file, tmp_path):
    allowed(file, tmp_path, "--total", "2")
    allowed(file, tmp_path, "--total", "3")
    said = invoke("ledger", "show", file).replace("\n", " ")
    first, second = re.findall(r"approval, event (\d+)", said)
    assert f"replaced by event {second}" in said and f"replaced by event {first}" not in said


def test_the_ledger_says_how_much_of_an_approval_is_used_up(file, tmp_path):
    allowed(file, tmp_path, "--total", "3")
    run(file, period="2025-W50", now=AFTER)
    said = " ".join(invoke("ledger", "show", file).split())
    assert "charged under it: epsilon 1 in 1 debit" in said
