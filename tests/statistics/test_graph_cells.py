"""Cells of a graph against definitions; the sparse eigenvalue against the certified one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.numeric import floor_half_up
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.exact import form_of
from dprelease.statistics.graph_cells import laplacian, sparse_connectivity
from dprelease.statistics.graph_sensitivity import CERTIFIED_NODES
from dprelease.statistics.measurement import Measurement

COMPLETE = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)])
RING = np.array([(0, 5), *((a, a + 1) for a in range(5))])
NOTHING = np.zeros((0, 2), dtype=np.int64)


def measurement(form: str, *weights: tuple[int, int]) -> Measurement:
    return Measurement("scalar", (form,), (form,), weights, 1, 1, form=form)  # type: ignore[arg-type]


def cells_of_graph(measurement: Measurement, edges: np.ndarray) -> np.ndarray:
    return form_of(measurement).made(measurement, edges)


def some_graph(n: int, edges: int, seed: int) -> np.ndarray:
    ends = np.random.default_rng(seed).integers(0, n, (edges, 2))
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    return np.unique(ends, axis=0)


def test_laplacian_is_degrees_minus_adjacency() -> None:
    assert laplacian(COMPLETE, 6).tolist() == (6 * np.eye(6) - np.ones((6, 6))).tolist()
    assert not laplacian(NOTHING, 3).any()
    assert laplacian(RING, 6).sum(axis=0).tolist() == [0] * 6


def test_cells_are_degrees_and_rounded_eigenvalues() -> None:
    assert cells_of_graph(measurement("degree", (6, 3)), RING).tolist() == [[2]]
    assert cells_of_graph(measurement("connectivity", (6, 1000)), RING).tolist() == [
        [1000]
    ]  # 2 - 2 cos 60
    assert cells_of_graph(measurement("connectivity", (6, 10)), COMPLETE).tolist() == [[60]]
    assert cells_of_graph(measurement("connectivity", (6, 10)), NOTHING).tolist() == [[0]]
    assert cells_of_graph(measurement("laplacian", (6, 10)), RING).tolist() == [
        [10, 10, 30, 30, 40]
    ]
    box = measurement("graph_box", (6, 10), (6, 0), (6, 5))
    assert cells_of_graph(box, COMPLETE).tolist() == [[60, 5, 5]]
    sparse = measurement("sparse_connectivity", (6, 100))
    assert cells_of_graph(sparse, COMPLETE).tolist() == [[600]]
    assert all(type(v) is int for v in cells_of_graph(box, COMPLETE)[0])


def test_rounding_is_half_up_in_exact_arithmetic() -> None:
    n = 12
    edges = some_graph(n, 40, 1)
    value = np.linalg.eigvalsh(laplacian(edges, n))[1]
    cell = cells_of_graph(measurement("connectivity", (n, 10**6)), edges)[0, 0]
    assert abs(cell - floor_half_up(Fraction(float(value)) * 10**6)) <= 1
    assert backward_error(n, n) < Fraction(1, 10**10)


@pytest.mark.parametrize("seed", range(4))
def test_sparse_agrees_with_the_certified_eigenvalue(seed: int) -> None:
    n = 400
    edges = some_graph(n, 400 * (4 + seed), seed)
    exact = cells_of_graph(measurement("connectivity", (n, 10**6)), edges)[0, 0] / 10**6
    assert sparse_connectivity(edges, n) == pytest.approx(exact, abs=1e-5)


def test_sparse_says_exactly_zero_for_what_is_not_connected() -> None:
    two = np.concatenate([RING, RING + 6])
    assert sparse_connectivity(two, 12) == 0.0
    assert sparse_connectivity(NOTHING, 5) == 0.0
    assert sparse_connectivity(RING, 7) == 0.0  # node 6 is alone


def test_sparse_is_observed_only_a_long_path_is_not_converged() -> None:
    """Why it needs an opt-in: few steps overstate a tiny gap, and nothing in the run says so."""
    n = 2000
    path = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    truth = 2 - 2 * np.cos(np.pi / n)
    found = sparse_connectivity(path, n)
    assert found >= truth - 1e-9  # from one side: a Ritz value
    assert found > 2 * truth


def test_sparse_does_not_depend_on_the_order_of_edges() -> None:
    edges = some_graph(300, 2000, 9)
    first = sparse_connectivity(edges, 300)
    assert sparse_connectivity(edges, 300) == first
    mixed = np.random.default_rng(3).permutation(edges)
    assert sparse_connectivity(mixed, 300) == pytest.approx(first, abs=1e-9)


def test_the_dense_limit_is_what_fits() -> None:
    assert 8 * CERTIFIED_NODES**2 <= 200_000_000
