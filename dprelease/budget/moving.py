"""Move a ledger to another place: file to server, server to file, one disk to another.

Everything is copied, event by event, so the heads stay what published manifests cite; then the old
place gets one last event, `moved`, after which it refuses every write. Copy and last event are one
transaction of the old place: if the copy fails, the old ledger goes on as if nothing had been. A
crash after the copy leaves two equal ledgers; the same command then sets the old one to rest, as
long as neither has been charged since, and otherwise refuses.

Limits   who restores a backup of the old place has two ledgers again; the published manifests tell.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from dprelease.budget import backend, chain, postgres, refusals
from dprelease.budget.connection import (
    Connection,
    Place,
    PostgresPlace,
    raise_version,
    schema_version,
)

_TABLES = ("chain", "dataset", "budget", "entry", "payload", "file", "state")
"""In the order in which rows may refer to one another."""


def must_be_here(db: Connection, place: Place) -> None:
    """Refuse a ledger that was moved.

    Raises:
        LedgerError: it was (DPR427).
    """
    (text,) = db.execute("SELECT body FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    body = json.loads(text)
    if body["kind"] == "moved":
        raise refusals.moved(place, str(body["to"]))


def move(source: Place, target: Place) -> None:
    """Copy the whole ledger to another place and let the old one rest: it can only be read then.

    Raises:
        LedgerError: the target holds another ledger, or is the same place (DPR426), or cannot hold
            one (DPR402, DPR408, DPR409, DPR424, DPR425), the copy does not verify (DPR403), or the
            ledger was moved already (DPR427).
        InternalError: the last commit failed: call it again (DPR900).
    """
    with backend.transaction(source, write=True, debited=False) as db:
        must_be_here(db, source)
        _rest(db, source, target)


def _rest(db: Connection, source: Place, target: Place) -> None:
    if _same(source, target):
        raise refusals.taken(target, "it is the same ledger under another name")
    version = schema_version(db)
    tables = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in _TABLES}
    tables["chain"].sort()

    def copy(new: Connection) -> None:
        for name, rows in tables.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                new.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        raise_version(new, version)

    backend.make(target, copy, allowed=True)  # a no-op where there is a ledger
    with backend.transaction(target, write=False, debited=False) as new:
        if chain.problems(new, deep=True):
            raise refusals.corrupt(target, "the copy is not the ledger it was made of")
        if chain.head(new) != chain.head(db):
            raise refusals.taken(
                target, "it holds another ledger, or a copy that has gone on alone"
            )
    raise_version(db, chain.MOVED)
    chain.append(db, "moved", {"to": str(target)})


def _same(source: Place, target: Place) -> bool:
    if isinstance(source, Path) and isinstance(target, Path):
        return os.path.lexists(target) and source.samefile(target)
    if isinstance(source, PostgresPlace) and isinstance(target, PostgresPlace):
        return postgres.identity(source) == postgres.identity(target)
    return False
