"""A small project for whole runs that are cut off: what it publishes, and what must hold after every cut."""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

from dprelease.budget.ledger import Key, Ledger
from dprelease.pipeline.run import init_ledger, load_pipeline, run
from tests.published import read_folder
from tests.rules_alone import rules_alone
from tests.sizes import FULL

__all__ = ["COST", "KEY", "PERIOD", "Outcome", "book", "finished", "make_project", "outcome"]

PERIOD = "2016-W46"
KEY = Key("visits", "weekly", PERIOD)
COST = Fraction(1)

_SCHEMA = """\
dprelease: schema/1
name: visits
unit: row
adjacency: add_remove
rows: {max: 500, expected: 60}
columns:
  day: {kind: date}
  age: {kind: integer, range: [0, 110]}
release: {epsilon: 1, statistics: ["count", "sum(age)"]}
"""
_PIPELINE = """\
dprelease: pipeline/1
name: weekly
source: {csv: data/visits.csv}
schema: schema.yaml
period: {column: day, every: week, delay: 1d}
budget: {ledger: .dprelease/ledger.db, dataset: visits, epsilon: 3}
publish: {to: public, formats: [csv]}
schedule: {cron: "0 6 * * TUE", catch_up: 1}
"""

Outcome = tuple[str, bytes | None, dict[str, bytes] | None]
"""What a cut left of the period: (the ledger's state or "nothing", payload, published files)."""


def make_project(folder: Path) -> Path:
    """Write the project, create its ledger and return the pipeline file."""
    lines = [f"2016-11-{14 + i % 7:02d},{20 + i * 7 % 60}" for i in range(60)]
    files = {
        "schema.yaml": _SCHEMA,
        "weekly.yaml": _PIPELINE,
        "data/visits.csv": "\n".join(["day,age", *lines]) + "\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".dprelease").mkdir(mode=0o700)
    init_ledger(load_pipeline(folder / "weekly.yaml"))
    return folder / "weekly.yaml"


def book(folder: Path) -> Ledger:
    """Open the project's ledger, held to what is published."""
    return Ledger.open(folder / ".dprelease" / "ledger.db", public=folder / "public")


def outcome(folder: Path) -> Outcome:
    """Return what is left after a cut; assert L1 to L4: spent, chain, whole folders, their bytes."""
    ledger = book(folder)
    report = ledger.verify()
    assert report.ok, report.problems
    charged = ledger.has(KEY)
    assert ledger.budget("visits").spent == (COST if charged else 0)
    period = folder / "public" / "weekly" / PERIOD
    files = read_folder(period) if period.is_dir() else None
    if not charged:
        assert files is None
        return "nothing", None, None
    assert files in (None, ledger.files(KEY))  # no half publication
    assert files is not None or ledger.state(KEY) != "published"
    return ledger.state(KEY), ledger.payload(KEY), files


def finished(folder: Path, before: Outcome) -> dict[str, bytes]:
    """Run again, assert that it completes at no further cost and changes nothing; return the files.

    Great Expectations, which writes no file, takes part in `make evidence` only.
    """
    with nullcontext() if FULL else rules_alone():
        run(folder / "weekly.yaml", period=PERIOD)
    state, payload, files = outcome(folder)
    assert (state, files is not None) == ("published", True)
    assert before[1] in (None, payload)  # L3: what was drawn is never drawn again
    assert before[2] in (None, files)
    public = folder / "public" / "weekly"
    assert (public / "latest").resolve().name == PERIOD
    assert not [p.name for p in public.iterdir() if p.name.startswith(".")]
    return files or {}
