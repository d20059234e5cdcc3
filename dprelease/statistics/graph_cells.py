"""Exact cells of a graph: degrees and rounded Laplacian eigenvalues from a sorted edge list.

Total functions of the edges: whatever simple graph on n nodes comes in, they return integers and
raise nothing. Eigenvalues are the one quantity of this library that floats compute; their error is
bounded beforehand (`certified_eigen`) and paid for (`graph_sensitivity`). The sparse one is not: its error
is observed only, and a release must say so.

The sparse lambda_2. Disconnected graphs have lambda_2 = 0, decided exactly by connected components.
Otherwise a Lanczos process of fixed length on s I - L, s an upper end of the spectrum, from a fixed
start orthogonal to the constant vector, which is projected out again at every step; the largest Ritz
value t gives lambda_2 <= s - t up to rounding: converged from one side. Work and memory depend on the
number of nodes and edges alone.

Units: cells in steps of 1/den. Shapes: edges `(E, 2)` int64, cells `(1, cells)`.
Sources: `docs/theory/graphs-and-spectra.md#laplacian-eigenvalues`, `#large-sparse-graphs`; Lanczos with
full reorthogonalisation: Parlett, The Symmetric Eigenvalue Problem.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import floor_half_up
from dprelease.query.answer import Objects
from dprelease.statistics.certified_eigen import symmetric_eigenvalues
from dprelease.statistics.exact import CellForm
from dprelease.statistics.graph_sensitivity import (
    box_moves,
    connectivity_moves,
    degree_moves,
    sparse_moves,
    spectrum_moves,
)
from dprelease.statistics.measurement import Measurement

Floats = npt.NDArray[np.float64]
Edges = npt.NDArray[np.int64]

SPARSE_STEPS = 128
"""Lanczos steps; 128 vectors of 10^5 nodes take 102 MB."""


def laplacian(edges: Edges, nodes: int) -> Floats:
    """Return the dense Laplacian, `(nodes, nodes)`: small integers, exact."""
    out = np.zeros((nodes, nodes))
    out[edges[:, 0], edges[:, 1]] = -1.0
    out[edges[:, 1], edges[:, 0]] = -1.0
    out[np.diag_indices(nodes)] = np.bincount(edges.ravel(), minlength=nodes)
    return out


def _degree(edges: Edges, node: int) -> int:
    return int(np.count_nonzero(edges == node))


def _rounded(value: float, nodes: int, den: int) -> int:
    """Return the eigenvalue in steps, clamped to [0, nodes], where every eigenvalue lies."""
    return floor_half_up(Fraction(min(max(value, 0.0), float(nodes))) * den)


def sparse_connectivity(edges: Edges, nodes: int, steps: int = SPARSE_STEPS) -> float:
    """Return about lambda_2 of a sparse graph; exactly 0 where it is not connected."""
    from scipy.linalg import LinAlgError, eigvalsh_tridiagonal
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(edges.shape[0])
    half: Any = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    adjacency: Any = (half + half.T).tocsr()
    parts, _ = connected_components(adjacency, directed=False)
    degrees = np.bincount(edges.ravel(), minlength=nodes).astype(np.float64)
    top = float(_spectrum_bound(edges, degrees))
    steps = max(1, min(steps, nodes - 1))
    basis = np.zeros((steps + 1, nodes))
    diagonal, off = np.zeros(steps), np.zeros(steps)
    basis[0] = _start(nodes)
    for j in range(steps):
        v = basis[j]
        w = top * v - (degrees * v - adjacency @ v)
        diagonal[j] = v @ w
        for _ in range(2):  # twice is enough to keep the basis orthogonal
            w -= w.mean()
            w -= basis[: j + 1].T @ (basis[: j + 1] @ w)
        size = float(np.linalg.norm(w))
        # an invariant subspace: what follows is decoupled and stays below
        off[j] = size if size > 1e-12 * max(top, 1.0) else 0.0
        basis[j + 1] = w / size if off[j] else 0.0
    try:
        ritz = float(np.max(eigvalsh_tridiagonal(diagonal, off[:-1])))
    except (LinAlgError, ValueError):
        ritz = float(diagonal[0])
    return 0.0 if parts > 1 else float(min(max(top - ritz, 0.0), nodes))


def _spectrum_bound(edges: Edges, degrees: Floats) -> float:
    """Return a number that no eigenvalue is above: the largest sum of two neighbours' degrees (Anderson & Morley)."""
    if edges.shape[0] == 0:
        return 0.0
    return float(np.max(degrees[edges[:, 0]] + degrees[edges[:, 1]]))


def _start(nodes: int) -> Floats:
    """Return a fixed unit vector without a constant part, alike for every graph on n nodes."""
    v = np.modf(np.arange(1, nodes + 1) * 0.6180339887498949)[0] - 0.5
    v -= v.mean()
    return np.asarray(v / np.linalg.norm(v))


def _single_row(cells: list[int]) -> Objects:
    out = np.empty((1, len(cells)), dtype=object)
    out[0, :] = cells
    return out


def _degree_cell(measurement: Measurement, edges: Edges) -> Objects:
    return _single_row([_degree(edges, measurement.weights[0][1])])


def _sparse_cell(measurement: Measurement, edges: Edges) -> Objects:
    nodes, den = measurement.weights[0]
    return _single_row([_rounded(sparse_connectivity(edges, nodes), nodes, den)])


def _spectrum_cells(measurement: Measurement, edges: Edges) -> Objects:
    nodes, den = measurement.weights[0]
    values = symmetric_eigenvalues(laplacian(edges, nodes))[1:]
    return _single_row([_rounded(float(v), nodes, den) for v in values])


def _connectivity_cells(measurement: Measurement, edges: Edges) -> Objects:
    """Return lambda_2, and in a box the degrees after it."""
    first = _spectrum_cells(measurement, edges)[0, :1]
    return _single_row([*first, *(_degree(edges, node) for _, node in measurement.weights[1:])])


degree = CellForm(_degree_cell, moves=degree_moves)
connectivity = CellForm(_connectivity_cells, moves=connectivity_moves)
sparse = CellForm(_sparse_cell, moves=sparse_moves)
eigenvalues = CellForm(_spectrum_cells, moves=spectrum_moves)
box = CellForm(_connectivity_cells, moves=box_moves)
