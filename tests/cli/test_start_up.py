"""What a command imports is what it costs to start: a plan needs the planner and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "great_expectations",
    "scipy",
    "duckdb",
    "pandas",
    "pyarrow",
    "jinja2",
    "pyspark",
    "sqlite3",
)
BEHIND = (
    "execute",
    "noised",
    "publish",
    "validate",
    "series",
    "engines.duckdb",
    "budget.ledger",
    "formats",
)
"""Modules of ours that only a run needs."""


def loaded(*arguments: str) -> set[str]:
    """Return every module that the command has loaded when it is done."""
    code = (
        "import sys, atexit\n"
        f"sys.argv = ['dprelease', {', '.join(map(repr, arguments))}]\n"
        "atexit.register(lambda: print(' '.join(sorted(sys.modules)), file=sys.stderr))\n"
        "from dprelease.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stderr.split())


@pytest.fixture(scope="module")
def plan_modules() -> set[str]:
    return loaded("plan", "pipelines/flights_weekly.yaml")


@pytest.mark.parametrize("name", HEAVY)
def test_a_plan_imports_nothing_heavy(plan_modules, name):
    assert name not in plan_modules


@pytest.mark.parametrize("name", BEHIND)
def test_a_plan_imports_nothing_behind_the_wall(plan_modules, name):
    assert f"dprelease.{name}" not in plan_modules


def test_the_look_sees_what_is_imported(plan_modules):
    """The control: the planner itself is there, and a run would show the others."""
    assert {"dprelease.planning.make", "dprelease.pipeline.planned", "numpy"} <= plan_modules
    code = "import sys, dprelease.pipeline.run; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    seen = done.stdout.split()
    assert {
        "dprelease.results.draw",
        "dprelease.budget.ledger",
        "dprelease.results.publish",
        "pyarrow",
    } <= set(seen)
