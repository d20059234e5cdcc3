"""Remaps under a declared prior over the answers, and the prior that makes the worst answer best.

With an integer weight per hull answer as prior, the best allowed output for a noisy integer is
the one of smallest posterior expected error. The *minimax* map minimises the largest expected
error over answers; it is the best map for its least favourable prior. Multiplicative weights find
one: answers whose error is large gain weight, and of all maps seen the one with the smallest
worst error stays. (The linear programme over *randomised* maps was not taken: a remap stays a fixed
function. It would win up to 7 % on grids of a few dozen points, and ever less on finer ones.)

Privacy. A remap is a fixed function of the noisy integer and of public numbers: post-processing.
Floats may decide it; a wrong table could only cost accuracy.

Units    grid steps.
Sources  `docs/theory/kernels-and-boundaries.md#remaps`; Freund & Schapire, "Adaptive game playing using
         multiplicative weights".
Limits   hulls of at most `PRIOR_LIMIT` points: tables are dense.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dprelease.schema.domain import GridSet

if TYPE_CHECKING:
    from dprelease.mechanisms.forms.additive import AdditiveNoise

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Prior = tuple[int, ...]
"""Integer weights above 0, one per hull answer, in order."""

PRIOR_LIMIT = 128
_ROUNDS = 150
_UNIT = 2**20


class _Dense:
    """P(raw | answer) and cost(answer, output) over one period beyond each end."""

    def __init__(self, noise: AdditiveNoise, allowed: GridSet, power: int) -> None:
        low, high, period = allowed.lower, allowed.upper, noise.period
        raws = np.arange(low - period, high + period + 1, dtype=np.int64)
        answers = np.arange(low, high + 1, dtype=np.int64)
        self.points = allowed.points()
        distance = np.abs(raws[:, None] - answers[None, :])
        self.likelihood = noise.weights(int(distance.max()) + 1)[distance]
        gap = np.abs(answers[:, None] - self.points[None, :]).astype(np.float64)
        self.cost = gap if power == 1 else gap * gap
        # One block beyond each end stands for all its repeats: sum of decay**n.
        repeats = 1 / -np.expm1(np.log(noise.decay)) if noise.decay > 0 else 1.0
        scale = np.ones(raws.size)
        scale[:period] = scale[raws.size - period :] = repeats
        self.chance = self.likelihood * scale[:, None]
        self.fallback = np.searchsorted(self.points, allowed.nearest(raws))

    def best(self, prior: Prior) -> IntArray:
        """Return the index of the best output per raw integer."""
        joint = self.likelihood * np.array(prior, dtype=np.float64)
        largest = joint.max(axis=1, keepdims=True)
        joint = joint / np.where(largest > 0, largest, 1.0)
        chosen = (joint @ self.cost).argmin(axis=1)
        return np.where(largest[:, 0] > 0, chosen, self.fallback).astype(np.int64)

    def errors(self, chosen: IntArray) -> FloatArray:
        """Return the expected error per answer, shape `(answers,)`."""
        out: FloatArray = (self.chance * self.cost.T[chosen]).sum(axis=0)
        return out


@lru_cache(maxsize=32)
def table(
    noise: AdditiveNoise, allowed: GridSet, kind: Literal["median", "mean"], prior: Prior
) -> IntArray:
    """Return the remap of `lower - period .. upper + period` under `prior`, read-only."""
    dense = _Dense(noise, allowed, 1 if kind == "median" else 2)
    out: IntArray = dense.points[dense.best(prior)]
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def least_favourable(
    noise: AdditiveNoise, allowed: GridSet, kind: Literal["median", "mean"]
) -> Prior:
    """Return the prior, of all tried, whose map has the smallest worst error."""
    dense = _Dense(noise, allowed, 1 if kind == "median" else 2)
    log_weight = np.zeros(allowed.hull_steps + 1)
    best, smallest = (_UNIT,) * log_weight.size, np.inf
    for i in range(_ROUNDS):
        weight = np.exp(log_weight - log_weight.max())
        prior = tuple(np.maximum(np.rint(weight * _UNIT), 1).astype(np.int64).tolist())
        errors = dense.errors(dense.best(prior))
        worst = float(errors.max())
        if worst < smallest:
            best, smallest = prior, worst
        if worst == 0:
            break
        log_weight = np.maximum(log_weight + 4 / (1 + i) ** 0.5 * (errors / worst - 1), -30)
        log_weight -= log_weight.max()
    return best
