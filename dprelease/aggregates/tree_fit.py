"""What noisy counts of a tree over bins say: estimates, valid counts that add up, and intervals.

Every group is a tree of its own with one public structure, so all are fitted together: least squares, then the
nearest counts that are not negative and add up, parents first (`dprelease.fitting`), in small parts of a row;
then prefixes are rounded to whole rows. Sums of published bins are as exact as the tree makes them.

A prefix's estimate is a known combination of independent draws. A share, prefix A over the whole N, is found as
every t that the noise does not rule out. At the true t the form A - t N is noise alone, X_t, and for any t and m

    |X_t| <= |X_m| + |t - m| |X_N|,

the first part at level + e, the second at 1 - e: one quantile serves all t near m, wherever m is, so those m may
be taken that lie at the ends of the interval.

Units    counts in rows; shares of all rows.
Shapes   raw `(groups, cells)`; prefixes and bins `(groups, bins)`.
Sources  `docs/theory/publications-that-add-up.md#trees-over-bins`, `#bins-whose-noise-adds-up-to-zero`; the pivot: Fieller 1954.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats, Reading, SumQuantile
from dprelease.aggregates.tree_shape import Tree
from dprelease.fitting.estimate import ONE, Estimates
from dprelease.fitting.feasible import feasible
from dprelease.fitting.interval import ends
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.nearest import nearest
from dprelease.fitting.structure import Structure, nested
from dprelease.intervals.law import Law, half_width, quantile_of
from dprelease.intervals.noise import Gaussian, Laplace, Noise, Term

Objects = npt.NDArray[np.object_]

_ANY = 1 << 48
"""More rows than any table has, where no cap is declared: a public bound for the fit alone."""
FINE = 1 << 8
"""Parts of a row in which prefixes are fitted."""
_BESIDE = 0.02
"""e, as a part of the risk."""
_GRID = 512
"""m are whole multiples of 1 / _GRID."""
_ROUNDED = 13
"""Digits to which weights of one law are told apart."""
_SLACK = 1 + Fraction(1, 10**9)
"""More than all roundings of weights move a quantile."""
_ROOM = 1e-12


@dataclass(frozen=True)
class Noisy:
    """The noisy counts of a tree's cells, and their least-squares estimates.

    Attributes:
        rows: the public sum of all bins; None where it is private.
    """

    tree: Tree
    raw: Objects
    rows: int | None

    @classmethod
    def of(cls, tree: Tree, cells: Floats | Objects, rows: int | None) -> Noisy:
        """Read cells as they were drawn, in floats or integers."""
        whole = np.empty(cells.shape, dtype=object)
        whole[...] = [[int(v) for v in row] for row in cells]
        return cls(tree, whole, rows)

    @property
    def groups(self) -> int:
        return int(self.raw.shape[0])

    def structure(self) -> Structure:
        """Return the forest: the groups, then the levels; level k is called `str(k)`, so that equal sizes keep their order."""
        bins = self.tree.bins
        place = np.arange(self.groups * bins)
        group, inside = place // bins, place % bins
        maps = {"0": group}
        for k, (width, size) in enumerate(zip(self.tree.widths, self.tree.sizes, strict=True), 1):
            maps[str(k)] = group * size + inside // width
        return nested(maps)

    def totals(self) -> dict[str, list[int]]:
        return {} if self.rows is None else {"0": [self.rows] * self.groups}

    def estimates(self, structure: Structure) -> tuple[Estimates, dict[str, Floats]]:
        """Return the estimates of all levels, and their variances in that of one count's noise."""
        levels = range(1, len(self.tree.widths) + 1)
        found = estimator(
            structure, {str(k): Gaussian(1) for k in levels}, tuple(self.totals())
        )  # one law for all cells: its size cancels
        noisy, at = {}, 0
        for k, size in zip(levels, self.tree.sizes, strict=True):
            noisy[str(k)] = self.raw[:, at : at + size].ravel().tolist()
            at += size
        made = found.estimates(noisy, self.totals())
        return made, {name: found.variance(name) for name in ("0", *noisy)}

    def bins(self) -> Objects:
        """Return the estimates of the bins, in 1 / `ONE` row."""
        made, _ = self.estimates(self.structure())
        return _in_groups(made.values[self.finest], self.groups)

    @property
    def finest(self) -> str:
        return str(len(self.tree.widths))

    @property
    def slack(self) -> Fraction:
        """How far rounding moved any estimate, in rows."""
        return Fraction(self.groups * (self.tree.cells + 1), ONE)


