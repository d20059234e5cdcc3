"""Form: discrete Laplace noise on cells whose sum is public, drawn so that it adds up to zero.

Where every row falls into one of k bins and their number is public, neighbours differ by a vector whose
parts add up to zero. Independent noise of rate r given that its sum is zero,

    P(z) ~ exp(-r (|z_1| + .. + |z_k|))    on the integers with z_1 + .. + z_k = 0,

has the loss of the independent noise, r times the L1 distance, as it is the same law after any such change; and
each cell has less of it: for two bins half as much, as they are one count.

Draw     k independent draws, the last one D apart: the other k - 1 stand, the k-th cell is less their sum s,
         and the attempt counts if D >= |s|. That has the chance e^-(r |s|) / (1 + e^-r), also at 0.
Cell     P(z_1 = u) ~ e^-(r |u|) P(sum of k - 1 draws = u); with m = k - 1, y = 1 / (e^2r - 1), u >= 0,

             ~ e^-(2 r u) sum over i < m of C(m - 1, i) m (m + 1) .. (m + i - 1) y^i (u + 1 + i) .. (u + m - 1),

         whose tails are geometric sums, all terms positive.
Sums     S_k of k cells is u with the chance P(sum of k draws = u) P(sum of m draws = u), m the other cells, up to a factor:
         the same e^-(r u) and sum over i for either of them. It falls with |u|, so blocks of steps bracket its tails.
Moments  E|z_1| = R_k - x and E z_1^2 = m (2 x R_k - 1 - R_k R_{k+1}), x = coth r, R_n = P_n(x) / P_{n-1}(x)
         the quotient of Legendre polynomials.
Units    steps; epsilon and rate in nats.
Sources  `docs/theory/kernels-and-boundaries.md#noise-that-adds-up-to-zero`.
Limits   2 to 32 cells: with more, a cell gains less than 2 %, and attempts get rare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import Note
from dprelease.core.entropy import RandomBits, drawn_by_rejection
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import first_holding
from dprelease.mechanisms.arguments import check_level
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise

MOST_CELLS = 32
_SURE = 1 - 1e-9
"""What floating point may err in a tail."""
_ROOM = 1e-10
"""More than lies beyond the steps at which the chances of a sum are known."""
_POINTS = 2**15

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BalancedNoise(CellNoise):
    """Noise on `cells` cells whose public sum it keeps.

    Raises:
        ArgumentError: not 2 to 32 cells (DPR624).
    """

    kind: ClassVar[str] = "balanced_cells"

    cells: Annotated[int, Note.always] = 2

    def __post_init__(self) -> None:
        if not 2 <= self.cells <= MOST_CELLS:
            raise ArgumentError(
                "this noise keeps the sum of 2 to 32 components",
                fix="use the file unchanged",
                code="DPR624",
            )

    @classmethod
    def keeping(cls, cells: int, l1_sensitivity: int, epsilon: Fraction) -> BalancedNoise:
        """Return the noise of loss at most `epsilon` for changes of `l1_sensitivity` in L1 that keep the sum.

        Raises:
            ArgumentError: as the class, and as `CellNoise.calibrate`.
        """
        plain = CellNoise.calibrate(l1_sensitivity, epsilon)
        return cls(l1_sensitivity, epsilon, plain.noise, cells=cells)

    def vectors(self, count: int, bits: RandomBits) -> npt.NDArray[np.object_]:
        """Return independent exact draws, `(count, cells)`, Python integers; each adds up to 0.

        Raises:
            InternalError: the source is stuck (DPR904).
        """

        def attempt(todo: Ints) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            drawn = self.noise.draws(todo.size * self.cells, bits).astype(object)
            free = drawn.reshape(todo.size, self.cells)
            last = -free[:, :-1].sum(axis=1)
            accepted = np.flatnonzero((free[:, -1] >= np.abs(last)).astype(bool))
            made = np.empty(accepted.size, dtype=object)
            for place, row in enumerate(accepted.tolist()):
                made[place] = (*free[row, :-1].tolist(), last[row])
            return accepted, made

        rows = drawn_by_rejection(count, attempt, wide=True, bits=bits)
        out = np.empty((count, self.cells), dtype=object)
        for i, row in enumerate(rows.tolist()):
            out[i] = row
        return out

    def tail(self, least: int) -> float:
        """Return P(z_1 >= least), least >= 0, within a relative 1e-10."""
        log_tail, log_all = self._log_tail(least), self._log_total()
        return math.exp(log_tail - log_all)

    def _log_total(self) -> float:
        return float(np.logaddexp(self._log_tail(0), self._log_tail(1)))

    def _log_tail(self, least: int) -> float:
        return _log_tail(float(self.noise.rate), self.cells - 1, least)

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|z_1| <= k) >= level."""
        check_level(level)
        high = DiscreteLaplaceNoise(self.noise.rate).quantile(level)  # given its sum it is narrower
        room = (1 - level) * _SURE
        return first_holding(lambda k: 2 * self.tail(k + 1) <= room, -1, high)

    def quantile_of_sum(self, count: int, level: float) -> int:
        """Return a k, nearly the least, with P(|z_1 + .. + z_count| <= k) >= level; of many steps, to 1 / 2^15 of the lattice's width."""
        check_level(level)
        if not 0 < count < self.cells:
            return 0
        return _quantile_of_sum(float(self.noise.rate), self.cells, count, level)

    def variance_of_sum(self, count: int) -> float:
        """Return E (z_1 + .. + z_count)^2, in steps squared: cells are alike and add up to zero."""
        return self.variance() * count * (self.cells - count) / (self.cells - 1)

    def mean_abs(self) -> float:
        """Return E |z_1|, in steps."""
        return self._quotients()[0] - self._x

    def variance(self) -> float:
        """Return E z_1^2, in steps squared."""
        here, after = self._quotients()
        return (self.cells - 1) * (here * (2 * self._x - after) - 1)

    @property
    def _x(self) -> float:
        return 1 / math.tanh(self.noise.rate)

    def _quotients(self) -> tuple[float, float]:
        """Return P_k / P_{k-1} and P_{k+1} / P_k at coth(rate), by Bonnet's recurrence."""
        x = ratio = self._x
        for n in range(2, self.cells + 1):
            ratio = ((2 * n - 1) * x - (n - 1) / ratio) / n
        after = ((2 * self.cells + 1) * x - self.cells / ratio) / (self.cells + 1)
        return ratio, after

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} ({self.noise.describe()}) on {self.cells} cells, keeping their sum"


