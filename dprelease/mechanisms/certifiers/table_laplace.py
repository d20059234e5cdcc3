"""The grid law of bounded Laplace noise: an integer weight table, truncated to the allowed set.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), Z(q) = sum over D, with

    W[0] = 2**top,    W[d + 1] = ceil(W[d] * p / 2**60).

Privacy. W[d + 1] <= W[d] and W[d + 1] >= r W[d], r = p / 2**60, exactly. Hence for k = |q - q'|

    P(y | q) / P(y | q') <= r**-k * Z(q') / Z(q),

and Z(q + 1) >= r Z(q) makes the right side grow along any chain q, q + 1, ..., so only pairs at
distance reach = min(shift, hull) need checking: all of them, with answers inside gaps included.
(Checking only pairs inside D would understate the loss by up to 11 nats.) Z is an exact int64
vector; its largest ratio is found in float64, recomputed exactly, and widened by 2**-50, more
than the float comparison can err; r**-reach is computed in outward-rounded 256-bit integers.

The same support for every answer: all weights are at least 1. No atoms are added anywhere.

Units    grid steps; epsilon in nats.
Sources  Holohan et al., "The Bounded Laplace Mechanism in Differential Privacy", with the exact
         loss and the certificate of `docs/theory/certificates.md#bounded-laplace-tables`.
Limits   at most `POINT_LIMIT` hull points. Far weights end at 1, not 0: a mass below 2**-24.
         Running time depends on the bits drawn, and through Z(q) faintly on the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError, InternalError
from dprelease.mechanisms.calibration.roots import inside_root
from dprelease.mechanisms.forms.table import SymmetricTable, masses, range_rho, top_bits
from dprelease.mechanisms.law import (
    Certificate,
    ExpectedError,
    GridRequest,
    IntArray,
    Loss,
    certify_ratio,
    law_fields,
    read_fields,
)
from dprelease.schema.domain import GridSet

__all__ = [
    "EPSILON_FLOOR",
    "POINT_LIMIT",
    "BoundedLaplaceLaw",
    "check_epsilon",
    "check_size",
    "tabulates",
]

POINT_LIMIT = 2**18
_BITS = 60
_WORK = 256
EPSILON_FLOOR = Fraction(1, 2**40)
_SLACK = 1 + Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class BoundedLaplaceLaw:
    """Truncated integer Laplace table with decay p / 2**60 per step. Satisfies `GridLaw`."""

    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    p: int

    @property
    def family(self) -> str:
        return "bounded_laplace"

    @classmethod
    def calibrate(cls, request: GridRequest) -> BoundedLaplaceLaw:
        """Return the law of (nearly) smallest scale whose exact certificate is within epsilon.

        The float search only proposes; the integer table decides, and the proposal is widened
        until the table's own certificate holds. "Wider is safer" is never assumed: on unions the
        loss is not monotone in the scale, so the member that is returned is the one certified.

        Raises:
            ArgumentError: more than `POINT_LIMIT` hull points (DPR622), or epsilon below 2**-40,
                where the certificate's own slack would show (DPR626).
        """
        check_size(request.allowed)
        check_epsilon(request.epsilon)
        loss = FloatLoss(request.allowed, request.reach)
        scale = loss.smallest_scale(float(request.epsilon))
        widen = 2.0**-44
        while True:  # ends: the uniform table, p = 2**60, certifies at every epsilon admitted
            p = max(1, min(2**_BITS, math.ceil(2**_BITS * math.exp(-1 / scale))))
            law = cls(request.allowed, request.shift, request.epsilon, request.loss, p)
            # ratio <= e^epsilon was verified exactly if and only if the claim was accepted
            if law.certificate.epsilon_upper <= request.epsilon:
                return law
            scale *= 1 + widen
            widen = min(2 * widen, 0.25)

    @property
    def scale(self) -> float:
        """-1 / log(p / 2**60), in steps."""
        return _scale(self.p)

    @property
    def table(self) -> SymmetricTable:
        """The weights, rebuilt from `p`."""
        return _table(self.allowed, self.p)

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho: eighth of the squared range of its losses."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        return range_rho(self.table, reach)

    def certify(self) -> Certificate:
        """Recompute the proof from scratch: build the table, check every pair."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        top, z = top_bits(self.allowed), self.table.mass
        if self.allowed.hull_steps == 0:
            # One possible answer and one output: nothing can be told apart.
            ratio = Fraction(1)
        else:
            pairs = z.size - reach
            if pairs < 1:
                raise InternalError("a table was certified over no pairs")
            forward = z[reach:] / z[:-reach]
            up, down = int(np.argmax(forward)), int(np.argmin(forward))
            worst = max(
                Fraction(int(z[up + reach]), int(z[up])),
                Fraction(int(z[down]), int(z[down + reach])),
            )
            ratio = worst * _SLACK * _decay_upper(self.p, reach)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "(2**60 / p)**reach times the largest Z ratio over all hull pairs at that distance",
            p=self.p, top=top, reach=reach, pairs=max(1, z.size - reach),
        )  # fmt: skip

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        return self.table.draw(answers, bits)

    def finish(self, raw: IntArray) -> IntArray:
        """Return `raw`: every draw is allowed already."""
        return raw

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return a confidence interval per clamped answer (DPR625 for a bad level)."""
        return self.table.interval(raw, level)

    def expected_error(self) -> ExpectedError:
        """Return the error over answers uniform on the hull (a subset of them if it is large)."""
        return _expected_error(self)

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: exact probability}, Fractions that sum to 1."""
        return dict(self.table.pmf(answer))

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law."""
        return law_fields(self, self.loss) | {"p": self.p}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BoundedLaplaceLaw:
        """Rebuild the law; KeyError, TypeError or ValueError if a number is missing or wrong."""
        p = int(value["p"])
        if not 0 < p <= 2**_BITS:
            raise ValueError("p")
        allowed, shift, epsilon, loss = read_fields(value)
        check_size(allowed)
        return cls(allowed, shift, epsilon, loss, p)

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps), truncated to the allowed values"


def check_epsilon(epsilon: Fraction, why: str | None = None) -> None:
    """Raise DPR626 if epsilon is below 2**-40, where a truncated law's certificate is too coarse."""
    if epsilon < EPSILON_FLOOR:
        raise ArgumentError(
            "epsilon is too small for a truncated law",
            why=why,
            fix="use an epsilon of at least 1e-12",
            code="DPR626",
        )


