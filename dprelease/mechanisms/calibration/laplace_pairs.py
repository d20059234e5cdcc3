"""Pairs of answers on a union, and log C(q + z) - log C(q) for them without cancellation.

C(q) is the integral of e^(-|x - q| / b) over the domain. Both integrals are never subtracted: every
allowed interval splits at q and q + z into a part to the left, where the integrand falls by the
factor e^(-z / b), one to the right, where it rises by it, and one between, where

    e^-(z - v) - e^-u = e^-(z - v) (1 - e^-(u - z + v))    (distances in units of b, or mirrored).

Each part of the difference carries a factor 1 - e^-z or is at most as long as z, so it is exact to
a few ulp of z / b, however small z / b, epsilon or the domain in units of b may be.

A location is an `anchor`, the index of a finite end of the domain, plus an offset; distances
between ends are differences of exact numbers rounded once. As plain floats q and q + z would differ
from z by an ulp of q, which is 1e-7 of a z a thousand million times smaller than q.

Units    the domain's unit; logarithms in nats.
Sources  elementary integrals; checked in 60 digits against `tests/reference/laplace.py`.
Limits   float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.schema.domain import Domain

_FAR, _TINY = 600.0, 1e-300  # e^_FAR is a normal float
_LINEAR = np.linspace(0, 1, 33)
_NEAR_ENDS = 10.0 ** -np.arange(2.0, 11.0)
_FRACTIONS = np.array(sorted({*_LINEAR, *_NEAR_ENDS, *(1 - _NEAR_ENDS)}))


@dataclass(frozen=True, slots=True)
class AnswerPairs:
    """Pairs (q, q + z): q = end number `anchor` + `offset`. All of shape `(pairs,)`."""

    anchor: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    offset: FloatArray
    distance: FloatArray

    def take(self, index: int) -> AnswerPairs:
        """Return one pair as a set of pairs."""
        at = slice(index, index + 1)
        return AnswerPairs(self.anchor[at], self.offset[at], self.distance[at])

    def every(self, count: int) -> AnswerPairs:
        """Return every so-manieth pair, the first and the last included."""
        at = np.unique(np.append(np.arange(0, self.offset.size, count), self.offset.size - 1))
        return AnswerPairs(self.anchor[at], self.offset[at], self.distance[at])

    @classmethod
    def joined(cls, parts: list[AnswerPairs]) -> AnswerPairs:
        """Join sets of pairs."""
        return cls(
            np.concatenate([part.anchor for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.distance for part in parts]),
        )


Pieces = Sequence[tuple[Fraction | float, Fraction | float]]


def domain_pairs(pieces: Pieces, distance: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Return the worst pairs (q, r), q < r <= q + distance, of answers inside these allowed intervals.

    From every left end to the farthest allowed answer above within `distance`, to every left end
    from exactly `distance` below if that is allowed; and the mirror images. Feasibility is
    decided on exact numbers: (0.7 - 0.6) + 0.6 misses 0.7 in floats.
    """
    found = set[tuple[Any, Any]]()
    for a, c in pieces:
        if isinstance(a, Fraction):
            found.add((a, max(min(a + distance, v) for u, v in pieces if u <= a + distance)))
            if any(u <= a - distance <= v for u, v in pieces):
                found.add((a - distance, a))
        if isinstance(c, Fraction):
            found.add((min(max(c - distance, u) for u, v in pieces if v >= c - distance), c))
            if any(u <= c + distance <= v for u, v in pieces):
                found.add((c, c + distance))
    return sorted((q, r) for q, r in found if q < r)


def domain_runs(pieces: Pieces, distance: Fraction) -> list[tuple[float, float]]:
    """Return the runs of q for which both q and q + distance are allowed, ends exact before rounding.

    A pair of allowed answers lies within one of `domain_pairs` or is a pair of these runs: any
    other can be lengthened at one end without leaving the domain, and longer is worse.
    """
    both = [(max(a, c - distance), min(b, d - distance)) for a, b in pieces for c, d in pieces]
    return sorted((float(low), float(high)) for low, high in both if low <= high)


