"""The doors' types: mypy accepts right calls and refuses wrong ones, editors complete `df.dp`."""

from __future__ import annotations

import re
import subprocess
import sys

import jedi
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core import registry
from dprelease.engines.engine import Engine, Metered
from tests.end_to_end.projects import ROOT

CALLS = ROOT / "tests" / "typing" / "calls.py"
MARK = re.compile(r"  # refused: ([a-z-]+)$")
FOUND = re.compile(r"calls\.py:(\d+): error: .*\[([a-z-]+)\]$")


def test_mypy_accepts_the_right_calls_and_the_examples_and_refuses_the_wrong_calls(tmp_path):
    """With the project's own configuration (strict, and the plugin), in one run.

    A third file takes every public name from the package, and as the package's attribute: at run
    time they come from a table of texts, which no type checker reads.
    """
    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert len(examples) > 12
    files = [path.relative_to(ROOT).as_posix() for path in (CALLS, *examples)]
    names = tmp_path / "names.py"
    taken = "".join(f"from dprelease import {n} as {n}\ndp.{n}\n" for n in dp.__all__)
    names.write_text(f"import dprelease as dp\n{taken}", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *files, str(names)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    lines = enumerate(CALLS.read_text("utf-8").splitlines(), 1)
    wanted = {(i, mark[1]) for i, line in lines if (mark := MARK.search(line))}
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    found = {(int(m[1]), m[2]) for line in errors if (m := FOUND.search(line))}
    assert len(wanted) > 25
    assert len(found) == len(errors), done.stdout + done.stderr
    assert found == wanted


@pytest.mark.slow
def test_an_editor_that_asks_the_object_completes_the_accessor():
    names = {"frame": pd.DataFrame({"age": [1]}), "dp": dp}
    assert "dp" in [c.name for c in jedi.Interpreter("frame.d", [names]).complete()]
    for text in ("frame.dp.", "dp.Accessor(frame)."):
        assert {"plan", "release"} <= {c.name for c in jedi.Interpreter(text, [names]).complete()}
    (call,) = jedi.Interpreter("frame.dp.release(", [names]).get_signatures()
    assert [p.name for p in call.params][:2] == ["schema", "epsilon"]


def test_an_editor_that_reads_the_source_completes_the_typed_form():
    """pandas' stubs call every unknown attribute of a frame a Series: `df.dp.` is out of reach."""
    source = "import dprelease as dp\nfrom dprelease.accessor import Accessor\nAccessor(None)."
    assert {"plan", "release"} <= {c.name for c in jedi.Script(source).complete()}


@pytest.mark.parametrize("name", sorted(n for n in dp.__all__ if n.endswith(("Error", "Warning"))))
def test_errors_are_importable_where_the_doors_are(name):
    assert getattr(dp, name) is getattr(dp.errors, name)


def test_all_errors_are_there():
    assert set(dp.errors.__all__) <= set(dp.__all__)


@pytest.mark.parametrize("name", registry.names("engines"))
def test_every_engine_is_one(name):
    engine = registry.load("engines", name)()
    assert isinstance(engine, Engine)
    assert engine.name == name
    assert isinstance(engine, Metered) == (name == "duckdb")


@pytest.mark.parametrize("missing", ["name", "timeout", "preflight", "compute"])
def test_what_lacks_one_thing_is_not_an_engine(missing):
    said = {"name": "x", "timeout": None, "preflight": print, "compute": print}
    assert isinstance(type("Made", (), said)(), Engine)
    assert not isinstance(
        type("Made", (), {k: v for k, v in said.items() if k != missing})(), Engine
    )
