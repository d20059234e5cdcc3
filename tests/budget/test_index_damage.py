"""An index that no longer leads to its row: found when the ledger is opened, not only by `verify`."""

from __future__ import annotations

import sqlite3

import pytest

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import LedgerError
from tests.budget.samples import entry, key, new_ledger


def test_a_debit_that_its_index_does_not_lead_to_is_not_charged_twice(tmp_path):
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    whole = ledger.path.read_bytes()
    index = b"clinicweekly2030-01"  # as the unique index writes the key
    places = [i for i in range(len(whole)) if whole.startswith(index, i)]
    changed = 0
    for at in places:
        hurt = bytearray(whole)
        hurt[at + len(index) - 1] ^= 1
        ledger.path.write_bytes(hurt)
        db = sqlite3.connect(ledger.path)
        (quick,) = db.execute("PRAGMA quick_check").fetchone()
        db.close()
        with pytest.raises(LedgerError) as caught:
            Ledger.open(ledger.path)
        assert caught.value.code == "DPR403"
        changed += quick == "ok" and not Ledger(ledger.path).has(key())
    assert changed  # the twin: a quick check sees nothing, and the key is gone
