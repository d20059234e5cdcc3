"""The forge's workflows run what anyone can run: every step is a make target that exists, or `.ci/run`.

They cannot run here; what they say can be checked.
"""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from tests.end_to_end.projects import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
SCRIPT = "bash .ci/run"


def jobs(text: str) -> dict[str, dict]:
    return yaml.safe_load(text)["jobs"]


def unknown(text: str) -> list[str]:
    """Return the commands of a workflow that are neither a make target nor the script."""
    steps = [s["run"] for job in jobs(text).values() for s in job["steps"] if "run" in s]
    assert steps
    return [s for s in steps if s != SCRIPT and s.removeprefix("make ") not in TARGETS]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_each_step_is_a_make_target_that_exists(path):
    text = path.read_text(encoding="utf-8")
    assert unknown(text) == []
    assert all(0 < job["timeout-minutes"] <= 90 for job in jobs(text).values())
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_a_step_that_no_target_is_would_be_found():
    text = "jobs: {a: {steps: [{run: make nonsense}, {run: pip install x}, {run: make test}]}}"
    assert unknown(text) == ["make nonsense", "pip install x"]


def test_the_checks_run_on_the_oldest_and_the_newest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = [c.rpartition(" :: ")[2] for c in project["classifiers"] if " :: 3." in c]
    test = jobs((FOLDER / "checks.yml").read_text(encoding="utf-8"))["test"]
    assert test["strategy"]["matrix"]["python"] == [known[0], known[-1]]
    assert project["requires-python"] == f">={known[0]}"
    assert SCRIPT in [s.get("run") for s in test["steps"]]
    assert {"lowest", "test"} <= set(
        re.findall(r"^(?:exec )?make (\w+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    )


def test_the_checks_build_the_site():
    site = jobs((FOLDER / "checks.yml").read_text(encoding="utf-8"))["site"]
    assert [s["run"] for s in site["steps"] if "run" in s] == ["make docs"]


def test_a_tag_makes_wheel_archive_and_list_of_parts():
    release = yaml.safe_load((FOLDER / "release.yml").read_text(encoding="utf-8"))
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    steps = release["jobs"]["build"]["steps"]
    assert [s["run"] for s in steps if "run" in s] == ["make dist", "make sbom"]
    assert {"dist/", "build/sbom.json"} <= set(steps[-1]["with"]["path"].split())
