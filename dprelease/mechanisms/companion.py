"""Companions of a raw draw: a median-unbiased estimate for every grid law, an unbiased one for some.

Median-unbiased (`median_unbiased`). For a law that is stochastically increasing in the answer q,
the answers with P_q(Y >= y) >= 1/2 are those from some `low` on, and those with P_q(Y <= y) >= 1/2
are those up to some `high`; at most one step lies between them if they miss each other. Over the
draws, P_q(high >= q) >= 1/2 and P_q(low <= q) >= 1/2 for every q of the hull, whatever the law. The
estimate is the middle of the two: F_q(y) = 1/2 solved on the lattice, clipped to the hull where no
answer solves it. Additive noise is symmetric, so there it is the raw integer itself, clipped. A
table that is not monotone (`optimal_grid`) uses the first and the last such row.

Unbiased (`unbiased`). Additive noise has mean 0, so the raw integer is unbiased for the clamped
answer. With discrete Laplace noise it can be improved: given that the raw integer is at or below
the lower end l, it lies below l by j with chance (1 - r) r^j, r = e^-rate, *whatever the answer in
the hull is* (memoryless tail, from an answer on l too). Its mean there is l - r / (1 - r), so

    y -> l - r / (1 - r)  if y <= l;   y -> u + r / (1 - r)  if y >= u;   y  otherwise

is the raw integer averaged over what the ends hide (Rao and Blackwell): the same mean, a smaller
variance, and a function of the rectified value alone. It is the lattice form of replacing the atom
at l by l - b and at u by u + b. A staircase has periodic tails, whose mean beyond an end depends on
the answer: its raw integer stays. Truncated laws have no unbiased estimator, and
for explicit tables none is offered.

Units    grid steps. Shapes: raw `(groups,)`. Both are functions of the raw draw: post-processing.
Sources  `docs/theory/intervals.md#median-unbiased-estimates`, `#unbiased-estimates`; exact
         enumeration in the tests.
Limits   float64. With l = u the two ends coincide and the raw integer itself is returned.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridLaw, IntArray
from dprelease.numeric import exp_lower

__all__ = ["atom_shift", "median_unbiased", "unbiased", "unclipped"]

FloatArray = npt.NDArray[np.float64]
_MIDDLE = 1e-9
"""A level so low that an interval at it holds only the answers whose median the draw may be."""


def median_unbiased(law: GridLaw, raw: IntArray) -> FloatArray:
    """Return the median-unbiased estimate of the clamped answer, inside the hull."""
    if isinstance(law, AdditiveLaw):
        return np.clip(raw, law.allowed.lower, law.allowed.upper).astype(np.float64)
    low, high = _row_medians(law, raw) if isinstance(law, RowLaw) else law.interval(raw, _MIDDLE)
    return np.asarray(low + (high - low) / 2)


def _row_medians(law: RowLaw, raw: IntArray) -> tuple[IntArray, IntArray]:
    chance = np.array(law.rows, dtype=np.float64)
    chance /= chance.sum(axis=1, keepdims=True)
    upto = np.cumsum(chance, axis=1)
    half = 0.5 * (1 - _MIDDLE)
    up, down = 1 - upto + chance >= half, upto >= half
    begins = np.array(law.starts, dtype=np.int64)
    ends = np.array([*law.starts[1:], law.allowed.upper + 1], dtype=np.int64) - 1
    lows = np.where(up.any(axis=0), begins[up.argmax(axis=0)], law.allowed.upper)
    highs = np.where(
        down.any(axis=0), ends[len(begins) - 1 - down[::-1].argmax(axis=0)], law.allowed.lower
    )
    place = np.searchsorted(np.array(law.outputs, dtype=np.int64), raw)
    place = np.minimum(place, len(law.outputs) - 1)
    return lows[place], highs[place]


def unbiased(law: GridLaw, raw: IntArray) -> FloatArray:
    """Return the unbiased estimate of the clamped answer, NaN for laws that offer none."""
    if not isinstance(law, AdditiveLaw):
        return np.full(raw.shape, np.nan)
    values = raw.astype(np.float64)
    if not isinstance(law.noise, DiscreteLaplaceNoise):
        return values
    return unclipped(values, law.allowed.lower, law.allowed.upper, law.noise.rate)


def unclipped(raw: FloatArray, lower: int, upper: int, rate: Fraction) -> FloatArray:
    """Return raw draws of discrete Laplace noise of this rate with both tails averaged."""
    if lower >= upper:
        return raw
    beyond = float(atom_shift(1 / exp_lower(rate)))
    return np.where(raw <= lower, lower - beyond, np.where(raw >= upper, upper + beyond, raw))


def atom_shift(ratio: Fraction) -> Fraction:
    """Return r / (1 - r): how far a geometric tail of this ratio reaches on average.

    >>> atom_shift(Fraction(1, 3))
    Fraction(1, 2)
    """
    return ratio / (1 - ratio)
