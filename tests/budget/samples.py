"""Small ledgers, entries and published folders for the tests of the budget."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from dprelease.budget.ledger import Anchor, Entry, Key, Ledger, Receipt
from dprelease.results.formats.json_ import VERSION
from dprelease.results.publish import publish_files

UNIT = '"row"'


def new_ledger(folder: Path, *, epsilon: object = 1, delta: object = 0, name: str = "l") -> Ledger:
    return Ledger.create(
        folder / name / "ledger.db",
        dataset="clinic",
        epsilon=epsilon,
        delta=delta,
        adjacency="add_remove",
        unit=UNIT,
    )


def key(period: str = "2030-01", pipeline: str = "weekly") -> Key:
    return Key("clinic", pipeline, period)


def entry(
    period: str = "2030-01",
    *,
    plan: str = "a" * 64,
    epsilon: Fraction = Fraction(1, 10),
    delta: Fraction = Fraction(0),
    unit: str = UNIT,
    adjacency: str = "add_remove",
) -> Entry:
    mechanisms = [{"family": "staircase", "epsilon": str(epsilon)}]
    return Entry(key(period), plan, adjacency, unit, mechanisms, epsilon, delta)


def manifest(asked: Entry, anchor: Anchor) -> bytes:
    """The part of a `release.json` that a ledger is held to."""
    value = {
        "dprelease": VERSION,
        "dataset": asked.key.dataset,
        "pipeline": asked.key.pipeline,
        "period": asked.key.period,
        "plan_hash": asked.plan_hash,
        "guarantee": {
            "epsilon": str(asked.epsilon),
            "delta": str(asked.delta),
            "adjacency": asked.adjacency,
            "unit": json.loads(asked.unit),
        },
        "ledger": asdict(anchor),
    }
    return json.dumps(value).encode()


def release(ledger: Ledger, asked: Entry, public: Path) -> Receipt:
    """The whole protocol with a payload of 16 system bytes."""
    receipt = ledger.charge(asked)
    data = ledger.draw_once(asked.key, lambda: os.urandom(16), width=16)
    files = {"release.json": manifest(asked, receipt.anchor), "data.csv": data.hex().encode()}
    ledger.commit_files(asked.key, files)
    stored = ledger.files(asked.key)
    assert stored is not None
    publish_files(public, asked.key.pipeline, asked.key.period, stored)
    ledger.mark_published(asked.key)
    return receipt


def in_processes(count: int, work: Callable[[int], None]) -> list[int | None]:
    """Run `work(i)` in `count` forked processes at once; return their exit codes."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(i,)) for i in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def killed_in_fork(work: Callable[[], None]) -> int:
    """Run `work` in a fork and return the signal that ended it (0: it ended by itself)."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def tamper(ledger: Ledger, *statements: str, triggers: bool = False) -> None:
    """Run statements as an attacker with write access and the append-only triggers lifted.

    Unless `triggers`, they are put back afterwards, so that only the data betrays the change.
    """
    db = sqlite3.connect(ledger.path)
    saved = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in saved:
        db.execute(f"DROP TRIGGER {name}")
    db.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        db.execute(statement)
    for _, text in [] if triggers else saved:
        db.execute(text)
    db.commit()
    db.close()
