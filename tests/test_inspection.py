"""Raw-row checks count what a release would do to the rows, and show it at a terminal only."""

from __future__ import annotations

import pickle

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.cli import inspect as command
from dprelease.engines.source import as_source
from dprelease.inspection import MARK, inspect_rows
from dprelease.pipeline.starter import create_starter

SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 2},
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 100},
    "columns": {
        "who": {"kind": "identifier"},
        "region": {"kind": "category", "values": ["a", "b"], "other": "drop"},
        "age": {"kind": "number", "range": [0, 100], "forbidden": [[40, 50]], "step": 1},
    },
    "release": {"epsilon": 1, "by": ["region"], "statistics": ["count", "mean(age)"]},
}
ROWS = pd.DataFrame(
    {
        "who": ["p", "p", "p", "q", None, "r"],
        "region": ["a", "b", "c'; DROP", None, "a", "a"],
        "age": ["-5", "45", "", "many", "120", "30"],
    }
)


def found(frame=ROWS):
    seen = inspect_rows(dp.plan(SCHEMA), as_source(frame))
    return {(f.column, f.what.partition(",")[0]): f.rows for f in seen}


def test_every_fate_of_a_row_is_counted():
    seen = found()
    assert seen["", "rows looked at"] == 6
    assert seen["who", "null"] == 1
    assert seen["who", "different units"] == 3
    assert seen["who", "units with more than 2 rows"] == 1
    assert seen["who", "rows beyond 2 per unit"] == 1
    assert seen["region", "null"] == 1
    assert seen["region", "undeclared value"] == 1
    assert seen["age", "unreadable as number"] == 2  # "" and "many"
    assert seen["age", "below 0"] == 1
    assert seen["age", "above 100"] == 1
    assert seen["age", "between 40 and 50"] == 1


def test_a_fitting_table_has_nothing_to_say():
    fitting = pd.DataFrame({"who": ["p", "q"], "region": ["a", "b"], "age": [1.0, 100.0]})
    quiet = {k: n for k, n in found(fitting).items() if k[1] not in ("rows looked at", "different units")}
    assert set(quiet.values()) == {0}


def test_a_finding_is_not_stored():
    first, *_ = inspect_rows(dp.plan(SCHEMA), as_source(ROWS))
    with pytest.raises(TypeError, match="not stored"):
        pickle.dumps(first)


@pytest.fixture
def pipeline(tmp_path):
    create_starter(tmp_path)
    return tmp_path / "pipelines" / "clinic_weekly.yaml"


def test_without_a_terminal_nothing_is_read_or_shown(pipeline):
    result = CliRunner().invoke(app, ["inspect", str(pipeline)])
    assert result.exit_code == 2
    assert "DPR616" in result.output
    assert "rows looked at" not in result.output


def test_at_a_terminal_every_screen_is_marked_and_nothing_is_written(pipeline, monkeypatch, capsys):
    class Terminal:
        def __getattr__(self, name):
            return getattr(real, name)

        def isatty(self):
            return True

    real = command.sys.stdout
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(command.sys, "stdout", Terminal())
    before = sorted(p for p in pipeline.parents[1].rglob("*"))
    command.inspect(pipeline, period="2026-W46")
    said = capsys.readouterr().out
    assert said.count("PRIVATE") >= 4
    assert MARK.split(".")[0].split(":")[0] in said
    assert "rows looked at" in said
    assert sorted(p for p in pipeline.parents[1].rglob("*")) == before
