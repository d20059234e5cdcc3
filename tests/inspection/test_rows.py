"""Raw-row checks count what a release would do to the rows, and show it at a terminal only."""

from __future__ import annotations

import pickle
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.cli import inspect as command
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.inspection.rows import MARK, inspect_rows
from dprelease.pipeline.starter import create_starter
from tests.sizes import whole

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


ALWAYS = (
    "rows looked at",
    "rows that count: in the period",
    "different units among them",
)


def found(frame=ROWS):
    seen = inspect_rows(dp.plan(SCHEMA), as_source(frame))
    return {(f.column, f.what.partition(",")[0]): f.rows for f in seen}


def test_every_fate_of_a_row_is_counted():
    seen = found()
    assert seen["", "rows looked at"] == 6
    assert seen["who", "null"] == 1
    assert seen["who", "rows that count: in the period"] == 3  # a unit, and a declared region
    assert seen["who", "different units among them"] == 2
    assert seen["who", "units with more than 1 group of 2 rows"] == 1  # p is in a and b
    assert seen["who", "their rows beyond that"] == 1
    assert seen["region", "null"] == 1
    assert seen["region", "undeclared value"] == 1
    assert seen["age", "unreadable as number"] == 2  # "" and "many"
    assert seen["age", "below 0"] == 1
    assert seen["age", "above 100"] == 1
    assert seen["age", "between 40 and 50"] == 1


def test_a_fitting_table_has_nothing_to_say():
    fitting = pd.DataFrame({"who": ["p", "q"], "region": ["a", "b"], "age": [1.0, 100.0]})
    quiet = {k: n for k, n in found(fitting).items() if k[1] not in ALWAYS}
    assert set(quiet.values()) == {0}


FILTERED = {
    **SCHEMA,
    "columns": {
        **SCHEMA["columns"],
        "decade": {"kind": "integer", "from": "floor(age / 10) * 10", "range": [0, 60], "step": 10},
        "old": {
            "kind": "category",
            "from": "if(age >= 65, 'yes', 'no')",
            "values": ["yes"],
            "other": "drop",
        },
    },
    "release": {
        "epsilon": 1,
        "by": ["old"],
        "where": "age >= 18 and decade < 100",
        "statistics": ["count", "mean(decade)"],
    },
}
PEOPLE = pd.DataFrame(
    {
        "who": ["p", "p", "p", "p", "q", "r", "s", None],
        "region": ["a"] * 8,
        "age": ["70", "71", "72", "30", "12", "many", "99", "66"],
    }
)


def findings(frame=PEOPLE, schema=FILTERED):
    seen = inspect_rows(dp.plan(schema), as_source(frame))
    return {(f.column, f.what.partition(",")[0]): (f.rows, f.passing) for f in seen}


def test_the_filter_is_that_of_the_release():
    seen = findings()
    assert seen["", "rows looked at"] == (8, None)
    assert next(n for (_, what), n in seen.items() if what.startswith("pass the filter")) == (
        6,
        None,
    )
    assert seen["", "left out because the filter is null for them"] == (1, None)
    assert seen["age", "unreadable as number"] == (1, 0)  # why the filter left it out
    assert seen["who", "null"] == (1, 1)


def test_derived_columns_are_looked_at_as_a_release_reads_them():
    seen = findings()
    assert seen["decade", "above 60"] == (4, 4)  # 70, 71, 72 and 99; the decade of 66 is 60
    assert seen["decade", "null: floor(age / 10) * 10 has no value"] == (1, 0)
    assert seen["old", "undeclared value"] == (
        3,
        1,
    )  # 30 passes the filter; 12 and the unreadable do not


def test_a_part_of_a_date_is_not_shown_as_the_case_of_all_its_values():
    schema = SCHEMA | {
        "columns": SCHEMA["columns"]
        | {"day": {"kind": "date", "range": ["2020-01-01", "2029-12-31"]}}
    }
    plan = dp.plan(schema, by=["month(day)"])
    seen = inspect_rows(plan, as_source(ROWS.assign(day=["2020-01-31"] * 3 + ["31.01.2020"] * 3)))
    made = {f.what: f.rows for f in seen if f.column == "month(day)" and f.what.startswith("null")}
    assert made == {"null: it has no value": 3}


def test_bounding_is_looked_at_on_the_rows_that_count():
    seen = findings()
    assert seen["who", "rows that count: in the period"] == (4, None)  # p thrice and s
    assert seen["who", "different units among them"] == (2, None)
    assert seen["who", "their rows beyond that"] == (1, None)


def test_what_is_said_to_be_left_out_is_left_out_under_every_salt():
    """p has 3, 1 and 1 rows in three regions; two groups of two rows keep 3 of them at most."""
    schema = {
        **SCHEMA,
        "unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 2},
        "columns": {**SCHEMA["columns"], "region": {"kind": "category", "values": ["a", "b", "c"]}},
    }
    frame = pd.DataFrame({"who": ["p"] * 5, "region": [*"aaabc"], "age": [20, 21, 22, 23, 24]})
    seen = findings(frame, schema)
    assert seen["who", "their rows beyond that"] == (2, None)
    query = dp.plan(schema).query
    counts = next(
        i for i, p in enumerate(query.primitives) if p.kind in ("rows", "power") and p.power == 0
    )
    kept = set()
    for salt in range(whole(12, 30)):
        answer = DuckDBEngine().compute(as_source(frame), query, bytes([salt]))
        kept.add(5 - sum(int(row[counts]) for row in answer.reveal_to_mechanism().sums))
    assert min(kept) == 2
    assert kept > {2}  # the bound is not exact, and says "at least"


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

    real = sys.stdout
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(sys, "stdout", Terminal())
    before = sorted(p for p in pipeline.parents[1].rglob("*"))
    command.inspect(pipeline, period="2026-W46")
    said = capsys.readouterr().out
    assert said.count("PRIVATE") >= 4
    assert MARK.split(".")[0].split(":")[0] in said
    assert "rows looked at" in said
    assert sorted(p for p in pipeline.parents[1].rglob("*")) == before
