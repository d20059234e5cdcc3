"""Intervals by walking over few cells are those of looking at every cell."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.aggregates import pivot, variance_pivot
from dprelease.aggregates.pivot import ratio_interval
from dprelease.aggregates.variance_pivot import variance_interval


def every_cell(top, total, critical):
    """One group at a time, all cells of theta: the definition."""
    edges = np.linspace(0.0, 1.0, pivot._CELLS + 1)
    low, high = np.inf, -np.inf
    for j, q in enumerate(critical):
        if total == 0:
            first, last = (-np.inf, np.inf) if top - q <= 0 <= top + q else (np.inf, -np.inf)
        else:
            first, last = sorted([(top - q) / total, (top + q) / total])
        first, last = max(first, edges[j]), min(last, edges[j + 1])
        if first <= last:
            low, high = min(low, first), max(high, last)
    return low, high


def drawn(size, scale):
    random = np.random.default_rng(7)
    raw = np.rint(random.dirichlet([0.4] * 3, 60) * size + random.laplace(0, scale, (60, 3)))
    raw[:3] = [[0, 0, 0], [1, -1, 0], [-9, 0, 2]]
    return raw


@pytest.mark.parametrize("size", [0.01, 30, 1e4, 1e8])
def test_a_ratio_is_that_of_every_cell(size):
    raw, scores = drawn(size, 5.0), (0.0, 0.5, 1.0)
    low, high = ratio_interval(raw, scores, 5.0, 0.95)
    critical = pivot._critical_values(scores, (1.0, 1.0, 1.0), 5.0, 0.95, 1, (0.0, 1.0))
    for i, row in enumerate(raw):
        first, last = every_cell(float(row @ np.array(scores)), float(row.sum()), critical)
        if first <= last:
            assert (low[i], high[i]) == (first, last)
        else:
            assert low[i] == high[i]


@pytest.mark.parametrize("size", [0.01, 30, 1e4, 1e8])
def test_a_variance_is_that_of_every_cell_of_the_mean_and_the_variance(size, monkeypatch):
    raw = drawn(size, 5.0)
    fast = variance_interval(raw, 5.0, 0.95)

    def every(rows, n, least, most, roof, critical, low, high):
        edges = np.linspace(0.0, 0.25, variance_pivot._VARIANCES + 1)
        for k, row in enumerate(rows):
            for j, q in enumerate(critical):
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