def _in_groups(values: Sequence[int], groups: int) -> Objects:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(groups, -1)


def fitted_prefixes(noisy: Noisy, cap: int | None) -> Objects:
    """Return the valid prefixes nearest to the estimates, in 1 / `FINE` row: they never fall, and end within `cap`."""
    structure = noisy.structure()
    made, variances = noisy.estimates(structure)
    finer = Estimates(
        {name: [v * FINE for v in values] for name, values in made.values.items()}, made.slack
    )
    top = ((0, FINE * (_ANY if cap is None else cap)),)
    totals = {name: [FINE * v for v in values] for name, values in noisy.totals().items()}
    allowed = feasible(structure, dict.fromkeys(variances, top), totals)
    values = nearest(structure, allowed, finer, variances).values[noisy.finest]
    return np.asarray(np.cumsum(_in_groups(values, noisy.groups), axis=1))


def fitted_bins(noisy: Noisy, cap: int | None) -> Objects:
    """Return the published counts of the bins: whole, not negative, at most `cap` together.

    Prefixes are rounded, not bins: then no sum of them is a row off. Children of one run share the fraction
    of their estimates, so that bins rounded one by one would be too high at first and too low at last.
    """
    whole = (2 * fitted_prefixes(noisy, cap) + FINE) // (2 * FINE)
    return np.asarray(np.diff(whole, axis=1, prepend=0))


def noise_of(reading: Reading) -> Noise | SumQuantile:
    """Return the noise of one cell of a reading, or of that of several where all adds up to zero."""
    if reading.balanced is not None:
        return reading.balanced
    assert reading.scale is not None
    if reading.gaussian:
        return Gaussian(round(reading.scale**2))
    return Laplace(Fraction(1 / reading.scale))


@lru_cache(maxsize=65536)
def _half_width(noise: Noise, draws: tuple[tuple[float, int], ...], level: float) -> float:
    """Return q with P(|X| <= q) >= level for X the sum of so many draws, each times its weight."""
    if not draws:
        return 0.0
    if all(weight == 1 for weight, _ in draws):
        return float(half_width([Term(noise, n, Fraction(1)) for _, n in draws], level))
    law = Law.of((Law({(noise, 1.0): 1}), weight, n) for weight, n in draws)
    return float(quantile_of(law, level) * _SLACK)


def half_width_of(noise: Noise | SumQuantile, weights: Floats, level: float) -> float:
    """Return q with P(|S(weight * draw)| <= q) >= level, nearly the least.

    Noise that adds up to zero lies on the bins alone, whose estimates sum some of them: with a public sum less a
    part of what all noise comes to, which is nothing.
    """
    if not isinstance(noise, Gaussian | Laplace):
        summed = int((weights > weights.max() - 0.5).sum())
        return float(noise(summed, level))
    sizes = np.round(np.abs(weights), _ROUNDED)
    found, counts = np.unique(sizes[sizes > 0], return_counts=True)
    return _half_width(noise, tuple(zip(found.tolist(), counts.tolist(), strict=True)), level)


