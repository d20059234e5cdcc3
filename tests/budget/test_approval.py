"""Approvals: what they cover, where that is looked at, and what a chain shows that was made without."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dprelease.budget import approval, rows, steps
from dprelease.budget.approval import Approval, ApprovalRequest
from dprelease.budget.approval_words import apart
from dprelease.budget.ledger import Ledger
from dprelease.budget.signature import load_signer
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from tests.budget.samples import die, entry, in_processes, killed_in_fork, new_ledger, release

TENTH = Fraction(1, 10)
REQUEST = {"release": {"epsilon": 0.1, "by": ["region"], "statistics": [{"as": "count"}]}}
NOON = datetime(2030, 6, 15, 12, tzinfo=UTC)
SECRETS = ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "ab" * 32)


def approved(**changes) -> Approval:
    given = {"per_period": TENTH, "by": "officer", "at": "2030-06-01T08:00:00Z"} | changes
    return Approval("clinic", "weekly", given.pop("request", REQUEST), **given)


def asked(request=REQUEST, *, required=True, now=NOON) -> ApprovalRequest:
    return ApprovalRequest(lambda: request, required, lambda: now)


def code_of(call, *arguments, kind=BudgetError, **named) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    return caught.value.code


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return new_ledger(tmp_path)


def test_a_required_approval_is_needed_and_nothing_is_spent_without(ledger):
    assert code_of(ledger.charge, entry(), wanted=asked()) == "DPR306"
    assert code_of(ledger.must_be_approved, entry(), asked()) == "DPR306"
    assert ledger.entries() == []
    assert ledger.charge(entry("2030-02"), wanted=asked(required=False)).fresh  # control


def test_one_approval_is_for_all_periods(ledger):
    event = ledger.approve(approved())
    for period in ("2030-01", "2030-02", "2030-03"):
        ledger.must_be_approved(entry(period), asked())
        assert ledger.charge(entry(period), wanted=asked()).approval == event
    assert [row.approval for row in ledger.entries()] == [event] * 3
    assert (
        ledger.charge(entry("2030-01"), wanted=asked()).approval == event
    )  # a repeat says the same
    assert ledger.verify().ok
    ((found),) = Ledger.open(ledger.path).approvals("clinic")
    assert (found.event, found.approval.request, found.approval.by) == (event, REQUEST, "officer")
    assert ledger.approvals("other") == []


def test_what_differs_is_said_line_by_line(ledger):
    ledger.approve(approved())
    other = {"release": {"epsilon": 0.2, "by": [], "statistics": [{"as": "count"}, {"as": "sum"}]}}
    with pytest.raises(BudgetError) as caught:
        ledger.charge(entry(), wanted=asked(other))
    lines = [line.strip() for line in str(caught.value.why).splitlines()]
    assert lines == [
        "approved 2030-06-01 by officer; now",
        "release.by: approved region, not asked",
        "release.epsilon: approved 0.1, asked 0.2",
        "release.statistics: not approved, asked sum",
    ]
    assert caught.value.exit_status == 1
    assert ledger.entries() == []


def test_lines_of_two_requests():
    one = {"a": [1, 2], "b": {"c": [{"as": "x", "n": 1}, {"as": "y"}]}, "d": "t" * 80}
    assert apart(one, one) == []
    assert apart(one, {**one, "a": [2, 1]}) == ["a: in another order"]
    assert apart(one, {**one, "a": [1, 1]}) == ["a: approved [1, 2], asked [1, 1]"]
    other = {**one, "b": {"c": [{"as": "y"}, {"as": "x", "n": 2}]}}
    assert apart(one, other) == ["b.c[x].n: approved 1, asked 2", "b.c: in another order"]
    (line,) = apart(one, {**one, "d": "t" * 79 + "u"})  # they differ where they are not shown
    assert line.startswith("d: approved ttt")
    assert apart({"n": 1}, {"n": True}) == ["n: approved 1, asked true"]
    assert apart(one, {"e": None}) == [
        "a: approved [1, 2], not asked",
        'b: approved {"c": [{"as": "x", "n": 1}, {"as": "y"}]}, not asked',
        f"d: approved {'t' * 59}…, not asked",
        "e: not approved, asked null",
    ]
    assert apart({str(i): 0 for i in range(20)}, {})[-1] == "and 8 more"


def test_an_approval_holds_whatever_a_file_says(ledger):
    """Who takes `approval: required` out of the pipeline, or comes by another door, is held to it."""
    ledger.approve(approved())
    other = {"release": {"epsilon": 9}}
    assert code_of(ledger.charge, entry(), wanted=asked(other, required=False)) == "DPR306"
    assert code_of(ledger.charge, entry()) == "DPR306"
    by_another = replace(entry(), key=replace(entry().key, pipeline="other"))
    assert (
        ledger.charge(by_another, wanted=asked(other, required=False)).approval is None
    )  # control
    assert ledger.verify().ok


def test_the_last_day_of_an_approval_counts_and_the_next_does_not(ledger):
    ledger.approve(approved(until="2030-06-15"))
    night = datetime(2030, 6, 15, 23, 59, 59, tzinfo=UTC)
    assert ledger.charge(entry(), wanted=asked(now=night)).fresh
    east = night.astimezone(datetime.now().astimezone().tzinfo) + timedelta(seconds=1)
    assert code_of(ledger.charge, entry("2030-02"), wanted=asked(now=east)) == "DPR307"
    assert not ledger.charge(entry(), wanted=asked(now=east)).fresh  # what is drawn needs none


def test_the_clock_is_asked_while_the_ledger_is_locked(ledger):
    """A run that waited for the lock over midnight is of the next day."""
    ledger.approve(approved(until="2030-06-15"))
    locked = []

    def clock():
        db = sqlite3.connect(ledger.path, timeout=0, isolation_level=None)
        try:
            db.execute("BEGIN IMMEDIATE")
            locked.append(False)
        except sqlite3.OperationalError:
            locked.append(True)
        finally:
            db.close()
        return NOON

    ledger.charge(entry(), wanted=ApprovalRequest(lambda: REQUEST, True, clock))
    assert locked == [True]
    ledger.must_be_approved(
        entry("2030-02"), ApprovalRequest(lambda: REQUEST, True, clock)
    )  # control
    assert locked == [True, False]


def test_limits_are_exact_and_count_every_debit_under_it(ledger):
    third = Fraction(1, 7)
    ledger.approve(approved(per_period=third, total=2 * third))
    for period in ("2030-01", "2030-02"):
        ledger.charge(entry(period, epsilon=third), wanted=asked())
    assert code_of(ledger.charge, entry("2030-03", epsilon=third), wanted=asked()) == "DPR308"
    assert code_of(ledger.charge, entry("2030-04", epsilon=third * 2), wanted=asked()) == "DPR308"
    ledger.approve(approved(per_period=third, total=third))  # a new decision counts anew
    assert ledger.charge(entry("2030-03", epsilon=third), wanted=asked()).fresh
    assert ledger.verify().ok


def test_a_second_payment_of_a_crashed_run_is_held_to_the_period_s_limit(ledger):
    ledger.approve(approved())
    ledger.charge(entry(), wanted=asked())
    assert code_of(ledger.charge, entry(), again=True, wanted=asked()) == "DPR308"
    ledger.approve(approved(per_period=2 * TENTH))
    assert ledger.charge(entry(), again=True, wanted=asked()).fresh
    assert code_of(ledger.charge, entry(), again=True, wanted=asked()) == "DPR308"
    assert ledger.verify().ok


def test_a_later_approval_of_the_same_request_replaces_and_can_end_it(ledger):
    ledger.approve(approved())
    ledger.approve(approved(request={"release": {"epsilon": 5}}))
    assert ledger.charge(entry(), wanted=asked()).fresh  # another request's does not replace it
    ledger.approve(approved(until="2030-06-14"))
    assert code_of(ledger.charge, entry("2030-02"), wanted=asked()) == "DPR307"


def test_reconcile_needs_none(tmp_path):
    ledger = new_ledger(tmp_path)
    release(ledger, entry(), tmp_path / "public")
    other = new_ledger(tmp_path, name="restored")
    other.approve(approved(request={"release": {}}))
    assert other.reconcile([tmp_path / "public"]) == 1
    assert other.verify().ok


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"per_period": Fraction(0)}, "its limit per period is not above 0"),
        ({"total": Fraction(-1)}, "its limit in all is not above 0"),
        ({"until": "2030-6-1"}, "its last day, '2030-6-1', is not a date such as 2027-12-31"),
        ({"until": "2030-02-30"}, "its last day, '2030-02-30', is not a date such as 2027-12-31"),
        ({"until": "20300601"}, "its last day, '20300601', is not a date such as 2027-12-31"),
        ({"note": "x" * 1001}, "its note is longer than 1,000 characters, or no text"),
        ({"at": "yesterday"}, "its instant is not one such as 2027-01-31T08:00:00Z"),
        ({"public_key": "x", "signature": "0"}, "its key and signature are not both in hexadecimal digits"),
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_approval_is_refused_and_says_which_part_is(change, wrong):
    with pytest.raises(ArgumentError) as caught:
        approved(**change)
    assert (caught.value.code, caught.value.why) == ("DPR656", wrong)  # that part alone


def test_who_has_no_budget_here_has_nothing_to_approve(ledger):
    strange = replace(approved(), dataset="strange")
    assert code_of(ledger.approve, strange, kind=LedgerError) == "DPR407"


# -- signatures ----------------------------------------------------------------------------


def test_from_the_first_signed_one_on_only_that_key_approves(ledger):
    officer, other = (load_signer(secret, "test") for secret in SECRETS)
    ledger.approve(approved())
    assert ledger.charge(entry(), wanted=asked()).fresh
    assert ledger.approve(approved(request={"release": {}}), officer)
    assert code_of(ledger.charge, entry("2030-02"), wanted=asked(), kind=LedgerError) == "DPR428"
    for signer in (None, other):
        assert code_of(ledger.approve, approved(), signer, kind=LedgerError) == "DPR428"
    ledger.approve(approved(), officer)
    assert ledger.charge(entry("2030-02"), wanted=asked()).fresh
    assert ledger.verify().ok


def test_a_signature_is_of_every_part_and_of_its_place():
    signed = replace(approved(), after="cd" * 32).signed(load_signer(SECRETS[0], "test"))
    assert signed.is_signed()
    for change in (
        {"per_period": Fraction(2)}, {"total": Fraction(9)}, {"until": "2031-01-01"}, {"by": "me"},
        {"request": {}}, {"after": "ce" * 32}, {"at": "2030-06-01T08:00:01Z"}, {"note": "yes"},
        {"pipeline": "other"}, {"dataset": "other"}, {"signature": None, "public_key": None},
    ):  # fmt: skip
        assert not replace(signed, **change).is_signed()


# -- broken twins: a chain that was made without a check shows it ----------------------------


def made_without(monkeypatch, ledger, name, value, **debit):
    """Charge once with one check of `approval` broken; return what the whole check finds."""
    monkeypatch.setattr(approval, name, value)
    ledger.charge(entry(**{"period": "2030-09"} | debit), wanted=asked())
    monkeypatch.undo()
    return ledger.verify().problems


def test_a_build_that_asks_for_no_approval(ledger, monkeypatch):
    ledger.approve(approved())
    monkeypatch.setattr(rows.approval, "must_cover", lambda *_: None)
    ledger.charge(entry(), wanted=asked({"release": {"epsilon": 7}}))
    (problem,) = ledger.verify().problems
    assert "without the approval that its pipeline needs" in problem
    assert code_of(Ledger.open, ledger.path, kind=LedgerError) == "DPR403"


def test_a_build_that_ignores_the_last_day(ledger, monkeypatch):
    ledger.approve(approved(until="2030-06-14"))
    (problem,) = made_without(monkeypatch, ledger, "_is_over", lambda *_: False)
    assert "after its approval ended" in problem


def test_a_build_that_ignores_limits(ledger, monkeypatch):
    ledger.approve(approved())
    (problem,) = made_without(monkeypatch, ledger, "_must_fit", lambda *_: None, epsilon=TENTH * 2)
    assert "exceeds its approval" in problem


def test_a_build_that_takes_any_request_for_the_approved_one(ledger, monkeypatch):
    ledger.approve(approved())
    monkeypatch.setattr(
        rows.approval, "must_cover",
        lambda *_: {"event": 4, "request": "0" * 64, "at": "2030-06-15T12:00:00Z"},
    )  # fmt: skip
    ledger.charge(entry(), wanted=asked({}))
    (problem,) = ledger.verify().problems
    assert "does not count for it" in problem


def test_a_build_that_believes_any_key(ledger, monkeypatch):
    ledger.approve(approved())
    ledger.approve(approved(request={}), load_signer(SECRETS[0], "test"))
    (problem,) = made_without(monkeypatch, ledger, "_must_be_signed", lambda *_: None)
    assert "by another key" in problem


def appended(ledger, made: Approval) -> tuple[str, ...]:
    """Write an event as someone does who can write the ledger, and nothing else."""
    with ledger._write() as db:
        from dprelease.budget import chain

        chain.append(db, "approval", made.to_json())
    return ledger.verify().problems


def test_someone_who_can_write_the_ledger_and_has_no_key_is_found(ledger):
    officer = load_signer(SECRETS[0], "test")
    ledger.approve(approved(until="2030-06-14"), officer)
    head = ledger.head().head_hash
    assert "not by the key" in appended(ledger, replace(approved(), after=head))[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "recorded elsewhere in the chain"),  # the officer's own, from before it was ended
        ({"after": None}, "is not signed"),
        ({"after": None, "signature": "ab" * 64}, "is not signed"),
    ],
    ids=["put again", "moved", "forged"],
)
def test_an_approval_that_was_ended_is_not_brought_back(ledger, change, said):
    officer = load_signer(SECRETS[0], "test")
    ledger.approve(approved(), officer)
    old = ledger.approvals()[0].approval
    ledger.approve(approved(until="2030-06-14"), officer)
    here = {"after": ledger.head().head_hash} if "after" in change else {}
    assert said in appended(ledger, replace(old, **{**change, **here}))[0]


def test_without_the_library_a_signed_approval_covers_nothing(ledger, monkeypatch):
    ledger.approve(approved(), load_signer(SECRETS[0], "test"))
    for name in ("cryptography", "cryptography.exceptions"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    assert code_of(ledger.charge, entry(), wanted=asked(), kind=LedgerError) == "DPR422"


# -- races, crashes, other software ----------------------------------------------------------


def race(ledger, count=6) -> list[int | None]:
    def work(i: int) -> None:
        try:
            ledger.charge(entry(f"p{i}"), wanted=asked())
        except BudgetError as refused:
            os._exit(7 if refused.code == "DPR308" else 8)

    return in_processes(count, work)


def test_processes_race_for_the_last_of_an_approval(ledger):
    ledger.approve(approved(total=2 * TENTH))
    assert sorted(race(ledger)) == [0, 0, 7, 7, 7, 7]
    assert ledger.budget("clinic").spent == 2 * TENTH
    assert ledger.verify().ok


def test_the_race_catches_a_build_that_looks_before_it_locks(ledger, monkeypatch):
    """Broken twin: the approval is looked at in a transaction of its own, and then comes the debit."""
    ledger.approve(approved(total=2 * TENTH))
    whole = approval.must_cover
    found = {}

    def charge(self, entered, *, wanted):
        with self._read() as db:
            found["under"] = whole(db, entered, wanted, entered.key.period, self.path)
        time.sleep(0.5)
        with self._write() as db:
            return rows.insert_entry(db, entered, self.path, origin=None, wanted=wanted)

    monkeypatch.setattr(rows.approval, "must_cover", lambda *_: found["under"])
    monkeypatch.setattr(Ledger, "charge", charge)
    assert race(ledger).count(0) > 2
    assert any("exceeds its approval" in problem for problem in ledger.verify().problems)


def test_a_kill_while_approving_leaves_all_or_nothing(ledger, monkeypatch):
    def killed(*arguments):
        steps.chain.append(*arguments)
        die()

    monkeypatch.setattr(
        ledger.__class__, "approve", lambda self, made: _approve(self, made, killed)
    )
    assert killed_in_fork(lambda: ledger.approve(approved())) == 9
    assert ledger.approvals() == []
    assert ledger.verify().ok


def _approve(ledger, made, append):
    with ledger._write() as db:
        append(db, "approval", replace(made, after=ledger.head().head_hash).to_json())


def test_software_that_knows_no_approvals_refuses_the_ledger(ledger):
    ledger.approve(approved())
    db = sqlite3.connect(ledger.path)
    assert db.execute("PRAGMA user_version").fetchone() == (approval.VERSION,)
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    assert code_of(Ledger.open, ledger.path, kind=LedgerError) == "DPR403"


def test_the_record_holds_the_request_itself(ledger):
    ledger.approve(approved(note="minutes of 3 May"))
    db = sqlite3.connect(ledger.path)
    (text,) = db.execute("SELECT body FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    db.close()
    body = json.loads(text)
    assert (body["request"], body["note"]) == (REQUEST, "minutes of 3 May")
    assert Approval.of_event(body).hash == approval.request_hash(REQUEST)
