"""`make lowest`: the oldest versions that pyproject.toml allows, beside the newest ones.

    python -m tests.lowest PYTHON     PYTHON has the oldest ones (`uv pip install --resolution lowest-direct`)

Plans have the same hashes with both. With the oldest ones, golden plans have the same laws and both engines
the same exact answers; every door releases the same numbers: frames, files, databases, pipelines; and folders and ledgers of earlier versions are worth what they were.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from dprelease.core.errors import DpreleaseError
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import resolve
from tests.golden.plan_cases import cases, view_of

ROOT = Path(__file__).parents[1]
STEP = 5
"""Every so many of the golden requests are planned with both versions; no dimension's length is a multiple of it."""

DOORS = (
    "tests/golden/test_plans.py",
    "tests/golden/test_published.py",
    "tests/reference/test_plain_answers.py",
    "tests/test_facade.py",
)


def hashes() -> dict[str, str]:
    """Return the hash of each golden request's plan, or the code under which it is refused."""
    out = {}
    for name, schema in list(cases().items())[::STEP]:
        sql = view_of(name)
        view = None if sql is None else parse_view(sql, private=["visits"], public=["places"])
        try:
            table = Schema.from_dict(schema)
            out[name] = make_plan(resolve(table, merge_release(table), view=view)).hash
        except DpreleaseError as refused:
            out[name] = refused.code
    return out


def above() -> list[str]:
    """Return what is installed here and is newer than the least version that is allowed."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    bounds = [line.split(",")[0].split(">=") for line in said["project"]["dependencies"]]
    return [f"{name} {version(name)}" for name, least in bounds if not _is(version(name), least)]


def _is(found: str, least: str) -> bool:
    """Return whether a version is this one, zeros at its end aside."""
    parts = [[*map(int, text.split("."))] for text in (found, least)]
    longest = max(map(len, parts))
    one, two = ([*p, *[0] * (longest - len(p))] for p in parts)
    return one == two


def main(arguments: list[str]) -> int:
    if arguments == ["--hashes"]:
        print(json.dumps({"above": above(), "hashes": hashes()}))
        return 0
    (python,) = arguments
    command = [python, "-m", "tests.lowest", "--hashes"]
    oldest = json.loads(
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    )
    newest = hashes()
    apart = [name for name in newest if newest[name] != oldest["hashes"].get(name)]
    print(
        f"{len(newest)} plans, {len(apart)} with another hash: {', '.join(apart[:5]) or 'none'}",
        flush=True,
    )
    if oldest["above"]:
        print(f"not the oldest versions: {', '.join(oldest['above'])}")
    # Old versions warn of what new ones have changed: these warnings are not ours.
    tests = [python, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *DOORS]
    failed = subprocess.run(tests, cwd=ROOT, check=False).returncode
    return int(bool(apart or oldest["above"] or failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
