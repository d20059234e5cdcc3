"""Work grows with what is asked for, and equal laws are made once: counted, never timed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.measurements import scalar
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import Schema
from dprelease.results import consistency
from dprelease.results.draw import assemble

COLUMNS = [f"c{i:02}" for i in range(12)]


def planned(columns, **release):
    half = len(columns) // 2
    wanted = [f"sum({c})" for c in columns[:half]] + [f"mean({c})" for c in columns[half:]]
    schema = {
        "dprelease": "schema/1",
        "name": "wide",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 100_000, "expected": 1_000},
        "columns": {c: {"kind": "integer", "measure": "x", "range": [0, 10]} for c in columns},
        "release": {"epsilon": 1, "statistics": wanted, **release},
    }
    return plan_release(Schema.from_dict(schema))


@pytest.fixture
def solved(monkeypatch):
    """The requests that reach a solver of all families."""
    scalar.priced_laws.cache_clear()
    asked = []
    honest = scalar.grid_laws

    def counted(request):
        asked.append(request)
        return honest(request)

    monkeypatch.setattr(scalar, "grid_laws", counted)
    yield asked
    scalar.priced_laws.cache_clear()


def test_equal_statistics_share_their_laws(solved):
    """Statistics of equal columns differ in name only: no more laws for 12 than for 6."""
    planned(COLUMNS[:6])
    few = len(solved)
    scalar.priced_laws.cache_clear()
    solved.clear()
    planned(COLUMNS)
    assert len(solved) <= few + 3  # the last block gets the nano-units left over
    assert len(set(solved)) == len(solved)


def test_a_statement_does_not_depend_on_the_number_of_statistics(monkeypatch):
    """One scan: as many statements for 12 statistics as for 4."""
    table = {c: [1, 2, 3] for c in COLUMNS}
    ran = []
    honest = DuckDBEngine._run

    def counted(self, *arguments, **named):
        ran.append(arguments)
        return honest(self, *arguments, **named)

    monkeypatch.setattr(DuckDBEngine, "_run", counted)
    counts = []
    for columns in (COLUMNS[:4], COLUMNS):
        ran.clear()
        plan = planned(columns)
        DuckDBEngine().compute(as_source(pa.table(table)), plan.query, b"salt")
        counts.append(len(ran))
    assert counts[0] == counts[1]


def test_each_text_is_parsed_once(monkeypatch):
    """Consistency compares statistics with each other: without sharing that is their square."""
    consistency._arguments_of.cache_clear()
    parsed = []
    honest = consistency.parse_statistic

    def counted(text, **named):
        parsed.append(text)
        return honest(text, **named)

    monkeypatch.setattr(consistency, "parse_statistic", counted)
    plan = planned(COLUMNS)
    cells = {b.name: [[1000] * len(b.cells)] for b in plan.blocks}
    assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    assert len(parsed) <= len(plan.statistics)
