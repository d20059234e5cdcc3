"""Datasets that compose by zCDP: the filter, its record in the chain, and twins that must show."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.budget import chain
from dprelease.budget.concentrated import zcdp_epsilon, zcdp_rho
from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from dprelease.core.numeric import NANO

DELTA = Fraction(1, 10**6)
TENTH = Fraction(1, 10)


def book(tmp_path: Path, epsilon: object = 3, composition: str = "zcdp") -> Ledger:
    return Ledger.create(
        tmp_path / "l.db", dataset="clinic", epsilon=epsilon, delta=DELTA,
        adjacency="add_remove", unit='"row"', composition=composition,
    )  # fmt: skip


def entry(period: int, **changed: Any) -> Entry:
    made = Entry(
        key=Key("clinic", "weekly", f"p{period}"), plan_hash="0" * 64, adjacency="add_remove",
        unit='"row"', mechanisms=(), epsilon=TENTH, delta=Fraction(0), rho=None,
    )  # fmt: skip
    return replace(made, **changed)


def test_many_small_releases_fit_where_the_sum_would_not(tmp_path: Path) -> None:
    """0.1 a week under (3, 1e-6): basic composition gives 30 weeks, the sum of rho more."""
    ledger = book(tmp_path)
    rho_max = zcdp_rho(Fraction(3), DELTA)
    weeks = int(rho_max * NANO // (5 * 10**6))
    assert weeks > 35
    for week in range(weeks):
        receipt = ledger.charge(entry(week))
    assert receipt.spent == zcdp_epsilon(Fraction(weeks, 200), DELTA) <= 3
    with pytest.raises(BudgetError) as refused:
        ledger.charge(entry(weeks))
    assert refused.value.code == "DPR303"
    found = ledger.budget("clinic")
    assert (found.rho, found.spent_rho) == (rho_max, Fraction(weeks, 200))
    assert found.epsilon == 3
    assert found.left == 3 - found.spent >= 0
    assert (found.spent_delta, found.left_delta) == (DELTA, 0)
    assert ledger.verify().ok
    assert ledger.spent_at("clinic", receipt.anchor.seq)[0] == receipt.spent
    assert not ledger.charge(entry(0)).fresh  # a repeat costs nothing


def test_basic_budgets_are_what_they_were(tmp_path: Path) -> None:
    ledger = book(tmp_path, composition="basic")
    assert ledger.composition("clinic") == "basic"
    for week in range(30):
        ledger.charge(entry(week, rho=Fraction(1, 200)))
    with pytest.raises(BudgetError) as refused:
        ledger.charge(entry(30))
    assert refused.value.code == "DPR301"
    with closing(sqlite3.connect(ledger.path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert ledger.budget("clinic").rho is None


def test_a_gaussian_release_is_charged_its_own_rho(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    ledger.charge(entry(1, epsilon=Fraction(1), delta=DELTA, rho=Fraction(1, 50)))
    assert ledger.budget("clinic").spent_rho == Fraction(1, 50)
    ledger.charge(entry(2, rho=Fraction(1, 10**12)))  # rounded up, never to nothing
    assert ledger.budget("clinic").spent_rho == Fraction(1, 50) + Fraction(1, NANO)
    with pytest.raises(BudgetError) as refused:
        ledger.charge(entry(3, epsilon=Fraction(1), delta=DELTA))
    assert refused.value.code == "DPR304"


def test_the_ledger_says_version_two_and_old_software_refuses_it(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    assert ledger.composition("clinic") == "zcdp"
    with closing(sqlite3.connect(ledger.path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        db.execute("PRAGMA user_version = 1")
    with pytest.raises(LedgerError) as refused:
        Ledger.open(ledger.path)
    assert refused.value.code == "DPR403"


def test_creation_is_repeatable_and_fixed(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    assert book(tmp_path).path == ledger.path
    for changed in ({"composition": "basic"}, {"epsilon": 4}):
        with pytest.raises(LedgerError) as refused:
            book(tmp_path, **changed)  # type: ignore[arg-type]
        assert refused.value.code == "DPR414"


def test_a_raise_fixes_a_new_rho(tmp_path: Path) -> None:
    ledger = book(tmp_path, epsilon=1)
    ledger.charge(entry(1))
    raised = ledger.add_budget("clinic", 1)
    assert (raised.epsilon, raised.rho) == (2, zcdp_rho(Fraction(2), DELTA))
    assert raised.spent_rho == Fraction(1, 200)
    assert book(tmp_path, epsilon=2).path == ledger.path  # the raised budget may be declared
    assert Ledger.open(ledger.path).verify().ok


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"composition": "advanced"}, "DPR653"), ({"delta": 0}, "DPR654")],
)
def test_what_cannot_compose_is_refused(tmp_path: Path, changed: Any, code: str) -> None:
    given = {"epsilon": 1, "delta": DELTA, "composition": "zcdp", **changed}
    with pytest.raises(ArgumentError) as refused:
        Ledger.create(tmp_path / "l.db", dataset="d", adjacency="add_remove", unit='"row"', **given)
    assert refused.value.code == code
    with pytest.raises(ArgumentError):
        entry(1, rho=-TENTH)


def test_entries_round_trip_with_and_without_a_rho() -> None:
    assert "rho" not in entry(1).to_json()
    for e in (entry(1), entry(1, rho=Fraction(1, 7))):
        assert Entry.from_json(json.loads(json.dumps(e.to_json()))) == e


# --- twins: a ledger whose chain was made consistent again by its writer still shows it ----------


def forged(tmp_path: Path, kind: str, change: Any) -> list[str]:
    """Rewrite the last event of `kind` and all hashes after it, as a dishonest writer would."""
    ledger = book(tmp_path, epsilon=1)
    ledger.charge(entry(1))
    db = sqlite3.connect(ledger.path)
    for name in ("chain_no_update", "chain_in_order"):
        db.execute(f"DROP TRIGGER {name}")
    previous = "0" * 64
    events = db.execute("SELECT seq, body FROM chain ORDER BY seq").fetchall()
    for seq, text in events:
        body = json.loads(text)
        if body["kind"] == kind:
            change(body)
        new = json.dumps(body, sort_keys=True, separators=(",", ":"))
        value = chain.digest((previous + new).encode())
        db.execute(
            "UPDATE chain SET body = ?, prev_hash = ?, hash = ? WHERE seq = ?",
            (new, previous, value, seq),
        )
        previous = value
    from dprelease.budget.storage import DDL

    for name in ("chain_no_update", "chain_in_order"):
        db.execute(DDL[name])
    db.commit()
    found = chain.problems(db, deep=False)
    db.close()
    return found


def test_the_forger_alone_is_not_noticed(tmp_path: Path) -> None:
    """The control: rewriting without a change leaves a valid chain (anchors find it, not this)."""
    assert forged(tmp_path, "debit", lambda body: None) == []


def test_twin_a_debit_counts_less_rho_than_its_loss(tmp_path: Path) -> None:
    assert forged(tmp_path, "debit", lambda b: b.update(nano_rho=1)) == [
        "debit 4 costs less or more rho than its loss"
    ]


def test_twin_a_budget_states_more_rho_than_it_is_worth(tmp_path: Path) -> None:
    def more(body: dict[str, Any]) -> None:
        body["zcdp"]["nano_rho"] *= 2

    assert forged(tmp_path, "budget", more) == ["budget 3 states more rho than it is worth"]


def test_twin_a_debit_beyond_rho_max(tmp_path: Path) -> None:
    def less(body: dict[str, Any]) -> None:
        body["zcdp"]["nano_rho"] = 10**6

    assert forged(tmp_path, "budget", less) == [
        "a debit before event 5 exceeds the budget it was charged to"
    ]


def test_twin_the_ceiling_is_taken_for_a_budget(tmp_path: Path) -> None:
    """Without its zcdp part the row of the table would be a budget of 1e9."""
    found = forged(tmp_path, "budget", lambda b: b.pop("zcdp"))
    assert found
