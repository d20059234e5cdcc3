"""The errors that `docs/theory/sensitivities-and-contribution-bounding.md` states for forms of a measurement.

Each is computed from the gradient of the statistic and the scale of the noise, in units of the range (or of
its square) over epsilon and the number of rows; the sensitivities themselves have tests of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

GRID = (np.arange(20_000) + 0.5) / 20_000


def mean_abs(*weights: float) -> float:
    """Return E|sum w_i X_i| of independent unit Laplace variables."""
    w = [abs(x) * (1 + 1e-6 * i) for i, x in enumerate(weights) if x]
    return sum(
        x * math.prod(x * x / (x * x - y * y) for j, y in enumerate(w) if j != i)
        for i, x in enumerate(w)
    )


def root_mean_square(*weights: float) -> float:
    return math.sqrt(2 * sum(w * w for w in weights))


def test_the_formula_of_mean_absolute_values_is_that_of_draws() -> None:
    draws = np.abs(np.random.default_rng(1).laplace(size=(200_000, 3)) @ [0.5, 0.2, 1.0])
    assert abs(draws.mean() - mean_abs(0.5, 0.2, 1.0)) < 5 * draws.std() / math.sqrt(draws.size)


def average(error: Callable[[float], float]) -> float:
    return float(np.mean([error(t) for t in GRID[::20]]))


def test_means_by_centred_sums_and_by_two_sums() -> None:
    def centred(t: float) -> float:
        return mean_abs(1, 1 - 2 * t)

    def two(t: float) -> float:
        return mean_abs(1 - t, t)

    assert average(centred) == pytest.approx(0.5 + math.log(2), abs=1e-4)
    assert round(average(centred), 2) == 1.19
    assert [centred(0.5), centred(0)] == pytest.approx([1, 1.5], abs=1e-5)
    assert average(lambda t: 2 * two(t)) == pytest.approx(5 / 3, abs=1e-4)
    assert [2 * two(0.5), 2 * two(0)] == pytest.approx([1.5, 2], abs=1e-5)
    assert average(two) == pytest.approx(5 / 6, abs=1e-4)
    assert average(lambda t: max(t, 1 - t)) == pytest.approx(3 / 4, abs=1e-4)


def test_ratios_by_two_sums_and_by_sums_and_differences() -> None:
    rho = 2 * GRID  # of columns in 0..1, in units of sqrt(2) / (epsilon sum b)

    def over_ratios(variance: Any) -> float:
        return round(math.sqrt(np.mean(variance) / 2), 2)

    assert over_ratios(8 * (1 + rho**2)) == 3.06
    assert over_ratios(4 * (1 + (rho - 1) ** 2)) == 1.63
    assert over_ratios(4 * (1 + rho**2)) == 2.16


def squares(tau: float, variance: float) -> tuple[float, float, float]:
    """Return the weights of noise of scale 9 K^2 on 3 K^2 n, 4 K sum t and 2 sum (2 t^2 - K^2)."""
    second = tau**2 + 4 * variance
    return 9 / 16, 9 / 8 * tau, (1.5 - 3 * second + 6 * tau**2) / 4


def bernstein(mean: float, variance: float) -> tuple[float, float, float]:
    """Return the gradient of the variance in the three Bernstein components of one row."""
    second = mean**2 + variance
    c0, c1, c2 = 1 - 2 * mean + second, 2 * (mean - second), second
    return c2 - 2 * variance, -c1 / 2 - 2 * variance, c0 - 2 * variance


def test_variances_of_a_public_number_of_rows() -> None:
    def error(tau: float) -> float:
        return 9 / 16 * mean_abs(1, 2 * tau)

    assert error(0) == 9 / 16
    assert [round(error(tau), 2) for tau in (0.5, 1)] == [0.84, 1.31]
    assert round(average(error), 2) == 0.87


def test_variances_of_a_private_number_of_rows() -> None:
    assert round(root_mean_square(*squares(0, 1 / 12)), 2) == 0.81
    assert round(root_mean_square(*(2 * w for w in bernstein(1 / 2, 1 / 12))), 2) == 1.15


def test_distances_from_the_change_that_one_row_can_make() -> None:
    means = (1 / 2, 1 / 4, 0)
    steps = [max(m, 1 - m) ** 2 for m in means]
    assert steps == [1 / 4, 9 / 16, 1]
    public = [9 / 16 * mean_abs(1, 2 * (1 - 2 * m)) / h for m, h in zip(means, steps, strict=True)]
    assert [round(x, 2) for x in public] == [2.25, 1.5, 1.31]
    assert [round(1 / h, 1) for h in steps] == [4, 1.8, 1]
    spread = [(2 * m) ** 2 / 12 for m in means]
    private = [
        mean_abs(*squares(2 * m - 1, v)) / h for m, v, h in zip(means, spread, steps, strict=True)
    ]
    assert [round(x, 1) for x in private] == [2.3, 1.8, 1.8]
    added = [
        mean_abs(*bernstein(m, v)) / max(h - v, v)
        for m, v, h in zip(means, spread, steps, strict=True)
    ]
    assert [round(x, 1) for x in added] == [2.6, 1.1, 1.0]
