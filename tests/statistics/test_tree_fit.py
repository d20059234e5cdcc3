"""What is published of noisy trees: valid counts, and intervals that cover."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.fitting.estimate import ONE
from dprelease.intervals.noise import Gaussian, Laplace, Noise
from dprelease.statistics.tree_fit import Noisy, bin_ends, fitted_bins, half_width_of, share_ends
from dprelease.statistics.tree_shape import Tree, level_sums
from tests.sizes import some, whole

LEVEL = 0.95
TREES = (Tree(4, (2, 1)), Tree(6, (3, 1)), Tree(5, (1,)), Tree(4, (2, 1), known=True))
NOISES = (Laplace(Fraction(1, 2)), Gaussian(9))
DRAWN = some(
    [
        (TREES[0], NOISES[0]),
        (TREES[0], NOISES[1]),
        (TREES[3], NOISES[1]),
        (TREES[3], NOISES[0]),
    ],
    2,
)
"""Each tree and each noise, whose quantiles are those of the enumeration."""


def chances(noise: Noise, cutoff: int = 40) -> dict[int, float]:
    """Return the law of one draw, from its own formula."""
    d = np.arange(-cutoff, cutoff + 1)
    if isinstance(noise, Laplace):
        p = np.exp(-float(noise.rate) * np.abs(d))
    else:
        p = np.exp(-(d**2) / (2 * noise.square))
    return dict(zip(d.tolist(), (p / p.sum()).tolist(), strict=True))


def law(noise: Noise, weights: list[Fraction]) -> dict[float, float]:
    """Return the law of a weighted sum of independent draws, value by value."""
    parts = lcm(*(weight.denominator for weight in weights))
    found: dict[int, float] = {0: 1.0}  # values in such parts
    one = {k: p for k, p in chances(noise).items() if p > 1e-10}
    for weight in filter(None, weights):
        step, out = int(weight * parts), Counter[int]()
        for value, p in found.items():
            for k, q in one.items():
                if p * q > 1e-13:
                    out[value + step * k] += p * q
        found = dict(out)
    return {value / parts: p for value, p in found.items()}


def noisy(tree: Tree, exact: npt.NDArray[np.object_], noise: Noise, seed: int) -> Noisy:
    """Return draws around the exact bins, `(draws, bins)`; by numpy, as a test needs no certificate."""
    pick = np.random.default_rng(seed)
    one = chances(noise, 200)
    cells = level_sums(exact, tree.widths)
    drawn = pick.choice(list(one), p=list(one.values()), size=cells.shape)
    rows = int(exact[0].sum()) if tree.known else None
    return Noisy.from_cells(tree, (cells + drawn).astype(float), rows)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_estimates_are_the_weights_times_the_cells(tree: Tree) -> None:
    exact = np.full((3, tree.bins), 7, dtype=object)
    found = noisy(tree, exact, NOISES[0], 1)
    prefixes = np.cumsum(found.bins(), axis=1) / ONE
    own = found.raw @ tree.weights().T
    if tree.known:  # what a public sum adds to each prefix: the estimate is exact without noise
        cells = level_sums(exact, tree.widths)
        own = own + (np.cumsum(exact, axis=1) - cells @ tree.weights().T)
    assert np.allclose(prefixes.astype(float), own.astype(float), atol=1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("tree", [TREES[0], TREES[2], TREES[3]], ids=str)
def test_bins_and_prefixes_are_covered_by_enumeration_and_a_tenth_less_is_not(
    tree: Tree, noise: Noise
) -> None:
    rows = some([*tree.weights(), *np.diff(tree.weights(), axis=0, prepend=0.0)], 2)
    short = 0
    for weights in rows:
        q = half_width_of(noise, weights, LEVEL)
        exact = [Fraction(w).limit_denominator(1000) for w in weights]
        assert np.allclose([float(w) for w in exact], weights, atol=1e-12)
        found = law(noise, exact)
        inside = sum(p for value, p in found.items() if abs(value) <= q)
        assert inside >= LEVEL - 1e-6
        less = sum(p for value, p in found.items() if abs(value) <= 0.9 * q)
        short += less < LEVEL - 1e-6
    assert (
        short >= sum(np.abs(w).max() > 1e-9 for w in rows) - 1
    )  # controls: all, but for one at most


@pytest.mark.parametrize(("tree", "noise"), DRAWN, ids=str)
def test_bins_are_covered_in_ten_thousand_draws(tree: Tree, noise: Noise) -> None:
    exact = np.tile(np.array([0, 2, 9, 30], dtype=object), (10_000, 1))
    found = noisy(tree, exact, noise, 2)
    low, high = bin_ends(found, noise, LEVEL, 60)
    covered = ((low <= exact) & (exact <= high)).mean(axis=0)
    assert (covered >= LEVEL - 4 * (LEVEL * (1 - LEVEL) / 10_000) ** 0.5).all()
    middle = exact[:, 2:]
    assert (
        ((low[:, 2:] + 2 <= middle) & (middle <= high[:, 2:] - 2)).mean(axis=0) < LEVEL - 0.01
    ).all()


@pytest.mark.parametrize(("tree", "noise"), DRAWN, ids=str)
@pytest.mark.parametrize("bins", [(40, 10, 0, 50), (90, 10, 0, 0), (3, 0, 2, 4)], ids=str)
def test_shares_are_covered_in_many_draws_and_by_a_tenth_less_they_are_not(
    tree: Tree, noise: Noise, bins: tuple[int, ...]
) -> None:
    count = whole(4_000 if sum(bins) == 100 else 500, 10_000)
    exact = np.tile(np.array(bins, dtype=object), (count, 1))
    low, high = share_ends(noisy(tree, exact, noise, 3), noise, LEVEL)
    true = np.cumsum(bins) / sum(bins)
    covered = ((low <= true) & (true <= high)).mean(axis=0)
    error = (LEVEL * (1 - LEVEL) / count) ** 0.5
    assert (covered >= LEVEL - 4 * error).all()
    assert (low[:, -1] == 1).all()
    if sum(bins) == 100:  # far from the ends, where nothing is cut off
        less = (high - low) / 20
        shorter = ((low + less <= true) & (true <= high - less)).mean(axis=0)[:1]
        assert (shorter < LEVEL - error).all()


def test_a_whole_that_may_be_nothing_leaves_every_share() -> None:
    tree, noise = TREES[0], NOISES[0]
    found = Noisy.from_cells(tree, np.array([[0.0, 1, 0, 0, 1, 0], [-9, -9, -9, -9, -9, -9]]), None)
    low, high = share_ends(found, noise, LEVEL)
    assert (low[:, :-1] == 0).all()
    assert (high == 1).all()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_published_counts_are_valid_whatever_is_drawn(tree: Tree) -> None:
    pick = np.random.default_rng(4)
    drawn = np.vstack(
        [
            pick.integers(-50, 50, (200, tree.cells)),
            np.full((1, tree.cells), -(2**60)),
            np.full((1, tree.cells), 2**60),
        ]
    )
    found = fitted_bins(Noisy.from_cells(tree, drawn, 30 if tree.known else None), 60)
    assert all(isinstance(v, int) and v >= 0 for v in found.ravel().tolist())
    sums = found.sum(axis=1)
    assert (sums == 30).all() if tree.known else (sums <= 60).all()
    exact = np.array([[5] * tree.bins], dtype=object)
    rows = int(exact.sum()) if tree.known else None
    whole = fitted_bins(Noisy.from_cells(tree, level_sums(exact, tree.widths), rows), 60)
    assert whole.tolist() == exact.tolist()
