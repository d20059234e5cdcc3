"""The table of goals says what its run shows, and its float prototypes are the published methods."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from tests.benchmarks.test_scripts import load


def test_what_is_offered_is_found_out_by_asking() -> None:
    goals = load("goals")
    assert goals.offered("mean(x)", "median(x)")
    assert not goals.offered("no_such_statistic(x)")
    assert not goals.offered({"statistic": "mean(x)", "no_such_option": 1})


def test_prices_under_zcdp_are_kept_and_a_higher_goal_would_not_be() -> None:
    goals = load("goals")
    found = list(goals.zcdp())
    assert len(found) == 6
    assert all(g.kept for g in found)
    lines = goals.lines([*found, goals.Goal("1", "what", "2", "3", kept=False)])
    assert lines[0] == "6 of 7 goals are kept."
    assert [line.endswith("| no |") for line in lines].count(True) == 1
    again = goals.lines([goals.Goal("1", "what", "2", "1", kept=True)], "\n".join(lines))
    assert again[0] == "7 of 7 goals are kept."
    assert len(again) == len(lines)


@pytest.mark.parametrize(
    ("ratio", "kind", "kept"),
    [(1.10, "", True), (1.11, "", False), (1.11, "loss", False), (1.31, "few rows", True)],
)
def test_a_ratio_or_a_computed_reason_decides_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, ratio: float, kind: str, kept: bool
) -> None:
    goals = load("goals")
    forms = goals.beside("best_forms")
    row = forms.Compared((), ratio, 2.0, 0.98, kind, f"{kind}: 1.05 of the bound" if kind else "")
    monkeypatch.setattr(forms, "compared", lambda *_: row)
    found = list(goals.shares(1))
    assert {g.kept for g in found} == {kept}
    assert found[0].measured.startswith(f"{ratio:.2f} (2.00), over the best known form 0.98")
    assert found[0].measured.endswith("of the bound") == bool(kind)


def test_the_prototype_of_recursive_quantiles_finds_them_without_noise_and_misses_with_it() -> None:
    floats, script = load("prototypes"), load("quantiles")
    x = np.random.default_rng(1).uniform(0, 1, 999)
    shares = [i / 8 for i in range(1, 8)]
    for epsilon, most, least in ((1e5, 1.0, 0.0), (0.5, 60.0, 3.0)):
        out = floats.recursive_quantiles(x, shares, (0.0, 1.0), epsilon, 40, 2)
        assert (np.diff(out, axis=1) >= 0).all()
        found = np.mean([script.missed(x, out[:, i], s) for i, s in enumerate(shares)])
        assert least <= found <= most


def test_the_prototype_of_joint_quantiles_has_the_law_of_the_paper() -> None:
    """Two quantiles of three rows: chances of all pairs of stretches, weighed one by one."""
    floats = load("prototypes")
    x, shares, ends, epsilon, draws = np.array([2.0, 3.0, 7.0]), [0.25, 0.6], (0.0, 10.0), 2.0, 3000
    cuts = [0.0, 2.0, 3.0, 7.0, 10.0]
    wanted = np.diff([0, *shares, 1]) * 3
    rate = epsilon / (4 * (1 - wanted.min() / 3))

    def weight(i: int, j: int) -> float:
        room = (cuts[i + 1] - cuts[i]) * (cuts[j + 1] - cuts[j]) / (2 if i == j else 1)
        counts = np.array([i, j - i, 3 - j])
        return float(room * math.exp(-rate * np.abs(counts - wanted).sum()))

    pairs = [(i, j) for i, j in itertools.product(range(4), repeat=2) if i <= j]
    chance = np.array([weight(i, j) for i, j in pairs])
    chance /= chance.sum()
    out = floats.joint_quantiles(x, shares, ends, epsilon, draws, 1)
    assert (np.diff(out, axis=1) >= 0).all()
    seen = Counter(map(tuple, (np.searchsorted(cuts, out) - 1).tolist()))
    counts = np.array([seen[p] for p in pairs])
    assert counts.sum() == draws

    def surprise(expected: np.ndarray) -> float:
        score = ((counts - draws * expected) ** 2 / (draws * expected)).sum()
        return float(chi2.sf(score, len(pairs) - 1))

    assert surprise(chance) > 1e-6
    twin = np.array([weight(i, j) * (2 if i == j else 1) for i, j in pairs])  # both orders counted
    assert surprise(twin / twin.sum()) < 1e-6


def test_a_tree_of_counts_has_the_variance_of_its_least_squares() -> None:
    floats = load("prototypes")
    assert floats.prefix_variance(4, 1.0, 1) == pytest.approx(2.5 * 2)
    # Four bins under two halves, every count of variance v: (2/3, 4/3 ...) by hand from the normal equations.
    v = 2 * 2.0**2
    gram = np.eye(4) + np.kron(np.eye(2), np.ones((2, 2)))
    spread = v * np.linalg.inv(gram)
    sums = [spread[:k, :k].sum() for k in range(1, 5)]
    assert floats.prefix_variance(4, 1.0, 2) == pytest.approx(np.mean(sums))


def test_weighted_counts_are_the_best_of_all_weights_of_one_sum() -> None:
    """Three bins and one weighted sum of them: the descent finds what a search of all weights finds."""
    floats = load("prototypes")
    some = np.linspace(0, 2, 31)
    weights = np.stack(np.meshgrid(some, some, some), axis=-1).reshape(-1, 1, 3)
    rows = np.concatenate([np.tile(np.eye(3), (len(weights), 1, 1)), weights], axis=1)
    rows /= rows.sum(axis=1, keepdims=True)  # a row of the table moves all counts by 1 together
    spread = np.linalg.inv(np.swapaxes(rows, 1, 2) @ rows)
    sums = np.tri(3)
    found = np.einsum("ij,njk,ik->n", sums, spread, sums)
    best = math.sqrt(6 / found.min())
    assert best == pytest.approx(1.0)  # so few bins are best by themselves
    assert 0.999 <= floats.weighted_counts(3, hats=1) <= 1 + 1e-9
    tree = (floats.prefix_variance(64, 1.0, 1) / floats.prefix_variance(64, 1.0, 8)) ** 0.5
    assert 1.05 * tree < floats.weighted_counts(64) < 1.25 * tree