@dataclass(frozen=True, slots=True)
class Ends:
    """The finite ends of a domain, and how far every allowed interval lies from each.

    Attributes:
        values: the finite ends, sorted, exact.
        lower, upper: shape `(intervals, ends)`: an interval's end minus a finite end.
        length: shape `(intervals, 1)`.
    """

    values: tuple[Fraction, ...]
    pieces: tuple[tuple[Fraction | float, Fraction | float], ...]
    lower: FloatArray
    upper: FloatArray
    length: FloatArray

    @classmethod
    def from_domain(cls, domain: Domain) -> Ends:
        """Read a domain with at least one finite end."""
        pieces = tuple(domain.exact_pieces)
        values = tuple(sorted({e for p in pieces for e in p if isinstance(e, Fraction)}))
        solid = [(a, c) for a, c in pieces if a != c]  # single points have no mass
        return cls(
            values,
            pieces,
            np.array([[float(a - e) for e in values] for a, _ in solid]),
            np.array([[float(c - e) for e in values] for _, c in solid]),
            np.array([[float(c - a)] for a, c in solid]),
        )

    @property
    def hull(self) -> tuple[Fraction | float, Fraction | float]:
        """The lowest and the highest end, exact or infinite."""
        return self.pieces[0][0], self.pieces[-1][1]

    def floats(self, pairs: AnswerPairs) -> tuple[FloatArray, FloatArray]:
        """Return both locations of every pair as plain floats."""
        first = np.array([float(e) for e in self.values])[pairs.anchor] + pairs.offset
        return first, first + pairs.distance

    def inside(self, distance: Fraction) -> AnswerPairs:
        """Return the finite list of worst pairs of answers inside the domain: `domain_pairs`."""
        index = {e: i for i, e in enumerate(self.values)}
        return _pairs(
            [
                (index[q], 0.0, float(r - q))
                if q in index
                else (index[r], -float(r - q), float(r - q))
                for q, r in domain_pairs(self.pieces, distance)
            ]
        )

    def marks(self, distance: Fraction) -> list[tuple[Fraction, int, float]]:
        """Return where q -> (q, q + distance) is not smooth, in order, with anchor and offset."""
        low, high = self.hull
        found: dict[Fraction, tuple[int, float]] = {}
        for i, e in enumerate(self.values):
            found.setdefault(e, (i, 0.0))
            found.setdefault(e - distance, (i, -float(distance)))
        last = high - distance
        within = [(q, *at) for q, at in found.items() if low <= q <= last]
        common = math.lcm(*(q.denominator for q, _, _ in within))
        return sorted(within, key=lambda mark: mark[0].numerator * (common // mark[0].denominator))

    def stretches(self, distance: Fraction, scale: float) -> list[tuple[AnswerPairs, float]]:
        """Return nodes on every smooth stretch and its length: `_FRACTIONS` of the way.

        Beyond the last finite end of an infinite domain the ratio settles within 40 scales.
        """
        marks, beyond = self.marks(distance), 40 * Fraction(scale)
        low, high = self.hull
        if low == -math.inf:
            q, i, offset = marks[0]
            marks.insert(0, (q - beyond, i, offset - float(beyond)))
        if high == math.inf:
            q, i, offset = marks[-1]
            marks.append((q + beyond, i, offset + float(beyond)))
        if len(marks) == 1:
            return [(_pairs([(marks[0][1], marks[0][2], float(distance))]), 0.0)]
        out = []
        for (q, i, start), (r, j, end) in pairwise(marks):
            length = float(r - q)
            half = _FRACTIONS < 0.5  # anchored at the nearer mark
            anchor = np.where(half, i, j).astype(np.int64)
            places = np.where(half, start + _FRACTIONS * length, end - (1 - _FRACTIONS) * length)
            out.append((AnswerPairs(anchor, places, np.full(places.size, float(distance))), length))
        return out


def around(index: int, count: int) -> tuple[float, float]:
    """Return how far, in fractions of its stretch, a node lies from its two neighbours."""
    if count == 1:
        return 0.0, 0.0
    before, after = max(index - 1, 0), min(index + 1, count - 1)
    here = _FRACTIONS[index]
    return float(here - _FRACTIONS[before]), float(_FRACTIONS[after] - here)


def _pairs(rows: list[tuple[int, float, float]]) -> AnswerPairs:
    anchor, offset, distance = zip(*rows, strict=True)
    return AnswerPairs(np.array(anchor, dtype=np.int64), np.array(offset), np.array(distance))


def log_ratio(ends: Ends, pairs: AnswerPairs, scale: float | FloatArray) -> FloatArray:
    """Return log C(q + z) - log C(q) per pair, shape `(pairs,)`; of scales, `(scales, pairs)`."""
    b = np.asarray(scale, dtype=np.float64)[..., None, None]
    z = pairs.distance / b
    low = (ends.lower[:, pairs.anchor] - pairs.offset) / b
    high = (ends.upper[:, pairs.anchor] - pairs.offset) / b
    past = (ends.upper[:, pairs.anchor] - pairs.offset - pairs.distance) / b  # high - z
    ahead = (ends.lower[:, pairs.anchor] - pairs.offset - pairs.distance) / b  # low - z
    length = ends.length / b
    # Distances from the nearer of the two answers to the three parts of every interval.
    left, left_long = np.maximum(-high, 0.0), np.where(high <= 0, length, -low)
    right, right_long = np.maximum(ahead, 0.0), np.where(ahead >= 0, length, past)
    u, v = np.maximum(low, 0.0), np.maximum(-past, 0.0)  # from q to the part, from it to q + z
    between = np.where(
        (low >= 0) & (past <= 0),
        length,
        np.where(low >= 0, -ahead, np.where(past <= 0, high, z)),
    )
    left = np.where(left_long > 0, left, np.inf)
    right = np.where(right_long > 0, right, np.inf)
    near_middle = np.where(between > 0, np.minimum(u, v), np.inf)
    near = np.minimum(np.minimum(left, right), near_middle).min(axis=-2, keepdims=True)

    def part(start: FloatArray, long: FloatArray) -> FloatArray:
        out: FloatArray = np.exp(near - start) * -np.expm1(-np.maximum(long, 0))
        return out

    lost, gained = part(left, left_long), part(right, right_long)
    step = -np.expm1(-z)
    middle = part(near_middle, between)
    turn = np.where(between > 0, u - v, 0.0)
    change = (gained - lost) * step + middle * np.where(
        turn >= 0, -np.expm1(-np.abs(turn)), np.expm1(-np.abs(turn))
    )
    fall, tilt = np.exp(-z), np.exp(-np.abs(turn))
    first = lost + gained * fall + middle * np.where(turn >= 0, tilt, 1.0)
    second = lost * fall + gained + middle * np.where(turn >= 0, 1.0, tilt)
    gap = change.sum(axis=-2)
    base = np.where(gap >= 0, first.sum(axis=-2), second.sum(axis=-2))
    out: FloatArray = np.copysign(np.log1p(np.abs(gap) / np.maximum(base, _TINY)), gap)
    # Then one of the two integrals may underflow beside the other; the difference of the
    # logarithms is exact to an ulp of the distances, and z is large.
    far = np.broadcast_to(z[..., 0, :] > _FAR, out.shape)
    if far.any():
        logs = [
            _log_sum(np.concatenate([left + x, near_middle + y, right + w], axis=-2), longs)
            for x, y, w in ((0.0, u - np.minimum(u, v), z), (z, v - np.minimum(u, v), 0.0))
            for longs in (np.concatenate([left_long, between, right_long], axis=-2),)
        ]
        out = np.where(far, logs[1] - logs[0], out)
    return out


def _log_sum(start: FloatArray, long: FloatArray) -> FloatArray:
    """Return log of the sum of e^-start (1 - e^-long) over the parts."""
    near = start.min(axis=-2, keepdims=True)
    total = (np.exp(near - start) * -np.expm1(-np.maximum(long, 0))).sum(axis=-2)
    out: FloatArray = np.log(total) - near[..., 0, :]
    return out
