"""Quotients of fitted cells: coverage by enumeration, tiny denominators included, and what less would cover."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting import quotient
from dprelease.fitting.estimate import ONE
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.quotient import (
    classes_of,
    critical_values,
    ends_of_quotient,
    middle_of_quotient,
)
from dprelease.fitting.structure import nested
from dprelease.intervals.law import half_width
from dprelease.intervals.noise import Gaussian, Laplace, Term
from tests.fitting.small import NOISES, UNEVEN, tree
from tests.intervals.test_noise import law
from tests.sizes import some

LOW, HIGH = -3, 6
LAWS = {
    "laplace": (Laplace(Fraction(1, 4)), Laplace(Fraction(4, 5))),
    "gaussian": (Gaussian(40), Gaussian(3)),
    "mixed, tiny": (Gaussian(9), Laplace(Fraction(2))),
}


def outcomes(noise):
    d, p = law(noise)
    keep = p > 1e-5
    return list(zip(d[keep].tolist(), p[keep].tolist(), strict=True))


def pair(count, noises):
    """Estimators of a sum and a count in `count` independent trees of one root and one leaf."""
    structure = nested({"all": np.arange(count), "part": np.arange(count)})
    top, bottom = noises
    return (
        estimator(structure, {"all": None, "part": top}),
        estimator(structure, {"all": bottom, "part": bottom}),
    )


@cache
def every(noises, truth):  # about 10^4 outcomes
    """Return estimates of all outcomes of the draws, their chances, and the critical values."""
    s, c = truth
    drawn = list(itertools.product(outcomes(noises[0]), *[outcomes(noises[1])] * 2))
    drawn = [each for each in drawn if each[0][1] * each[1][1] * each[2][1] > 2e-7]
    chance = np.array([a[1] * b[1] * d[1] for a, b, d in drawn])
    assert chance.sum() > 0.997  # what is left out counts as missed
    top, bottom = pair(len(drawn), noises)
    tops = top.estimates({"part": [s + a[0] for a, _, _ in drawn]}, {})
    bottoms = bottom.estimates(
        {"all": [c + b[0] for _, b, _ in drawn], "part": [c + d[0] for _, _, d in drawn]}, {}
    )
    critical = critical_values(*pair(1, noises), "part", LOW, HIGH)
    return tops, bottoms, chance, critical


def coverage(found, truth, factor=Fraction(1)):
    tops, bottoms, chance, critical = found
    cells = tuple(tuple(r * factor for r in of) for of in critical.cells)
    low, high = ends_of_quotient(
        replace(critical, cells=cells),
        np.zeros(chance.size, dtype=int),
        tops.values["part"],
        bottoms.values["part"],
        (tops.slack, bottoms.slack),
    )
    assert (low >= LOW).all() and (high <= HIGH).all() and (low <= high).all()
    exact = truth[0] / truth[1]
    return float(chance[(low <= exact) & (exact <= high)].sum())


TRUTHS = [(1, 1), (-3, 1), (12, 2), (9, 5), (140, 40)]


@pytest.mark.parametrize(("truth", "name"), some(itertools.product(TRUTHS, LAWS), 4))
def test_coverage_by_enumeration(name, truth):
    assert coverage(every(LAWS[name], truth), truth) >= 0.95


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("truth", some([(140, 40), (9, 5), (0, 3)], 2))
@pytest.mark.parametrize("within", [(0.5, 1.0), (2.0, 3.0)])
def test_the_nearest_value_of_a_narrower_domain_is_covered_and_no_interval_is_a_point(
    name, truth, within
):
    tops, bottoms, chance, critical = every(LAWS[name], truth)
    both = tops.values["part"], bottoms.values["part"]
    slack = tops.slack, bottoms.slack
    low, high = ends_of_quotient(critical, np.zeros(chance.size, dtype=int), *both, slack, within)
    exact = min(max(truth[0] / truth[1], within[0]), within[1])
    assert chance[(low <= exact) & (exact <= high)].sum() >= 0.95
    assert (low >= within[0]).all() and (high <= within[1]).all()
    assert (low < high).all()


def test_cells_that_get_finer_towards_the_low_end():
    """They cover alike, and in a range far wider than the value their intervals are shorter."""
    noises, lengths = LAWS["laplace"], {}
    bent = {b: critical_values(*pair(1, noises), "part", 0, 64, bend=b) for b in (1, 4)}
    for critical in bent.values():
        edges = critical.edges
        assert (edges[0], edges[-1], len(edges)) == (0, 64, 65)
    for truth in some([(0, 1), (1, 1), (12, 2), (140, 40), (60, 1)], 3):
        tops, bottoms, chance, _ = every(noises, truth)
        both = tops.values["part"], bottoms.values["part"]
        for bend, critical in bent.items():
            slack = tops.slack, bottoms.slack
            low, high = ends_of_quotient(critical, np.zeros(chance.size, dtype=int), *both, slack)
            exact = truth[0] / truth[1]
            assert chance[(low <= exact) & (exact <= high)].sum() >= 0.95, (bend, truth)
            lengths[bend, truth] = float(chance @ (high - low))
    assert lengths[4, (140, 40)] < 0.95 * lengths[1, (140, 40)]


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_a_tenth_too_short_does_not_cover(name):
    truth = (1400, 400)
    found = every(LAWS[name], truth)
    assert 0.95 <= coverage(found, truth) < 0.97
    assert coverage(found, truth, Fraction(9, 10)) < 0.95


@pytest.mark.parametrize("name", some(LAWS, 2))
@pytest.mark.parametrize("truth", some([(140, 40), (9, 5)], 2))
def test_the_estimate_is_median_unbiased_up_to_its_atoms_and_what_says_nothing(name, truth):
    tops, bottoms, chance, critical = every(LAWS[name], truth)
    middle = middle_of_quotient(critical, tops.values["part"], bottoms.values["part"])
    exact = truth[0] / truth[1]
    below, above = chance[middle < exact].sum(), chance[middle > exact].sum()
    left = chance[np.isnan(middle)].sum()
    assert below <= 0.5 + 1e-3 and above <= 0.5 + 3e-3
    assert abs(below - above) <= left + 3e-3


def test_no_more_than_a_twentieth_longer_than_the_exact_quantile():
    structure = tree()
    tops = {"nation": Laplace(Fraction(1, 30)), "region": Laplace(Fraction(1, 40))}
    tops["leaf"] = Laplace(Fraction(1, 50))
    top, bottom = estimator(structure, tops), estimator(structure, NOISES)
    for name in some(("nation", "region", "leaf"), 2):
        critical = critical_values(top, bottom, name, 0, 10)
        classes = classes_of(top, bottom, name)
        assert len(critical.cells) == classes.max() + 1
        cell = int(np.flatnonzero(classes == 0)[0])
        for k in (0, 31, 63):
            middle = Fraction(10 * (2 * k + 1), 128)
            terms = [*top.terms(name, cell)]
            terms += [Term(n, d, -middle * w) for n, d, w in bottom.terms(name, cell)]
            exact = half_width(terms)
            assert exact <= critical.cells[0][k] <= Fraction(105, 100) * exact


def test_many_kinds_of_cells_are_bounded_apart_or_refused(monkeypatch):
    noises = LAWS["laplace"]
    truth = (140, 40)
    monkeypatch.setattr(quotient, "_JOINT", 0)
    found = (*every(noises, truth)[:3], critical_values(*pair(1, noises), "part", LOW, HIGH))
    assert len(found[3].cells[0]) == 8
    assert coverage(found, truth) >= 0.95
    top, bottom = estimator(nested(UNEVEN), NOISES), estimator(nested(UNEVEN), NOISES)
    monkeypatch.setattr(quotient, "MOST", 2)
    with pytest.raises(PlanError, match="need 3 different error laws") as caught:
        critical_values(top, bottom, "leaf", 0, 1)
    assert caught.value.code == "DPR286"


def test_no_denominator_leaves_the_whole_range_and_no_noise_a_point():
    top, bottom = pair(1, LAWS["gaussian"])
    critical = critical_values(top, bottom, "part", LOW, HIGH)
    s = [0, 900 * ONE, -900 * ONE, 900 * ONE, 900 * ONE, -900 * ONE, 5000 * ONE]
    c = [0, 0, -20 * ONE, ONE, 50 * ONE, 50 * ONE, 500 * ONE]
    none = Fraction(0), Fraction(0)
    low, high = ends_of_quotient(critical, np.zeros(7, dtype=int), s, c, none)
    assert (low[:4] == LOW).all() and (high[:4] == HIGH).all()
    far = [float(critical.cells[0][k]) for k in (-1, 0)]
    assert (high[4], low[5]) == (HIGH, LOW)
    assert 0 < HIGH - low[4] <= 1.05 * far[0] / 50 and 0 < high[5] - LOW <= 1.05 * far[1] / 50
    assert high[6] == HIGH and low[6] < HIGH
