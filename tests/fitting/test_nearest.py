"""The published point: valid for every outcome, parents first, margins near their estimates."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.certificate import gaps, violations
from dprelease.fitting.estimate import ONE
from dprelease.fitting.feasible import check_pair, feasible
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.nearest import SumBounds, nearest
from dprelease.fitting.structure import nested
from dprelease.intervals.noise import Gaussian, Laplace
from tests.fitting.small import NOISES, cube, noisy_of, tree
from tests.sizes import whole

CROSS = {name: Laplace(Fraction(1, 6)) for name in ("a", "b", "ab", "y", "all")}
GAP = ((0, 0), (10, 500))
OUTCOMES = whole(4, 600)
"""At full size four minutes on idle cores: noise far beyond a domain with gaps takes up to a second. 10,000 took an hour."""


class Fitted:
    """Everything of one statistic."""

    def __init__(self, structure, noises, domains, totals=None):
        self.structure, self.domains, self.totals = structure, domains, totals or {}
        self.feasible = feasible(structure, domains, self.totals)
        self.estimator = estimator(structure, noises, tuple(self.totals))
        self.variances = {t.name: self.estimator.variance(t.name) for t in structure.tables}

    def fit(self, noisy):
        self.estimates = self.estimator.estimates(noisy, self.totals)
        return nearest(self.structure, self.feasible, self.estimates, self.variances)

    def broken(self, values):
        return violations(self.structure, self.domains, self.totals, values)

    def gaps(self, fit):
        return gaps(
            self.structure, self.feasible.sets, self.estimates.values,
            self.variances, fit.values, fit.proof,
        )  # fmt: skip


CASES = {
    "tree": (tree(), NOISES, dict.fromkeys(NOISES, ((0, 10**6),)), {}),
    "gaps": (tree(), NOISES, {"leaf": GAP, "region": GAP, "nation": GAP}, {}),
    "narrow": (tree(), NOISES, {"leaf": ((0, 0), (10, 12)), "nation": ((0, 60), (100, 144))}, {}),
    "totals": (tree(), {**NOISES, "region": None}, {"leaf": GAP}, {"region": [60, 0, 41]}),
    "zeros": (tree(np.arange(12) % 3 == 0), NOISES, {"leaf": GAP}, {}),
    "negative": (tree(), NOISES, {"leaf": ((-40, -7), (0, 40))}, {}),
    "cross": (cube(), CROSS, {"all": ((0, 500),), "b": ((0, 900),)}, {}),
    "gapped cross": (cube(), CROSS, {"all": GAP, "ab": GAP, "b": GAP}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_outcome_ends_in_a_valid_point_with_its_certificate(name, evidence):
    case = Fitted(*CASES[name])
    rng = np.random.default_rng(5)
    for k in range(OUTCOMES):
        scale = (2, 30, 10**6, 2**50)[k % 4]
        noisy = {
            name: [int(v) * scale for v in rng.integers(-4, 9, len(values))]
            for name, values in noisy_of(case.structure, NOISES | CROSS, rng).items()
        }
        fit = case.fit(noisy)
        assert case.broken(fit.values) == []
        found = case.gaps(fit)
        assert all(value >= 0 for value in found.values())
        if name == "tree" and scale < 2**50:
            assert set(found.values()) == {0}
        assert json.loads(json.dumps(fit.proof)) == fit.proof
    evidence(f"fitting: {name}", f"{OUTCOMES} outcomes", "0 violations, every bound at least 0")


def test_a_twin_that_rounds_every_cell_alone_breaks_additivity():
    case = Fitted(*CASES["tree"])
    case.fit(noisy_of(case.structure, NOISES, np.random.default_rng(1)))
    alone = {
        name: [max(0, round(v / ONE)) for v in values]
        for name, values in case.estimates.values.items()
    }
    assert any("is not the sum of its parts" in line for line in case.broken(alone))


def test_the_root_keeps_its_own_estimate_where_leaves_are_mostly_noise():
    """500 over 300 leaves: nearest over all cells at once would bias the root."""
    structure = nested({"all": np.zeros(300, dtype=int), "leaf": np.arange(300)})
    noise = Laplace(Fraction(1, 3))
    case = Fitted(structure, {"all": noise, "leaf": noise}, {"leaf": ((0, 10**6),)})
    rng = np.random.default_rng(2)
    truth = np.bincount(rng.integers(0, 300, 500), minlength=300)
    errors, leaves = [], []
    for _ in range(40):
        drawn = rng.geometric(1 - np.exp(-1 / 3), (2, 301))
        noisy = np.append(truth, 500) + drawn[0] - drawn[1]
        fit = case.fit({"leaf": noisy[:300].tolist(), "all": [int(noisy[300])]})
        errors.append(fit.values["all"][0] - 500)
        leaves.append(sum(max(0, x) for x in noisy[:300].tolist()) - 500)
    assert np.sqrt(np.mean(np.square(errors))) < 1.5 * float(noise.variance()) ** 0.5
    assert np.mean(leaves) > 200  # the twin: every leaf cut at 0 by itself


def test_margins_follow_their_own_estimates():
    case = Fitted(*CASES["cross"])
    rng = np.random.default_rng(9)
    truth = rng.poisson(3, case.structure.n)
    off = {"a": [], "y": []}
    for _ in range(15):
        noisy = {
            t.name: (
                np.bincount(t.of, truth, minlength=t.cells).astype(int)
                + np.round(rng.laplace(0, 6, t.cells)).astype(int)
            ).tolist()
            for t in case.structure.tables
        }
        fit = case.fit(noisy)
        for name, found in off.items():
            aim = np.array(case.estimates.values[name]) / ONE
            found += (np.array(fit.values[name]) - aim).tolist()
    for name, found in off.items():
        typical = float(np.max(case.variances[name])) ** 0.5
        assert np.sqrt(np.mean(np.square(found))) < 0.5 * typical


def test_sums_fit_their_counts():
    structure = tree()
    counts = Fitted(structure, NOISES, {"leaf": GAP})
    sums = feasible(structure, {"leaf": ((-5000, 6000),)})
    for low, high in ((-2, 7), (3, 7), (-7, -3)):
        check_pair(structure, counts.feasible, sums, min(low, 0), max(high, 0))
        rng = np.random.default_rng(4)
        for _ in range(20):
            count = counts.fit(noisy_of(structure, NOISES, rng)).values
            estimates = counts.estimator.estimates(noisy_of(structure, NOISES, rng), {})
            fit = nearest(
                structure, sums, estimates, counts.variances, sum_bounds=SumBounds(count, low, high)
            )
            found = violations(structure, {}, {}, fit.values, counts=count, between=(low, high))
            assert found == []


def test_equal_input_gives_equal_bytes():
    case = Fitted(*CASES["gapped cross"])
    noisy = noisy_of(case.structure, CROSS, np.random.default_rng(3))
    assert case.fit(noisy) == case.fit(noisy)


def test_discrete_gaussian_noise_is_fitted_alike():
    case = Fitted(tree(), {"region": Gaussian(900), "leaf": Gaussian(900)}, {"leaf": GAP})
    noisy = noisy_of(case.structure, {"region": 1, "leaf": 1}, np.random.default_rng(3))
    assert case.broken(case.fit(noisy).values) == []
