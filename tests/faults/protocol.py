"""What must hold after every crash, and how a child dies where we want it to."""

from __future__ import annotations

import os
import sqlite3
from fractions import Fraction
from pathlib import Path

from dprelease.budget import storage
from dprelease.budget.ledger import Key, Ledger
from tests.budget.samples import die
from tests.published import read_folder

COST = Fraction(1, 10)

POINTS = (
    "before the debit's commit",
    "after the debit's commit",
    "before the draw",
    "after the draw",
    "before the payload's commit",
    "after the payload's commit",
    "before the files' commit",
    "after the files' commit",
    "before the folder's rename",
    "after the folder's rename",
    "before the state's commit",
)


def published(public: Path) -> dict[str, dict[str, bytes]]:
    """Return period -> files of the folders a reader sees."""
    folder = public / "weekly"
    if not folder.is_dir():
        return {}
    return {
        p.name: read_folder(p)
        for p in folder.iterdir()
        if not p.is_symlink() and not p.name.startswith(".")
    }


def check(path: Path, public: Path, budget: Fraction, seen: dict[str, dict[str, bytes]]) -> Ledger:
    """Assert L2, L3, L4 and the chain; `seen` collects published bytes, which never change."""
    ledger = Ledger.open(path, public=public)
    report = ledger.verify()
    assert report.ok, report.problems
    entries = ledger.entries()
    assert len({row.entry.key for row in entries}) == len(entries)
    spent = sum((row.entry.epsilon for row in entries), Fraction(0))
    assert ledger.budget("clinic").spent == spent <= budget
    for period, files in published(public).items():
        assert files == ledger.files(Key("clinic", "weekly", period))
        assert seen.setdefault(period, files) == files
    assert set(seen) <= set(published(public))
    return ledger


class _Dying(sqlite3.Connection):
    """Dies before or after the commit that a point names."""

    def execute(self, sql, *args):
        if sql.startswith("INSERT INTO "):
            table = sql.split()[2]
            kind = {"entry": "debit", "payload": "payload", "state": "state"}.get(table)
            Dying.writing = kind or Dying.writing
        if sql != "COMMIT":
            return super().execute(sql, *args)
        Dying.at(f"before the {Dying.writing}'s commit")
        result = super().execute(sql, *args)
        Dying.at(f"after the {Dying.writing}'s commit")
        Dying.writing = ""
        return result

    def executemany(self, sql, *args):
        Dying.writing = "files"
        return super().executemany(sql, *args)


class Dying:
    """Kills the process it is armed in at one point; only ever armed in a fork."""

    point = ""
    writing = ""

    @classmethod
    def at(cls, point: str) -> None:
        if point.replace("files's", "files'") == cls.point:
            die()

    @classmethod
    def arm(cls, point: str) -> None:
        cls.point = point
        raw, rename, urandom = sqlite3.connect, os.rename, os.urandom
        storage.sqlite3.connect = lambda *a, **k: raw(*a, factory=_Dying, **k)

        def renamed(source, target, **places):
            folder = not str(target).startswith("latest")
            if folder:
                cls.at("before the folder's rename")
            rename(source, target, **places)
            if folder:
                cls.at("after the folder's rename")

        def drawn(count):
            if count != 16:  # the payload of `samples.release` has 16 bytes
                return urandom(count)
            cls.at("before the draw")
            data = urandom(count)
            cls.at("after the draw")
            return data

        os.rename, os.urandom = renamed, drawn
