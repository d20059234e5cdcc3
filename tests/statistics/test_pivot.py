"""The pivot's quantile against exact enumeration of discrete Laplace noise, and its interval."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dprelease.intervals.few import quantiles
from dprelease.intervals.quotient import ratio_interval


def mass_beyond(weights: list[float], scale: float, bound: float) -> float:
    """Return P(|S w_i D_i| > bound) for discrete Laplace D_i of `scale`, by enumeration."""
    cutoff = math.ceil(scale * 25)
    support = np.arange(-cutoff, cutoff + 1)
    p = np.exp(-np.abs(support) / scale)
    p /= p.sum()
    total, chance = np.zeros(1), np.ones(1)
    for w in weights:
        total = (total[:, None] + w * support[None, :]).ravel()
        chance = (chance[:, None] * p[None, :]).ravel()
    return float(chance[np.abs(total) > bound].sum())


def quantile(weights: list[float]) -> float:
    return float(quantiles(np.array([weights]), 0.95)[0])


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [0.3, 0.7], [0.0, 1.0], [0.5, 0.01]])
def test_no_critical_value_of_a_pivot_is_too_small(weights: list[float], scale: float) -> None:
    q = scale * quantile(weights) + sum(weights)
    assert mass_beyond(weights, scale, q) <= 0.05


def test_without_the_allowance_for_steps_it_would_be() -> None:
    """The control: the continuous quantile alone is too short for discrete noise somewhere."""
    short = [
        mass_beyond([w, 1 - w], scale, scale * quantile([w, 1 - w]) - 1e-9)
        for w, scale in itertools.product((0.0, 0.1, 0.3), (0.3, 0.4, 0.5, 1.0))
    ]
    assert max(short) > 0.05


def test_an_exact_ratio_is_inside_and_the_interval_shrinks_with_the_size() -> None:
    sizes = np.array([10.0, 1_000.0, 100_000.0])
    raw = np.stack([0.3 * sizes, 0.7 * sizes], axis=1)
    low, high = ratio_interval(raw, (1.0, 0.0), 5.0, 0.95)
    assert ((low <= 0.3) & (high >= 0.3)).all()
    assert (np.diff(high - low) < 0).all()


def test_no_signal_gives_everything() -> None:
    low, high = ratio_interval(np.zeros((1, 2)), (1.0, 0.0), 5.0, 0.95)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_always_a_valid_interval() -> None:
    random = np.random.default_rng(5)
    raw = random.normal(0, 40, (4_000, 3))
    low, high = ratio_interval(raw, (0.0, 0.5, 1.0), 3.0, 0.95)
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