def bin_ends(
    noisy: Noisy, noise: Noise | SumQuantile, level: float, cap: int
) -> tuple[Floats, Floats]:
    """Return the interval of every bin, `(groups, bins)`: whole rows."""
    taken = np.diff(noisy.tree.weights(), axis=0, prepend=0.0)
    halves = [Fraction(half_width_of(noise, w, level)) for w in taken]
    values = noisy.bins()
    low, high = ends(values.ravel().tolist(), halves * noisy.groups, (0, cap), slack=noisy.slack)
    return tuple(np.array(x, dtype=np.float64).reshape(values.shape) for x in (low, high))  # type: ignore[return-value]


def share_ends(noisy: Noisy, noise: Noise | SumQuantile, level: float) -> tuple[Floats, Floats]:
    """Return the interval of every prefix as a share of all bins, `(groups, bins)`."""
    prefixes = np.cumsum(noisy.bins(), axis=1)
    weights, slack = noisy.tree.weights(), float(noisy.slack) * noisy.tree.bins
    shares = _Shares(noise, weights, level, slack)
    low, high = np.zeros(prefixes.shape), np.ones(prefixes.shape)
    for g, row in enumerate(prefixes.tolist()):
        for j, top in enumerate(row):
            if noisy.rows is None:
                low[g, j], high[g, j] = shares.ends(j, top / ONE, row[-1] / ONE)
            else:
                low[g, j], high[g, j] = shares.known(j, top / ONE, noisy.rows)
    return low, high


@dataclass(frozen=True)
class _Shares:
    """Intervals of prefixes over the whole, of one noise and one tree."""

    noise: Noise | SumQuantile
    weights: Floats
    level: float
    slack: float
    _found: dict[tuple[int, float, float], float] = field(default_factory=dict)

    def known(self, j: int, top: float, rows: int) -> tuple[float, float]:
        if j == len(self.weights) - 1:
            return 1.0, 1.0
        q = self._half_width(j, 0.0, self.level)
        top = min(max(top, 0.0), float(rows))
        return max(0.0, (top - q) / rows - _ROOM), min(1.0, (top + q) / rows + _ROOM)

    def ends(self, j: int, top: float, whole: float) -> tuple[float, float]:
        """Return the least and the greatest t with |top - t whole| <= q(m) + |t - m| r, for the best m."""
        if j == len(self.weights) - 1:
            return 1.0, 1.0
        risk = 1 - self.level
        r = self._half_width(-1, 0.0, 1 - _BESIDE * risk)
        if whole <= r * (1 + _ROOM):
            return 0.0, 1.0  # the whole may be nothing: every share is possible
        top = min(max(top, 0.0), whole)  # nearer to every t whole
        low, high = 0.0, 1.0
        m = top / whole
        for _ in range(3):
            low = max(low, self._low(j, top, whole, r, m))
            m = low
        m = top / whole
        for _ in range(3):
            high = min(high, 1 - self._low(j, whole - top, whole, r, 1 - m, mirrored=True))
            m = high
        return max(0.0, low - _ROOM), min(1.0, high + _ROOM)

    def _low(
        self, j: int, top: float, whole: float, r: float, near: float, *, mirrored: bool = False
    ) -> float:
        """Return the least t that the bound at the m nearest to `near` does not rule out.

        `mirrored`: of the rest, whole - prefix, whose share is 1 - t: then t - m is the same with another sign.
        """
        m = min(max(math.floor(near * _GRID + 0.5), 0), _GRID) / _GRID
        level = self.level + _BESIDE * (1 - self.level)
        q = self._half_width(j, 1 - m if mirrored else m, level)
        if top - m * whole <= q:  # t at or below m
            return max(0.0, (top - q - m * r) / (whole - r))
        return min(1.0, (top - q + m * r) / (whole + r))

    def _half_width(self, j: int, place: float, level: float) -> float:
        """Return that of prefix j less `place` times the whole: places are of a grid, so groups share them."""
        if (j, place, level) not in self._found:
            form = self.weights[j] - place * self.weights[-1]
            self._found[j, place, level] = half_width_of(self.noise, form, level) + self.slack
        return self._found[j, place, level]
