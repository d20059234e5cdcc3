"""The error of a cell as a short list of draws and a bulk of many small ones.

What counts is kept draw by draw: the `KEPT` terms (`MOST_KEPT` of narrow noise, or where one law alone is asked for) with
the largest part of the variance. Of the
others only three numbers are kept, which bracket their characteristic function:

    e^(-v t^2 / 2 - q t^4) <= phi(t) <= e^(-v t^2 / 2 + q t^4)   while  widest * t^2 <= 1,

and E e^(s X) <= e^(v s^2) while widest * s^2 <= 1/2.

Units    weights are pure numbers; draws in steps.
Sources  `docs/theory/publications-that-add-up.md#the-law-of-a-combination`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dprelease.fitting.noise import Noise

KEPT = 12
MOST_KEPT = 64
"""Where noise is narrower than a step: its characteristic function does not fall off, so a bulk says little."""

Draws = tuple[Noise, float]
"""A noise and the size of its weight."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """Many small terms: their variance, the bound of the quartic term, and the widest of them.

    `widest` is the largest square of a weight times the noise's variance, or 1 where that is less.
    """

    variance: float = 0.0
    quartic: float = 0.0
    widest: float = 0.0

    def scaled(self, weight: float, count: int) -> Bulk:
        """Return `count` independent copies, each times `weight`."""
        square = weight * weight
        return Bulk(
            count * square * self.variance, count * square * square * self.quartic,
            square * self.widest,
        )  # fmt: skip

    def plus(self, other: Bulk) -> Bulk:
        return Bulk(
            self.variance + other.variance,
            self.quartic + other.quartic,
            max(self.widest, other.widest),
        )


@dataclass(frozen=True, slots=True)
class Law:
    """`draws[noise, weight]`: how many, all independent; and the bulk."""

    draws: Mapping[Draws, int]
    bulk: Bulk = Bulk()

    @classmethod
    def of(cls, parts: Iterable[tuple[Law, float, int]], *, kept: int = KEPT) -> Law:
        """Return the law of a sum: per part its law, a weight, and how many independent copies.

        Args:
            kept: so many terms are kept draw by draw.
        """
        found: dict[Draws, int] = {}
        bulk = Bulk()
        for law, weight, count in parts:
            if not weight or count <= 0:
                continue
            bulk = bulk.plus(law.bulk.scaled(weight, count))
            for (noise, own), n in law.draws.items():
                key = noise, abs(own * weight)
                found[key] = found.get(key, 0) + n * count
        narrow = any(float(noise.variance()) < 1 for noise, _ in found)
        kept = MOST_KEPT if narrow else kept
        if len(found) <= kept:
            return cls(found, bulk)
        sized = {key: float(key[0].variance()) * key[1] ** 2 for key in found}
        ranked = sorted(found, key=lambda key: (-found[key] * sized[key], key[1]))
        for noise, weight in ranked[kept:]:
            variance = sized[noise, weight]
            quartic = weight**4 * (float(noise.variance()) ** 2 / 4 + noise.fourth() / 24)
            widest = weight**2 * max(float(noise.variance()), 1.0)
            bulk = bulk.plus(Bulk(variance, quartic, widest).scaled(1.0, found[noise, weight]))
        return cls({key: found[key] for key in ranked[:kept]}, bulk)
