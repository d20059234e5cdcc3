"""How far k edges move degrees and Laplacian eigenvalues of a simple graph on n nodes.

                         k edges added or removed    k edges moved
    degree of a node     min(k, n - 1)               min(k, n - 1)
    lambda_2             min(k + 1, n)               min(k + 1, n)
    whole spectrum, L1   2 k                         4 k

*Degree*: each edge touches a node once; added and removed ones count against each other.
*lambda_2*: with H+ added and H- removed, Weyl gives -max L(H-) <= change <= max L(H+), and a simple
graph with at most k edges has max L <= k + 1 (Anderson & Morley: max over edges of d_u + d_v). So it
holds with k edges on either side too. Attained by K_n minus a star; lambda_2 never leaves [0, n].
*Spectrum*: Mirsky, sum |l_i(A) - l_i(B)| <= nuclear norm of A - B; one edge is worth 2.
*Parallel edges* would double all of it; self-loops add nothing to a Laplacian. Hence the fixed
preparation of `query.graph`.

In grid steps of 1/d, with computed eigenvalues within tau of the true ones (`certified_eigen`, a
simple graph has |L| <= n): a scalar that moves by at most x is rounded to a value that moves by at
most ceil(x d) steps; of m rounded coordinates that move by x in all, each moves by
at most floor(x_i d) + 1, together floor(x d) + m.

Node-level privacy is not offered: one node can carry n - 1 edges, and the bound is the whole domain.

Units: grid steps of the measurement. Sources: `docs/theory/graphs-and-spectra.md#laplacian-eigenvalues`,
`docs/theory/domains-and-grids.md#rounding-to-a-grid`; W. Anderson & T. Morley, Eigenvalues of the
Laplacian of a graph (1985).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

from dprelease.core import registry
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.exact import CellForm, Moves, Weights

GRAPH_FORMS = ("degree", "connectivity", "sparse_connectivity", "laplacian", "graph_box")

OBSERVED = ("sparse_connectivity",)
"""Forms whose numerical error is observed and not proved: a plan must say so."""

CERTIFIED_NODES = 5000
"""Most nodes of a dense matrix (200 MB); beyond, no proof of the numerical error is at hand."""


def degree_sensitivity(nodes: int, k: int) -> int:
    return min(k, nodes - 1)


def connectivity_sensitivity(nodes: int, k: int, den: int) -> int:
    """Return how many steps of 1/`den` the computed and rounded lambda_2 moves, at most."""
    change = min(k + 1, nodes) + 2 * backward_error(nodes, nodes)
    return math.ceil(change * den)


def graph_sensitivity(form: str, weights: Weights, nodes: int, k: int) -> Moves:
    """Return (L1 when k edges differ, L1 when k edges are moved, most per component or nothing).

    Args:
        form, weights: of the measurement, see `statistics.graph_cells`; every row of `weights` is
            (n, denominator of the grid) or (n, node).

    Raises:
        ValueError: the weights are not those of a graph on `nodes` nodes, or the form is unknown.
    """
    if not weights or any(len(row) != 2 or row[0] != nodes for row in weights) or k < 1:
        raise ValueError("weights")
    moves = cast("CellForm", registry.load("forms", form)).moves if form in GRAPH_FORMS else None
    if moves is None:
        raise ValueError("form")
    return moves(weights, nodes, k)


def degree_moves(weights: Weights, nodes: int, k: int) -> Moves:
    _check_node(_alone(weights), nodes)
    move = degree_sensitivity(nodes, k)
    return move, move, ()


def sparse_moves(weights: Weights, nodes: int, k: int) -> Moves:
    """Return them of lambda_2 whose numerical error is observed only."""
    move = connectivity_sensitivity(nodes, k, _grid(_alone(weights)))
    return move, move, ()


def connectivity_moves(weights: Weights, nodes: int, k: int) -> Moves:
    _check_certified(nodes)
    return sparse_moves(weights, nodes, k)


def spectrum_moves(weights: Weights, nodes: int, k: int) -> Moves:
    _check_certified(nodes)
    den = _grid(_alone(weights))
    come, swapped = (_spectrum_sensitivity(nodes, l1, den) for l1 in (2 * k, 4 * k))
    return come, swapped, ()


def box_moves(weights: Weights, nodes: int, k: int) -> Moves:
    """Return them of lambda_2 and degrees, each bounded by itself."""
    _check_certified(nodes)
    (_, den), *degrees = weights
    for _, node in degrees:
        _check_node(node, nodes)
    first = connectivity_sensitivity(nodes, k, _grid(den))
    each = (first, *([degree_sensitivity(nodes, k)] * len(degrees)))
    return sum(each), sum(each), each


def _alone(weights: Weights) -> int:
    if len(weights) != 1:
        raise ValueError("weights")
    return weights[0][1]


def _grid(den: int) -> int:
    if den < 1:
        raise ValueError("grid")
    return den


def _check_certified(nodes: int) -> None:
    if nodes > CERTIFIED_NODES:
        raise ValueError("form")


def _spectrum_sensitivity(nodes: int, l1: int, den: int) -> int:
    """Return the L1 sensitivity of lambda_2, ..., lambda_n in steps; lambda_1 is 0 in every graph."""
    change = l1 + 2 * (nodes - 1) * backward_error(nodes, nodes)
    return math.floor(Fraction(change) * den) + nodes - 1


def _check_node(node: int, nodes: int) -> None:
    if not 0 <= node < nodes:
        raise ValueError("node")
