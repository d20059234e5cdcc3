"""Additive grid laws: exact integer noise on the clamped answer, then a fixed remap.

For a clamped answer q the raw draw is q + D, with D symmetric integer noise of full support
(`staircase`, `discrete_laplace`); the published value is `remap(q + D)`, which lies in the allowed
set. The family is in the noise: this module adds, remaps, prices and inverts.

Privacy. The noise's certificate bounds P(D = d) / P(D = d + s) for every |s| <= distance, so the raw
draw has that loss for any two clamped answers at most `distance` steps apart, and the remap is
post-processing. The answer itself is never snapped.

Units    grid steps; epsilon in nats.
Sources  `docs/theory/kernels-and-boundaries.md#noise-and-a-fixed-map`, `docs/theory/intervals.md#additive-laws`;
         noise: see the noise's module. Remap: `boundaries/remap.py`.
Limits   pmf and table remaps enumerate the hull; huge hulls have closed-form errors only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import methodcaller
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import WrittenAs
from dprelease.core.entropy import RandomBits
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.boundaries import remap as remaps
from dprelease.mechanisms.boundaries import remap_prior
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.forms.base import ScalarLaw, too_many_outputs
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import Ends, ExpectedError, GridRequest, choose_answers

FloatArray = npt.NDArray[np.float64]
_SATURATION = 2**62


AdditiveNoise = DiscreteLaplaceNoise | StaircaseNoise
"""The kernels whose loss is proved for the bare noise: symmetric integers, not increasing in |d|, with
P(d + period) = decay * P(d) for d >= 0."""


@dataclass(frozen=True, slots=True)
class AdditiveLaw(ScalarLaw):
    """`remap(clamped answer + noise)`. Satisfies `GridLaw`.

    `prior` holds one integer weight per hull answer; None is the uniform prior.
    """

    family: str
    splits: bool
    remap: remaps.Remap
    noise: Annotated[AdditiveNoise, WrittenAs(methodcaller("to_json"), lambda noise: noise)]
    prior: remap_prior.Prior | None = None

    @classmethod
    def build(
        cls,
        family: str,
        request: GridRequest,
        noise: AdditiveNoise,
        *,
        nearest: bool = False,
    ) -> AdditiveLaw:
        """Return the law with the best remap for the request's loss (or the nearest map).

        A request judged by its worst answer gets the minimax map, on small hulls.
        """
        kind: remaps.Remap = "median" if request.loss == "absolute" else "mean"
        if nearest or not remaps.fits(noise, request.allowed):
            kind = "nearest"
        prior = None
        small = max(request.allowed.hull_steps, noise.period) < remap_prior.PRIOR_LIMIT
        if request.criterion == "worst" and kind != "nearest" and small:
            prior = remap_prior.least_favourable(noise, request.allowed, kind)
        return cls(
            request.allowed, request.sensitivity, request.epsilon, request.loss,
            family, request.splits, kind, noise, prior,
        )  # fmt: skip

    @property
    def capped_sensitivity(self) -> int:
        """Steps that two neighbouring answers can really be apart; all of them where one splits."""
        return GridRequest(
            self.allowed, self.sensitivity, self.epsilon, splits=self.splits
        ).capped_sensitivity

    def certify(self) -> Certificate:
        """Recompute the proof from the noise's integers, for the capped sensitivity."""
        return self.noise.certify(
            self.family, self.capped_sensitivity, self.epsilon, splits=self.splits
        )

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return clamped answer + noise, saturated at +-2**62; shape `(groups,)`."""
        clamped = self.clamp(answers)
        noisy = clamped + self.noise.sample(clamped.size, bits)
        out: IntArray = np.clip(noisy, -_SATURATION, _SATURATION)
        return out

    def finish(self, raw: IntArray) -> IntArray:
        """Return the remap of each raw integer: always an allowed point."""
        return remaps.apply(self.noise, self.allowed, self.remap, raw, self.prior)

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return [raw - k, raw + k] clipped to the hull, with P(|noise| <= k) >= level, of the nearest raw integer in it.

        The raw integer is inverted, not the remapped one: remapped staircase draws are not
        stochastically increasing in the answer.
        """
        k = self.noise.quantile(level)
        low, high = self.allowed.lower, self.allowed.upper
        if k >= _SATURATION // 2:  # twice the hull: it says nothing, and sums stay inside int64
            return np.full_like(raw, low), np.full_like(raw, high)
        raw = np.clip(raw, low, high)  # nearer to every answer, and never a point
        return np.maximum(raw - k, low), np.minimum(raw + k, high)

    def median_unbiased(self, raw: IntArray) -> FloatArray:
        """Return the raw integer, clipped: noise is symmetric."""
        return self.clamp(raw).astype(np.float64)

    def unbiased(self, raw: IntArray) -> FloatArray:
        """Return the raw integer, with tails averaged where the noise is memoryless there."""
        values = raw.astype(np.float64)
        low, high, beyond = self.allowed.lower, self.allowed.upper, self.noise.beyond
        return values if beyond is None else average_tails(values, low, high, beyond)

    def price(self, near: Ends | None) -> ExpectedError:
        if self.remap == "nearest":
            answers, share = choose_answers(self.allowed, near=near)
            errors = self._nearest_errors(answers)
        else:
            answers, share = choose_answers(
                self.allowed, 65 if self.allowed.hull_steps < 2**14 else 25, near
            )
            errors = self._table_errors(answers)
        return ExpectedError(float(errors @ share), float(errors.max()))

    def _table_errors(self, answers: IntArray) -> FloatArray:
        period, low = self.noise.period, self.allowed.lower
        outputs = remaps.table(self.noise, self.allowed, self.remap, self.prior)
        p = self.noise.weights(outputs.size)
        both = np.concatenate([p[:0:-1], p])  # distance d sits at index size - 1 + d
        # One block beyond each end stands for all its repeats: sum of decay**n.
        repeats = 1 / -np.expm1(np.log(self.noise.decay)) if self.noise.decay > 0 else 1.0
        scale = np.ones(outputs.size)
        scale[:period] = scale[outputs.size - period :] = repeats
        errors = np.empty(answers.size)
        for i, q in enumerate(answers):
            start = outputs.size - 1 - (int(q) - (low - period))
            gap = np.abs(outputs - q).astype(np.float64)
            cost = gap if self.loss == "absolute" else gap * gap
            # Not `@`: a threaded dot product costs more than the sum on busy machines.
            errors[i] = float((cost * both[start : start + outputs.size] * scale).sum())
        return errors

    def _nearest_errors(self, answers: IntArray) -> FloatArray:
        """Sum P(Y > x) above the answer and P(Y <= x) below it, in closed form per run and gap."""
        up = np.zeros(answers.size)
        pieces = [(a, b, None) for a, b in self.allowed.runs]
        gaps = pairwise(self.allowed.runs)
        segments: list[tuple[int, int, int | None]] = [*pieces]
        segments += [(a, b, (a + b) // 2) for (_, a), (b, _) in gaps]
        for a, b, middle in segments:
            up += self._one_side(answers, a, b, middle)
            # Mirror: P(Y <= x) for x in [a, b) becomes P(-Y > x') for x' = -1 - x.
            up += self._one_side(-answers, -b, -a, None if middle is None else -middle - 1)
        return up

    def _one_side(self, q: IntArray, a: int, b: int, middle: int | None) -> FloatArray:
        """Sum over x in [max(a, q), b) of P(Y > x), weighted by 2(x - q) + 1 if squared."""
        start = np.maximum(a, q) - q
        stop = np.maximum(b - q, start)
        order = 1 if self.loss == "absolute" else 2
        if middle is None:
            return np.where(stop > start, self.noise.between(start, stop)[order - 1], 0.0)
        d = middle - q  # in a gap Y > x exactly when the noise passes the middle
        above = self.noise.tails(np.maximum(d, 0))[0]
        below = 1 - self.noise.tails(np.maximum(-d - 1, 0))[0]
        chance = np.where(d >= 0, above, below)
        s, e = start.astype(np.float64), stop.astype(np.float64)
        out: FloatArray = chance * ((e - s) if order == 1 else (e * e - s * s))
        return out

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: probability}; Fractions for the staircase, floats otherwise.

        Raises:
            ArgumentError: the hull has too many points to enumerate (DPR623).
        """
        if not remaps.fits(self.noise, self.allowed):
            raise too_many_outputs()
        q = min(max(answer, self.allowed.lower), self.allowed.upper)
        outputs = remaps.table(self.noise, self.allowed, self.remap, self.prior)
        period, size = self.noise.period, outputs.size
        inner, outer = self.noise.block_weights(size)
        sums: dict[int, Any] = {}
        for i, y in enumerate(outputs.tolist()):
            distance = abs(i + self.allowed.lower - period - q)
            source = outer if i < period or i >= size - period else inner
            sums[y] = sums.get(y, 0) + source[distance]
        total = sum(sums.values())
        if isinstance(total, int):
            return {y: Fraction(w, total) for y, w in sums.items()}
        return {y: w / total for y, w in sums.items()}

    @classmethod
    def with_noise(cls, value: Mapping[str, Any], kernel: type[Stored]) -> AdditiveLaw:
        """Return the law that `to_json` wrote; its family says of which kernel its noise is."""
        return cls.from_json({**value, "noise": kernel.from_json(value["noise"])})

    def completed(self) -> AdditiveLaw:
        steps = self.allowed.hull_steps + 1
        if self.prior is not None and (len(self.prior) != steps or min(self.prior) < 1):
            raise ValueError("prior")
        return self

    def describe(self) -> str:
        """Return one line for a plan."""
        words = {
            "nearest": "nearest allowed value",
            "median": "posterior median",
            "mean": "posterior mean",
        }
        under = "" if self.prior is None else " under a stated prior"
        return f"{self.family} ({self.noise.describe()}), then {words[self.remap]}{under}"


_UNSEEN = 2.0**-40


def average_tails(raw: FloatArray, lower: int, upper: int, beyond: float) -> FloatArray:
    """Return raw draws with both memoryless tails averaged (`companion.py`)."""
    if lower >= upper:
        return raw
    beyond = 0.0 if beyond < _UNSEEN else beyond
    return np.where(raw <= lower, lower - beyond, np.where(raw >= upper, upper + beyond, raw))
