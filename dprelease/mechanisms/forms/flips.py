"""Permute-and-flip over a finite set of candidates with integer scores, exact.

Every candidate is kept by a coin of its own, with chance w[k_y] / w[0] for the weights w of `ScoreLaw` (so a
best one always is), and one of those that are kept is drawn, each as likely:

    P(y) = E[kept(y) / number kept] = v_y * integral over t in 0..1 of prod over z != y of (1 - t v_z),  v = w / w[0].

That is a walk through the candidates in random order which stops at the first coin that falls right: no
candidate is tried twice, where the exponential mechanism would try them again and again. So it never errs
more than the exponential mechanism of these weights, and down to half as often.

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
         McKenna & Sheldon, "Permute-and-flip: a new mechanism for differentially private selection" (2020).
Limits   `FLIP_LIMIT` candidates: each has its coin.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.scores import ScoreLaw

FLIP_LIMIT = 512
_WORD = 64


@dataclass(frozen=True, slots=True)
class FlipLaw(ScoreLaw):
    """The weights of an exponential mechanism as coins."""

    family: ClassVar[str] = "permute_and_flip"
    lead: ClassVar[int] = 2

    @classmethod
    def of(cls, law: ScoreLaw) -> FlipLaw:
        """Return the law of the same weights, and of the same certificate.

        Raises:
            ArgumentError: more than `FLIP_LIMIT` candidates (DPR683).
        """
        if law.candidates > FLIP_LIMIT:
            raise ArgumentError(
                "these are too many candidates for a coin each",
                why=f"permute-and-flip takes at most {FLIP_LIMIT}",
                fix="use the exponential mechanism, or a coarser grid",
                code="DPR683",
            )
        return cls(law.candidates, law.spread, law.epsilon, law.p, law.last)

    def draw_runs(
        self, counts: npt.NDArray[Any], scores: npt.NDArray[np.int64], bits: RandomBits
    ) -> tuple[int, int]:
        """Return (run, place in it) of one chosen candidate; as `ScoreLaw.draw_runs`."""
        apart = np.maximum(scores - scores[counts > 0].min(), 0)
        weights = self.weights(np.append(apart, 0))
        kept = np.flatnonzero(_heads(weights[:-1], counts, int(weights[-1]), bits))
        pick = int(uniform_below(3 * kept.size, 1, bits)[0]) // 3  # a stuck source never passes it
        place = int(kept[pick])
        ends = np.cumsum(counts)
        run = bisect_right(ends.tolist(), place)
        return run, place - int(ends[run] - counts[run])

    def pmf(self, scores: npt.ArrayLike) -> list[Fraction]:
        """Return the exact chance of each candidate for one row of scores, `(candidates,)`.

        By the number of the others that are kept, one candidate after the other: for a few candidates.
        """
        *weights, best = self.weights(np.append(self._apart(np.asarray(scores)[None, :])[0], 0))
        coins = [Fraction(int(w), int(best)) for w in weights]
        return [coin * _shared(coins[:y] + coins[y + 1 :]) for y, coin in enumerate(coins)]

    def completed(self) -> FlipLaw:
        if self.candidates > FLIP_LIMIT:
            raise ValueError("candidates")
        ScoreLaw.completed(self)
        return self


def _heads(
    weights: npt.NDArray[np.object_], counts: npt.NDArray[Any], best: int, bits: RandomBits
) -> npt.NDArray[np.bool_]:
    """Return coins that fall right with chances `weights / best`, `counts` of each, in order.

    `best` is a power of two above 2**64. The first 64 binary places decide, but for a share of 2**-64,
    where the others do.
    """
    rest = best.bit_length() - 1 - _WORD
    each = np.repeat(np.arange(weights.size), counts)
    certain = (weights == best).astype(bool)
    sure, tops = certain[each], np.where(certain, 0, weights >> rest).astype(np.uint64)[each]
    first = np.frombuffer(bits.read(8 * each.size), dtype=np.uint64)
    out: npt.NDArray[np.bool_] = sure | (first < tops)
    for i in np.flatnonzero(~sure & (first == tops)).tolist():
        low = int(weights[each[i]]) & ((1 << rest) - 1)
        out[i] = int(uniform_below(1 << rest, 1, bits)[0]) < low
    return out


def _shared(coins: list[Fraction]) -> Fraction:
    """Return the mean of 1 / (1 + heads)."""
    heads = [Fraction(1)]
    for coin in coins:
        tails = [h * (1 - coin) for h in heads] + [Fraction(0)]
        heads = [t + h * coin for t, h in zip(tails, [Fraction(0), *heads], strict=True)]
    return sum((h / (1 + n) for n, h in enumerate(heads)), Fraction(0))
