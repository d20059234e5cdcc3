"""Statistics of one cell publish the cell; those of several do not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dprelease.statistics.base import Reading, StatisticKind, kind_named

ONE_CELL = ("count", "count_persons", "count_distinct", "sum", "median", "quantile")
EDGES = ("algebraic_connectivity", "degree")


@pytest.mark.parametrize("name", [*ONE_CELL, *EDGES])
def test_a_statistic_of_one_cell_is_that_cell(name):
    statistic_kind = kind_named(name)
    cells = np.array([[3.0], [-1.0]])
    reading = Reading(cells - 1, cells + 2, cells, None, 0.95)
    low, high = statistic_kind.interval(None, reading)
    assert statistic_kind.finish(None, cells).tolist() == [[3.0], [-1.0]]
    assert (low.tolist(), high.tolist()) == ([[2.0], [-2.0]], [[5.0], [1.0]])
    context = SimpleNamespace(spec=SimpleNamespace(name="published"))
    assert statistic_kind.columns(context) == ("published",)


@pytest.mark.parametrize("name", ["mean", "variance", "covariance", "correlation"])
def test_a_statistic_of_several_cells_has_an_ending_of_its_own(name):
    statistic_kind = kind_named(name)
    assert type(statistic_kind).columns is StatisticKind.columns
    assert type(statistic_kind).finish is not StatisticKind.finish
    assert type(statistic_kind).interval is not StatisticKind.interval
