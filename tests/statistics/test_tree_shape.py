"""Trees over bins against dense algebra: variances, weights, sums of runs, and which tree is taken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprelease.statistics.tree_shape import Tree, best_tree, level_sums

TREES = (
    Tree(1, (1,)), Tree(7, (3, 1)), Tree(13, (6, 2, 1)), Tree(13, (4, 1), known=True),
    Tree(16, (8, 4, 2, 1)), Tree(10, (9, 3, 1), known=True),
)  # fmt: skip


def dense(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and the covariance of all prefixes, by inverting the normal equations."""
    runs = np.array(
        [[first <= i < after for i in range(tree.bins)] for _, first, after in tree.parts()]
    )
    runs, n = runs.astype(float), tree.bins
    normal = runs.T @ runs
    if tree.known:  # the sum is an equality: a Lagrange multiplier
        ones = np.ones((n, 1))
        normal = np.block([[normal, ones], [ones.T, np.zeros((1, 1))]])
    spread = np.linalg.inv(normal)[:n, :n]
    prefix = np.tri(n)
    return prefix @ spread @ runs.T, prefix @ spread @ prefix.T


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_variances_and_weights_are_those_of_dense_algebra(tree: Tree) -> None:
    weights, spread = dense(tree)
    own, with_sum, whole = tree.variances()
    assert np.allclose(tree.weights(), weights, atol=1e-10)
    assert np.allclose(own, np.diag(spread), atol=1e-10)
    assert np.allclose(with_sum, spread[:, -1], atol=1e-10)
    assert whole == pytest.approx(spread[-1, -1], abs=1e-10)
    t = np.arange(1, tree.bins + 1) / tree.bins
    form = np.eye(tree.bins)
    form[:, -1] -= t
    assert np.allclose(tree.shares(), np.diag(form @ spread @ form.T), atol=1e-10)


def test_sums_of_runs_are_those_of_slices() -> None:
    bins = np.arange(20, dtype=object).reshape(2, 10) ** 3
    for widths in ((1,), (4, 2, 1), (9, 3, 1), (6, 1)):
        tree = Tree(10, widths)
        wanted = [[sum(row[a:b]) for _, a, b in tree.parts()] for row in bins.tolist()]
        assert level_sums(bins, widths).tolist() == wanted
        assert tree.cells == len(wanted[0])


@pytest.mark.parametrize(
    ("bins", "widths"),
    [(4, (2,)), (4, ()), (4, (3, 2, 1)), (4, (1, 1)), (4, (8, 1)), (0, (1,)), (4, (2, -2, 1))],
)
def test_what_is_not_a_tree_is_none(bins: int, widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="tree"):
        Tree(bins, widths)


@pytest.mark.parametrize(("gaussian", "power"), [(False, 2), (True, 1)])
@pytest.mark.parametrize("known", [False, True])
def test_no_tree_of_two_levels_is_better_than_the_one_that_is_taken(
    gaussian: bool, power: int, known: bool
) -> None:
    best = best_tree(40, known=known, gaussian=gaussian, shares=False)
    least = best.variances()[0].mean() * len(best.widths) ** power
    for width in (w for w in range(2, 17)):
        other = Tree(40, (width, 1), known)
        assert least <= other.variances()[0].mean() * 2**power * (1 + 1e-12)
    assert least <= Tree(40, (1,), known).variances()[0].mean()


def test_the_gain_grows_with_the_bins() -> None:
    """The root mean square error of prefixes from bins alone, over that of the tree, at one pure loss."""
    gains = []
    for bins in (64, 256, 1024):
        best = best_tree(bins, known=False, gaussian=False, shares=False)
        flat = Tree(bins, (1,)).variances()[0].mean()
        gains.append((flat / (best.variances()[0].mean() * len(best.widths) ** 2)) ** 0.5)
    assert gains == pytest.approx([1.385, 1.920, 2.949], abs=1e-3)


def test_few_bins_stay_alone() -> None:
    for bins, shares in itertools.product((1, 2, 3, 5, 8), (False, True)):
        assert best_tree(bins, known=False, gaussian=False, shares=shares).widths == (1,)
