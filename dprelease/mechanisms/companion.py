"""Companions of a raw draw: a median-unbiased estimate for every grid law, an unbiased one for some.

Median-unbiased (`median_unbiased`). For a law that is stochastically increasing in the answer q,
the answers with P_q(Y >= y) >= 1/2 are those from some `low` on, and those with P_q(Y <= y) >= 1/2
are those up to some `high`; at most one step lies between them if they miss each other. Over the
draws, P_q(high >= q) >= 1/2 and P_q(low <= q) >= 1/2 for every q of the hull, whatever the law. The
estimate is the middle of the two: F_q(y) = 1/2 solved on the lattice, clipped to the hull where no
answer solves it. Additive noise is symmetric, so there it is the raw integer itself, clipped
(`forms/additive.py`). Rows need not be monotone: they use the first and the last such row
(`forms/rows.py`).

Unbiased (`unbiased`). Additive noise has mean 0, so the raw integer is unbiased for the clamped
answer. With discrete Laplace noise it can be improved: given that the raw integer is at or below
the lower end l, it lies below l by j with chance (1 - r) r^j, r = e^-rate, *whatever the answer in
the hull is* (memoryless tail, from an answer on l too). Its mean there is l - r / (1 - r), so

    y -> l - r / (1 - r)  if y <= l;   y -> u + r / (1 - r)  if y >= u;   y  otherwise

is the raw integer averaged over what the ends hide (Rao and Blackwell): the same mean, a smaller
variance, and a function of the rectified value alone. It is the lattice form of replacing the point mass
at l by l - b and at u by u + b. A tail whose mean is less than 2^-40 steps beyond its end is left at the
end: about 2 / r > 10^12 releases would have to be added up before the bias is as large as their error,
and at an end of 0 a reader would see 8.76e-27. A staircase has periodic tails, whose mean beyond an end depends on
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

from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.forms.additive import average_tails
from dprelease.mechanisms.forms.hull_interval import MIDDLE
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridLaw


def median_unbiased(law: GridLaw, raw: IntArray) -> FloatArray:
    """Return the median-unbiased estimate of the clamped answer, inside the hull."""
    own = getattr(law, "median_unbiased", None)
    if own is not None:
        found: FloatArray = own(raw)
        return found
    low, high = law.interval(raw, MIDDLE)
    return np.asarray(low + (high - low) / 2)


def unbiased(law: GridLaw, raw: IntArray) -> FloatArray:
    """Return the unbiased estimate of the clamped answer, NaN for laws that offer none."""
    own = getattr(law, "unbiased", None)
    found: FloatArray = np.full(raw.shape, np.nan) if own is None else own(raw)
    return found


def unclipped(raw: FloatArray, lower: int, upper: int, rate: Fraction) -> FloatArray:
    """Return raw draws of discrete Laplace noise of this rate with both tails averaged."""
    return average_tails(raw, lower, upper, DiscreteLaplaceNoise(rate).beyond)
