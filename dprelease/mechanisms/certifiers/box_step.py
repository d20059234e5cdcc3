"""The step of a box's grid at which its variance is within 1 % of the continuous law's.

A joint proof pays for the rounding of every side, so a coarse grid has more noise than the continuous
law; the excess falls about linearly with the step. Steps are 1, 2 or 5 times a power of ten, in
proportion to the sides' scales, refined until the law's own variance is near enough.

Units    the box's unit.
Sources  none: the excess is measured on the law that is returned, at `_PLACES` answers of every side.
Limits   the joint proof's limit on the size of a grid, which ends the search (DPR622).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw

MOST_OVER = 1.01
_PLACES = 5
_FIRST = 1 / 64  # of a scale
_REFINED = 4  # at most by this per attempt, so that the finest step tried is near the limit

Variance = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def within_a_percent(
    at: Callable[[tuple[Fraction, ...]], BoundedGaussianBoxLaw],
    hulls: tuple[tuple[float, float], ...],
    scales: tuple[float, ...],
    variance: Variance,
) -> BoundedGaussianBoxLaw:
    """Return the law `at` the first steps whose variance is near enough to the continuous `variance`.

    Raises:
        ArgumentError: the grid becomes too fine for a joint proof before that (DPR622); it says how
            near the finest one comes.
    """
    fine, over, tried = _FIRST, math.inf, ""
    while True:
        steps = tuple(round_step(s * fine) for s in scales)
        try:
            law = at(steps)
        except ArgumentError as error:
            if error.code != "DPR622":
                raise
            raise ArgumentError(
                "no step makes this box's variance 1 % above the continuous law's or less",
                why=f"the finest tried, {tried or 'none'}, has {over:.3g} times that variance",
                fix="pass a step, and read the law's `variance`; or give caps per side alone",
                code="DPR622",
            ) from None
        over = over_continuous(law, hulls, variance)
        if over <= MOST_OVER:
            return law
        tried = ", ".join(str(s) for s in steps)
        fine /= min(_REFINED, max(1.5, 1.1 * (over - 1) / (MOST_OVER - 1)))


def over_continuous(
    law: BoundedGaussianBoxLaw, hulls: tuple[tuple[float, float], ...], variance: Variance
) -> float:
    """Return the largest ratio of one coordinate's variances, over answers spread on every side."""
    most = 0.0
    for place in np.linspace(0, 1, _PLACES).tolist():
        answer = np.array([low + place * (high - low) for low, high in hulls])
        most = max(most, float((law.variance(answer) / variance(answer)).max()))
    return most


def round_step(most: float) -> Fraction:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most `most`."""
    power = Fraction(10) ** math.floor(math.log10(most))
    return max(k * power for k in (Fraction(1, 2), 1, 2, 5) if k * power <= Fraction(most))
