"""Statistics of a graph: domains, grids, what is refused, and values as drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.query.bounded import Label
from dprelease.query.graph import Graph
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import Reading
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.graph import connectivity, degree, graph_box, laplacian, one_cell
from dprelease.statistics.measurement import Context


def context(
    n: int,
    *,
    k: int = 1,
    node: int | None = None,
    sparse: bool = False,
    domain: Domain | None = None,
) -> Context:
    ends = tuple(str(i) for i in range(n))
    graph = Graph(k, Label("a", ends), Label("b", ends), node, sparse)
    return Context(StatisticSpec("s", "s", (), "s", domain=domain), "s", graph=graph)


def test_domains_are_those_of_simple_graphs() -> None:
    assert connectivity.domain(context(34)).exact_pieces == ((0, 32), (34, 34))
    assert connectivity.domain(context(2)).exact_pieces == ((0, 0), (2, 2))
    assert degree.domain(context(34, node=0)).hull == (0, 33)
    assert laplacian.domain(context(34)).hull == (0, 34)


@pytest.mark.parametrize("n", [2, 34, 1000, 5000])
def test_the_grid_is_coarser_than_the_numerical_error_and_holds_the_domain(n: int) -> None:
    for measurement in (
        connectivity.measurements(context(n))[0],
        laplacian.measurements(context(n))[0],
    ):
        assert measurement.step_size >= backward_error(n, n)
        assert (Fraction(n) / measurement.step_size).denominator == 1
        assert measurement.upper == n / measurement.step_size


def test_a_declared_domain_makes_the_grid_finer() -> None:
    wide = connectivity.measurements(context(4000))[0]
    narrow = connectivity.measurements(context(4000, domain=Domain(0, 20)))[0]
    open_end = connectivity.measurements(context(4000, domain=Domain(0, math.inf)))[0]
    assert narrow.step_size < wide.step_size == open_end.step_size


def test_large_graphs_need_an_opt_in_and_have_no_whole_spectrum() -> None:
    with pytest.raises(PlanError) as caught:
        connectivity.measurements(context(5001))
    assert caught.value.code == "DPR274"
    assert "sparse-eigenvalue" in str(caught.value)
    assert connectivity.measurements(context(5001, sparse=True))[0].form == "sparse_connectivity"
    assert connectivity.measurements(context(5000, sparse=True))[0].form == "connectivity"
    with pytest.raises(PlanError) as caught:
        laplacian.measurements(context(5001, sparse=True))
    assert caught.value.code == "DPR275"
    assert connectivity.measurements(context(100_000, sparse=True))[0].step_size == 1
    few = connectivity.measurements(context(100_000, sparse=True, domain=Domain(0, 40)))[0]
    assert backward_error(100_000, 100_000) <= few.step_size < Fraction(1, 100)


def test_columns_leave_out_the_eigenvalue_that_is_always_zero() -> None:
    assert laplacian.columns(context(4)) == ("s[2]", "s[3]", "s[4]")
    assert len(laplacian.measurements(context(4))[0].cells) == 3
    assert connectivity.columns(context(4)) == degree.columns(context(4)) == ("s",)


def test_values_are_those_drawn() -> None:
    measurement = laplacian.measurements(context(4))[0]
    steps = np.array([[3.0, 1.0, 2.0]]) / float(measurement.step_size)
    assert laplacian.finish(measurement, steps).tolist() == [[3.0, 1.0, 2.0]]
    reading = Reading(steps - 10, steps + 10, steps, None, 0.95)
    low, high = laplacian.interval(measurement, reading)
    assert (low < [3.0, 1.0, 2.0]).all()
    assert (high > [3.0, 1.0, 2.0]).all()
    assert connectivity.finish(measurement, steps) is steps
    assert degree.finish(measurement, steps) is steps


def test_each_statistic_sees_its_own_cell_of_a_box() -> None:
    first = connectivity.measurements(context(34, k=2))[0]
    box = graph_box([first, degree.measurements(context(34, k=2, node=5))[0]])
    assert box.linf_per_component == (first.l1_added_row, 2)
    assert box.weights == ((34, 500), (34, 5))
    cells = np.array([[1.5, 9.0]])
    reading = Reading(cells - 1, cells + 1, cells, None, 0.95)
    _, seen, read = one_cell(box, cells, reading, 1)
    assert seen.tolist() == [[9.0]]
    assert degree.interval(box, read)[0].tolist() == [[8.0]]
    assert connectivity.interval(box, one_cell(box, cells, reading, 0)[2])[1].tolist() == [[2.5]]
