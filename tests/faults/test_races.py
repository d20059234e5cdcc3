"""Many processes at once: the last budget is spent exactly once, one key is drawn exactly once."""

from __future__ import annotations

import os
from fractions import Fraction

from dprelease.core.errors import BudgetError
from tests.budget.samples import entry, in_processes, key, new_ledger, release
from tests.faults.protocol import COST, check
from tests.faults.sizes import RACERS, SAME_KEY
from tests.published import read_folder

REFUSED = 7


def race(folder, count):
    ledger = new_ledger(folder, epsilon=1)

    def work(i: int) -> None:
        try:
            release(ledger, entry(f"p{i:03d}"), folder / "public")
        except BudgetError:
            os._exit(REFUSED)

    return ledger, in_processes(count, work)


def test_many_processes_race_for_ten_slots(place, evidence):
    ledger, codes = race(place, RACERS)
    assert (codes.count(0), codes.count(REFUSED)) == (10, RACERS - 10)
    seen = {}
    check(ledger.path, place / "public", Fraction(1), seen)
    assert len(seen) == 10
    assert ledger.budget("clinic").left == 0
    result = f"10 released, {RACERS - 10} refused, 0 left"
    evidence("race for the last budget", f"{RACERS} processes, 10 slots", result)


def test_a_check_outside_the_lock_is_stopped_by_the_storage(place, monkeypatch):
    """Broken twin: both look before the write lock is taken, and both find room for one."""
    ledger = new_ledger(place, epsilon="0.1")
    left = ledger.budget("clinic").left
    monkeypatch.setattr("dprelease.budget.rows.Cost.within", lambda *_: left >= COST)
    codes = in_processes(2, lambda i: ledger.charge(entry(f"p{i}")) and None)
    assert sorted(codes) != [0, 0]
    assert ledger.budget("clinic").spent == COST


def test_many_processes_on_one_key(place, evidence):
    ledger = new_ledger(place)

    def work(i: int) -> None:
        def draw() -> bytes:
            (place / f"drew{i}").touch()
            return os.urandom(16)

        ledger.charge(entry())
        data = ledger.draw_once(key(), draw, width=16)
        (place / f"got{i}").write_bytes(data)
        release(ledger, entry(), place / "public")

    assert in_processes(SAME_KEY, work) == [0] * SAME_KEY
    outputs = [p.read_bytes() for p in place.glob("got*")]
    assert (len(list(place.glob("drew*"))), len(outputs), len(set(outputs))) == (1, SAME_KEY, 1)
    assert len(ledger.entries()) == 1
    check(ledger.path, place / "public", COST, {})
    assert read_folder(place / "public" / "weekly" / "2030-01") == ledger.files(key())
    evidence(
        "same key", f"{SAME_KEY} processes", f"1 entry, 1 payload, {SAME_KEY} identical outputs"
    )
