"""Post-processing of a noisy integer into the allowed set: nearest, posterior median or mean.

Given raw = answer + noise and the (public) prior "answer uniform on the hull", the allowed point
with the smallest posterior expected error is

    absolute error   the posterior median if allowed, else the cheaper edge of its gap
    squared error    the allowed point nearest to the posterior mean

Both are fixed functions of the raw draw and of public numbers, so they cost no privacy; floats
may decide them. A wrong table could only cost accuracy.

Outside the hull the posterior repeats: for noise with P(d + period) = decay * P(d), d >= 0,
raw and raw + period beyond an end have the same posterior. One period on each side is the
whole table, and `apply` is total over int64.

A declared prior, and the map that favours the worst answer, are in `boundaries/remap_prior.py`.

Units    grid steps.
Sources  `docs/theory/kernels-and-boundaries.md#remaps`; the medians and means are Bayes estimators.
Limits   tables need hulls of at most `TABLE_LIMIT` points; beyond, only `nearest`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.boundaries import remap_prior
from dprelease.mechanisms.boundaries.remap_prior import Prior
from dprelease.schema.domain import GridSet

if TYPE_CHECKING:
    from dprelease.mechanisms.forms.additive import AdditiveNoise

Remap = Literal["nearest", "median", "mean"]
FloatArray = npt.NDArray[np.float64]

TABLE_LIMIT = 2**16


def fits(noise: AdditiveNoise, allowed: GridSet) -> bool:
    """Return whether a remap table is small enough to build."""
    return allowed.hull_steps < TABLE_LIMIT and noise.period <= TABLE_LIMIT


def apply(
    noise: AdditiveNoise, allowed: GridSet, kind: Remap, raw: IntArray, prior: Prior | None = None
) -> IntArray:
    """Map raw integers into `allowed`, shape kept. Total over |raw| <= 2**62."""
    if kind == "nearest":
        return allowed.nearest(raw)
    low, high, period = allowed.lower, allowed.upper, noise.period
    folded = np.where(raw > high, high + 1 + (raw - high - 1) % period, raw)
    folded = np.where(raw < low, low - 1 - (low - 1 - raw) % period, folded)
    out: IntArray = table(noise, allowed, kind, prior)[folded - (low - period)]
    return out


@lru_cache(maxsize=32)
def table(
    noise: AdditiveNoise, allowed: GridSet, kind: Remap, prior: Prior | None = None
) -> IntArray:
    """Return the remap of `lower - period .. upper + period`, read-only; prior None: uniform."""
    if prior is not None and kind != "nearest":
        return remap_prior.table(noise, allowed, kind, prior)
    low, high = allowed.lower, allowed.upper
    raws = np.arange(low - noise.period, high + noise.period + 1, dtype=np.int64)
    if kind == "nearest":
        out = allowed.nearest(raws)
    else:
        posterior = _Posterior(noise, low, high)
        folded = np.where(raws > (low + high) // 2, raws, low + high - raws)
        upper = posterior.median(folded) if kind == "median" else posterior.mean(folded)
        centre = np.where(folded == raws, upper, low + high - upper)
        if kind == "mean":
            out = _nearest_to_real(allowed, centre)
        else:
            out = _cheaper_edge(allowed, centre.astype(np.int64), raws, posterior)
    out.setflags(write=False)
    return out


def _nearest_to_real(allowed: GridSet, centre: FloatArray) -> IntArray:
    out = allowed.nearest(np.rint(centre).astype(np.int64))
    for (_, left), (right, _) in pairwise(allowed.runs):
        gap = (centre > left) & (centre < right)
        out = np.where(gap, np.where(centre - left <= right - centre, left, right), out)
    return out


def _cheaper_edge(
    allowed: GridSet, centre: IntArray, raws: IntArray, posterior: _Posterior
) -> IntArray:
    """Expected |error| is convex in the output, so only the gap's own edges compete."""
    out = centre.copy()
    for (_, left), (right, _) in pairwise(allowed.runs):
        gap = np.flatnonzero((centre > left) & (centre < right))
        if gap.size:
            extra = posterior.edge_cost(raws[gap], left, right)
            out[gap] = np.where(extra >= 0, left, right)
    return out