@lru_cache(maxsize=4096)
def _log_tail(rate: float, m: int, least: int) -> float:
    """Return the logarithm of the weights of u >= least, one end's.

    With d = m - 1 - i, and the product of d factors from u + 1 + i on, the sum over u >= T of q^u times it is
    q^T sum over j of d! / (d - j)! (T + 1 + i + j) .. (T + m - 1) y^j / (1 - q), q = e^-2r: y = q / (1 - q).
    """
    log_y, one_minus = -math.log(math.expm1(2 * rate)), -math.expm1(-2 * rate)
    found = []
    for i in range(m):
        d = m - 1 - i
        head = math.log(math.comb(m - 1, i)) + math.lgamma(m + i) - math.lgamma(m) + i * log_y
        product = 0.0  # of the factors T + 1 + i + j .. T + m - 1, from the last one down
        for j in range(d, -1, -1):
            found.append(head + math.lgamma(d + 1) - math.lgamma(d - j + 1) + j * log_y + product)
            product += math.log(least + i + j) if j else 0.0
    total = float(np.logaddexp.reduce(np.array(found)))
    return total - 2 * rate * least - math.log(one_minus)


@lru_cache(maxsize=4096)
def _quantile_of_sum(rate: float, cells: int, count: int, level: float) -> int:
    """Return a q with P(|S| <= q) >= level, S of `count` of the cells.

    Chances fall with |S|. Known every c steps, c times the one at j c is at least that of the block which begins
    there, and at most that of the block which ends there; with c = 1 both are exact.
    """
    width = 2 * cells + 60 + (cells + 30) / rate
    block = max(1, math.ceil(width / _POINTS))
    at: Floats = np.arange(math.ceil(width / block)) * np.float64(block)
    logs = [_log_weights(rate, n, at, width) for n in (count, cells - count)]
    weights = np.exp(logs[0] + logs[1] - logs[0][0] - logs[1][0])
    beyond = 2 * block * np.append(np.cumsum(weights[::-1])[::-1], 0.0)  # of |S| >= j c
    least = weights[0] + 2 * block * float(weights[1:].sum())
    small = beyond / least + _ROOM <= (1 - level) * _SURE
    return int(np.argmax(small)) * block - 1 if small.any() else math.ceil(width)


def _log_weights(rate: float, draws: int, at: Floats, width: float) -> Floats:
    """Return log P(sum of `draws` draws = u), up to a constant: e^-(r u) times a polynomial with positive terms."""
    log_y = -math.log(math.expm1(2 * rate))
    scale = width + draws + math.exp(min(log_y, 700.0)) * draws
    found: Floats = np.ones(at.size)
    for i in range(1, draws):
        each = math.log(math.comb(draws - 1, i)) + math.lgamma(draws + i) - math.lgamma(draws)
        found = found * ((at + i) / scale) + math.exp(each + i * (log_y - math.log(scale)))
    return np.asarray(np.log(found) - rate * at)
