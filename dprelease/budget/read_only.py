"""A ledger file where nothing can be written: a read-only mount, or a folder of somebody else.

SQLite reads a database with a write-ahead log through shared memory in a file beside it, and makes that
file if it is not there. Where it cannot, this is what is read, always all that is committed:

    log and shared memory    somebody writes now, or died: both files are read as they are
    a log alone              somebody died, and no one can be writing: a copy of database and log is read
    neither                  the database file holds everything, and is read as it stands

Limits  In the last case a writer may start elsewhere meanwhile, through a mount that is writable there. Then
        the file or its folder has changed in the end, and what was read counts for nothing.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dprelease.budget.refusals import on_ledger
from dprelease.core.errors import LedgerError


def is_read_only(path: Path) -> bool:
    """Return whether this user cannot write to a ledger, its file or its folder."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def must_be_writable(path: Path) -> None:
    """Refuse to write where nothing can be.

    Raises:
        LedgerError: it is so (DPR402).
    """
    if is_read_only(path):
        show, verify = (on_ledger(path, command) for command in ("show", "verify"))
        raise LedgerError(
            "the ledger can only be read here",
            where=str(path),
            why="this user may not write to its file or its folder, or they are on a read-only mount",
            fix="releases, and commands that change the ledger, need write access to both: run where it is given;"
            f" `{show}`, `{verify}` and `dprelease verify FOLDER --ledger` read it as it is",
            code="DPR402",
        )


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that reads all that is committed.

    Raises:
        sqlite3.Error: the file does not open, or was written to meanwhile.
    """
    log, shared = (Path(f"{path}{end}") for end in ("-wal", "-shm"))
    if log.exists() and shared.exists():
        with closing(_connected(path, "mode=ro")) as db:
            yield db
    elif log.exists() and log.stat().st_size:
        with tempfile.TemporaryDirectory(prefix="dprelease-") as folder:
            copy = Path(folder) / "ledger.db"
            try:
                for end in ("", "-wal"):
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            except OSError as error:
                raise sqlite3.OperationalError("it cannot be copied to be read") from error
            with closing(_connected(copy, "mode=rw")) as db:
                yield db
    else:
        before = _state(path, log)
        with closing(_connected(path, "mode=ro&immutable=1")) as db:
            yield db
        if _state(path, log) != before:
            raise sqlite3.OperationalError("the file was written to while it was read")


def _connected(path: Path, how: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=60, isolation_level=None)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("BEGIN")
    return db


def _state(path: Path, log: Path) -> tuple[int, int, int, bool]:
    said = path.stat()
    return said.st_ino, said.st_size, said.st_mtime_ns, log.exists()
