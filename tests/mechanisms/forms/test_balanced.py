"""Noise that adds up to zero: its loss in rationals, one cell's chances, draws of whole vectors."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dprelease.core.entropy import RandomBits, ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.balanced import BalancedNoise

CELLS_AND_EPSILON = [(2, "0.25"), (2, "3"), (3, "1"), (4, "2"), (5, "6")]


def vectors(cells: int, cutoff: int) -> list[tuple[int, ...]]:
    """Return all vectors that add up to 0, the first cells within `cutoff`."""
    free = itertools.product(range(-cutoff, cutoff + 1), repeat=cells - 1)
    return [(*z, -sum(z)) for z in free]


@pytest.mark.parametrize("cells", [2, 3, 4])
def test_every_move_that_keeps_the_sum_costs_its_length(cells: int) -> None:
    """Weights q^(|z|) in whole exponents: the largest quotient of two shifted laws, over all outcomes."""
    noise = BalancedNoise.keeping(cells, 2, Fraction(1))
    assert noise.certify().epsilon_upper == 2 * noise.noise.rate <= 1
    for move in vectors(cells, 2):
        length = sum(map(abs, move))
        worst = max(
            sum(abs(a - b) for a, b in zip(y, move, strict=True)) - sum(map(abs, y))
            for y in vectors(cells, 4)
        )
        assert worst == length  # times the rate: at most the loss of a replaced row where it is 2


@pytest.mark.parametrize(("cells", "epsilon"), CELLS_AND_EPSILON)
def test_sums_of_cells_have_the_chances_of_all_vectors(cells: int, epsilon: str) -> None:
    noise = BalancedNoise.keeping(cells, 2, Fraction(epsilon))
    width = {2: 60, 3: 40, 4: 24, 5: 12}[cells]
    all_of_them = np.array(vectors(cells, width))
    chance = np.exp(-float(noise.noise.rate) * np.abs(all_of_them).sum(axis=1))
    chance /= chance.sum()
    for count in range(1, cells):
        sums = np.abs(all_of_them[:, :count].sum(axis=1))
        found = float((chance * sums**2).sum())
        assert noise.variance_of_sum(count) == pytest.approx(found, rel=2e-4)
        for level in (0.5, 0.95, 0.99):
            k = noise.quantile_of_sum(count, level)
            assert chance[sums <= k].sum() >= level - 1e-6
            assert k == 0 or chance[sums <= k - 1].sum() < level
    assert noise.quantile_of_sum(cells, 0.95) == noise.quantile_of_sum(0, 0.95) == 0


def test_of_wide_noise_a_sums_quantile_is_at_most_a_hundredth_too_wide() -> None:
    for cells in (2, 7, 32):
        noise = BalancedNoise.keeping(cells, 2, Fraction(1, 10**6))
        for level in (0.5, 0.95, 0.99999):
            one = noise.quantile(level)  # by the other way, exactly
            assert one <= noise.quantile_of_sum(1, level) <= 1.01 * one
            assert noise.quantile_of_sum(1, level) == noise.quantile_of_sum(cells - 1, level)


@pytest.mark.parametrize(("cells", "epsilon"), CELLS_AND_EPSILON)
def test_one_cell_has_the_chances_of_all_vectors(cells: int, epsilon: str) -> None:
    noise = BalancedNoise.keeping(cells, 2, Fraction(epsilon))
    rate = float(noise.noise.rate)
    u = np.arange(-int(60 / rate), int(60 / rate) + 1)
    one = np.exp(-rate * np.abs(u))
    others = one
    for _ in range(cells - 2):
        others = np.convolve(others, one, mode="same")
    chance = one * others / (one * others).sum()
    assert noise.mean_abs() == pytest.approx(float((chance * np.abs(u)).sum()), rel=1e-9)
    assert noise.variance() == pytest.approx(float((chance * u * u).sum()), rel=1e-9)
    for least in (0, 1, 3, 10):
        assert noise.tail(least) == pytest.approx(float(chance[u >= least].sum()), rel=1e-8)
    for level in (0.5, 0.95, 0.999):
        k = noise.quantile(level)
        assert chance[np.abs(u) <= k].sum() >= level - 1e-12
        assert k == 0 or chance[np.abs(u) <= k - 1].sum() < level


def test_two_cells_are_one_count_and_many_are_nearly_independent() -> None:
    two = BalancedNoise.keeping(2, 2, Fraction(1))
    assert two.mean_abs() == pytest.approx(1 / math.sinh(1))
    many = BalancedNoise.keeping(32, 2, Fraction(1))
    assert 0.96 < many.mean_abs() / many.noise.mean_abs() < 0.98
    wide = BalancedNoise.keeping(32, 2, Fraction(1, 10**9))
    assert wide.mean_abs() == pytest.approx(31 / 32 * 2e9, rel=1e-6)
    assert wide.quantile(0.95) < wide.noise.quantile(0.95)


def misfit(cells: int, drawn: list[tuple[int, ...]], rate: float) -> float:
    """Return the p-value of whole vectors: every one that is likely is a class, the rest is one."""
    weight = {z: math.exp(-rate * sum(map(abs, z))) for z in vectors(cells, 12)}
    total, seen, count = sum(weight.values()), Counter(drawn), len(drawn)
    likely = [z for z, w in weight.items() if w / total * count >= 20]
    wanted = np.array([weight[z] / total * count for z in likely])
    found = np.array([seen[z] for z in likely])
    wanted, found = np.append(wanted, count - wanted.sum()), np.append(found, count - found.sum())
    return float(chi2.sf(((found - wanted) ** 2 / wanted).sum(), wanted.size - 1))


@pytest.mark.parametrize("cells", [2, 3])
def test_draws_have_the_law_of_the_whole_vector(cells: int) -> None:
    noise = BalancedNoise.keeping(cells, 2, Fraction(3))
    drawn = [tuple(row) for row in noise.vectors(20_000, ReplayBits(f"balanced {cells}")).tolist()]
    assert all(sum(row) == 0 for row in drawn)
    assert misfit(cells, drawn, float(noise.noise.rate)) > 1e-6
    assert misfit(cells, drawn, float(noise.noise.rate) * 0.9) < 1e-6  # control


def test_twin_taking_every_attempt_is_caught() -> None:
    """The sum's own cell would have the noise of all others together."""
    noise, bits = BalancedNoise.keeping(3, 2, Fraction(3)), ReplayBits("every attempt")
    free = noise.noise.draws(40_000, bits).reshape(-1, 2)
    drawn = [(int(a), int(b), int(-a - b)) for a, b in free.tolist()]
    assert misfit(3, drawn, float(noise.noise.rate)) < 1e-6


def test_wide_noise_is_drawn_in_whole_numbers_of_any_size() -> None:
    noise = BalancedNoise.keeping(3, 2, Fraction(1, 10**18))
    drawn = noise.vectors(50, ReplayBits("wide"))
    assert (drawn.sum(axis=1) == 0).all()
    assert max(abs(v) for v in drawn.ravel().tolist()) > 10**17


def test_a_stuck_source_ends() -> None:
    class Stuck(RandomBits):
        def read(self, count: int) -> bytes:
            return bytes(count)

    drawn = BalancedNoise.keeping(2, 2, Fraction(1)).vectors(3, Stuck())
    assert drawn.shape == (3, 2)


def test_balanced_noise_is_stored_whole_and_faulty_counts_are_refused() -> None:
    noise = BalancedNoise.keeping(7, 2, Fraction(1, 3))
    assert BalancedNoise.from_json(json.loads(json.dumps(noise.to_json()))) == noise
    assert "keeping their sum" in noise.describe()
    for cells in (1, 33):
        with pytest.raises(ArgumentError) as refused:
            BalancedNoise.keeping(cells, 2, Fraction(1))
        assert refused.value.code == "DPR624"