def check_size(allowed: GridSet) -> None:
    """Raise DPR622 if the hull has more than `POINT_LIMIT` points."""
    if allowed.hull_steps >= POINT_LIMIT:
        raise ArgumentError(
            "the grid is too fine for a truncated law",
            why=f"its weight table would pass {POINT_LIMIT} points",
            fix="use a coarser step, or allow spikes at the borders",
            code="DPR622",
        )


def tabulates(request: GridRequest) -> bool:
    """Return whether a table law exists for the request at all."""
    return request.allowed.hull_steps < POINT_LIMIT and request.epsilon >= EPSILON_FLOOR


def _scale(p: int) -> float:
    return math.inf if p == 2**_BITS else -1 / math.log(p / 2**_BITS)


@lru_cache(maxsize=8)
def _table(allowed: GridSet, p: int) -> SymmetricTable:
    out = np.ones(allowed.hull_steps + 1, dtype=np.int64)
    w, up = 1 << top_bits(allowed), (1 << _BITS) - 1
    weights: list[int] = []
    while w > 1 and len(weights) < out.size:  # a list: element by element, an array is slower
        weights.append(w)
        w = (w * p + up) >> _BITS
    out[: len(weights)] = weights
    return SymmetricTable.of(allowed, out)


def _decay_upper(p: int, reach: int) -> Fraction:
    """Return a rational upper bound of (2**60 / p)**reach, by 256-bit lower bounds of r**n."""
    result, base = (1 << _WORK), (p << _WORK) >> _BITS
    exponent = 0  # powers are floating: value = mantissa * 2**exponent, rounded down
    base_exponent = 0
    n = reach
    while n:
        if n & 1:
            result, exponent = _times(result, exponent, base, base_exponent)
        base, base_exponent = _times(base, base_exponent, base, base_exponent)
        n >>= 1
    return Fraction(1 << (_WORK - exponent), result)


def _times(x: int, x_exponent: int, y: int, y_exponent: int) -> tuple[int, int]:
    product = x * y
    drop = max(0, product.bit_length() - _WORK - 1)
    return product >> drop, x_exponent + y_exponent + drop - _WORK


class FloatLoss:
    """Float view of the loss as a function of the scale (steps), to propose a calibration."""

    def __init__(self, allowed: GridSet, reach: int) -> None:
        self.allowed, self.reach = allowed, reach
        self._distances = np.arange(allowed.hull_steps + 1, dtype=np.float64)

    def __call__(self, scale: float) -> float:
        if self.allowed.hull_steps == 0:
            return 0.0
        weights = np.exp(-self._distances / scale)
        head = np.concatenate([[0.0], np.cumsum(weights)])
        z = np.log(np.maximum(masses(self.allowed, head), 1e-300))
        return self.reach / scale + float(np.max(np.abs(z[self.reach :] - z[: -self.reach])))

    def smallest_scale(self, epsilon: float) -> float:
        """Return about the smallest scale of loss epsilon within [reach/eps, 2 reach/eps]."""
        narrow, wide = epsilon / self.reach, epsilon / (2 * self.reach)

        def excess(rate: float) -> float:  # nearly linear in the rate
            return self(1 / rate) - epsilon

        if excess(narrow) <= 0:
            return 1 / narrow
        if excess(wide) >= 0:
            return 1 / wide
        return 1 / inside_root(excess, narrow, wide, epsilon * 2.0**-43)


@lru_cache(maxsize=64)
def _certificate(law: BoundedLaplaceLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=64)
def _expected_error(law: BoundedLaplaceLaw) -> ExpectedError:
    return law.table.expected_error(law.loss)
