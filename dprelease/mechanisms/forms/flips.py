"""Permute-and-flip over a finite set of candidates with integer scores, exact.

Every candidate is kept by a coin of its own, with chance w[k_y] / w[0] for the weights w of `ScoreLaw` (so a
best one always is), and one of those that are kept is drawn, each as likely:

    P(y) = E[kept(y) / number kept] = v_y * integral over t in 0..1 of prod over z != y of (1 - t v_z),  v = w / w[0].

That is a walk through the candidates in random order which stops at the first coin that falls right: no
candidate is tried twice, where the exponential mechanism would try them again and again. So it never errs
more than the exponential mechanism of these weights, and down to half as often. It is also the candidate of least
time U / v, U uniform in 0..1: of least score plus exponential noise, where weights are exponential.

Law. Who has a time in (l, h], given that it is later than l, has it with chance (h - l) v / (1 - l v), whoever
else has; all times there are alike, so one of them is drawn. From h = 2**-j, where four to eight are expected to
have one, h doubles until somebody has, and at 1 a best one does. Of a run of N alike their number is binomial, drawn
by its distribution function in integers, rounded down and up, and of more digits while they do not decide.

Privacy. With e and the weights of `ScoreLaw`: v'_y >= r^(max e) v_y, and v'_z <= min(1, r^(min e) v_z) for all z.
Put t = u r^(-min e) into the integral after:

    P'(y) >= r^(max e) v_y * r^(-min e) * integral over u in 0..r^(min e) of prod (1 - u min(r^(-min e), v_z))
          >= r^(max e - min e) P(y) >= r^spread P(y).

So the certificate is that of the exponential mechanism, the same rational. The losses of one pair may differ by
twice as much, so under zCDP only the loss itself counts.

Errors. Beside a best candidate, which has the coin 1, the integral of another z is at most that of 1 - t: it
is chosen with a chance of at most v_z / 2 (`lead`).

Units    scores, spread: integers (ranks, counts); epsilon in nats.
Sources  `docs/theory/certificates.md#permute-and-flip`, `#what-permute-and-flip-gains-and-costs`;
         McKenna & Sheldon, "Permute-and-flip: a new mechanism for differentially private selection" (2020);
         exponential noise: Ding, Kifer et al., "The permute-and-flip mechanism is identical to
         report-noisy-max with exponential noise" (2021).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits, stuck, uniform_below
from dprelease.mechanisms.forms.scores import ScoreLaw

_WORD = 64
_MANY = 3
_ROUNDS = 16
_SURE = 2.0**-30
"""Far more than the error of a chance in floating point: what is nearer to a draw is compared in integers."""


@dataclass(frozen=True, slots=True)
class FlipLaw(ScoreLaw):
    """The weights of an exponential mechanism as coins."""

    family: ClassVar[str] = "permute_and_flip"
    lead: ClassVar[int] = 2

    @classmethod
    def from_scores(cls, law: ScoreLaw) -> FlipLaw:
        """Return the law of the same weights, and of the same certificate."""
        return cls(law.candidates, law.spread, law.epsilon, law.p, law.last)

    def draw_runs(
        self, counts: npt.NDArray[Any], scores: npt.NDArray[np.int64], bits: RandomBits
    ) -> tuple[int, int]:
        """Return (run, place in it) of one chosen candidate; as `ScoreLaw.draw_runs`."""
        apart = np.maximum(scores - scores[counts > 0].min(), 0)
        weights = self.weights(np.append(apart, 0))
        weights, best = weights[:-1], int(weights[-1])
        for low, high, last in time_spans(int((counts.astype(object) * weights).sum()) // best):
            heads = _heads(counts, (high - low) * weights, last * best - low * weights, bits)
            running = list(accumulate(heads))
            if running[-1]:
                break
        run = bisect_right(running, int(uniform_below(running[-1], 1, bits)[0]))
        return run, int(uniform_below(int(counts[run]), 1, bits)[0])

    def pmf(self, scores: npt.ArrayLike) -> list[Fraction]:
        """Return the exact chance of each candidate for one row of scores, `(candidates,)`.

        By the number of the others that are kept, one candidate after the other: for a few candidates.
        """
        *weights, best = self.weights(np.append(self._apart(np.asarray(scores)[None, :])[0], 0))
        coins = [Fraction(int(w), int(best)) for w in weights]
        return [coin * _shared(coins[:y] + coins[y + 1 :]) for y, coin in enumerate(coins)]


def time_spans(total: int) -> Iterator[tuple[int, int, int]]:
    """Yield (l, h, of): stretches l / of to h / of of the times, the last up to 1, where all coins add up to `total`."""
    of = 1 << max(0, total.bit_length() - _MANY)
    low, high = 0, 1
    while low < of:
        yield low, high, of
        low, high = high, 2 * high


def _heads(
    counts: npt.NDArray[Any],
    right: npt.NDArray[np.object_],
    of: npt.NDArray[np.object_],
    bits: RandomBits,
) -> list[int]:
    """Return how many of `counts` coins of chance `right / of` fall right, of each run, exactly.

    A run's first 64 binary places decide in floating point that there is none, but for `_SURE`.
    """
    first = np.frombuffer(bits.read(8 * counts.size), dtype=np.uint64)
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.exp(counts * np.log1p(-np.asarray(right / of, dtype=np.float64)))
    out = [0] * counts.size
    for i in np.flatnonzero((counts > 0) & ~(first / 2.0**_WORD < none - _SURE)).tolist():
        out[i] = _binomial(int(counts[i]), int(right[i]), int(of[i]), int(first[i]), bits)
    return out


def _binomial(count: int, right: int, of: int, drawn: int, bits: RandomBits) -> int:
    """Return the number of heads whose stretch of 0..1 holds the number that begins with the 64 places `drawn`.

    Raises:
        InternalError: the source is stuck (DPR904).
    """
    if right == of:
        return count
    places = _WORD
    for _ in range(_ROUNDS):
        one = 1 << (places + _WORD)
        low, high = power_bounds(of - right, of, count, one)
        down, up = low, high
        for heads in range(count + 1):
            if (drawn + 1) << _WORD <= down or heads == count:
                return heads
            if drawn << _WORD < up:
                break  # it may be on either side of this end
            more, each = (count - heads) * right, (heads + 1) * (of - right)
            low, high = low * more // each, -(-high * more // each)
            down, up = down + low, up + high
        drawn = drawn << _WORD | int.from_bytes(bits.read(_WORD // 8), "little")
        places += _WORD
    raise stuck()


def power_bounds(part: int, of: int, exponent: int, one: int) -> tuple[int, int]:
    """Return bounds of (part / of)**exponent, in units of 1 / one."""
    low = high = one
    square, above = part * one // of, -(-part * one // of)
    while exponent:
        if exponent & 1:
            low, high = low * square // one, -(-high * above // one)
        exponent >>= 1
        square, above = square * square // one, -(-above * above // one)
    return low, high


def _shared(coins: list[Fraction]) -> Fraction:
    """Return the mean of 1 / (1 + heads)."""
    heads = [Fraction(1)]
    for coin in coins:
        tails = [h * (1 - coin) for h in heads] + [Fraction(0)]
        heads = [t + h * coin for t, h in zip(tails, [Fraction(0), *heads], strict=True)]
    return sum((h / (1 + n) for n, h in enumerate(heads)), Fraction(0))