class _Posterior:
    """Cumulative posterior weights over hull answers, from prefix sums over distances."""

    def __init__(self, noise: AdditiveNoise, low: int, high: int) -> None:
        self.low, self.high = low, high
        p = noise.weights(high - low + noise.period + 1)
        zero = np.zeros(1)
        self.head = np.concatenate([zero, np.cumsum(p)])  # head[k] = sum of p[:k]
        self.tail = np.concatenate([np.cumsum(p[::-1])[::-1], zero])  # tail[k] = sum of p[k:]
        i = np.arange(p.size)
        self.head_first = np.concatenate([zero, np.cumsum(i * p)])
        self.tail_first = np.concatenate([np.cumsum((i * p)[::-1])[::-1], zero])
        self.head_sum = np.concatenate([zero, np.cumsum(self.head)])
        self.tail_sum = np.concatenate([zero, np.cumsum(self.tail)])

    def median(self, raws: IntArray) -> FloatArray:
        """Return the posterior median for raws in the upper half or above the hull."""
        out = np.empty(raws.size)
        outside = raws > self.high
        z = raws[outside]
        floor = self.tail[z - self.low + 1]
        goal = floor + (self.tail[z - self.high] - floor) / 2
        k = np.searchsorted(-self.tail, -goal, side="right") - 1  # largest k, tail[k] >= goal
        out[outside] = np.clip(z - k, self.low, self.high)
        z = raws[~outside]
        left = self.head[z - self.low + 1]
        half = (left + self.head[self.high - z + 1] - self.head[1]) / 2
        k = np.searchsorted(self.head, left - half, side="right") - 1
        right = np.searchsorted(self.head, half - left + self.head[1], side="left") + z - 1
        out[~outside] = np.clip(np.where(left >= half, z - k, right), self.low, self.high)
        return out

    def mean(self, raws: IntArray) -> FloatArray:
        """Return the posterior mean for raws in the upper half or above the hull."""
        out = np.empty(raws.size)
        outside = raws > self.high
        z = raws[outside]
        mass = self.tail[z - self.high] - self.tail[z - self.low + 1]
        first = self.tail_first[z - self.high] - self.tail_first[z - self.low + 1]
        out[outside] = z - first / mass
        z = raws[~outside]
        left, right = z - self.low + 1, self.high - z + 1
        mass = self.head[left] + self.head[right] - self.head[1]
        out[~outside] = z + (self.head_first[right] - self.head_first[left]) / mass
        return np.clip(out, self.low, self.high)

    def edge_cost(self, raws: IntArray, a: int, b: int) -> FloatArray:
        """Return (posterior expected |error| at b) minus (at a), times the posterior mass.

        Cost grows from x to x + 1 by 2 P(answer <= x) - 1; summed over x = a .. b - 1.
        """
        flip = raws < self.low
        z = np.where(flip, self.low + self.high - raws, raws)
        a_ = np.where(flip, self.low + self.high - b, a)
        b_ = np.where(flip, self.low + self.high - a, b)
        out = np.empty(z.size)
        far = z > self.high
        zf, af, bf = z[far], a_[far], b_[far]
        floor = self.tail[zf - self.low + 1]
        total = self.tail[zf - self.high] - floor
        summed = self.tail_sum[zf - af + 1] - self.tail_sum[zf - bf + 1] - (bf - af) * floor
        out[far] = 2 * summed - (bf - af) * total
        zn, an, bn = z[~far], a_[~far], b_[~far]
        left = self.head[zn - self.low + 1]
        total = left + self.head[self.high - zn + 1] - self.head[1]
        middle = np.clip(zn, an, bn)  # x < middle lies left of z, x >= middle right of it
        below = (middle - an) * left
        below -= (
            self.head_sum[np.maximum(zn - an + 1, 0)]
            - self.head_sum[np.maximum(zn - middle + 1, 0)]
        )
        above = (bn - middle) * (left - self.head[1])
        above += (
            self.head_sum[np.maximum(bn - zn + 1, 0)]
            - self.head_sum[np.maximum(middle - zn + 1, 0)]
        )
        out[~far] = 2 * (below + above) - (bn - an) * total
        return np.where(flip, -out, out)
