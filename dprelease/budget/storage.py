"""The ledger's file: SQLite settings, tables, and one connection per transaction.

Choices
    WAL and synchronous=FULL  one fsync per commit. FULL is a property of the connection, and some
        builds default to NORMAL, which can lose a committed debit at power loss: it is set on
        every connection and read back, and a connection that does not take it is refused.
    one connection per transaction  a SQLite connection must not cross a fork and locks are per
        process; a release makes a handful of commits, so reuse would buy nothing.
    mode=rw   opening never creates: a missing ledger is an error, not an empty budget.
    append-only  triggers abort every UPDATE and DELETE; recursive_triggers makes them fire for
        INSERT OR REPLACE too, whose hidden delete would otherwise slip through.
    budgets twice  the sum is checked in Python integers and again by a trigger on `entry`.

The tables are projections of `chain` (chain.py), kept for their constraints. Costs are integers:
nano-units of epsilon, atto-units of delta.

Limits   a disk that acknowledges a write and forgets it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.budget.connection import Place
from dprelease.budget.read_only import is_read_only, must_be_writable, reading
from dprelease.budget.refusals import on_ledger
from dprelease.core.errors import DpreleaseError, InternalError, LedgerError, WithheldError

APPLICATION_ID = 0x6470726C
SCHEMA_VERSION = 1

_TABLES = {
    "chain": """CREATE TABLE chain (
        seq INTEGER PRIMARY KEY CHECK (seq > 0), body TEXT NOT NULL,
        prev_hash TEXT NOT NULL UNIQUE, hash TEXT NOT NULL UNIQUE) STRICT""",
    "dataset": """CREATE TABLE dataset (
        seq INTEGER PRIMARY KEY REFERENCES chain (seq), name TEXT NOT NULL UNIQUE,
        salt BLOB NOT NULL CHECK (length(salt) = 32)) STRICT""",
    "budget": """CREATE TABLE budget (
        seq INTEGER PRIMARY KEY REFERENCES chain (seq),
        dataset TEXT NOT NULL REFERENCES dataset (name),
        nano_epsilon INTEGER NOT NULL CHECK (nano_epsilon > 0),
        atto_delta INTEGER NOT NULL CHECK (atto_delta >= 0)) STRICT""",
    "entry": """CREATE TABLE entry (
        seq INTEGER PRIMARY KEY REFERENCES chain (seq),
        dataset TEXT NOT NULL REFERENCES dataset (name),
        pipeline TEXT NOT NULL, period TEXT NOT NULL, plan_hash TEXT NOT NULL,
        nano_epsilon INTEGER NOT NULL CHECK (nano_epsilon > 0),
        atto_delta INTEGER NOT NULL CHECK (atto_delta >= 0),
        UNIQUE (dataset, pipeline, period)) STRICT""",
    "payload": """CREATE TABLE payload (
        entry INTEGER PRIMARY KEY REFERENCES entry (seq),
        seq INTEGER NOT NULL UNIQUE REFERENCES chain (seq), bytes BLOB NOT NULL) STRICT""",
    "file": """CREATE TABLE file (
        entry INTEGER NOT NULL REFERENCES payload (entry),
        seq INTEGER NOT NULL REFERENCES chain (seq), name TEXT NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (entry, name)) STRICT""",
    "state": """CREATE TABLE state (
        entry INTEGER PRIMARY KEY REFERENCES entry (seq),
        seq INTEGER NOT NULL UNIQUE REFERENCES chain (seq),
        state TEXT NOT NULL CHECK (state IN ('published', 'failed')), code TEXT) STRICT""",
}

_TRIGGERS = {
    f"{table}_no_{verb.lower()}": f"""CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb}
        ON {table} BEGIN SELECT RAISE(ABORT, 'append-only'); END"""
    for table in _TABLES
    for verb in ("UPDATE", "DELETE")
} | {
    "chain_in_order": """CREATE TRIGGER chain_in_order BEFORE INSERT ON chain
        WHEN NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM chain)
          OR NEW.prev_hash <> COALESCE(
               (SELECT hash FROM chain ORDER BY seq DESC LIMIT 1), NEW.prev_hash)
        BEGIN SELECT RAISE(ABORT, 'chain order'); END""",
    "entry_in_budget": """CREATE TRIGGER entry_in_budget AFTER INSERT ON entry
        WHEN (SELECT SUM(nano_epsilon) FROM entry WHERE dataset = NEW.dataset)
           > (SELECT COALESCE(SUM(nano_epsilon), 0) FROM budget WHERE dataset = NEW.dataset)
          OR (SELECT SUM(atto_delta) FROM entry WHERE dataset = NEW.dataset)
           > (SELECT COALESCE(SUM(atto_delta), 0) FROM budget WHERE dataset = NEW.dataset)
        BEGIN SELECT RAISE(ABORT, 'over budget'); END""",
}

DDL: dict[str, str] = {
    name: re.sub(r"\s+", " ", text) for name, text in (_TABLES | _TRIGGERS).items()
}
"""Every table and trigger by name; a ledger whose own text differs is refused."""

_PRAGMAS: tuple[tuple[str, str, object], ...] = (
    ("busy_timeout", "60000", 60000),
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("foreign_keys", "ON", 1),
    ("recursive_triggers", "ON", 1),
    ("trusted_schema", "OFF", 0),
)


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing database file, never create one, and read every setting back.

    Raises:
        LedgerError: SQLite is older than 3.37, or a setting is not taken (DPR409).
        sqlite3.Error: the file does not open.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError(
            "this Python's SQLite is too old for the ledger",
            why="strict tables need SQLite 3.37",
            fix="use a Python built with a newer SQLite",
            code="DPR409",
        )
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=60, isolation_level=None)
    try:
        for name, value, _ in _PRAGMAS:
            db.execute(f"PRAGMA {name} = {value}").fetchall()
        for name, _, wanted in _PRAGMAS:
            row = db.execute(f"PRAGMA {name}").fetchone()
            if row is None or row[0] != wanted:
                raise LedgerError(
                    "the ledger's storage did not take a setting it needs",
                    where=str(path),
                    why=f"PRAGMA {name} did not read back as {wanted}",
                    fix="put the ledger on a local disk, and use a standard SQLite build",
                    code="DPR409",
                )
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(path: Path, *, write: bool, debited: bool = False) -> Iterator[sqlite3.Connection]:
    """Run one transaction on its own connection; any exception rolls it back.

    A writer takes the write lock at the start (BEGIN IMMEDIATE), so what it reads stays true
    until its commit. A reader needs no right to write (`read_only`).

    Args:
        debited: whether the debit is already durable; decides which error a failure becomes.

    Raises:
        LedgerError: nothing was charged and the storage failed (DPR402).
        WithheldError: the debit exists and the storage failed (DPR712).
        InternalError: the commit of an uncharged writer failed: spent is unknown (DPR900).
    """
    db: sqlite3.Connection | None = None
    committing = False
    failure: DpreleaseError | None = None
    try:
        if not write and is_read_only(path):
            with reading(path) as found:
                yield found
            return
        if not debited:
            must_be_writable(path)
        db = connect(path)
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield db
        committing = write
        db.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # The second: SQLite's own message may quote damaged text that is not UTF-8.
        # The name only (SQLITE_FULL, SQLITE_CORRUPT, ...): a message may quote what was stored.
        why = f"SQLite reported {getattr(error, 'sqlite_errorname', type(error).__name__)}"
        failure = storage_error(path, why, committing=committing, debited=debited)
    finally:
        if db is not None:
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            db.close()
    if failure is not None:
        raise failure from None


def storage_error(place: Place, why: str, *, committing: bool, debited: bool) -> DpreleaseError:
    """Return the error that a failure of the storage becomes: DPR712, DPR900 or DPR402."""
    if debited:
        return WithheldError(
            "the ledger could not record this step of the release, so the run ends here",
            where=str(place),
            why=why,
            fix="restore the storage and run again: the debit stands, a repeat costs nothing",
            code="DPR712",
        )
    if committing:
        return InternalError(
            "the ledger's commit failed; nothing was drawn, but the debit may be recorded",
            where=str(place),
            why=why,
            fix="restore the storage and run again: a recorded debit is not charged twice",
        )
    server = {
        "42501": "GRANT the role what it lacks: USAGE of the schema dprelease_ledger, SELECT and INSERT on its tables",
        "25006": "name the server that may be written: this one is read-only, a standby perhaps",
        "57014": "raise the server's statement_timeout for the role, or run again when it is idle",
        "25P03": "raise the server's idle_in_transaction_session_timeout for the role, and run again",
    }
    hidden = isinstance(place, Path) and place.exists() and not os.access(place, os.R_OK)
    disk = f"check the disk; then `{on_ledger(place, 'verify')}`, or restore a copy and reconcile"
    return LedgerError(
        "the ledger cannot be read or written",
        where=str(place),
        why=why,
        fix="run as its owner, or give this user access to the file and its folder: a copy would be a second ledger"
        if hidden
        else server.get(why.rpartition(" ")[2], disk),
        code="DPR402",
    )


def build(path: Path, first: Callable[[sqlite3.Connection], object]) -> None:
    """Fill the empty file `path` with the empty tables and what `first` writes, durably.

    Raises:
        LedgerError: a setting is not taken (DPR409).
        sqlite3.Error: the storage failed.
    """
    with contextlib.closing(connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("BEGIN IMMEDIATE")
        for statement in DDL.values():
            db.execute(statement)
        first(db)
        db.execute("COMMIT")
