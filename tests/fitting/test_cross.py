"""Weighted least squares on cross-tabulations, beside dense linear algebra."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.estimate import ONE
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.structure import Dimension, crossed
from dprelease.intervals.noise import Gaussian, Laplace
from tests.fitting.small import cube, even, least_squares, matrix, noisy_of, plain, tree
from tests.fitting.test_tree import by_draws, by_terms

NOISES = {
    "a": Laplace(Fraction(1, 3)),
    "b": Gaussian(9),
    "ab": Laplace(Fraction(1, 5)),
    "y": Gaussian(4),
    "all": Laplace(Fraction(1, 4)),
}
UNEVEN = crossed(
    [plain(2), Dimension((np.array([0, 0, 0, 1, 1, 2]), np.arange(6)))],
    {"a": (1, 0), "b": (0, 1), "ab": (1, 1), "y": (0, 2), "all": (1, 2)},
)


@pytest.mark.parametrize("missing", [(), ("a",), ("ab", "y"), ("a", "b", "ab", "y")])
def test_the_fit_of_a_cross_is_weighted_least_squares(missing):
    structure = cube()
    noises = {name: None if name in missing else noise for name, noise in NOISES.items()}
    made = estimator(structure, noises)
    noisy = noisy_of(structure, noises, np.random.default_rng(3))
    x, covariance = least_squares(structure, noises, noisy)
    found = made.estimates(noisy, {})
    for table in structure.tables:
        sums = matrix(table)
        assert np.array(found.values[table.name]) / ONE == pytest.approx(sums @ x, abs=1e-8)
        assert made.variance(table.name) == pytest.approx(np.diag(sums @ covariance @ sums.T))


@pytest.mark.parametrize("structure", [cube(), UNEVEN])
def test_terms_are_the_coefficients(structure):
    made = estimator(structure, NOISES)
    for table, cell in (("a", 1), ("y", 0), ("ab", 5), ("all", 2), ("all", 7)):
        drawn = by_draws(structure, made, NOISES, table, cell)
        assert by_terms(structure, made, NOISES, table, cell) == drawn


def test_an_uneven_cross_is_unbiased():
    """Without noise it gives back the exact tables."""
    made = estimator(UNEVEN, NOISES)
    x = np.random.default_rng(2).integers(0, 99, UNEVEN.n)
    exact = {t.name: (matrix(t) @ x).astype(int).tolist() for t in UNEVEN.tables}
    found = made.estimates(exact, {})
    assert found.values == {name: [v * ONE for v in values] for name, values in exact.items()}


def test_classes_of_an_uneven_cross_share_their_terms():
    made = estimator(UNEVEN, NOISES)
    for table in UNEVEN.tables:
        classes = made.classes(table.name).tolist()
        terms = [made.terms(table.name, cell) for cell in range(table.cells)]
        assert all(terms[i] == terms[classes.index(k)] for i, k in enumerate(classes))


def test_public_margins_hold():
    structure = cube()
    made = estimator(structure, {**NOISES, "a": None}, ["a"])
    noisy = noisy_of(structure, NOISES, np.random.default_rng(3))
    found = made.estimates(noisy, {"a": [30, 20, 10]})
    assert found.values["a"] == [30 * ONE, 20 * ONE, 10 * ONE]
    assert made.variance("a").tolist() == [0, 0, 0]
    assert made.variance("all").max() < estimator(structure, NOISES).variance("all").max()


def test_cells_of_structural_zeros_are_0():
    structure = crossed(
        [plain(2), plain(2)], {"a": (1, 0), "b": (0, 1), "ab": (1, 1)}, np.array([1, 1, 0, 0], bool)
    )
    made = estimator(structure, {"a": Gaussian(4), "b": Gaussian(4), "ab": Gaussian(4)})
    found = made.estimates({"a": [9, 9], "b": [4, 5], "ab": [7, 7, 4, 5]}, {})
    assert found.values["ab"][:2] == [0, 0]
    assert found.values["a"][0] == 0
    assert made.variance("ab")[:2].tolist() == [0, 0]


def test_maps_alone_are_no_cross():
    with pytest.raises(PlanError) as found:
        CrossEstimator(tree(), {"leaf": Gaussian(4)}, ())
    assert found.value.code == "DPR280"


def test_an_even_tree_is_estimated_alike_both_ways():
    structure = crossed([even(3, 4)], {"region": (1,), "leaf": (2,)})
    noises = {"region": Laplace(Fraction(1, 6)), "leaf": Laplace(Fraction(1, 3))}
    noisy = noisy_of(structure, noises, np.random.default_rng(8))
    one = estimator(structure, noises).estimates(noisy, {})
    other = CrossEstimator(structure, noises, ()).estimates(noisy, {})
    for name in one.values:
        assert np.array(one.values[name]) / ONE == pytest.approx(np.array(other.values[name]) / ONE)
