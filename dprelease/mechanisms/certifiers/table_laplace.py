"""Certifier of Laplace noise on a table: only pairs at full distance need to be compared.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), Z(q) = sum over D, with

    W[0] = 2**top,    W[d + 1] = ceil(W[d] * p / 2**60).

Privacy. W[d + 1] <= W[d] and W[d + 1] >= r W[d], r = p / 2**60, exactly. Hence for k = |q - q'|

    P(y | q) / P(y | q') <= r**-k * Z(q') / Z(q),

and Z(q + 1) >= r Z(q) makes the right side grow along any chain q, q + 1, ..., so only pairs at
distance s = min(sensitivity, hull) need checking: all of them, with answers inside gaps included.
(Pairs inside D alone may have a smaller loss than those in gaps.) Z is an exact int64
vector; its largest ratio is found in float64, recomputed exactly, and widened by 2**-50, more
than the float comparison can err; r**-s is computed in outward-rounded 256-bit integers.

The same support for every answer: all weights are at least 1. No point masses are added anywhere.

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
from typing import ClassVar, Self

import numpy as np

from dprelease.core.errors import InternalError
from dprelease.mechanisms.calibration.laplace_grid import smallest_scale
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.certifiers.table import range_rho
from dprelease.mechanisms.forms.table import TableLaw, check_epsilon, check_size, top_bits
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet

_BITS = 60
_WORK = 256
_SLACK = 1 + Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class BoundedLaplaceLaw(TableLaw):
    """Truncated integer Laplace table with decay p / 2**60 per step."""

    family: ClassVar[str] = "bounded_laplace"
    bits: ClassVar[int] = _BITS

    @classmethod
    def calibrate(cls, request: GridRequest) -> Self:
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
        scale = smallest_scale(request.allowed, request.capped_sensitivity, float(request.epsilon))
        widen = 2.0**-44
        while True:  # ends: the uniform table, p = 2**60, certifies at every epsilon admitted
            p = max(1, min(2**_BITS, math.ceil(2**_BITS * math.exp(-1 / scale))))
            law = cls(request.allowed, request.sensitivity, request.epsilon, request.loss, p)
            # ratio <= e^epsilon was verified exactly if and only if the claim was accepted
            if law.certificate.epsilon_upper <= request.epsilon:
                return law
            scale *= 1 + widen
            widen = min(2 * widen, 0.25)

    @staticmethod
    def weights(allowed: GridSet, p: int) -> list[int]:
        """Return 2**top, ceil(2**top p / 2**60), ...: rounded up, so that no step falls too fast."""
        out: list[int] = []
        add, w, up = out.append, 1 << top_bits(allowed), (1 << _BITS) - 1
        for _ in range(allowed.hull_steps + 1):
            if w <= 1:
                break
            add(w)
            w = (w * p + up) >> _BITS
        return out

    @property
    def scale(self) -> float:
        """-1 / log(p / 2**60), in steps."""
        return math.inf if self.p == 2**_BITS else -1 / math.log(self.p / 2**_BITS)

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho: eighth of the squared range of its losses."""
        return range_rho(self.table, self.capped_sensitivity)

    def certify(self) -> Certificate:
        """Recompute the proof from scratch: build the table, check every pair."""
        distance, z = self.capped_sensitivity, self.table.mass
        if self.allowed.hull_steps == 0:
            # One possible answer and one output: nothing can be told apart.
            ratio = Fraction(1)
        else:
            pairs = z.size - distance
            if pairs < 1:
                raise InternalError("a table was certified over no pairs")
            forward = z[distance:] / z[:-distance]
            up, down = int(np.argmax(forward)), int(np.argmin(forward))
            worst = max(
                Fraction(int(z[up + distance]), int(z[up])),
                Fraction(int(z[down]), int(z[down + distance])),
            )
            ratio = worst * _SLACK * _decay_upper(self.p, distance)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "(2**60 / p)**distance times the largest Z ratio over all hull pairs at that distance",
            p=self.p, top=top_bits(self.allowed), distance=distance, pairs=max(1, z.size - distance),
        )  # fmt: skip


def _decay_upper(p: int, distance: int) -> Fraction:
    """Return a rational upper bound of (2**60 / p)**distance, by 256-bit lower bounds of r**n."""
    result, base = (1 << _WORK), (p << _WORK) >> _BITS
    exponent = 0  # powers are floating: value = mantissa * 2**exponent, rounded down
    base_exponent = 0
    n = distance
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
