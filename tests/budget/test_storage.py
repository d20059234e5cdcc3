"""Settings read back on every connection; append-only; what a storage failure becomes."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

import pytest

from dprelease.budget import postgres, storage
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import InternalError, LedgerError, WithheldError
from tests.budget.samples import entry, key, new_ledger, release


def test_every_connection_of_every_path_reads_its_settings_back(tmp_path, monkeypatch):
    seen: list[tuple[object, ...]] = []
    connect = storage.connect

    def watched(path):
        db = connect(path)
        names = ("synchronous", "journal_mode", "foreign_keys", "busy_timeout")
        seen.append(tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in names))
        return db

    opened: list[object] = []
    raw = sqlite3.connect

    def counted(*args, **kwargs):
        opened.append(args)
        return raw(*args, **kwargs)

    monkeypatch.setattr(storage, "connect", watched)
    monkeypatch.setattr(storage.sqlite3, "connect", counted)
    ledger = new_ledger(tmp_path)
    release(ledger, entry(), tmp_path / "public")
    Ledger.open(ledger.path, public=tmp_path / "public")
    ledger.add_budget("clinic", 1)
    ledger.reconcile([tmp_path / "public"])
    ledger.charge(entry("2030-02"))
    ledger.fail(key("2030-02"), "DPR701")
    assert ledger.verify().ok
    assert ledger.entries()
    assert ledger.salt("clinic")
    assert len(opened) == len(seen) > 10  # nobody opens the file another way
    assert set(seen) == {(2, "wal", 1, 60000)}


@pytest.mark.parametrize("name", ["synchronous", "journal_mode", "foreign_keys", "busy_timeout"])
def test_a_setting_that_is_not_taken_is_refused(tmp_path, monkeypatch, name):
    ledger = new_ledger(tmp_path)
    wanted = {"synchronous": "NORMAL", "journal_mode": "DELETE", "foreign_keys": "OFF"}
    broken = [
        (n, wanted.get(n, "1") if n == name else value, w) for n, value, w in storage._PRAGMAS
    ]
    monkeypatch.setattr(storage, "_PRAGMAS", tuple(broken))
    with pytest.raises(LedgerError) as caught:
        ledger.charge(entry())
    assert caught.value.code == "DPR409"


def test_an_old_sqlite_is_refused(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path)
    monkeypatch.setattr(storage.sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(LedgerError):
        ledger.charge(entry())


@pytest.mark.parametrize(
    "table", ["chain", "dataset", "budget", "entry", "payload", "file", "state"]
)
def test_rows_are_never_changed_or_deleted(tmp_path, table):
    ledger = new_ledger(tmp_path)
    release(ledger, entry(), tmp_path / "public")
    db = storage.connect(ledger.path)
    column = db.execute(f"SELECT name FROM pragma_table_info('{table}') LIMIT 1").fetchone()[0]
    for statement in (
        f"UPDATE {table} SET {column} = {column}",
        f"DELETE FROM {table}",
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
    db.close()
    assert ledger.verify().ok


def test_the_budget_holds_in_the_storage_too(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path, epsilon=1)
    monkeypatch.setattr(
        "dprelease.budget.rows.Cost.within", lambda *_: True
    )  # broken twin of the check
    ledger.charge(entry("2030-01", epsilon=Fraction(1)))
    with pytest.raises(LedgerError):
        ledger.charge(entry("2030-02", epsilon=Fraction(1, 10**9)))
    assert ledger.budget("clinic").spent == 1


def test_a_second_row_for_a_key_is_refused_by_the_storage(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    monkeypatch.setattr("dprelease.budget.rows.find", lambda *_: None)  # broken twin of the lookup
    with pytest.raises(LedgerError):
        ledger.charge(entry())
    monkeypatch.undo()
    assert len(ledger.entries()) == 1


class Failing(sqlite3.Connection):
    """Fails at one statement, as a full disk does."""

    at = "COMMIT"

    def execute(self, sql, *args):
        if sql.startswith(self.at):
            raise sqlite3.OperationalError("secret detail 4711")
        return super().execute(sql, *args)


@pytest.fixture
def failing(monkeypatch):
    raw = sqlite3.connect

    def at(statement):
        kind = type("At", (Failing,), {"at": statement})
        monkeypatch.setattr(storage.sqlite3, "connect", lambda *a, **k: raw(*a, factory=kind, **k))

    return at


def test_a_failed_debit_is_not_drawn_and_says_what_is_spent(tmp_path, failing, monkeypatch):
    ledger = new_ledger(tmp_path)
    failing("INSERT INTO entry")
    with pytest.raises(LedgerError) as refused:
        ledger.charge(entry())
    failing("COMMIT")
    with pytest.raises(InternalError) as unknown:
        ledger.charge(entry())
    assert unknown.value.spent == "unknown"
    monkeypatch.undo()
    for caught in (refused, unknown):
        assert "4711" not in str(caught.value)
        assert caught.value.__suppress_context__
    assert ledger.budget("clinic").spent == 0


@pytest.mark.parametrize("at", ["INSERT INTO payload", "COMMIT"])
def test_a_failed_draw_commit_withholds_and_a_repeat_is_free(tmp_path, failing, monkeypatch, at):
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    failing(at)
    with pytest.raises(WithheldError) as caught:
        ledger.draw_once(key(), lambda: b"12345678", width=8)
    assert caught.value.code == "DPR712"
    monkeypatch.undo()
    assert ledger.payload(key()) is None
    assert ledger.draw_once(key(), lambda: b"abcdefgh", width=8) == b"abcdefgh"
    assert ledger.budget("clinic").spent == Fraction(1, 10)


MENDS = {
    "42501": "GRANT the role what it lacks",
    "25006": "name the server that may be written",
    "57014": "statement_timeout",
    "25P03": "idle_in_transaction_session_timeout",
}


@pytest.mark.parametrize("state", [*MENDS, "53100", "OperationalError"])
def test_what_a_server_refuses_is_told_with_what_mends_it(tmp_path, state):
    """Through the very words that a server's error becomes; a copy is restored for a lost disk alone."""
    given = type("Refused", (Exception,), {"sqlstate": state})()
    said = storage.storage_error(
        tmp_path / "l.db", postgres._reported(given), committing=False, debited=False
    )
    assert said.code == "DPR402"
    assert (MENDS.get(state) or "restore a copy and reconcile") in (said.fix or "")
    assert ("restore a copy" in (said.fix or "")) == (state not in MENDS)


def test_a_ledger_of_another_user_is_not_to_be_restored(tmp_path, monkeypatch):
    """Followed, "restore a copy" made a second ledger with a full budget; nothing was lost."""
    ledger = new_ledger(tmp_path)
    monkeypatch.setattr(storage.os, "access", lambda _path, mode: mode != storage.os.R_OK)

    def denied(*_args, **_more):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(storage.sqlite3, "connect", denied)
    with pytest.raises(LedgerError) as caught:
        ledger.budget("clinic")
    assert caught.value.code == "DPR402"
    assert "run as its owner" in caught.value.fix
    assert "restore" not in caught.value.fix
