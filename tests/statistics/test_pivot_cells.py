"""Intervals by walking over few cells are those of looking at every cell."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.statistics import variance_pivot
from dprelease.statistics.variance_pivot import variance_interval


def drawn(size, scale):
    random = np.random.default_rng(7)
    raw = np.rint(random.dirichlet([0.4] * 3, 60) * size + random.laplace(0, scale, (60, 3)))
    raw[:3] = [[0, 0, 0], [1, -1, 0], [-9, 0, 2]]
    return raw


@pytest.mark.parametrize("size", [0.01, 30, 1e4, 1e8])
def test_a_variance_is_that_of_every_cell_of_the_mean_and_the_variance(size, monkeypatch):
    raw = drawn(size, 5.0)
    fast = variance_interval(raw, 5.0, 0.95)

    def every(rows, own, n, least, most, roof, critical, low, high):
        edges = np.linspace(0.0, 0.25, variance_pivot._VARIANCES + 1)
        for k, row in enumerate(rows):
            for j, q in enumerate(critical[own[k]]):
                floor, ceiling = least[k] - q, most[k] + q
                if n[k] == 0:
                    ends = (-np.inf, np.inf) if floor <= 0 <= ceiling else (np.inf, -np.inf)
                else:
                    ends = sorted([floor / n[k], ceiling / n[k]])
                first, last = max(ends[0], edges[j]), min(ends[1], edges[j + 1], roof[k])
                if first <= last:
                    low[row], high[row] = min(low[row], first), max(high[row], last)

    monkeypatch.setattr(variance_pivot, "_widen", every)
    slow = variance_interval(raw, 5.0, 0.95)
    assert np.array_equal(fast[0], slow[0])
    assert np.array_equal(fast[1], slow[1])
