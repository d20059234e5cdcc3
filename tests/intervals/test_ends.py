"""Quotients at the ends of their range and beyond, by enumeration of every draw: covered, and no interval is a point."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.intervals.quotient import ratio_interval
from tests.intervals.widths import FAMILIES
from tests.sizes import some

Floats = npt.NDArray[np.float64]

LAPLACE = [(scale, False) for scale in (1.0, 0.15, 5.0, 0.3, 0.6, 2.0, 9.0, 12.0)]
GAUSSIAN = [(scale, True) for scale in (2.0, 1.0, 9.0)]
LAWS = [*some(LAPLACE, 3), *some(GAUSSIAN, 3)]
"""The noise's scale in steps, and whether it is Gaussian; 12 is told by its closed form."""
SPANS = ((0.0, 1.0), (0.0, 0.2), (0.4, 1.0))
TABLES = ((20, 6), (0, 0), (1, 0), (1, 1), (3, 0), (3, 3), (20, 0), (20, 20))


@cache
def draws(cells: int, scale: float, gaussian: bool) -> tuple[Floats, Floats]:
    """Return all draws, `(draws, cells)`, and their chances, from the formula of the law."""
    d = np.arange(-int(18 * scale) - 2, int(18 * scale) + 3)
    one = np.exp(-(d**2) / (2 * scale**2)) if gaussian else np.exp(-np.abs(d) / scale)
    one /= one.sum()
    d, one = d[one > 1e-9], one[one > 1e-9]
    every = np.stack([x.ravel() for x in np.meshgrid(*[d] * cells)], axis=1)
    chances = np.prod([x.ravel() for x in np.meshgrid(*[one] * cells)], axis=0)
    return every.astype(float), chances


def coverage(
    family: str, rows: int, part: int, span: tuple[float, float], law: tuple[float, bool]
) -> tuple[float, float, float]:
    """Return the chance that the nearest value of the span is inside, of a point, and of a fifth shorter intervals."""
    scores, parts = FAMILIES[family]
    cells = (part, rows - part) if family == "two_sums" else (rows, 2 * part - rows)
    (scale, gaussian), (noise, chances) = law, draws(2, *law)
    low, high = ratio_interval(
        noise + cells, scores, scale, 0.95, parts=parts, gaussian=gaussian, span=span
    )
    true = min(max(part / rows if rows else 0.0, span[0]), span[1])
    middle, half = (low + high) / 2, (high - low) / 2
    inside = np.abs(middle - true) <= half + 1e-9
    shorter = np.abs(middle - true) <= 0.8 * half
    return (
        float(chances[inside].sum() / chances.sum()),
        float(chances[half < 1e-9].sum()),
        float(chances[shorter].sum() / chances.sum()),
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("family", ["two_sums", "centred_sums"])
def test_ends_are_covered_and_no_interval_is_a_point(family: str, law: tuple[float, bool]) -> None:
    _, chances = draws(2, *law)
    for (rows, part), span in some(product(TABLES, SPANS), 2):
        covered, points, shorter = coverage(family, rows, part, span, law)
        assert covered >= 0.95, (rows, part, span)
        assert points == 0 or chances.max() > 0.95, (rows, part, span)
        if part == 6 and span == (0.0, 1.0) and law in ((1.0, False), (2.0, True)):
            assert shorter < 0.95  # the control, where both ends are far beyond the noise
