"""Chen & Hale, the bounded Gaussian mechanism: sensitivities and Theorem 1.4 as printed.

The errata of Theorems 2.4 and 3.4, of Remark 3.3 and of Table 1 are in
`calibration/test_gaussian_scale.py`.
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from dprelease.mechanisms import RectifiedGaussian
from dprelease.schema.domain import Domain


def normal_delta(sigma: float, sensitivity: float, epsilon: float) -> mp.mpf:
    """Return the hockey-stick divergence of two normal laws, by its definition."""
    with mp.workdps(30):
        cut = (
            mp.mpf(sigma) ** 2 * epsilon / sensitivity + mp.mpf(sensitivity) / 2
        )  # where the densities cross
        return mp.ncdf(-(cut - sensitivity) / sigma) - mp.exp(epsilon) * mp.ncdf(-cut / sigma)


@pytest.mark.parametrize("sensitivity", [10.0, 1e3])
def test_theorem_1_4_bounds_the_deviation_not_the_variance(sensitivity: float) -> None:
    """Printed: sigma^2 >= c D / epsilon. It must read sigma >= c D / epsilon."""
    epsilon, delta = 0.5, 1e-5
    c = math.sqrt(2 * math.log(1.25 / delta)) * (1 + 1e-9)
    printed, corrected = math.sqrt(c * sensitivity / epsilon), c * sensitivity / epsilon
    assert normal_delta(printed, sensitivity, epsilon) > 1000 * delta
    assert normal_delta(corrected, sensitivity, epsilon) <= delta
    line = Domain(-math.inf, math.inf)
    for sigma, valid in ((printed, False), (corrected, True)):
        ours = RectifiedGaussian(line, scale=sigma).delta(epsilon=epsilon, sensitivity=sensitivity)
        assert ours == pytest.approx(float(normal_delta(sigma, sensitivity, epsilon)), rel=1e-9)
        assert (ours <= delta) is valid


def graphs(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lambda_2 and the degree of node 0 of every simple graph, by edge bit mask."""
    edges = list(itertools.combinations(range(nodes), 2))
    masks = np.arange(2 ** len(edges))
    laplacian = np.zeros((masks.size, nodes, nodes))
    for bit, (i, j) in enumerate(edges):
        has = ((masks >> bit) & 1).astype(float)
        laplacian[:, [i, j], [i, j]] += has[:, None]
        laplacian[:, [i, j], [j, i]] -= has[:, None]
    return np.linalg.eigvalsh(laplacian)[:, 1], laplacian[:, 0, 0]


def largest_moves(nodes: int, k: int) -> tuple[float, float]:
    """Return the largest change of lambda_2, and of it with the degree, over k or fewer edges."""
    value, degree = graphs(nodes)
    masks = np.arange(value.size)
    alone = jointly = 0.0
    for size in range(1, k + 1):
        for chosen in itertools.combinations(range(nodes * (nodes - 1) // 2), size):
            other = masks ^ sum(1 << bit for bit in chosen)
            move = np.abs(value - value[other])
            alone = max(alone, float(move.max()))
            jointly = max(jointly, float(np.hypot(move, degree - degree[other]).max()))
    return alone, jointly


@pytest.mark.parametrize("nodes", [3, 4, 5])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_lambda_2_moves_by_k_plus_1_not_2k(nodes: int, k: int) -> None:
    alone, jointly = largest_moves(nodes, k)
    bound = min(k + 1, nodes)
    assert alone <= bound + 1e-9
    assert jointly <= math.hypot(bound, k) + 1e-9
    if k == 1:
        assert alone == pytest.approx(2)  # a complete graph without one edge: here 2k is k + 1
    else:
        assert alone < 2 * k - 0.9  # the printed sensitivity is never attained
    if k < nodes:
        # Attained: take k of a node's edges from the complete graph.
        assert alone >= k + 1 - 1e-9
