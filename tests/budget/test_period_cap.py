"""A cap per period: over all pipelines, on the record, and folded again from the chain."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.budget import period_cap
from dprelease.budget.ledger import Key, Ledger
from dprelease.core.errors import BudgetError, LedgerError
from tests.budget.samples import UNIT, die, entry, key, killed_in_fork, new_ledger, tamper

TENTH = Fraction(1, 10)


def capped(folder, cap="0.2", **more):
    return Ledger.create(
        folder / "ledger.db", dataset="clinic", epsilon=1, adjacency="add_remove", unit=UNIT,
        per_period=cap, **more,
    )  # fmt: skip


def by(pipeline: str, period: str = "2030-01", epsilon: Fraction = TENTH):
    return replace(entry(period, epsilon=epsilon), key=Key("clinic", pipeline, period))


def version(ledger) -> int:
    db = sqlite3.connect(ledger.path)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return found


def test_a_cap_holds_over_all_pipelines_and_per_period(tmp_path):
    ledger = capped(tmp_path)
    ledger.charge(by("weekly"))
    ledger.charge(by("daily"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(by("other", epsilon=Fraction(1, 10**9)))
    assert caught.value.code == "DPR305"
    assert "spent 0.2 of 0.2" in caught.value.what
    assert not ledger.charge(by("weekly")).fresh  # a repeat costs nothing and is not refused
    assert ledger.charge(by("weekly", "2030-02")).fresh  # control: another period
    assert ledger.verify().ok
    assert Ledger.open(ledger.path).per_period("clinic") == Fraction(1, 5)


def test_the_budget_holds_beside_it(tmp_path):
    ledger = capped(tmp_path, cap=5)
    with pytest.raises(BudgetError) as caught:
        ledger.charge(by("weekly", epsilon=Fraction(2)))
    assert caught.value.code == "DPR301"


def test_a_cap_changes_on_the_record_only(tmp_path):
    ledger = capped(tmp_path)
    for other in ("0.3", "0.1"):
        with pytest.raises(LedgerError) as caught:
            capped(tmp_path, other)
        assert caught.value.code == "DPR418"
    assert capped(tmp_path, None).per_period("clinic") == Fraction(1, 5)  # not stated: it stands
    ledger.charge(by("weekly", epsilon=Fraction(1, 5)))
    ledger.cap_period("clinic", "0.3")
    ledger.charge(by("daily"))
    ledger.cap_period("clinic", "0.05")  # what is debited stays
    assert ledger.verify().ok
    assert capped(tmp_path, "0.05").per_period("clinic") == Fraction(1, 20)


def test_a_dataset_without_one_is_not_capped_and_its_ledger_stays_version_1(tmp_path):
    ledger = new_ledger(tmp_path)
    assert (version(ledger), ledger.per_period("clinic")) == (1, None)
    with pytest.raises(LedgerError) as caught:
        Ledger.create(
            ledger.path,
            dataset="clinic",
            epsilon=1,
            adjacency="add_remove",
            unit=UNIT,
            per_period=1,
        )
    assert caught.value.code == "DPR418"
    ledger.cap_period("clinic", 1)
    assert version(ledger) == period_cap.VERSION
    assert ledger.verify().ok


def test_a_zcdp_dataset_made_later_does_not_lower_the_version(tmp_path):
    ledger = capped(tmp_path)
    Ledger.create(
        ledger.path, dataset="ward", epsilon=1, delta="1e-6", adjacency="add_remove", unit=UNIT,
        composition="zcdp",
    )  # fmt: skip
    assert version(ledger) == period_cap.VERSION
    assert ledger.verify().ok


def test_software_that_does_not_know_caps_refuses(tmp_path, monkeypatch):
    ledger = capped(tmp_path)
    monkeypatch.setattr("dprelease.budget.chain._NEWEST", 2)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(ledger.path)
    assert caught.value.code == "DPR403"


@pytest.mark.parametrize(
    "edit",
    ["PRAGMA user_version = 1", "PRAGMA user_version = 2", "DELETE FROM chain WHERE seq = 4"],
)
def test_a_cap_cannot_be_taken_out(tmp_path, edit):
    ledger = capped(tmp_path)
    tamper(ledger, edit)
    assert not ledger.verify().ok


def test_a_debit_over_the_cap_is_found_by_the_fold(tmp_path, monkeypatch):
    """Broken twin of the check: the chain betrays it."""
    ledger = capped(tmp_path)
    monkeypatch.setattr(period_cap, "must_fit", lambda *_: None)
    ledger.charge(by("weekly", epsilon=Fraction(1, 2)))
    assert any("exceeds the cap of its period" in p for p in ledger.verify().problems)


# -- charge_again --------------------------------------------------------------------------


def test_a_crash_in_the_draw_is_paid_again_if_wanted(tmp_path):
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    assert killed_in_fork(lambda: ledger.draw_once(key(), die, width=4)) == 9
    assert ledger.charge(entry()).fresh is False  # the default
    assert ledger.budget("clinic").spent == TENTH
    again = ledger.charge(entry(), again=True)
    assert (again.fresh, again.spent) == (True, 2 * TENTH)
    assert again.anchor == ledger.entries()[0].anchor  # what the manifest cites does not move
    ledger.draw_once(key(), lambda: b"abcd", width=4)
    assert ledger.charge(entry(), again=True).fresh is False  # drawn: nothing to pay for
    assert [row.entry.key.period for row in ledger.entries()] == ["2030-01", "2030-01--again-1"]
    assert ledger.verify().ok


def test_every_crash_is_paid_until_nothing_is_left(tmp_path):
    ledger = new_ledger(tmp_path, epsilon="0.3")
    for _ in range(3):
        assert ledger.charge(entry(), again=True).fresh
    with pytest.raises(BudgetError):
        ledger.charge(entry(), again=True)
    assert ledger.budget("clinic").left == 0
    assert ledger.verify().ok


def test_a_period_with_such_a_name_does_not_pay_for_it(tmp_path):
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    ledger.charge(entry("2030-01--again-1"))
    assert ledger.charge(entry(), again=True).fresh
    assert ledger.budget("clinic").spent == 3 * TENTH


def test_a_release_counts_towards_the_period_it_pays_for(tmp_path):
    ledger = capped(tmp_path)
    for _ in range(2):
        ledger.charge(by("weekly"), again=True)
    for again in (by("weekly"), by("daily")):
        with pytest.raises(BudgetError) as caught:
            ledger.charge(again, again=True)
        assert caught.value.code == "DPR305"
    assert ledger.verify().ok
