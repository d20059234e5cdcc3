"""Weighted least squares on nested tables, beside dense linear algebra."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting.estimate import ONE
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.structure import nested
from dprelease.intervals.noise import Laplace
from tests.fitting.small import NOISES, UNEVEN, least_squares, matrix, noisy_of, tree

MEASURED = [("nation", "region", "leaf"), ("nation", "leaf"), ("region", "leaf"), ("leaf",)]


def only(names):
    return {name: noise if name in names else None for name, noise in NOISES.items()}


@pytest.mark.parametrize("names", MEASURED)
def test_the_fit_of_a_tree_is_weighted_least_squares(names):
    structure, noises = tree(), only(names)
    made = estimator(structure, noises)
    noisy = noisy_of(structure, noises, np.random.default_rng(5))
    x, covariance = least_squares(structure, noises, noisy)
    found = made.estimates(noisy, {})
    for table in structure.tables:
        sums = matrix(table)
        values = np.array(found.values[table.name]) / ONE
        assert values == pytest.approx(sums @ x, abs=1e-8)
        assert made.variance(table.name) == pytest.approx(np.diag(sums @ covariance @ sums.T))


def by_draws(structure, made, noises, table, cell):
    """Return {(table, weight): draws} of one cell, from how it answers to single units."""
    found = {}
    for source in structure.tables:
        if noises.get(source.name) is None:
            continue
        for k in range(source.cells):
            noisy = {
                t.name: [2**40 * (t is source and k == c) for c in range(t.cells)]
                for t in structure.tables
            }
            moved = made.estimates(noisy, {}).values[table][cell] / ONE / 2**40
            if abs(moved) > 1e-12:
                key = source.name, round(moved, 9)
                found[key] = found.get(key, 0) + 1
    return found


def by_terms(structure, made, noises, table, cell):
    names = {noise: name for name, noise in noises.items()}
    out = {}
    for term in made.terms(table, cell):
        key = names[term.noise], round(float(term.weight), 9)
        out[key] = out.get(key, 0) + term.draws
    return out


def test_terms_are_the_coefficients():
    structure = tree()
    made = estimator(structure, NOISES)
    for table, cell in (("nation", 0), ("region", 1), ("leaf", 0), ("leaf", 6), ("leaf", 11)):
        drawn = by_draws(structure, made, NOISES, table, cell)
        assert by_terms(structure, made, NOISES, table, cell) == drawn
        variance = sum(t.noise.variance() * t.draws * t.weight**2 for t in made.terms(table, cell))
        assert float(variance) == pytest.approx(made.variance(table)[cell])


def test_cells_of_one_class_have_the_same_terms():
    made = estimator(tree(), NOISES)
    classes = made.classes("leaf").tolist()
    assert len(set(classes)) == 3
    terms = [made.terms("leaf", cell) for cell in range(12)]
    assert all(
        (terms[i] == terms[j]) == (classes[i] == classes[j]) for i in range(12) for j in range(12)
    )


def test_public_totals_hold():
    structure = tree()
    made = estimator(structure, {**NOISES, "region": None}, ["region"])
    noisy = noisy_of(structure, NOISES, np.random.default_rng(6))
    found = made.estimates(noisy, {"region": [100, 50, 7]})
    assert found.values["region"] == [100 * ONE, 50 * ONE, 7 * ONE]
    assert made.variance("region").tolist() == [0, 0, 0]
    leaves = np.array(found.values["leaf"]) / ONE
    sums = np.bincount(UNEVEN["region"], leaves)
    assert sums == pytest.approx([100, 50, 7], abs=1e-6)
    share = leaves[:5] - noisy["leaf"][:5]
    assert share == pytest.approx([share[0]] * 5, abs=1e-6)  # equal variances: equal parts
    assert made.variance("leaf")[0] == pytest.approx(float(NOISES["leaf"].variance()) * 4 / 5)


def test_structural_zeros_are_0_and_lend_their_noise_to_nobody():
    structure = tree(zeros=np.arange(12) < 4)
    made = estimator(structure, NOISES)
    noisy = noisy_of(structure, NOISES, np.random.default_rng(6))
    moved = {**noisy, "leaf": [999] * 4 + noisy["leaf"][4:]}
    found = made.estimates(noisy, {})
    assert found.values["leaf"][:4] == [0] * 4
    assert found == made.estimates(moved, {})
    assert made.variance("leaf")[:4].tolist() == [0] * 4


def test_integers_of_any_size_are_estimated_exactly():
    made = estimator(tree(), {"leaf": Laplace(Fraction(1, 5))})
    found = made.estimates({"leaf": [2**90 + k for k in range(12)]}, {})
    assert found.values["nation"] == [(12 * 2**90 + 66) * ONE]


def test_the_finest_table_must_be_measured():
    with pytest.raises(PlanError) as found:
        estimator(tree(), only(("nation", "region")))
    assert found.value.code == "DPR280"


def test_an_uneven_tree_of_many_leaves_is_quick():
    rng = np.random.default_rng(1)
    district = np.sort(np.concatenate([np.arange(300), rng.integers(0, 300, 9700)]))
    structure = nested({"district": district, "leaf": np.arange(10_000)})
    made = estimator(structure, {"district": NOISES["region"], "leaf": NOISES["leaf"]})
    noisy = noisy_of(structure, {"district": 1, "leaf": 1}, rng)
    values = np.array(made.estimates(noisy, {}).values["leaf"], dtype=float) / ONE
    sums = np.array(made.estimates(noisy, {}).values["district"], dtype=float) / ONE
    assert np.bincount(district, values) == pytest.approx(sums, abs=1e-4)
