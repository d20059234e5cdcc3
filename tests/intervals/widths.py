"""Raw cells of many small measurements, and what intervals of their quotients do: cover, and are how wide.

`python -m tests.intervals.widths` prints, as JSON, coverage and median width of every case: so the figures of the
code that `widths.json` has were made (256 cells of angles or of places, a step wider per term), before one law and one
quotient came in their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)
SIZES = (0, 1, 3, 30, 1000)
DRAWS = 4000
FAMILIES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "two_sums": ((1.0, 0.0), (1.0, 1.0)),
    "bernstein2": ((0.0, 0.5, 1.0), (1.0, 1.0, 1.0)),
    "centred_sums": ((0.5, 0.5), (1.0, 0.0)),
    "centred_squares": ((0.5, 0.375), (1.0, 0.0)),
}
"""What each cell adds to the quotient's numerator, and to its denominator."""


@dataclass(frozen=True)
class Case:
    """One measurement of a group: its family, rows, and the noise's scale in steps."""

    family: str
    size: int
    scale: float

    @property
    def name(self) -> str:
        return f"{self.family} of {self.size} rows, noise of {self.scale:g} steps"

    @property
    def exact(self) -> np.ndarray[Any, Any]:
        n, part = self.size, round(0.3 * self.size)
        cells = {
            "two_sums": (part, n - part),
            "bernstein2": (n - part, part // 2, part - part // 2),
            "centred_sums": (n, 2 * part - n),
            "centred_squares": (n, (2 * part - n) * 4 / 3),
        }[self.family]
        return np.round(np.array(cells))

    @property
    def true(self) -> float:
        """The exact quotient; of no rows any is, and one is taken."""
        scores, parts = FAMILIES[self.family]
        whole = self.exact @ np.array(parts)
        return float(self.exact @ np.array(scores) / whole) if whole else 0.3

    def raw(self, count: int) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng([self.size, round(10 * self.scale), len(self.family)])
        p = -np.expm1(-1 / self.scale)
        shape = count, self.exact.size
        return self.exact + (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(float)


def cases() -> Iterator[Case]:
    return (Case(f, n, s) for f in FAMILIES for n in SIZES for s in SCALES)


def measured(case: Case, count: int, shrink: float = 1.0) -> tuple[float, float, float]:
    """Return coverage, median width where the estimate is possible, and the share of single points; `shrink` the noise that is said."""
    from dprelease.intervals.quotient import ratio_interval

    scores, parts = FAMILIES[case.family]
    low, high = ratio_interval(case.raw(count), scores, shrink * case.scale, 0.95, parts=parts)
    inside = (low - 1e-9 <= case.true) & (case.true <= high + 1e-9)
    top, bottom = case.raw(count) @ np.array(scores), case.raw(count) @ np.array(parts)
    possible = (top >= 0) & (top <= bottom) & (bottom > 0)
    width = float(np.median((high - low)[possible])) if possible.any() else 1.0
    return float(inside.mean()), width, float((high - low < 1e-12).mean())


if __name__ == "__main__":
    print(json.dumps({case.name: measured(case, DRAWS) for case in cases()}, indent=0))
