"""Where a ledger is kept, a file or a server: what callers name, make one, check that it is there, run a transaction.

One naming everywhere: `budget: {ledger: …}` of a pipeline, `--ledger` of a command, `ledger=` of a function.
A connection string itself is refused: it would stand in shell histories, logs and messages.

The protocol, the chain and the rows are the same; SQLite's side is in `storage` and `location`,
PostgreSQL's in `postgres`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from dprelease.budget import location, postgres, refusals, storage
from dprelease.budget.connection import Connection, Place, PostgresPlace
from dprelease.core.caller import path_from
from dprelease.core.errors import ConfigError
from dprelease.core.secret_text import must_read, parse_reference


def make(place: Place, first: Callable[[Connection], object], *, allowed: bool) -> None:
    """Put a new ledger there unless there is one, as `location.place_new`.

    Raises:
        LedgerError: there is none and it may not be created (DPR401), or cannot (DPR402, DPR408,
            DPR409, DPR424).
    """
    if isinstance(place, Path):
        location.place_new(place, first, allowed=allowed)
    elif not postgres.place_new(place, first, allowed=allowed):
        raise refusals.missing(place, refusals.RESTING)


def must_stand(place: Place) -> None:
    """Refuse a place that holds no ledger, or is none for one.

    Raises:
        LedgerError: missing (DPR401), not a regular file (DPR403), on a network file system
            (DPR408), or the server does not answer (DPR425) or refuses (DPR402, DPR409, DPR424).
    """
    if isinstance(place, PostgresPlace):
        if not postgres.exists(place):
            raise refusals.missing(place, None)
        return
    if not os.path.lexists(place):
        raise refusals.missing(place, None)
    _must_be_a_ledger(place)
    location.refuse_network(place.parent)


def _must_be_a_ledger(path: Path) -> None:
    """Refuse what is no ledger by its own file: opening it would write settings into it."""
    if path.is_symlink():
        raise refusals.not_this(
            path,
            "is a link",
            "the lock and the write-ahead log belong to the file's own name",
            f"name the file itself: {os.path.realpath(path)}",  # which takes a link to itself, too
        )
    if path.is_dir():
        raise refusals.not_this(
            path, "is a folder", None, f"name the file in it, e.g. {path / 'ledger.db'}"
        )
    if not path.is_file():
        raise refusals.not_this(
            path, "is no file but a device or pipe", None, "name the ledger's file"
        )
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return  # the storage says what is wrong
    if not head:
        raise refusals.not_this(
            path,
            "is an empty file",
            "a ledger is never empty: it was cut off, or the file was made by something else",
            "if a ledger was here, restore a copy of it, then `dprelease ledger reconcile`; if none ever"
            " was, remove the file, then `dprelease ledger init`",
        )
    if not head.startswith(_MAGIC[: len(head)]):
        what, why = "is a file of another kind", None
    elif len(head) == _HEAD and int.from_bytes(head[68:72]) != storage.APPLICATION_ID:
        what, why = "is a database of another program", "its SQLite file has no mark of dprelease"
    else:
        return
    raise refusals.not_this(
        path, what, why, "name the ledger's own file; if this was it, restore a copy of it"
    )


def _must_have_one_name(path: Path) -> None:
    """Refuse to write through one of several hard links: what waits in the log of another name is not seen."""
    aside = location.aside_of(path)
    try:
        # That of a ledger being made, or of a crash then, is opened by nobody. It only goes away: so first.
        own = aside.exists() and aside.samefile(path)
        others = path.stat().st_nlink - 1 - own
    except OSError:
        return  # the storage says what is wrong
    if others > 0:
        raise refusals.not_this(
            path,
            "is one of several hard links to one file",
            "the write-ahead log belongs to one name: a debit made by another name may not be seen by this one",
            f"keep one name and remove the others, or copy the file; `find / -xdev -samefile {shlex.quote(str(path))}` lists them",
        )


_HEAD = 100
_MAGIC = b"SQLite format 3\0"
"""How a SQLite file begins; its header's bytes 68 to 71 name the program (sqlite.org/fileformat2.html)."""


def transaction(place: Place, *, write: bool, debited: bool) -> AbstractContextManager[Connection]:
    """Return one transaction, as `storage.transaction`.

    Raises:
        LedgerError: it would write, by one of several names that the file has (DPR403).
    """
    if isinstance(place, PostgresPlace):
        return postgres.transaction(place, write=write, debited=debited)
    if write and not debited:
        _must_have_one_name(place)
    return storage.transaction(place, write=write, debited=debited)


# A path has lost one of the two slashes.
_STRING = re.compile(
    r"postgres(ql)?:/|(host|hostaddr|port|dbname|user|service)\s*=|.*\bpassword\s*=", re.IGNORECASE
)


def named_place(name: Place | str) -> Place:
    """Return the place that a name means; `${file:PATH}` is relative to the working folder.

    Raises:
        ConfigError: a faulty reference, or a connection string (DPR142).
        ArgumentError: it is no path (DPR642).
    """
    if isinstance(name, PostgresPlace):
        return name
    path = path_from(name, "a ledger", "ledger.db")
    text = str(name)
    if not text.startswith("${") and not _STRING.match(text):
        return location.absolute(path)
    found = parse_reference(text)
    if found is None:
        raise ConfigError(
            "a ledger on a server is named by reference only",
            where="the name of the ledger",
            why="a connection string would stand in shell histories and logs",
            fix="put it into a variable or a file, and write ${env:NAME} or ${file:PATH}",
            code="DPR142",
        )
    kind, target = found
    where = str(Path(target).resolve()) if kind == "file" else target
    reveal = partial(must_read, kind, where, "connection string of the ledger", text)
    return PostgresPlace(f"PostgreSQL {text}", reveal)
