"""Statistics of one cell publish the cell; those of several do not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dprelease.aggregates.base import Aggregate, Reading, aggregate_named

ONE_CELL = ("count", "count_persons", "count_distinct", "sum", "median", "quantile")
EDGES = ("algebraic_connectivity", "degree")


@pytest.mark.parametrize("name", [*ONE_CELL, *EDGES])
def test_a_statistic_of_one_cell_is_that_cell(name):
    aggregate = aggregate_named(name)
    cells = np.array([[3.0], [-1.0]])
    reading = Reading(cells - 1, cells + 2, cells, None, 0.95)
    low, high = aggregate.interval(None, reading)
    assert aggregate.finish(None, cells).tolist() == [[3.0], [-1.0]]
    assert (low.tolist(), high.tolist()) == ([[2.0], [-2.0]], [[5.0], [1.0]])
    context = SimpleNamespace(spec=SimpleNamespace(name="published"))
    assert aggregate.columns(context) == ("published",)


@pytest.mark.parametrize("name", ["mean", "variance", "covariance", "correlation"])
def test_a_statistic_of_several_cells_has_an_ending_of_its_own(name):
    aggregate = aggregate_named(name)
    assert type(aggregate).columns is Aggregate.columns
    assert type(aggregate).finish is not Aggregate.finish
    assert type(aggregate).interval is not Aggregate.interval
