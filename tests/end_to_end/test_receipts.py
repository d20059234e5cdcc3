"""Every figure of a receipt, a page and an index names what it is of: a window, a dataset, these periods."""

from __future__ import annotations

import shutil
from fractions import Fraction

import pandas as pd
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.release_plan.curve import trace
from dprelease.release_plan.weak import weak_promise
from dprelease.results.formats.plan_page import plan_page
from dprelease.results.receipt import Receipt
from dprelease.results.series import index_json, page
from dprelease.results.series.collect import collect
from dprelease.results.series.write import refresh
from tests.end_to_end.test_public_words import NOW, text_of, timed
from tests.pipeline.tiny import SCHEMA, pipeline, project
from tests.rules_alone import rules_alone

PLAIN = {
    "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove", "rows": {"max": 100},
    "columns": {"x": {"kind": "integer", "range": [0, 9]}},
    "release": {"epsilon": 1, "statistics": ["count"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """Two pipelines of one dataset: W02 is charged by both, W03 by one of them."""
    folder = tmp_path_factory.mktemp("receipts")
    first = project(folder, budget=2, name="one")
    (folder / "schemas" / "visits.yaml").write_text(timed(SCHEMA).replace("visit_user", "who"))
    from tests.end_to_end.test_public_words import _with_people

    _with_people(folder / "data" / "visits.parquet")
    other = pipeline(folder, budget=2, name="other")
    init_ledger(load_pipeline(first))
    with rules_alone():
        paid = {
            (path.stem, week): run(path, period=week, now=NOW).receipt
            for path, week in ((first, "2026-W02"), (other, "2026-W02"), (first, "2026-W03"))
        }
    return folder, paid


def test_a_receipt_counts_the_units_of_its_own_window(weeks):
    """It said "2 of 2 spent" of a week that holds 1."""
    _, paid = weeks
    for key, spent in {
        ("one", "2026-W02"): 1,
        ("other", "2026-W02"): 2,
        ("one", "2026-W03"): 1,
    }.items():
        assert f" · {spent} of 2 spent on visits in {key[1]} (" in str(paid[key])
        assert paid[key].spent == str(spent)
    assert "one patient's visits of one week: at most ε = 2; " in str(paid["one", "2026-W03"])


def test_the_ledger_left_what_the_receipt_says(weeks):
    folder, paid = weeks
    book = Ledger.open(folder / ".dprelease" / "ledger.db")
    for week, spent in (("2026-W02", 2), ("2026-W03", 1)):
        entry = next(r.entry for r in book.entries("visits") if r.entry.key.period == week)
        assert book.budget("visits", entry.instants).spent == spent
    assert Fraction(paid["one", "2026-W03"].spent) + book.budget(
        "visits", entry.instants
    ).left == Fraction(paid["one", "2026-W03"].budget)


def test_a_repeat_says_which_of_its_figures_is_of_its_own_entry(tmp_path):
    """It said in one line that 2 of 9 are spent, and that one row has lost 1 at most."""
    frame = pd.DataFrame({"at": pd.to_datetime(["2030-01-07", "2030-01-08"]), "x": [1, 2]})
    declared = {**PLAIN, "columns": {**PLAIN["columns"], "at": {"kind": "timestamp"}},
                "time": {"column": "at", "timezone": "UTC", "immutable": True}}  # fmt: skip
    first, second = ({**declared, "name": name} for name in ("first", "second"))
    place = {"ledger": dp.create_ledger(tmp_path / "l.db", first, epsilon=9, dataset="d"),
             "dataset": "d", "during": "2030-W02"}  # fmt: skip
    dp.release(frame, first, **place)
    dp.release(frame, second, **place)
    again = str(dp.release(frame, first, **place).receipt)
    assert again.startswith("cost nothing (already released) · 2 of 9 spent on d in 2030-W02 (")
    assert " · as of that entry: one row: at most ε = 1, " in again


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_a_sum_of_rho_names_the_delta_at_which_it_is_worth_so_much(tmp_path, composition):
    """It said "3.37 of 10 spent" after one release of epsilon 1."""
    delta = "1e-6" if composition == "zcdp" else 0
    ledger = dp.create_ledger(
        tmp_path / "l.db", PLAIN, epsilon=10, delta=delta, composition=composition
    )
    release = dp.release(pd.DataFrame({"x": [1, 2]}), PLAIN, ledger=ledger, period="p")
    for receipt in (release.receipt, dp.read(release.publish(tmp_path / "public")).receipt):
        said = ", by zCDP at δ = 1e-06 (" in str(receipt)
        assert said is (composition == "zcdp")
        assert (receipt.spent == "1") is (composition == "basic")


@pytest.mark.parametrize("verify", [True, False])
def test_a_folder_s_receipt_is_what_its_manifest_says(weeks, verify):
    """It said "ledger: none" of a folder that cites one, and "spent epsilon 0" unchecked."""
    folder, paid = weeks
    read = dp.read(folder / "public" / "one" / "2026-W03", verify=verify).receipt
    own = paid["one", "2026-W03"]
    for name in ("epsilon", "delta", "protects", "ledger_id", "seq", "head_hash", "dataset", "plan_hash",
                 "pipeline", "period", "budget", "early", "approval"):  # fmt: skip
        assert getattr(read, name) == getattr(own, name), name
    text = f"spent epsilon 1 · 2 of 2 spent on visits by the most charged unit ({own.protects})"
    assert str(read).startswith(f"{text} · ledger entry {own.seq} of ledger {own.ledger_id[:8]} · ")
    assert "over everything released so far: at most 3" in str(read)


@pytest.mark.parametrize("verify", [True, False])
def test_a_copy_is_called_what_it_is_whatever_its_folder_is_called(weeks, tmp_path, verify):
    shutil.copytree(weeks[0] / "public" / "one" / "2026-W03", tmp_path / "downloaded")
    assert repr(dp.read(tmp_path / "downloaded", verify=verify)).startswith(
        "<Publication one/2026-W03: "
    )


@pytest.mark.parametrize("verify", [True, False])
def test_a_receipt_without_windows_is_of_the_dataset(tmp_path, verify):
    schema = {
        "dprelease": "schema/1",
        "name": "poll",
        "unit": "row",
        "adjacency": "substitution",
        "rows": {"max": 100},
        "columns": {"x": {"kind": "integer", "range": [0, 10]}},
        "release": {"epsilon": 0.5, "statistics": ["count"]},
    }
    ledger = dp.create_ledger(tmp_path / "ledger.db", schema, epsilon=2)
    frame = pd.DataFrame({"x": range(50)})
    for period in ("first", "last"):
        released = dp.release(frame, schema, ledger=ledger, period=period)
    with pytest.warns(dp.NotReadWarning, match="your frame was not read: last of poll"):
        again = dp.release(frame.head(10), schema, ledger=ledger, period="last")
    assert again.table.equals(released.table)
    said = "1 of 2 spent on poll (one row, replaced) · ledger entry 6"
    assert str(released.receipt) == f"spent epsilon 0.5 · {said}"
    read = dp.read(released.publish(tmp_path / "public"), verify=verify)
    assert (
        str(read.receipt)
        == f"spent epsilon 0.5 · {said} of ledger {released.receipt.ledger_id[:8]}"
    )


def test_an_index_says_of_what_each_loss_is(weeks):
    """ε ≤ 1 stood beside ε = 2, each without a word of what it adds up."""
    folder, _ = weeks
    text = text_of(page.write(collect(folder / "public" / "one")).decode())
    assert "Privacy loss of all periods of this page together, for one unit ε ≤ 1" in text
    assert "No conclusion about one unit becomes more than 2.72 times as likely by them." in text
    assert "and with what other pages released: one patient" in text
    assert "one patient's visits of one week: ε = 2" in text
    assert "of 2, at most 2 is spent for any one of them" in text
    budget = index_json.summary(collect(folder / "public" / "one"))["budget"]
    assert (budget["pipeline_epsilon"], budget["dataset_spent"]) == ("1", "2")


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_an_index_splits_a_budget_only_where_losses_add_up(tmp_path, composition):
    path = project(tmp_path, budget=9, name="one")
    other = pipeline(tmp_path, budget=9, name="other")
    for file in (path, other):
        zcdp = "epsilon: 9, delta: 0.0001, composition: zcdp"
        text = file.read_text().replace(
            "epsilon: 9", zcdp if composition == "zcdp" else "epsilon: 9"
        )
        file.write_text(text)
    init_ledger(load_pipeline(path))
    with rules_alone():
        run(other, period="2026-W01", now=NOW)
        for week in ("2026-W01", "2026-W02"):
            run(path, period=week, now=NOW)
    refresh(tmp_path / "public" / "one")
    text = text_of((tmp_path / "public" / "one" / "index.html").read_text(encoding="utf-8"))
    assert "All of it by these periods" not in text
    assert ("1 went to other releases of the same data" in text) is (composition == "basic")


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("unit", ["row", {"user": "who", "max_groups": 1, "max_rows_per_group": 2}])
def test_a_plan_page_speaks_of_its_own_adjacency(adjacency, unit):
    schema = {
        "dprelease": "schema/1",
        "name": "poll",
        "unit": unit,
        "adjacency": adjacency,
        "rows": {"max": 100},
        "columns": {
            "who": {"kind": "identifier"},
            "x": {"kind": "integer", "range": [0, 10]},
        },
        "release": {"epsilon": 1, "statistics": ["count", "mean(x)"]},
    }
    plan = dp.plan(schema)
    curve = trace(Fraction(1), lambda epsilon: dp.plan(schema, epsilon=epsilon), [Fraction(1)])
    text = text_of(plan_page("poll", plan, curve, {"total": "20"}).decode())
    odds = next(line for line in text.split(". ") if "“Odds” are" in line)
    assert odds.endswith(
        ("against without it", "against without them")
        if adjacency == "add_remove"
        else ("against with anything else in its place", "against with others instead")
    )
    assert "as without" not in text
    assert ("in its place" in text or "replaced" in text) is (adjacency == "substitution")


def test_a_weak_promise_is_of_a_change_whatever_the_adjacency():
    said = weak_promise(Fraction(20), "one patient's visits")
    assert (
        ": a result may be 10^8 times as likely under one of two tables that differ in one patient's visits"
        in str(said)
    )


def test_a_receipt_names_the_delta_that_was_spent():
    receipt = Receipt("1", "0.000001", "one row", seq=6, dataset="poll", spent="1", budget="5")
    assert str(receipt).startswith("spent epsilon 1, delta 0.000001 · 1 of 5 spent on poll")
    assert str(Receipt("1", "0", "one row")).startswith("spent epsilon 1 (one row) · ledger: none")
