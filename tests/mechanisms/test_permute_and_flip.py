"""What permute-and-flip gains and costs: the figures of `docs/theory/certificates.md#permute-and-flip`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprelease.budget.exact_rho import rho_of_pure
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.permute_and_flip import PermuteAndFlip

REPLACED, MOVED = 4, 2  # spreads of a median's scores, in halves of a row
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def weights(scores: Any, spread: int, epsilon: Fraction) -> Any:
    law = ScoreLaw.calibrate(len(scores), spread=spread, epsilon=epsilon)
    found = law.weights(np.append(scores - scores.min(), 0))
    return np.array([int(w) / int(found[-1]) for w in found[:-1]])


def chosen(v: Any) -> Any:
    """Return v_y times the integral of the product of 1 - t v_z over the other candidates."""
    t = (NODES + 1) / 2
    logs = np.log1p(-np.outer(t, v))
    whole = logs.sum(axis=1, keepdims=True)
    return v * (WEIGHTS / 2 @ np.exp(whole - logs))


def errors(rows: int, top: int, mean: float, spread: int) -> tuple[float, float, float]:
    """Return the mean |error| of a median: exponential, permute-and-flip, exponential of its rho."""
    spaced = stats.gamma(4, scale=mean / 4).ppf((np.arange(rows) + 0.5) / rows)
    table, points = np.clip(np.rint(spaced), 0, top), np.arange(top + 1)
    below, upto = (np.searchsorted(table, points, side) for side in ("left", "right"))
    scores = np.maximum(0, np.maximum(2 * below - rows, rows - 2 * upto))
    away = np.abs(points - np.median(table))
    v = weights(scores, spread, Fraction(1))
    as_dear = Fraction(round(math.sqrt(8 * rho_of_pure(Fraction(1))) * 2**20), 2**20)
    dear = weights(scores, spread, as_dear)
    return (
        float(away @ v / v.sum()),
        float(away @ chosen(v)),
        float(away @ dear / dear.sum()),
    )


@pytest.mark.parametrize(
    ("table", "ratio"),
    [
        ((300, 110, 40, REPLACED), 1.25),
        ((300, 110, 40, MOVED), 1.46),
        ((30, 110, 40, REPLACED), 1.04),
        ((10, 110, 40, REPLACED), 1.01),
        ((1000, 499, 120, REPLACED), 1.45),
    ],
)
def test_it_errs_less_at_the_same_epsilon_by_the_figures_that_are_stated(
    table: tuple[int, int, int, int], ratio: float
) -> None:
    exponential, flips, _ = errors(*table)
    assert round(exponential / flips, 2) == ratio


def test_at_the_same_rho_the_exponential_mechanism_errs_less() -> None:
    assert [round(e, 2) for e in errors(300, 110, 40, REPLACED)] == [0.43, 0.34, 0.28]


@pytest.mark.parametrize(("epsilon", "stated"), [("1/10", 0.48), ("1", 0.33), ("2", 0.24)])
def test_two_candidates_in_reversed_order_diverge_as_stated(epsilon: str, stated: float) -> None:
    law = PermuteAndFlip.for_scores(2, spread=2, epsilon=Fraction(epsilon))
    one, two = (np.array([float(p) for p in law.pmf(s)]) for s in ([0, 1], [1, 0]))
    found = [
        float(np.log((one**a * two ** (1 - a)).sum())) / (a - 1) / a
        for a in (1.0001, 1.01, 1.1, 1.5, 2.0, 4.0)
    ]
    assert round(max(found) / float(Fraction(epsilon)) ** 2, 2) == stated


def test_the_quadrature_is_the_law_of_a_few_candidates() -> None:
    scores = np.array([3, 0, 1, 7])
    law = PermuteAndFlip.for_scores(4, spread=2, epsilon=Fraction(1))
    assert np.allclose(chosen(weights(scores, 2, Fraction(1))), [float(p) for p in law.pmf(scores)])
