"""What the ledger's rows are read and written through: SQLite, or PostgreSQL behind the same words.

Rows are SQL that both understand, with `?` for values. What only one of them has (settings, schema
version, integrity of the storage) is asked through the functions here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from dprelease.budget.accountant import Cost


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A ledger in the schema `dprelease_ledger` of a database.

    Attributes:
        name: how it is shown, never the connection string.
    """

    name: str
    _dsn: Callable[[], str] = field(repr=False)

    def reveal_to_driver(self) -> str:
        """Return the connection string, for opening a connection only."""
        return self._dsn()

    def __str__(self) -> str:
        return self.name


Place: TypeAlias = Path | PostgresPlace
"""Where a ledger is; its text is shown in messages."""


class Connection(Protocol):
    """One transaction's connection."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...

    def executemany(self, sql: str, parameters: Any, /) -> Any: ...


@runtime_checkable
class Server(Protocol):
    """What a server's connection answers instead of SQLite's pragmas."""

    def schema_version(self) -> int: ...

    def insert_version(self, version: int) -> None: ...

    def storage_problems(self) -> list[str]: ...

    def closed_tables(self) -> list[str]: ...


def schema_version(db: Connection) -> int:
    """Return the version of the ledger's schema."""
    if isinstance(db, Server):
        return db.schema_version()
    return int(db.execute("PRAGMA user_version").fetchone()[0])


LAST = 2**62
"""After every event of a chain."""


def debits(db: Connection, dataset: str, last: int = LAST) -> list[tuple[int, dict[str, Any]]]:
    """Return number and body of the events of a dataset's debits, in order, up to event `last`."""
    found = db.execute(
        "SELECT seq, body FROM entry JOIN chain USING (seq) WHERE dataset = ? AND seq <= ? ORDER BY seq",
        (dataset, last),
    )
    return [(int(seq), json.loads(text)) for seq, text in found.fetchall()]


def summed(db: Connection, dataset: str, last: int = LAST) -> Cost:
    """Return what the table says that a dataset's debits up to event `last` cost together: the database makes the sums."""
    found = db.execute(
        "SELECT COALESCE(SUM(nano_epsilon), 0), COALESCE(SUM(atto_delta), 0) FROM entry"
        " WHERE dataset = ? AND seq <= ?",
        (dataset, last),
    )
    return Cost(*map(int, found.fetchone()))


def events(db: Connection, *kinds: str, last: int = LAST) -> list[tuple[int, dict[str, Any]]]:
    """Return number and body of the events of some kinds, but debits, in order, up to event `last`."""
    found = db.execute(
        "SELECT seq, body FROM chain WHERE seq <= ? AND seq NOT IN (SELECT seq FROM entry)"
        f" AND ({' OR '.join('body LIKE ?' for _ in kinds)}) ORDER BY seq",
        (last, *(f'%"kind":"{kind}"%' for kind in kinds)),
    )
    bodies = [(int(seq), json.loads(text)) for seq, text in found.fetchall()]
    return [(seq, body) for seq, body in bodies if body["kind"] in kinds]


def closed_tables(db: Connection) -> list[str]:
    """Return the tables of what follows a debit that this user may not write; a file is writable as one."""
    return db.closed_tables() if isinstance(db, Server) else []


def raise_version(db: Connection, version: int) -> None:
    """Let the ledger say at least this version from now on."""
    if schema_version(db) >= version:
        return
    if isinstance(db, Server):
        db.insert_version(version)
    else:
        db.execute(f"PRAGMA user_version = {version}")
