"""The bytes under a debit, and how far its release has come: payload, files, state.

Every append writes its event to the chain first and then its row. What is handed out has the hash that
the chain holds. Always inside the caller's transaction; nothing here commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from dprelease.budget import chain, refusals
from dprelease.budget.connection import Connection, Place
from dprelease.budget.record import Anchor


def insert_payload(db: Connection, seq: int, data: bytes) -> None:
    body = {"entry": seq, "size": len(data), "sha256": chain.digest(data)}
    at = chain.append(db, "payload", body)
    db.execute("INSERT INTO payload VALUES (?, ?, ?)", (seq, at, data))


def insert_files(db: Connection, seq: int, files: Mapping[str, bytes]) -> None:
    hashes = {name: chain.digest(data) for name, data in files.items()}
    at = chain.append(db, "files", {"entry": seq, "files": hashes})
    db.executemany(
        "INSERT INTO file VALUES (?, ?, ?, ?)",
        [(seq, at, name, data) for name, data in files.items()],
    )


def insert_state(
    db: Connection,
    seq: int,
    name: str,
    code: str | None,
    *,
    origin: Anchor | None = None,
    manifest: str | None = None,
) -> None:
    """Record how an entry ended; `origin`, `manifest`: what `reconcile` adopted, and its SHA-256."""
    body: dict[str, object] = {
        "entry": seq,
        "state": name,
        "code": code,
        "origin": None if origin is None else asdict(origin),
        **({} if manifest is None else {"manifest_sha256": manifest}),
    }
    at = chain.append(db, "state", body)
    db.execute("INSERT INTO state VALUES (?, ?, ?, ?)", (seq, at, name, code))


def stored_payload(db: Connection, seq: int, path: Place) -> bytes | None:
    """Return the payload if its hash is the chain's, None if there is none, else raise DPR403."""
    row = db.execute(
        "SELECT bytes, body FROM payload JOIN chain USING (seq) WHERE entry = ?", (seq,)
    ).fetchone()
    if row is None:
        return None
    if chain.digest(row[0]) != json.loads(row[1])["sha256"]:
        raise refusals.corrupt(path, f"the payload of debit {seq} was changed")
    return bytes(row[0])


def stored_files(db: Connection, seq: int, path: Place) -> dict[str, bytes]:
    """Return the files if their hashes are the chain's, {} if none, else raise DPR403."""
    found = {
        str(name): bytes(data)
        for name, data in db.execute(
            "SELECT name, bytes FROM file WHERE entry = ? ORDER BY name", (seq,)
        )
    }
    if not found:
        return {}
    (text,) = db.execute(
        "SELECT body FROM chain WHERE seq = (SELECT MAX(seq) FROM file WHERE entry = ?)", (seq,)
    ).fetchone()
    if {name: chain.digest(data) for name, data in found.items()} != json.loads(text)["files"]:
        raise refusals.corrupt(path, f"the files of debit {seq} were changed")
    return found


def state(db: Connection, seq: int) -> tuple[str, str | None]:
    """Return the entry's state and, for `failed`, its code."""
    row = db.execute("SELECT state, code FROM state WHERE entry = ?", (seq,)).fetchone()
    if row is not None:
        return str(row[0]), row[1]
    for table, name in (("file", "ready"), ("payload", "drawn")):
        if db.execute(f"SELECT 1 FROM {table} WHERE entry = ? LIMIT 1", (seq,)).fetchone():
            return name, None
    return "charged", None
