"""Two cells whose quotient is the ratio S(a) / S(b) of two columns: which two, is chosen from the ranges.

With a and b in steps, M a public guess of their ratio and Q how far it may be off, both multiples of 1 / t:

    y = t (a - M b),  d = t Q b       a / b = M + Q y / d

    ratio_sums    S(d), S(y): a row moves them by |y| + |d| at most
    ratio_ends    S(d + y), S(d - y): a row moves them by 2 max(|y|, |d|)

Under noise of one scale s on both cells, proportional to that move, the ratio r is off by s sqrt(1 + u^2) / (t S(b)),
or s sqrt((1 + u^2) / 2) / (t S(b)), with u = (r - M) / Q. So a guess within the range pays twice: what a row moves is
smaller than a and b are, and the noise of the denominator counts less. M and Q are those of a small lattice
with the least such error, averaged over ratios of a row whose b is in the middle of its range; the lattice and its search
are in integers, so that every machine finds the same. Which form is drawn the planner's prices say.

A row may lack either column and have the other: both moves are the largest over the corners of the ranges, with and
without each column (`docs/theory/sensitivities-and-contribution-bounding.md#ratios-of-sums`).

Units: grid steps of the two columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

from dprelease.query.bounded import Fixed
from dprelease.schema.domain import Domain
from dprelease.statistics.measurement import Axis, Context, Family, Measure, Measurement

_SPREADS = tuple(Fraction(i, 10) for i in (1, 3, 5, 7, 9))
"""Where in its range the numerator of a typical row lies."""
_GUESSES = range(-16, 17)
_WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
_FORMS: tuple[Family, ...] = ("ratio_sums", "ratio_ends")


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells t a + r b of a row, given as pairs (t, r)."""

    one: tuple[int, int]
    other: tuple[int, int]

    def norm(self, a: int, b: int) -> int:
        return sum(abs(t * a + r * b) for t, r in (self.one, self.other))


def ratio_measurements(context: Context, domain: Domain) -> tuple[Measurement, ...]:
    """Return the cells that are best where rows come and go, and where they are replaced, in both forms."""
    top, bottom = context.codes
    assert isinstance(top, Fixed)
    assert isinstance(bottom, Fixed)
    ends = tuple((c.grid.lower, c.grid.upper, c.default is None) for c in (top, bottom))
    unit = top.step / bottom.step
    hull = (Fraction(domain.lower) / unit, Fraction(domain.upper) / unit)
    found = dict.fromkeys(
        (form, best)
        for form in _FORMS
        for best in _best(form, ends[0], ends[1], _typical(ends, hull))
    )
    return tuple(_measurement(context, form, *best, ends, domain) for form, best in found)


_Ends = tuple[int, int, bool]


def _typical(ends: Sequence[_Ends], hull: tuple[Fraction, Fraction]) -> tuple[Fraction, ...]:
    """Return ratios of typical rows: anywhere in the numerator's range, in the middle of the denominator's."""
    (low, high, _), (least, most, _) = ends
    middle = Fraction(least + most, 2)
    return tuple(min(max((low + s * (high - low)) / middle, hull[0]), hull[1]) for s in _SPREADS)


@lru_cache(maxsize=256)
def _best(
    form: Family, top: _Ends, bottom: _Ends, ratios: tuple[Fraction, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Return (t, M t, Q t) with the least error where rows come and go, and where they are replaced."""
    size = max(*map(abs, ratios), Fraction(1, 2**64))
    places = size.denominator.bit_length() - size.numerator.bit_length() + 4
    t, one = 1 << max(0, places), 1 << max(0, -places)  # t M and t Q are multiples of `one`
    corners = _corners(top, bottom)
    least, most = min(Fraction(0), *ratios), max(Fraction(0), *ratios)
    found: list[tuple[Fraction, Fraction, tuple[int, int, int]]] = []
    for i, j in product(_GUESSES, _WIDTHS):
        if not least <= Fraction(i * one, t) <= most:
            continue
        guess, width = i * one, j * one
        row, swap = _moves(_cells(form, t, guess, width), corners)
        off = sum((((r * t - guess) / width) ** 2 for r in ratios), Fraction(0)) / len(ratios)
        found.append((row * row * (1 + off), swap * swap * (1 + off), (t, guess, width)))
    come, replaced = min(found, key=lambda f: f[0])[2], min(found, key=lambda f: f[1])[2]
    return (come,) if come == replaced else (come, replaced)


def _cells(form: Family, t: int, guess: int, width: int) -> _Cells:
    if form == "ratio_sums":
        return _Cells((0, width), (t, -guess))
    return _Cells((t, width - guess), (-t, width + guess))


def _corners(top: _Ends, bottom: _Ends) -> tuple[tuple[int, int], ...]:
    """Return what rows with both columns at an end, or without one, add to S(a) and S(b)."""
    a, b = ((low, high, 0) if null else (low, high) for low, high, null in (top, bottom))
    return tuple(product(a, b))


def _moves(cells: _Cells, corners: Sequence[tuple[int, int]]) -> tuple[int, int]:
    row = max(cells.norm(a, b) for a, b in corners)
    swaps = (cells.norm(a - c, b - d) for (a, b), (c, d) in combinations(corners, 2))
    return row, max(row, *swaps)


def _measurement(
    context: Context,
    form: Family,
    t: int,
    guess: int,
    width: int,
    ends: Sequence[_Ends],
    domain: Domain,
) -> Measurement:
    common = math.gcd(t, guess, width)
    t, guess, width = t // common, guess // common, width // common
    top, bottom = context.codes
    assert isinstance(top, Fixed)
    assert isinstance(bottom, Fixed)
    cells = _cells(form, t, guess, width)
    unit = top.step / bottom.step / t  # of M t and Q t
    scale = width if form == "ratio_sums" else 2 * width
    starts = (ends[0][0], ends[1][0])
    rows = [(x * starts[0], x, z * starts[1], z) for x, z in (cells.one, cells.other)]
    used = [at for at in range(4) if any(row[at] for row in rows)]
    measures = [Measure("power", code, power) for code in (top, bottom) for power in (0, 1)]
    row, swap = _moves(cells, _corners(ends[0], ends[1]))
    names = tuple(c.name for c in context.columns)
    return Measurement(
        family=form,
        key=(form, *names, str(t), str(guess), str(width), context.spec.name),
        cells=_names(form, *names),
        measures=tuple(measures[at] for at in used),
        weights=tuple(tuple(row[at] for at in used) for row in rows),
        l1_added_row=row,
        l1_replaced_row=swap,
        scale=scale,
        offset=unit * (guess - width),
        step_size=2 * width * unit / scale,
        axes=(
            Axis(bottom.grid.hull_steps, bottom.grid.lower * bottom.step, bottom.step),
            Axis(1, Fraction(domain.lower), Fraction(domain.upper - domain.lower)),
        ),
    )


def _names(form: Family, top: str, bottom: str) -> tuple[str, str]:
    if form == "ratio_sums":
        return f"sum of {bottom}", f"sum of {top} about a guess of its ratio to {bottom}"
    return f"sum of {top} above a multiple of {bottom}", "the same below another multiple"
