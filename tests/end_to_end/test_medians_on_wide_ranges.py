"""Medians and ends on ranges as wide as they are declared: the column's own grid, end to end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from tests.redrawn import counted
from tests.sizes import whole

SCHEMA = """\
dprelease: schema/1
name: wide
unit: row
adjacency: {adjacency}
rows: {{max: 100000, expected: 1000}}
columns:
  x: {{kind: {kind}, range: [{low}, {high}]{more}}}
release:
  epsilon: {epsilon}
  statistics: {statistics}
"""


def schema(folder, **changes):
    base = {"adjacency": "add_remove", "kind": "integer", "low": 0, "high": 50_000_000, "more": "", "epsilon": 1,
            "statistics": '["median(x)"]'}  # fmt: skip
    path = folder / "schema.yaml"
    path.write_text(SCHEMA.format(**{**base, **changes}))
    return path


def released(path, *tables, times=1):
    """Return what is released of each table, so many times: its rows are counted once."""
    schema = dp.Schema.load(path)
    draws = [counted(pd.DataFrame({"x": values}), schema) for values in tables]
    found = []
    for draw in draws * times:
        table = draw().table
        pairs = zip(table["statistic"].to_pylist(), table["value"].to_pylist(), strict=True)
        found.append(dict(pairs))
    return found


def incomes() -> np.ndarray:
    place = (np.arange(1001) + 0.5) / 1001
    return np.round(30_443 * (place / (1 - place)) ** 0.6).astype(int)  # its median is 30,443


@pytest.mark.statistical
@pytest.mark.parametrize("high", [50_000_000, 2**53])
def test_a_median_far_inside_its_range_is_within_five_ranks(high, tmp_path):
    path, rows = schema(tmp_path, high=high), incomes()
    values = [found["median_x"] for found in released(path, rows, times=16)]
    off = [abs(int(np.searchsorted(rows, v)) - 500) for v in values]
    assert np.mean(off) <= 5
    assert len(set(values)) > 5
    assert any(v % 500 for v in values)


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("most", [10, 50_000_000])
def test_the_least_and_greatest_value_come_out_where_epsilon_is_large(adjacency, most, tmp_path):
    path = schema(
        tmp_path, adjacency=adjacency, high=most, epsilon=600, statistics='["min(x)", "max(x)"]'
    )
    one, other = {"min_x": 2.0, "max_x": 10.0}, {"min_x": 1.0, "max_x": 9.0}
    times = whole(2, 4)
    assert released(path, [10, *[2] * 40], [1, *[9] * 40], times=times) == [one, other] * times


def test_forbidden_intervals_and_a_published_domain_hold_on_the_fine_grid(tmp_path):
    path = schema(
        tmp_path, kind="number", high=1000, more=", step: 0.01, forbidden: [[20, 980]]", epsilon=30,
        statistics='["median(x)", {statistic: "max(x)", domain: {range: [0, 990]}}]',
    )  # fmt: skip
    halves = [19.99] * 50 + [980.01] * 50
    values = released(path, halves, times=10)
    for value in values:
        assert value["median_x"] <= 20 or value["median_x"] >= 980
        assert value["max_x"] <= 990
        assert all(round(v * 100) == pytest.approx(v * 100) for v in value.values())
    assert {19.99, 980.01} & {v["median_x"] for v in values}


def test_a_range_finer_than_doubles_is_not_refused(tmp_path):
    plan = dp.plan(schema(tmp_path, kind="number", high=2 * 10**16, more=", step: 0.1"))
    assert plan.statistics[0].step == 10
    (values,) = released(
        schema(tmp_path, kind="number", high=2 * 10**16, more=", step: 0.1", epsilon=99), [7e15] * 9
    )
    assert values["median_x"] == 7e15
