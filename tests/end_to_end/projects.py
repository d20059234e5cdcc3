"""Whole projects in a temporary folder, so that no test leaves a ledger in the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.pipeline import planned
from dprelease.pipeline.run import init_ledger, load_pipeline
from dprelease.pipeline.starter import create_starter
from dprelease.planning import make as other_budgets
from dprelease.planning.make import make_plan
from dprelease.query.spec import Query
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.rules_alone import rules_alone

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def one_other_budget() -> Iterator[None]:
    """Let reports say what twice the budget would buy, and not half and four times: two plans fewer per report.

    For tests whose subject is something else; `tests/planning/test_what_if.py` has them all.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other_budgets, "FACTORS", (Fraction(2),))
        yield


@pytest.fixture(scope="module")
def own_rules() -> Iterator[None]:
    """Let releases be checked by the built-in rules alone, without Great Expectations beside them.

    For tests whose subject is what is said of a release, or when.
    """
    with rules_alone():
        yield


def flights(folder: Path) -> Path:
    """Copy the flights project, without a ledger."""
    for name in ("schemas", "pipelines"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "examples" / "data").mkdir(parents=True)
    (folder / ".dprelease").mkdir()
    name = "examples/data/flights_nyc_2013.parquet"
    shutil.copy(ROOT / name, folder / name)
    return folder


def clinic(folder: Path) -> Path:
    """Write the starter project and create its ledger; return its pipeline file."""
    create_starter(folder)
    pipeline = folder / "pipelines" / "clinic_weekly.yaml"
    init_ledger(load_pipeline(pipeline))
    return pipeline


def tree(folder: Path) -> dict[str, bytes]:
    """Return path -> bytes of every file below `folder`."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


def command(
    *arguments: object, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, in `folder`."""
    code = "import sys; from dprelease.cli import main; sys.argv[0] = 'dprelease'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def repeatable(monkeypatch, label: str) -> None:
    """Let the wall draw from repeatable bits: only a patched wall takes them."""

    class Replay(ReplayBits):
        def __init__(self) -> None:
            super().__init__(label)

    monkeypatch.setattr(execute, "SystemBits", Replay)


_PLANS: list[tuple[Query, bool, ReleasePlan]] = []


def plans_once(monkeypatch) -> None:
    """Let equal requests have one plan in this process: whole projects ask for the same ones again and again."""

    def once(query: Query, *, brief: bool = False) -> ReleasePlan:
        found = next((p for q, b, p in _PLANS if b == brief and q == query), None)
        if found is None:
            found = make_plan(query, brief=brief)
            _PLANS.append((query, brief, found))
        return found

    monkeypatch.setattr(planned, "make_plan", once)
    monkeypatch.setattr(other_budgets, "make_plan", once)
