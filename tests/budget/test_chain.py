"""Tampering: every edit of the file is found, most at the next open."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import LedgerError
from tests.budget.samples import entry, key, new_ledger, release, tamper
from tests.sizes import whole


@pytest.fixture
def ledger(tmp_path):
    made = new_ledger(tmp_path)
    for period in ("2030-01", "2030-02"):
        release(made, entry(period), tmp_path / "public")
    assert made.verify().ok  # control
    return made


def refused(ledger, public=None) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(ledger.path, public=public)
    return caught.value.code


EDITS = {
    "lower a cost": "UPDATE entry SET nano_epsilon = 1",
    "raise the budget": "UPDATE budget SET nano_epsilon = nano_epsilon + 1",
    "edit an event": "UPDATE chain SET body = replace(body, '1/10', '1/20') WHERE seq = 4",
    "edit a hash": f"UPDATE chain SET hash = '{'0' * 63}1' WHERE seq = 4",
    "edit the hash of the event before": f"UPDATE chain SET prev_hash = '{'0' * 63}1' WHERE seq = 4",
    "another plan": f"UPDATE entry SET plan_hash = '{'c' * 64}' WHERE seq = 4",
    "another key": "UPDATE entry SET period = '2029-01' WHERE seq = 4",
    "delete the last event": "DELETE FROM chain WHERE seq = (SELECT MAX(seq) FROM chain)",
    "delete the first event": "DELETE FROM chain WHERE seq = 1",
    "delete an event in the middle": "DELETE FROM chain WHERE seq = 5",
    "delete a debit": "DELETE FROM entry WHERE seq = 4",
    "delete a payload": "DELETE FROM payload",
    "delete a file": "DELETE FROM file WHERE name = 'data.csv'",
    "unpublish": "DELETE FROM state",
    "an event that is not JSON": "UPDATE chain SET body = 'x' WHERE seq = 4",
    "a loss of 1/0": "UPDATE chain SET body = replace(body, '1/10', '1/0') WHERE seq = 4",
    "schema version": "PRAGMA user_version = 2",
    "application": "PRAGMA application_id = 1",
    "an extra table": "CREATE TABLE more (x)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_when_the_ledger_is_opened(ledger, edit):
    tamper(ledger, EDITS[edit])
    assert refused(ledger) == "DPR403"
    report = ledger.verify()
    assert not report.ok
    assert report.problems


def test_a_row_that_breaks_a_constraint_is_found(ledger):
    negative = "UPDATE entry SET nano_epsilon = -1 WHERE seq = 4"
    tamper(ledger, "PRAGMA ignore_check_constraints = ON", negative)
    assert refused(ledger) == "DPR403"
    assert ledger.verify().problems == ("SQLite finds the file corrupt",)


def test_swapped_events_are_found(ledger):
    tamper(
        ledger,
        "UPDATE chain SET seq = 1000 WHERE seq = 4",
        "UPDATE chain SET seq = 4 WHERE seq = 5",
        "UPDATE chain SET seq = 5 WHERE seq = 1000",
    )
    assert refused(ledger) == "DPR403"


def test_missing_triggers_are_found(ledger):
    tamper(ledger, triggers=True)
    assert refused(ledger) == "DPR403"


@pytest.mark.parametrize(
    ("edit", "read"),
    [
        ("UPDATE payload SET bytes = zeroblob(16) WHERE entry = 4", Ledger.payload),
        ("UPDATE file SET bytes = zeroblob(9) WHERE entry = 4", Ledger.files),
    ],
    ids=["payload", "files"],
)
def test_changed_bytes_are_found_when_read_and_by_verify(ledger, edit, read):
    tamper(ledger, edit)
    with pytest.raises(LedgerError) as caught:
        read(ledger, key())
    assert caught.value.code == "DPR403"
    assert not ledger.verify().ok
    read(ledger, key("2030-02"))  # control: the other entry still reads


def test_a_changed_salt_is_found_when_read_and_by_verify(ledger):
    tamper(ledger, "UPDATE dataset SET salt = zeroblob(32)")
    assert not ledger.verify().ok
    with pytest.raises(LedgerError) as caught:
        ledger.salt("clinic")
    assert caught.value.code == "DPR403"


def test_verify_reports_a_file_that_is_gone(ledger):
    ledger.path.unlink()
    assert not ledger.verify().ok


def rewrite(ledger, change) -> None:
    """An attacker who knows the format: change every body, rehash the chain, adapt the tables."""
    db = sqlite3.connect(ledger.path)
    triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    previous = "0" * 64
    for seq, text in db.execute("SELECT seq, body FROM chain ORDER BY seq").fetchall():
        body = json.loads(text)
        change(db, seq, body)
        new = json.dumps(body, sort_keys=True, separators=(",", ":"))
        value = hashlib.sha256((previous + new).encode()).hexdigest()
        db.execute(
            "UPDATE chain SET body = ?, prev_hash = ?, hash = ? WHERE seq = ?",
            (new, previous, value, seq),
        )
        previous = value
    for _, text in triggers:
        db.execute(text)
    db.commit()
    db.close()


def halve(db, seq, body) -> None:
    if body["kind"] == "debit":
        body["entry"]["epsilon"] = "1/20"
        body["nano_epsilon"] = 5 * 10**7
        db.execute("UPDATE entry SET nano_epsilon = ? WHERE seq = ?", (5 * 10**7, seq))


def test_a_rewritten_chain_is_only_found_by_the_manifests(ledger, tmp_path):
    rewrite(ledger, halve)
    assert ledger.verify().ok  # why anchors exist
    assert ledger.budget("clinic").spent == Fraction(1, 10)
    assert refused(ledger, tmp_path / "public") == "DPR404"


def test_a_cheaper_cost_than_the_loss_is_found_even_in_a_rewritten_chain(ledger):
    def cheat(db, seq, body):
        if body["kind"] == "debit":
            body["nano_epsilon"] = 1
            db.execute("UPDATE entry SET nano_epsilon = 1 WHERE seq = ?", (seq,))

    rewrite(ledger, cheat)
    assert refused(ledger) == "DPR403"


def test_debits_over_the_budget_are_found_even_in_a_rewritten_chain(ledger):
    def cheat(db, seq, body):
        if body["kind"] == "budget":
            body["nano_epsilon"] = 1
            db.execute("UPDATE budget SET nano_epsilon = 1 WHERE seq = ?", (seq,))

    rewrite(ledger, cheat)
    assert refused(ledger) == "DPR403"


def unknown(body):
    body["kind"] = "gift"


def second_name(body):
    body["kind"] = "ledger"


def no_list(body):
    body["entry"]["mechanisms"] = "x"


def no_text(body):
    body["entry"]["period"] = 1


def no_entry(body):
    body["entry"] = 4


def no_integer(body):
    body["nano_epsilon"] = True


@pytest.mark.parametrize("change", [unknown, second_name, no_list, no_text, no_entry, no_integer])
def test_events_that_were_never_written_are_found_even_in_a_rewritten_chain(ledger, change):
    rewrite(ledger, lambda _db, _seq, body: body["kind"] == "debit" and change(body))
    assert refused(ledger) == "DPR403"


def test_an_old_copy_is_found_by_the_manifests(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger.path, copy)
    anchor = ledger.head()
    release(ledger, entry("2030-03"), tmp_path / "public")
    later = ledger.entries()[-1].anchor
    assert ledger.anchor_ok(anchor)
    assert ledger.anchor_ok(later)
    shutil.copy(copy, ledger.path)
    assert Ledger.open(ledger.path).verify().ok  # control: alone it looks fine
    assert refused(ledger, tmp_path / "public") == "DPR404"
    assert not ledger.anchor_ok(later)


def test_a_new_empty_ledger_is_found_by_the_manifests(ledger, tmp_path):
    ledger.path.unlink()
    fresh = new_ledger(tmp_path)
    assert refused(fresh, tmp_path / "public") == "DPR405"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"garbage" * 999])
def test_what_is_not_a_ledger_is_refused(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path)
    assert caught.value.code in ("DPR402", "DPR403", "DPR409")


def test_another_sqlite_database_is_not_a_ledger(tmp_path):
    db = sqlite3.connect(tmp_path / "ledger.db")
    db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(LedgerError) as caught:
        Ledger.open(tmp_path / "ledger.db")
    assert caught.value.code == "DPR403"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> tuple[bytes, Path]:
    folder = tmp_path_factory.mktemp("good")
    made = new_ledger(folder)
    release(made, entry(), folder / "public")
    return made.path.read_bytes(), folder


@settings(max_examples=whole(50, 150))
@given(st.data())
def test_a_flipped_byte_is_found_or_harmless(good, data):
    content, folder = good
    at = data.draw(st.integers(0, len(content) - 1))
    flip = data.draw(st.integers(1, 255))
    path = folder / "fuzz.db"
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
    try:
        opened = Ledger.open(path, public=folder / "public")
        assert opened.budget("clinic").spent >= Fraction(1, 10)
        if opened.verify().ok:
            assert opened.files(key()) is not None
    except LedgerError:
        pass


@settings(max_examples=40)
@given(st.floats(0, 0.999))
def test_a_truncated_file_is_found(good, part):
    content, folder = good
    path = folder / "cut.db"
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(LedgerError):
        Ledger.open(path)


def test_an_event_left_out_of_a_rewritten_chain_leaves_a_gap(tmp_path):
    """A cap is in no table: whoever drops its event and hashes the chain anew leaves its number."""
    ledger = new_ledger(tmp_path)
    ledger.cap_period("clinic", Fraction(1, 5))
    release(ledger, entry(), tmp_path / "public")
    with closing(sqlite3.connect(ledger.path)) as db:
        ((cap,),) = db.execute(
            """SELECT seq FROM chain WHERE body LIKE '%"kind":"cap"%'"""
        ).fetchall()
    tamper(ledger, f"DELETE FROM chain WHERE seq = {cap}", "PRAGMA user_version = 1")
    rewrite(ledger, lambda *_: None)
    assert refused(ledger) == "DPR403"
    assert ledger.verify().problems == (f"event {cap} of the chain is missing",)
