"""A Parquet file that lacks a used column is refused before the charge, at every door, unless that is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import DpreleaseError, SourceError
from dprelease.engines.source import as_source
from dprelease.inspection.rows import inspect_rows
from dprelease.pipeline.run import init_ledger, load_pipeline, run
from dprelease.query.shortcuts import MISSING_COLUMN
from tests.end_to_end.projects import plans_once
from tests.rules_alone import built_in_rules_only

SCHEMA: dict[str, Any] = {
    "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove", "rows": {"max": 1000},
    "columns": {"k": {"kind": "category", "values": ["a"]}, "x": {"kind": "integer", "range": [0, 10]},
                "z": {"kind": "integer", "range": [0, 10]}},
    "release": {"epsilon": 100, "by": ["k"], "statistics": ["count", "sum(x)"]},
}  # fmt: skip
ALLOWED: dict[str, Any] = {
    **SCHEMA,
    "release": {**SCHEMA["release"], "allow": [MISSING_COLUMN]},
}


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


def files(folder: Path, **second: Any) -> str:
    """Write two files of ten rows, of which the first has k, x and more."""
    folder.mkdir(parents=True, exist_ok=True)
    first = {"k": ["a"] * 10, "x": [1] * 10, "only": [1] * 10}
    pq.write_table(pa.table(first), folder / "0.parquet")
    pq.write_table(pa.table({"k": ["a"] * 10, **second}), folder / "1.parquet")
    return str(folder / "*.parquet")


def released(source: Any, schema: dict[str, Any]) -> dict[str, float]:
    table = dp.release(source, schema).to_pandas(intervals=False)
    return {name: float(table[name][0]) for name in ("count", "sum_x")}


@pytest.mark.parametrize("second", [{}, {"X": [9] * 10}, {"z": [9] * 10}])
def test_it_is_refused_and_named(tmp_path: Path, second: dict[str, Any]) -> None:
    source = files(tmp_path, **second)
    ledger = dp.create_ledger(tmp_path / "l.db", SCHEMA, epsilon=1000)
    with pytest.raises(SourceError) as caught:
        dp.release(source, SCHEMA, ledger=ledger)
    error = caught.value
    assert error.code == "DPR503"
    assert str(tmp_path / "1.parquet") in error.what
    assert str(tmp_path / "0.parquet") not in error.what
    assert ("'X' is another name" in str(error.why)) == ("X" in second)
    assert Ledger.open(ledger).budget("t").spent == 0
    with pytest.raises(SourceError, match="no column 'x'"):
        inspect_rows(dp.plan(SCHEMA), as_source(source))


@pytest.mark.parametrize("second", [{}, {"X": [9] * 10}])
def test_allowed_its_cells_are_null_and_the_plan_says_so(
    tmp_path: Path, second: dict[str, Any]
) -> None:
    source = files(tmp_path, **second)
    found = released(source, ALLOWED)
    assert abs(found["count"] - 20) < 2
    assert abs(found["sum_x"] - 10) < 2  # the ten rows of the other file add nothing
    plan = dp.plan(ALLOWED)
    assert any(MISSING_COLUMN in note for note in plan.notes)
    assert plan.query.missing
    assert not dp.plan(SCHEMA).query.missing
    nulls = {(f.column, f.what): f.rows for f in inspect_rows(plan, as_source(source))}
    assert nulls["x", "null"] == 10


def test_what_is_not_used_may_lack(tmp_path: Path) -> None:
    assert abs(released(files(tmp_path, x=[1] * 10), SCHEMA)["sum_x"] - 20) < 2


def test_the_other_fixes_work_too(tmp_path: Path) -> None:
    source = files(tmp_path)
    one = released(str(tmp_path / "0.parquet"), SCHEMA)  # name other files
    files(tmp_path, x=[2] * 10)  # write the column into them
    both = released(source, SCHEMA)
    assert (round(one["count"]), round(both["count"])) == (10, 20)
    assert abs(both["sum_x"] - 30) < 2


VIEW = "SELECT v.k AS k, p.x AS x FROM v v LEFT JOIN p p ON p.code = v.code"
WIDE = "SELECT v.k AS k, max(p.x) AS x FROM v v LEFT JOIN p p ON p.code = v.code GROUP BY v.k"
PIPELINE = """\
dprelease: pipeline/1
name: t
source:
  view: {view}
  tables: {{v: {{parquet: v/*.parquet}}}}
  public_tables: {{p: {{parquet: p/*.parquet}}}}
schema: schema.yaml
release: {{allow: [{allow}]}}
budget: {{ledger: ledger.db, dataset: t, epsilon: 1000}}
publish: {{to: public, formats: [csv]}}
"""
TEXT = """\
dprelease: schema/1
name: t
unit: row
adjacency: add_remove
rows: {max: 1000}
columns: {k: {kind: category, values: [a]}, x: {kind: integer, range: [0, 10]}}
release: {epsilon: 100, by: [k], statistics: [count, sum(x)]}
"""


def pipeline(folder: Path, view: str, *allow: str) -> Path:
    (folder / "schema.yaml").write_text(TEXT)
    file = folder / "t.yaml"
    file.write_text(PIPELINE.format(view=view, allow=", ".join(allow)))
    if not (folder / "ledger.db").exists():
        init_ledger(load_pipeline(file))
    return file


@pytest.mark.parametrize(("view", "need"), [(VIEW, []), (WIDE, ["unproven-view"])])
@pytest.mark.parametrize("lacking", ["v", "p"])
def test_tables_of_a_view_are_checked_one_by_one(
    tmp_path: Path, view: str, need: list[str], lacking: str
) -> None:
    for name, cells in (("v", {"k": ["a"] * 4, "code": [1] * 4}), ("p", {"code": [1], "x": [3]})):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(cells), tmp_path / name / "0.parquet")
        other = {key: value for key, value in cells.items() if key == "k"} or {"code": [2]}
        if name == lacking:
            pq.write_table(pa.table(other), tmp_path / name / "1.parquet")
    with pytest.raises(DpreleaseError) as caught:
        run(pipeline(tmp_path, view, *need))
    assert caught.value.code == "DPR503"
    assert f"{lacking}/1.parquet" in str(caught.value)
    assert Ledger.open(tmp_path / "ledger.db").budget("t").spent == 0
    done = run(pipeline(tmp_path, view, *need, MISSING_COLUMN))
    assert done.folder is not None
    assert MISSING_COLUMN in (done.folder / "release.json").read_text()
