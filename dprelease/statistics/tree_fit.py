"""What noisy counts of a tree over bins say: estimates, valid counts that add up, and intervals.

Every group is a tree of its own with one public structure, so all are fitted together: least squares, then the
nearest counts that are not negative and add up, parents first (`dprelease.fitting`), in small parts of a row;
then prefixes are rounded to whole rows. Sums of published bins are as exact as the tree makes them.

A prefix's estimate is a known combination of independent draws; a share, prefix over the whole, is a quotient of two
(`intervals.quotient`).

Units    counts in rows; shares of all rows.
Shapes   raw `(groups, cells)`; prefixes and bins `(groups, bins)`.
Sources  `docs/theory/publications-that-add-up.md#trees-over-bins`, `#bins-whose-noise-adds-up-to-zero`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import ONE, Estimates
from dprelease.fitting.feasible import feasible
from dprelease.fitting.interval import ends
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.nearest import nearest
from dprelease.fitting.structure import Structure, nested
from dprelease.intervals.law import SumLaw, half_width, quantile_of
from dprelease.intervals.noise import Gaussian, Laplace, Noise, Term, noise_of_scale
from dprelease.intervals.quotient import ends as ends_of_quotient
from dprelease.intervals.quotient import short
from dprelease.statistics.base import Floats, Reading, SumQuantile
from dprelease.statistics.tree_shape import Tree

Objects = npt.NDArray[np.object_]

_ANY = 1 << 48
"""More rows than any table has, where no cap is declared: a public bound for the fit alone."""
FINE = 1 << 8
"""Parts of a row in which prefixes are fitted."""
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
    def from_cells(cls, tree: Tree, cells: Floats | Objects, rows: int | None) -> Noisy:
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
    return noise_of_scale(reading.scale, gaussian=reading.gaussian)


@lru_cache(maxsize=65536)
def _half_width(noise: Noise, draws: tuple[tuple[float, int], ...], level: float) -> float:
    """Return q with P(|X| <= q) >= level for X the sum of so many draws, each times its weight."""
    if not draws:
        return 0.0
    if all(weight == 1 for weight, _ in draws):
        return float(half_width([Term(noise, n, Fraction(1)) for _, n in draws], level))
    law = SumLaw.weighted_sum((SumLaw({(noise, 1.0): 1}), weight, n) for weight, n in draws)
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
    weights = noisy.tree.weights()
    prefixes = np.cumsum(noisy.bins(), axis=1).astype(np.float64) / ONE
    slack = float(noisy.slack) * noisy.tree.bins
    low, high = np.ones(prefixes.shape), np.ones(prefixes.shape)  # the whole is the whole
    for k, row in enumerate(weights[:-1]):
        if noisy.rows is None:
            assert isinstance(noise, Gaussian | Laplace)
            both = np.round(np.stack([row, weights[-1]], axis=1), _ROUNDED)
            alike, counts = np.unique(both, axis=0, return_counts=True)
            drawn = zip(alike.tolist(), counts.tolist(), strict=True)
            parts = tuple((noise, n, short(Fraction(t)), short(Fraction(b))) for (t, b), n in drawn)
            sums = prefixes[:, k], prefixes[:, -1]
            low[:, k], high[:, k] = ends_of_quotient(
                parts, level, *sums, (slack, slack), (0.0, 1.0)
            )
        else:
            top, half = np.clip(prefixes[:, k], 0.0, noisy.rows), half_width_of(noise, row, level)
            low[:, k] = (top - half - slack) / noisy.rows - _ROOM
            high[:, k] = (top + half + slack) / noisy.rows + _ROOM
    return np.maximum(low, 0.0), np.minimum(high, 1.0)
