"""All graphs on up to five nodes: no pair moves further than stated, and the statements are tight."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core import registry
from dprelease.core.numeric import floor_half_up
from dprelease.query.bounded import Label
from dprelease.query.graph import Graph
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import kind_named
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.exact import form_of
from dprelease.statistics.graph import connectivity, degree, graph_box, laplacian
from dprelease.statistics.graph_sensitivity import connectivity_sensitivity, graph_sensitivity
from dprelease.statistics.measurement import Context, Measurement
from tests.kinds import GRAPH

SIZES = (2, 3, 4, 5)
EDGES = (1, 2, 3, 4)
TINY = 1e-9


class World:
    """Every simple graph on n nodes: spectra, degrees of node 0 and distances."""

    def __init__(self, n: int) -> None:
        self.pairs = list(itertools.combinations(range(n), 2))
        count = 2 ** len(self.pairs)
        has = (np.arange(count)[:, None] >> np.arange(len(self.pairs))) & 1
        matrices = np.zeros((count, n, n))
        for e, (a, b) in enumerate(self.pairs):
            matrices[:, a, b] = matrices[:, b, a] = -has[:, e]
        matrices[:, range(n), range(n)] = -matrices.sum(axis=2)
        self.spectra = np.linalg.eigvalsh(matrices)
        self.degrees = matrices[:, 0, 0]
        more = has.astype(np.int64) @ (1 - has.T)  # edges of i that j lacks
        self.apart, self.moved = more + more.T, np.where(more == more.T, more, 10**6)
        self.edges = [
            np.array([p for p, on in zip(self.pairs, row, strict=True) if on], np.int64).reshape(
                -1, 2
            )
            for row in has
        ]

    def gap(self, values: np.ndarray) -> np.ndarray:
        return np.abs(values[:, None] - values[None, :])

    def largest(self, gap: np.ndarray, k: int, *, moved: bool = False) -> float:
        return float(gap[(self.moved if moved else self.apart) <= k].max())


WORLDS = {n: World(n) for n in SIZES}


@pytest.mark.parametrize("k", EDGES)
@pytest.mark.parametrize("n", SIZES)
def test_stated_moves_hold_and_are_attained(n: int, k: int) -> None:
    world = WORLDS[n]
    second, node = world.gap(world.spectra[:, 1]), world.gap(world.degrees)
    whole = np.abs(world.spectra[:, None, :] - world.spectra[None, :, :]).sum(axis=2)
    assert world.largest(node, k) == min(k, n - 1)
    assert world.largest(second, k) == pytest.approx(min(k + 1, n), abs=TINY)
    if k <= n - 1:
        assert world.largest(second + node, k) == pytest.approx(2 * k + 1, abs=TINY)
    attained = 2 * min(k, len(world.pairs))
    assert world.largest(whole, k) == pytest.approx(attained, abs=TINY)
    assert world.largest(node, k, moved=True) <= min(k, n - 1)
    assert world.largest(second, k, moved=True) <= min(k + 1, n) + TINY
    assert world.largest(whole, k, moved=True) <= 4 * k + TINY


@pytest.mark.parametrize("k", EDGES)
def test_one_edge_less_than_k_plus_one_is_refuted(k: int) -> None:
    world = WORLDS[5]
    assert world.largest(world.gap(world.spectra[:, 1]), k) > k + 0.5


def test_parallel_edges_would_pass_the_stated_moves() -> None:
    # the complete graph on 4 nodes, every edge twice; then both rows of one edge are taken away
    twice = 2 * (4 * np.eye(4) - np.ones((4, 4)))
    gone = twice.copy()
    gone[0, 1] = gone[1, 0] = 0
    gone[0, 0] -= 2
    gone[1, 1] -= 2
    assert twice[0, 0] - gone[0, 0] == 2  # a degree may move by 1
    fall = np.linalg.eigvalsh(twice)[1] - np.linalg.eigvalsh(gone)[1]
    assert fall == pytest.approx(4)  # lambda_2 by 2
    assert graph_sensitivity("connectivity", ((4, 1),), 4, 1)[0] <= 3


def test_a_node_would_move_the_whole_domain() -> None:
    world = WORLDS[5]
    full, rest = len(world.edges) - 1, [i for i, e in enumerate(world.edges) if not (e == 0).any()]
    node = max(abs(world.spectra[full, 1] - world.spectra[i, 1]) for i in rest)
    assert node == pytest.approx(5)  # all n of it, far beyond 2k for one edge


def context(n: int, k: int, node: int | None = None) -> Context:
    ends = tuple(str(i) for i in range(n))
    graph = Graph(k, Label("a", ends), Label("b", ends), node)
    return Context(StatisticSpec("s", "s", (), "s"), "s", graph=graph)


def measurements(n: int, k: int) -> list[Measurement]:
    first = connectivity.measurements(context(n, k))[0]
    nodes = [degree.measurements(context(n, k, v))[0] for v in (0, n - 1)]
    return [first, *nodes, laplacian.measurements(context(n, k))[0], graph_box([first, *nodes])]


@pytest.mark.parametrize("k", EDGES)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_integer_cells_move_no_further_than_the_measurement_says(n: int, k: int) -> None:
    world = WORLDS[n]
    for measurement in measurements(n, k):
        cells = np.concatenate(
            [form_of(measurement).made(measurement, e) for e in world.edges]
        ).astype(np.int64)
        gaps = np.abs(cells[:, None, :] - cells[None, :, :])
        assert world.largest(gaps.sum(axis=2), k) <= measurement.l1_added_row
        assert world.largest(gaps.sum(axis=2), k, moved=True) <= measurement.l1_replaced_row
        for cell, most in enumerate(measurement.linf_per_component):
            assert world.largest(gaps[:, :, cell], k) <= most
            assert world.largest(gaps[:, :, cell], k, moved=True) <= most
        if measurement.upper is not None:
            assert cells.min() >= 0
            assert cells.max() <= measurement.upper


def test_a_bound_that_forgets_the_numerical_error_is_refuted() -> None:
    n, k, den = 34, 2, 1000
    tau = backward_error(n, n)
    assert connectivity_sensitivity(n, k, den) > (k + 1) * den  # what a forgetful bound would say
    edge = Fraction(1, 2 * den)  # a rounding boundary
    high, low = edge + k + 1 + tau / 2, edge - tau / 2  # computed from answers k + 1 apart
    moved = floor_half_up(high * den) - floor_half_up(low * den)
    assert (k + 1) * den < moved <= connectivity_sensitivity(n, k, den)


def test_rounding_a_spectrum_costs_little() -> None:
    for n, k in ((5, 1), (34, 2), (1000, 1)):
        l1_added_row = laplacian.measurements(context(n, k))[0].l1_added_row
        step_size = laplacian.measurements(context(n, k))[0].step_size
        assert 2 * k <= l1_added_row * step_size <= 2 * k * Fraction(102, 100)


@pytest.mark.parametrize(
    ("form", "weights"),
    [
        ("degree", ((5, 5),)),
        ("degree", ((4, 0),)),
        ("degree", ((5, 0), (5, 1))),
        ("connectivity", ((5, 0),)),
        ("connectivity", ()),
        ("laplacian", ((5, 9, 1),)),
        ("graph_box", ((5, 9), (5, -1))),
        ("linear", ((5, 9),)),
    ],
)
def test_what_is_not_a_graph_on_n_nodes_has_no_moves(
    form: str, weights: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(ValueError, match=r"weights|node|grid|form"):
        graph_sensitivity(form, weights, 5, 1)


def test_moves_for_more_nodes_than_a_proof_reaches_are_refused() -> None:
    with pytest.raises(ValueError, match="form"):
        graph_sensitivity("connectivity", ((6000, 10),), 6000, 1)
    assert graph_sensitivity("sparse_connectivity", ((6000, 10),), 6000, 1)[0] >= 20


def test_every_registered_statistic_of_a_graph_is_enumerated_here() -> None:
    assert set(GRAPH) <= set(registry.names("aggregates"))
    assert [kind_named(name) for name in GRAPH] == [connectivity, degree, laplacian]
