"""Losses of many pairs of answers in two passes over the ends of a domain: what a calibration looks at.

With L(x) and R(x) the integrals of e^(-|y - x| / b) / b over the allowed y below and above x, C = L + R, and from
one finite end e to the next, f further,

    L(f) = L(e) e^(-(f - e) / b) + [allowed between] (1 - e^(-(f - e) / b)),

likewise R from above. No term is negative, so nothing cancels: C is exact to a few ulp at every answer, for a cost
that grows with answers plus ends, where `laplace_pairs` looks at every interval from every answer. The difference
of two logarithms has an *absolute* error of some 1e-15; `Passes.for_answers` refuses where that or underflow would matter.
What is found here proposes; `laplace_pairs` is the judge.

Units    the domain's unit; rates are 1 / b.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace-on-a-union`.
Limits   float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.laplace_pairs import AnswerPairs, Ends

_SMALL, _FAR, _REMOTE = 0.02, 300.0, 1e2


@dataclass(frozen=True, slots=True)
class Passes:
    """A domain's finite ends, -infinity and infinity beside them.

    Attributes:
        allowed: which stretches between neighbouring ends are; gaps: lengths of the finite ones.
    """

    ends: FloatArray
    allowed: FloatArray
    gaps: FloatArray

    @classmethod
    def for_answers(cls, found: Ends, distance: float, epsilon: float) -> Passes | None:
        """Return it for answers `distance` apart at scales from distance / epsilon on; None where it is not exact enough."""
        ends = np.array([float(e) for e in found.values])
        padded = np.concatenate([[-math.inf], ends, [math.inf]])
        solid = [(float(a), float(c)) for a, c in found.pieces if a != c]
        allowed = [float(any(a <= e and f <= c for a, c in solid)) for e, f in pairwise(padded)]
        widest = max((f - e for e, f in pairwise(ends.tolist())), default=0.0)
        small = epsilon < _SMALL or np.abs(ends).max() > _REMOTE * distance
        if small or widest * epsilon > _FAR * distance or len(set(ends.tolist())) < len(ends):
            return None
        return cls(padded, np.array(allowed), np.diff(ends))

    def losses(self, found: Ends, pairs: AnswerPairs) -> Callable[[FloatArray], FloatArray]:
        """Return the losses of `pairs` as a function of scales: `(pairs,)` of one, `(scales, pairs)` of an array."""
        first, second = found.floats(pairs)
        both = np.concatenate([first, second])
        at = np.clip(np.searchsorted(self.ends, both, side="right") - 1, 0, self.ends.size - 2)
        below, above, inside = both - self.ends[at], self.ends[at + 1] - both, self.allowed[at]
        count = first.size

        def evaluated(scale: FloatArray) -> FloatArray:
            rate = 1 / np.asarray(scale, dtype=np.float64)
            left, right = self._masses(rate)
            fall, rise = np.exp(-rate[..., None] * below), np.exp(-rate[..., None] * above)
            mass = left[..., at] * fall + right[..., at + 1] * rise + inside * (2 - fall - rise)
            logs = np.log(mass)
            apart = np.abs(logs[..., count:] - logs[..., :count])
            return np.asarray(rate[..., None] * pairs.distance + apart)

        return evaluated

    def _masses(self, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return L and R at every end, `(..., ends)`; 0 at the infinite ends from outside."""
        steps = -rate[..., None] * self.gaps
        fall = np.exp(steps)
        gain = -np.expm1(steps) * self.allowed[1:-1]
        left, right = np.zeros((2, *rate.shape, self.ends.size))
        left[..., 1:-1] = _passed(fall, gain, self.allowed[0])
        right[..., -2:0:-1] = _passed(fall[..., ::-1], gain[..., ::-1], self.allowed[-1])
        return left, right


def _passed(fall: FloatArray, gain: FloatArray, first: float) -> FloatArray:
    """Return x_0 = first, x_k+1 = x_k fall_k + gain_k along the last axis."""
    if fall.size == fall.shape[-1]:  # one scale: floats are quicker than arrays of one
        x = first
        out = [x]
        for f, g in zip(fall.ravel().tolist(), gain.ravel().tolist(), strict=True):
            x = x * f + g
            out.append(x)
        return np.array(out)
    many = np.full((fall.shape[-1] + 1, *fall.shape[:-1]), first)
    for k, (f, g) in enumerate(
        zip(np.moveaxis(fall, -1, 0), np.moveaxis(gain, -1, 0), strict=True)
    ):
        many[k + 1] = many[k] * f + g
    return np.moveaxis(many, 0, -1)
