"""The exponential mechanism over a finite set of candidates with integer scores, exact.

For scores s_1 .. s_m (smaller is better; any integers) and k_y = s_y - min s,

    P(y) = w[k_y] / sum over z of w[k_z],    w[0] = 2**top,  w[k + 1] = ceil(w[k] * p / 2**60).

Privacy. One unit changes the score of y by c_y; `spread` bounds max c - min c over candidates:
2 d if scores move by at most d either way, d if they all move the same way (monotonic scores).
Let e_y = k'_y - k_y. It differs from c_y by a constant, so max e - min e <= spread; at the best
candidate before, e >= 0, at the best one after, e <= 0. Weights never rise with k, and fall by at
most r = p / 2**60 per step, exactly, so w[k] / w[k'] <= r^-max(e, 0) and the normalisers differ by
at most r^-max(-e, 0):

    P(y) / P'(y) <= r^-(max e) * r^(min e) <= r^-spread,

one rational against a rational lower bound of e^epsilon. Every weight is at least 1: the same
support for all data.

Units    scores, spread: integers (ranks, counts); epsilon in nats.
Sources  McSherry & Talwar, "Mechanism design via differential privacy"; the spread ("bounded
         range"): Durfee & Rogers, "Practical differentially private top-k selection".
Limits   `CANDIDATE_LIMIT` candidates; far weights end at 1, a mass below 2**-20 together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError
from dprelease.mechanisms.law import Certificate, IntArray, certify_ratio
from dprelease.mechanisms.sampling import uniform_each
from dprelease.numeric import fraction_from_json, fraction_to_json, positive

__all__ = ["CANDIDATE_LIMIT", "ScoreLaw"]

CANDIDATE_LIMIT = 2**20
_BITS = 60
_EPSILON_RANGE = (Fraction(1, 10**5), Fraction(1000))
_CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class ScoreLaw:
    """Exponential weights p / 2**60 per score step over `candidates` candidates."""

    candidates: int
    spread: int
    epsilon: Fraction
    p: int

    @property
    def family(self) -> str:
        return "exponential"

    @classmethod
    def calibrate(cls, candidates: int, *, spread: int, epsilon: object) -> ScoreLaw:
        """Return the law of largest rate whose loss is at most `epsilon`.

        Args:
            candidates: how many; public.
            spread: most that one unit changes the difference of two candidates' scores.
            epsilon: nats.

        Raises:
            ArgumentError: counts below 1, too many candidates, or epsilon (per unit of spread)
                out of range (DPR683); epsilon not above 0 (DPR606).
        """
        budget = positive(epsilon, "epsilon")
        low, high = _EPSILON_RANGE
        if not (1 <= candidates <= CANDIDATE_LIMIT and spread >= 1):
            raise ArgumentError(
                "this is no finite choice",
                why=f"it takes 1 to {CANDIDATE_LIMIT} candidates and a spread of at least 1",
                fix="use fewer candidates, e.g. a coarser grid",
                code="DPR683",
            )
        if not low <= budget / spread or budget > high:
            raise ArgumentError(
                "epsilon is out of range for this spread",
                why="epsilon / spread is below 1e-5, or epsilon above 1000",
                fix="use a larger epsilon, or bound contributions further",
                code="DPR683",
            )
        rate = float(budget / spread)
        p = max(1, min(2**_BITS, math.ceil(math.ldexp(math.exp(-rate), _BITS))))
        widen = 1
        while True:  # the float proposes; ends at p = 2**60, where all candidates are alike
            law = cls(candidates, spread, budget, p)
            if law.certify().epsilon_upper <= budget:
                return law
            p, widen = min(2**_BITS, p + widen), 2 * widen

    @property
    def certificate(self) -> Certificate:
        return self.certify()

    def certify(self) -> Certificate:
        """Recompute the proof from the integers alone."""
        ratio = _power_upper(Fraction(2**_BITS, self.p), self.spread)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "(2**60 / p)**spread, rounded up, against a lower bound of e^epsilon",
            p=self.p, spread=self.spread, candidates=self.candidates,
        )  # fmt: skip

    def draw_scores(self, scores: npt.ArrayLike, bits: RandomBits) -> IntArray:
        """Return the index of the chosen candidate per group, shape `(groups,)`.

        `scores` are integers of shape `(groups, candidates)`, smaller is better.

        Raises:
            ArgumentError: the shape is not `(groups, candidates)` or scores are no integers
                (DPR683); no score is shown.
        """
        table = self._checked(scores)
        out = np.zeros(table.shape[0], dtype=np.int64)
        step = max(1, _CHUNK // self.candidates)
        for start in range(0, table.shape[0], step):
            running = np.cumsum(self._weigh(table[start : start + step]), axis=1)
            goal = uniform_each(running[:, -1], bits)
            out[start : start + step] = (running <= goal[:, None]).sum(axis=1)
        return out

    def pmf(self, scores: npt.ArrayLike) -> list[Fraction]:
        """Return the exact chance of each candidate for one row of scores, `(candidates,)`."""
        weights = self._weigh(self._checked(np.asarray(scores)[None, :]))[0].tolist()
        total = sum(weights)
        return [Fraction(w, total) for w in weights]

    def _checked(self, scores: npt.ArrayLike) -> IntArray:
        table = np.asarray(scores)
        if (
            table.ndim != 2
            or table.shape[1] != self.candidates
            or not np.can_cast(table.dtype, np.int64)
        ):
            raise ArgumentError(
                "scores are integers of shape (groups, candidates)",
                why=f"this choice has {self.candidates} candidates",
                fix="pass one row of integer scores per group",
                code="DPR683",
            )
        return table.astype(np.int64)

    def _weigh(self, table: IntArray) -> IntArray:
        weights = _weights(self.p, self.candidates)
        # Unsigned: exact for all int64. Clipping scores instead would change their spread.
        apart = table.astype(np.uint64) - table.min(axis=1, keepdims=True).astype(np.uint64)
        out: IntArray = weights[np.minimum(apart, np.uint64(weights.size - 1)).astype(np.int64)]
        return out

    def reach(self, level: float) -> int:
        """Return k: the chosen score is at most k above the best one with probability `level`.

        Holds for all scores: at most candidates - 1 have a weight of w[k + 1] or less, and the
        best one has w[0], so P(more than k) <= (candidates - 1) w[k + 1] / w[0].
        """
        weights = _weights(self.p, self.candidates)
        share = (self.candidates - 1) * weights[1:].astype(np.float64) / float(weights[0])
        # Falling; past the table's end the last weight stands for all, a mass below 2**-20.
        return int(np.searchsorted(-share, level - 1, side="left"))

    @property
    def rate(self) -> float:
        """Nats per score step."""
        return -math.log(self.p / 2**_BITS)

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law."""
        return {
            "family": self.family,
            "candidates": self.candidates,
            "spread": self.spread,
            "epsilon": fraction_to_json(self.epsilon),
            "p": self.p,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ScoreLaw:
        """Rebuild a law; ValueError if the numbers are inconsistent."""
        law = cls(
            int(value["candidates"]), int(value["spread"]),
            fraction_from_json(value["epsilon"]), int(value["p"]),
        )  # fmt: skip
        if not (
            1 <= law.candidates <= CANDIDATE_LIMIT and law.spread >= 1 and 0 < law.p <= 2**_BITS
        ):
            raise ValueError("candidates, spread or p")
        return law

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (rate {self.rate:.6g} per score step, {self.candidates} candidates)"


@lru_cache(maxsize=16)
def _weights(p: int, candidates: int) -> IntArray:
    """Return w[0], w[1], ... down to the first 1; a group's sum stays below 2**62."""
    top = 61 - candidates.bit_length()
    up, w = (1 << _BITS) - 1, 1 << top
    out = [w]
    while w > 1:
        after = (w * p + up) >> _BITS
        if after == w:  # the recurrence stands still: all later weights are alike
            break
        w = after
        out.append(w)
    return np.array(out, dtype=np.int64)


def _power_upper(base: Fraction, exponent: int) -> Fraction:
    """Return a rational upper bound of base**exponent (base >= 1), kept short by rounding up."""
    result, square = Fraction(1), base
    while exponent:
        if exponent & 1:
            result = _shorten(result * square)
        exponent >>= 1
        if exponent:
            square = _shorten(square * square)
    return result


def _shorten(value: Fraction) -> Fraction:
    """Round up to a multiple of 2**-256: a relative 2**-256, as values are at least 1."""
    return Fraction(-(-(value.numerator << 256) // value.denominator), 1 << 256)
