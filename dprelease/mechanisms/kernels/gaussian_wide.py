"""Exact draws of e^(-rate d^2) over integers too far apart for a table.

The rate is p / 2**m with 2**33 <= p < 2**34 and m >= 40: a scale of at least 5.7 steps, to a relative
2**-34. One attempt proposes a point and keeps it or not; kept points have the law, and an attempt that
leaves the range asked for is rejected, which conditions on the range.

* blocks, for ranges of several scales: |d| = B h + r, B = 2**b the power of two for which
  a = rate B^2 lies in [1/128, 1/32), 0 <= r < B. h comes from e^(-h / 8) (times a coin
  e^(-(a h^2 - h / 8 + 1/2)), an exponent that is never negative), r is uniform and kept with
  probability e^(-a f (2 h + f)), f = r / B. A fair sign, minus zero rejected.
* uniform, for ranges of about a scale or less (rate range^2 <= 4): y is uniform on the range, kept
  with probability e^(-rate (y - q)^2).

All coins are exact: integers below powers of two are compared, and a factor such as f or f^2 is one
or two further coins flipped together (`sampling.exp_coin`). No product of two large integers is ever
formed, so nothing leaves int64 and no float takes part.

Units    grid steps.
Sources  `docs/theory/certificates.md#exact-sampling`;
         the split into blocks follows [CKS20] Canonne, Kamath & Steinke, arXiv:2004.00010, Algorithm 2,
         and its coin e^-x; elementary otherwise.
Limits   the number of attempts depends on the answer; what is released does not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Digits
from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.kernels.sampling import (
    BoolArray,
    bernoulli,
    bernoulli_exp,
    exp_coin,
    geometric_e,
)

P_BITS = 34
LEAST_SHIFT = 40


@dataclass(frozen=True, slots=True)
class WideGaussianNoise(Stored):
    """Weights e^(-(p / 2**m) d^2). ValueError where p or m is out of range."""

    p: Digits
    m: int

    def __post_init__(self) -> None:
        if self.p.bit_length() != P_BITS or not LEAST_SHIFT <= self.m <= 400:
            raise ValueError("p or m")

    @property
    def rate(self) -> Fraction:
        """1 / (2 scale^2)."""
        return Fraction(self.p, 1 << self.m)

    def uniform_fits(self, span: int) -> bool:
        """Return whether a range of `span` steps is drawn from uniform proposals."""
        return self.rate * span * span <= 4

    @property
    def block(self) -> tuple[int, int]:
        """(b, n): blocks of 2**b points, a = p / 2**n."""
        b = (self.m - 39) // 2
        return b, self.m - 2 * b

    def attempt_block(self, count: int, span: int, bits: RandomBits) -> tuple[IntArray, IntArray]:
        """Return (indices, signed distances) of the kept ones among `count` attempts.

        Distances beyond `span` are not all kept: the caller rejects them anyway.
        """
        b, n = self.block
        low = uniform_below(8, count, bits)
        at = np.flatnonzero(bernoulli_exp(low, 8, bits))
        h = low[at] + 8 * geometric_e(at.size, bits)
        near = h <= span >> b
        at, h = at[near], h[near]
        accepted = _keep(self.p * h * h + (1 << (n - 1)) - (h << (n - 3)), n, bits)
        at, h = at[accepted], h[accepted]
        r = uniform_below(1 << b, at.size, bits)
        accepted = self._keep_rest(h, r, b, n, bits)
        at, d = at[accepted], (h[accepted] << b) + r[accepted]
        minus = uniform_below(2, at.size, bits) == 1
        good = ~(minus & (d == 0))  # else zero would be drawn twice as often
        return at[good], np.where(minus, -d, d)[good]

    def _keep_rest(self, h: IntArray, r: IntArray, b: int, n: int, bits: RandomBits) -> BoolArray:
        """Flip coins of probability e^(-a f (2 h + f)), f = r / 2**b."""

        def part(at: IntArray) -> BoolArray:
            return uniform_below(1 << b, at.size, bits) < r[at]

        def below(limit: IntArray, at: IntArray) -> BoolArray:
            return uniform_below(1 << n, at.size, bits) < limit[at]

        whole, rest = (2 * self.p * h) >> n, (2 * self.p * h) & ((1 << n) - 1)
        heads = exp_coin(lambda at: below(rest, at) & part(at), h.size, bits)
        fixed = np.full(h.size, self.p)
        heads &= exp_coin(lambda at: below(fixed, at) & part(at) & part(at), h.size, bits)
        for i in range(int(whole.max(initial=0))):
            left = np.flatnonzero(heads & (whole > i))
            heads[left] = exp_coin(lambda at, left=left: part(left[at]), left.size, bits)  # type: ignore[misc]
        return heads

    def keep_uniform(self, distance: IntArray, span: int, bits: RandomBits) -> BoolArray:
        """Flip coins of probability e^(-rate d^2), 0 <= d <= span, where `uniform_fits(span)`."""
        bound = span.bit_length()
        whole, rest = divmod(self.rate * 4**bound, 1)

        def square(at: IntArray) -> BoolArray:
            size = distance[at]
            first = uniform_below(1 << bound, at.size, bits) < size
            return first & (uniform_below(1 << bound, at.size, bits) < size)

        def rare(at: IntArray) -> BoolArray:
            return bernoulli(rest.numerator, rest.denominator, at.size, bits) & square(at)

        heads = exp_coin(rare, distance.size, bits)
        for _ in range(whole):
            heads &= exp_coin(square, distance.size, bits)
        return heads


def _keep(exponent: IntArray, n: int, bits: RandomBits) -> BoolArray:
    """Flip coins of probability e^(-exponent / 2**n)."""
    heads: BoolArray = geometric_e(exponent.size, bits) >= exponent >> n
    hits = np.flatnonzero(heads)
    heads[hits] = bernoulli_exp(exponent[hits] & ((1 << n) - 1), 1 << n, bits)
    return heads
