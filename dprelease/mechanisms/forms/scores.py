"""The exponential mechanism over a finite set of candidates with integer scores, exact.

For scores s_1 .. s_m (smaller is better; any integers) and k_y = s_y - min s,

    P(y) = w[k_y] / sum over z of w[k_z],    w[k] = w[last] for k > last.

Candidates are given in *runs* of equal score, so that the work grows with the number of different
scores in a row and not with the number of candidates: a run of N candidates weighs N w[k].

Weights. r = p / 2**120, B a power of two with B (1 - r) <= 1/16 where there is one (else 1):

    w[j B + i] = u[j] v[i],   v[0] = 2**64,   v[i + 1] = ceil(v[i] r),
                              u[0] = 2**T,    u[j + 1] = ceil(u[j] v[B - 1] r / v[0]),

as long as they fall; `last` is where the rounding would let them rise, or nearer by choice. By
construction w[k] <= w[k + 1] / r everywhere, over the ends of the blocks too, and never do they rise.
They do where u is below about 1 / (1 - r); T has 24 bits more than that and the number of candidates
together, so that all candidates beyond `last` weigh less than 2**-20 of the best one, unless `last` is
chosen nearer or the table ends before.

Privacy. One unit changes the score of y by c_y; `spread` bounds max c - min c over candidates:
2 d if scores move by at most d either way, d if they all move the same way (monotonic scores).
Let e_y = k'_y - k_y. It differs from c_y by a constant, so max e - min e <= spread; at the best
candidate before, e >= 0, at the best one after, e <= 0. Weights never rise with k, and fall by at
most r per step, exactly, so w[k] / w[k'] <= r^-max(e, 0) and the normalisers differ by
at most r^-max(-e, 0):

    P(y) / P'(y) <= r^-(max e) * r^(min e) <= r^-spread,

one rational against a rational lower bound of e^epsilon. Every weight is at least 1: the same
support for all data.

Units    scores, spread: integers (ranks, counts); epsilon in nats.
Sources  McSherry & Talwar, "Mechanism design via differential privacy"; the spread ("bounded
         range"): Durfee & Rogers, "Practical differentially private top-k selection"; runs of equal
         score: Smith, "Privacy-preserving statistical estimation with optimal convergence rates".
Limits   `CANDIDATE_LIMIT` candidates; rates of at least 1e-15 and at most 83 per score step. Below
         1e-8 the table ends before its weights have all but vanished, 8.6 * 10^9 steps from the best.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Digits
from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, first_holding, positive
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.certificate import Certificate, certify_ratio

CANDIDATE_LIMIT = 2**60 + 1
OUTCOME_LIMIT = 2**512
"""Most sequences of candidates that a joint choice (`forms.joint_scores`) tells apart."""
_BITS = 120
_HEAD = 64
_MOST_INNER = 2**16
_MOST_OUTER = 2**17
LONGEST = _MOST_INNER * _MOST_OUTER
"""Score steps of the longest table."""
_EPSILON_RANGE = (Fraction(1, 10**15), Fraction(1000))
_FAR = 10 * _EPSILON_RANGE[1]


@dataclass(frozen=True, slots=True)
class ScoreLaw(Stored):
    """Exponential weights p / 2**120 per score step, alike from `last` steps on, which weigh 2**-room / candidates or less.

    A candidate z is chosen with a chance of at most w[k_z] / (lead w[0]).
    """

    family: ClassVar[str] = "exponential"
    lead: ClassVar[int] = 1
    room: ClassVar[int] = 24
    constants: ClassVar[Mapping[str, str]] = {"family": "family"}

    candidates: Digits
    spread: int
    epsilon: Fraction
    p: Digits
    last: int

    @classmethod
    def calibrate(
        cls,
        candidates: int,
        *,
        spread: int,
        epsilon: Number,
        most: int | None = None,
        joint: bool = False,
    ) -> Self:
        """Return the law of largest rate whose loss is at most `epsilon`.

        Args:
            candidates: how many; public.
            spread: most that one unit changes the difference of two candidates' scores.
            epsilon: nats.
            most: no more than so many scores above the best one are told apart.
            joint: they are the sequences of a joint choice.

        Raises:
            ArgumentError: counts below 1, too many candidates, or epsilon (per unit of spread)
                out of range (DPR683); epsilon not above 0 (DPR606).
        """
        budget = positive(epsilon, "epsilon")
        low, high = _EPSILON_RANGE
        limit = OUTCOME_LIMIT if joint else CANDIDATE_LIMIT
        if not (1 <= candidates <= limit and spread >= 1):
            raise ArgumentError(
                "this is not a finite choice",
                why="it takes 1 to 2**60 candidates and a spread of at least 1",
                fix="use fewer candidates, e.g. a coarser grid",
                code="DPR683",
            )
        if not low <= budget / spread or budget > high:
            raise _out_of_range()
        p = _proposed(float(budget / spread))
        widen = max(1, p >> 56)
        while cls(candidates, spread, budget, p, 0).certify().epsilon_upper > budget:
            p, widen = min(2**_BITS, p + widen), 2 * widen  # ends where all candidates are alike
        last = _weights(p, candidates.bit_length() + cls.room).last
        return cls(candidates, spread, budget, p, last if most is None else min(last, most))

    @property
    def certificate(self) -> Certificate:
        return self.certify()

    def certify(self) -> Certificate:
        """Recompute the proof from the integers alone; ArgumentError for a loss above all that are calibrated (DPR683)."""
        if self.spread * Fraction(2**_BITS - self.p, 2**_BITS) > _FAR:  # log(1 / x) >= 1 - x
            raise _out_of_range()
        ratio = _power_upper(Fraction(2**_BITS, self.p), self.spread)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "(2**120 / p)**spread, rounded up, against a lower bound of e^epsilon",
            p=self.p, spread=self.spread, candidates=self.candidates,
        )  # fmt: skip

    def weights(self, apart: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Return w[k] as Python integers for k >= 0, same shape."""
        table = self._table
        k = np.minimum(apart, min(self.last, table.last)).astype(np.int64)
        out: npt.NDArray[np.object_] = table.outer[k // table.block] * table.inner[k % table.block]
        return out

    def draw_runs(
        self, counts: npt.NDArray[Any], scores: npt.NDArray[np.int64], bits: RandomBits
    ) -> tuple[int, int]:
        """Return (run, place in it) of one chosen candidate.

        Args:
            counts: candidates of each run, 0 or more, together `candidates`; scores: of each run, of
                which one with the least score is not empty. Shape `(runs,)` both.

        Raises:
            InternalError: the source is stuck (DPR904).
        """
        weights = self.weights(scores - scores.min())
        running = list(accumulate((counts.astype(object) * weights).tolist()))
        goal = int(uniform_below(running[-1], 1, bits)[0])
        run = bisect_right(running, goal)
        return run, (goal - (running[run - 1] if run else 0)) // int(weights[run])

    def draw_scores(self, scores: npt.ArrayLike, bits: RandomBits) -> IntArray:
        """Return the index of the chosen candidate per group, shape `(groups,)`.

        `scores` are integers of shape `(groups, candidates)`, smaller is better.

        Raises:
            ArgumentError: the shape is not `(groups, candidates)` or scores are not integers
                (DPR683); no score is shown.
        """
        apart = self._apart(scores)
        alone = np.ones(self.candidates, dtype=np.int64)
        drawn = [self.draw_runs(alone, row, bits)[0] for row in apart]
        return np.array(drawn, dtype=np.int64)

    def pmf(self, scores: npt.ArrayLike) -> list[Fraction]:
        """Return the exact chance of each candidate for one row of scores, `(candidates,)`."""
        weights = self.weights(self._apart(np.asarray(scores)[None, :])[0]).tolist()
        total = sum(weights)
        return [Fraction(w, total) for w in weights]

    def _apart(self, scores: npt.ArrayLike) -> IntArray:
        """Return k, at most `last` (beyond it all weights are alike), `(groups, candidates)`."""
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
        table = table.astype(np.int64)
        # Unsigned: exact for all int64. Clipping scores instead would change their spread.
        apart = table.astype(np.uint64) - table.min(axis=1, keepdims=True).astype(np.uint64)
        near: IntArray = np.minimum(apart, np.uint64(self.last)).astype(np.int64)
        return near

    def score_error(
        self, level: float, others: Fraction | None = None, near: int = 0
    ) -> int | None:
        """Return k: the chosen score is at most k above the best one with probability `level`.

        Holds for all scores: at most candidates - 1 have a weight of w[k + 1] or less, and the
        best one has w[0], so P(more than k) <= (candidates - 1) w[k + 1] / (lead w[0]). None where
        the weights do not fall that far.

        Args:
            others: how many there are, at most, for each one that scores at most `near`.
        """
        table = self._table
        end = min(self.last, table.last)
        best = table.weight(min(near, end))
        room = Fraction(1 - level).limit_denominator(10**12) * (1 - Fraction(1, 10**9))
        against = self.candidates - 1 if others is None else others

        def enough(k: int) -> bool:
            return against * table.weight(min(k + 1, end)) <= room * self.lead * best

        if self.candidates == 1:
            return 0
        if not enough(end):
            return None
        return first_holding(enough, -1, end)

    def geometric_to(self, slack: Fraction) -> int:
        """Return the largest k up to which w[k] is at most 1 + slack times r^k w[0], which it never is below."""
        table = self._table
        rise, most = Fraction(2**_BITS, self.p), (1 + slack) * table.weight(0)

        def far(k: int) -> bool:
            return table.weight(k) * _power_upper(rise, k) > most

        return first_holding(far, 0, min(self.last, table.last) + 1) - 1

    @property
    def reach(self) -> float:
        """Nats from the best weight to the least one."""
        best, least = (int(w) for w in self.weights(np.array([0, self.last])))
        return math.log(best) - math.log(least)

    @property
    def _table(self) -> _Weights:
        return _weights(self.p, self.candidates.bit_length() + self.room)

    @property
    def rate(self) -> float:
        """Nats per score step."""
        return math.log1p((2**_BITS - self.p) / self.p)

    def completed(self) -> ScoreLaw:
        if not (
            1 <= self.candidates <= OUTCOME_LIMIT
            and self.spread >= 1
            and 0 < self.p <= 2**_BITS
            and 0 <= self.last < 2**48
        ):
            raise ValueError("candidates, spread, p or last")
        return self

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (rate {self.rate:.6g} per score step, {self.candidates} candidates)"


@dataclass(frozen=True, slots=True)
class _Weights:
    """w[j block + i] = outer[j] inner[i] for k up to `last`."""

    block: int
    inner: npt.NDArray[np.object_]
    outer: npt.NDArray[np.object_]
    last: int

    def weight(self, k: int) -> int:
        product: int = self.outer[k // self.block] * self.inner[k % self.block]
        return product


def _proposed(rate: float) -> int:
    """Return about 2**120 e^-rate: the float proposes, the certificate is the judge."""
    if rate >= _BITS * math.log(2):
        return 1
    gone = Fraction(-math.expm1(-rate))  # e^-rate itself would lose small rates
    whole = 1 << _BITS
    return max(1, min(whole, math.ceil((1 - gone) * whole)))


@lru_cache(maxsize=64)
def _weights(p: int, bits: int) -> _Weights:
    """Return weights that fall by about 2**-bits before they are alike."""
    one = 1 << _BITS
    block = 1
    while block < _MOST_INNER and 32 * block * (one - p) <= one:
        block *= 2
    stand = _BITS - (one - p).bit_length()
    inner = [1 << _HEAD]
    while len(inner) < block:
        inner.append(-(-inner[-1] * p // one))
    outer = [1 << (bits + stand)]
    edge, whole = inner[-1] * p, inner[0] << _BITS
    while p < one and len(outer) < _MOST_OUTER:
        after = -(-outer[-1] * edge // whole)
        if after * inner[0] >= outer[-1] * inner[-1]:  # it would stand still, or rise
            break
        outer.append(after)
    last = len(outer) * block - 1 if p < one else 0
    return _Weights(block, np.array(inner, dtype=object), np.array(outer, dtype=object), last)


def _out_of_range() -> ArgumentError:
    return ArgumentError(
        "epsilon is out of range for this spread",
        why="epsilon / spread is below 1e-15, or epsilon above 1000",
        fix="use a larger epsilon, or bound contributions further",
        code="DPR683",
    )


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
