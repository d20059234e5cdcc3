"""`df.dp`: registered by the import, the same door as `dp.release`, and a plan reads no row."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pandas as pd
import pytest

import dprelease as dp
from dprelease import facade
from dprelease.accessor import Accessor
from dprelease.core.errors import SourceError
from dprelease.release_plan.plan import ReleasePlan
from tests.end_to_end.projects import ROOT

SCHEMA = ROOT / "schemas" / "fair.yaml"


class Untouchable(pd.DataFrame):
    """A frame whose rows explode when read."""

    def __getattribute__(self, name):
        if name in ("_mgr", "iloc", "loc", "values", "to_numpy", "columns", "index", "shape"):
            raise AssertionError(f"the plan touched {name}")
        return super().__getattribute__(name)


def test_a_plan_reads_no_row_not_even_a_column_name():
    frame = Untouchable({"age": [30.0]})
    plan = frame.dp.plan(SCHEMA)
    assert isinstance(plan, ReleasePlan)
    assert plan.hash == dp.plan(SCHEMA).hash
    with pytest.raises(SourceError):  # the control: it does explode, and the engine says so
        frame.dp.release(SCHEMA)


def test_a_plan_prints_as_a_table_and_as_html():
    plan = pd.DataFrame().dp.plan(SCHEMA)
    for part in ("mean_age", "had_affair", "expected error", "runner-up"):
        assert part in str(plan)
        assert part in plan._repr_html_()
    assert "no row was read" in str(plan)
    assert len(repr(plan)) < 160
    assert repr(plan).startswith("<ReleasePlan ")


@pytest.mark.parametrize("name", ["plan", "release"])
def test_the_accessor_takes_what_the_function_takes(name):
    def arguments(function, drop):
        return [p for p in inspect.signature(function).parameters.values() if p.name not in drop]

    assert arguments(getattr(Accessor, name), {"self"}) == arguments(
        getattr(facade, name), {"data"}
    )


def test_no_public_door_takes_a_seed():
    for function in (dp.plan, dp.release, dp.run, dp.create_ledger, Accessor.release):
        names = set(inspect.signature(function).parameters)
        assert not names & {"seed", "rng", "bits", "random_state", "generator"}


@pytest.mark.parametrize(
    ("program", "registered"),
    [("script.py", True), ("/usr/bin/dprelease", False)],
)
def test_every_import_but_the_command_line_s_registers_it(program, registered):
    code = (
        f"import sys; sys.argv = [{program!r}]; import dprelease; import pandas as pd\n"
        "print(hasattr(pd.DataFrame, 'dp'))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert (done.stdout.strip(), done.stderr) == (str(registered), "")


@pytest.mark.parametrize("first", [True, False])
def test_what_is_only_called_polars_and_a_polars_that_is_hidden_are_left_alone(tmp_path, first):
    """A file of one's own with that name; and None in its place, as tests hide a package."""
    (tmp_path / "polars.py").write_text("x = 1\n")
    order = "import polars, dprelease" if first else "import dprelease, polars"
    hidden = "import sys; sys.modules['polars'] = None; import dprelease; print(1)"
    for code in (f"{order}; print(polars.x)", hidden):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        )  # fmt: skip
        assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_polars_frames_have_the_accessor_whichever_is_imported_first():
    code = """
import importlib.util, sys
{first}
import dprelease as dp
assert ("polars" in sys.modules) == {loaded}
assert importlib.util.find_spec("polars") is not None  # what asks whether it is there imports nothing
assert ("polars" in sys.modules) == {loaded}
import polars as pl
schema = dict(dprelease="schema/1", name="t", unit="row", adjacency="add_remove", rows=dict(max=100),
              columns=dict(x=dict(kind="integer", range=[0, 9])), release=dict(epsilon=50, statistics=["sum(x)"]))
frame = pl.DataFrame(dict(x=[1, 2, 3]))
assert isinstance(frame.dp, dp.Accessor)
for table in (frame, frame.lazy()):
    assert table.dp.release(schema).table["value"].to_pylist() == [6]
parts = (frame["x"], "a Series is one column"), (frame.group_by("x"), "a groupby"), (frame.lazy().group_by("x"), "a groupby")
for part, said in parts:
    try:
        part.dp.release(schema)
    except dp.SourceError as refused:
        assert said in str(refused)
    else:
        raise AssertionError
"""
    pytest.importorskip("polars")
    for first, loaded in (("import polars", True), ("", False)):
        text = code.format(first=first, loaded=loaded)
        subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True, cwd=ROOT)
