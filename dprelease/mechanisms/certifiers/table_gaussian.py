"""Certifier of Gaussian noise on a table: all distances for the ratio, and a zCDP bound of its own.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), with

    W[0] = 2**top,  W[d + 1] = ceil(W[d] P[d] / 2**120),
    P[0] = floor(2**60 sqrt(p)) + 1,  P[d + 1] = ceil(P[d] p / 2**120),   p = 2**120 e^(-1 / scale^2).

The law *is* the integer p: P[d] / 2**120 is e^(-(2d + 1) / (2 scale^2)), rounded up, so
W[d] / W[d + k] never exceeds the Gaussian's own ratio, and W ends on a floor of at least 1 (a mass
below 2**-24) instead of at 0: every answer has the same support. No point masses are added anywhere.

Privacy. The certificate is `certifiers.table.worst_ratio`: all hull pairs at all distances up to
s = min(sensitivity, hull), answers inside gaps included, from the integers alone. That the loss
grows with the distance, as it does for the exact Gaussian, is not assumed of the rounded table.

zCDP. `certifiers.table.range_rho` holds for any table. On one run there is more: for real alpha let
f(alpha) = log sum P^alpha P'^(1 - alpha). f vanishes at 0 and 1 and f'' is the variance of the loss under
weights W[|y - q|]^alpha W[|y - q'|]^(1 - alpha), so D_alpha <= (alpha / 2) max f''. If log W differs from the
Gaussian's exponent by at most kappa, those weights are within e^(+-2 alpha kappa) of an exact Gaussian's on
the run, whose variance is at most e^rate / (2 rate) (`certifiers/closed_form_gaussian.py`), and the loss is within
2 kappa of a linear one. Only alpha up to epsilon / rho counts: D_alpha <= epsilon beyond.

Units    grid steps; epsilon and rho in nats.
Sources  Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy"; certificate:
         `docs/theory/certificates.md#bounded-gaussian-tables`, `#zcdp-of-truncated-laws`.
Limits   at most 2**18 hull points. For one purely private scalar other laws are more accurate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from dprelease.core.errors import InternalError
from dprelease.mechanisms.calibration.gaussian_scale import table_scale
from dprelease.mechanisms.certifiers.table import CertifiedTableLaw, range_rho
from dprelease.mechanisms.forms.table import check_epsilon, check_size, top_bits
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet

_BITS = 120


@dataclass(frozen=True, slots=True)
class BoundedGaussianLaw(CertifiedTableLaw):
    """Truncated integer Gaussian table, scale^2 = -1 / log(p / 2**120)."""

    family: ClassVar[str] = "bounded_gaussian"
    bits: ClassVar[int] = _BITS

    @classmethod
    def calibrate(cls, request: GridRequest) -> Self:
        """Return the law of (nearly) smallest scale whose exact certificate is within epsilon.

        The float search only proposes; the integer table decides, and the proposal is widened
        until the table's own certificate holds.

        Raises:
            ArgumentError: more than 2**18 hull points (DPR622), or epsilon below 2**-40 (DPR626).
        """
        check_size(request.allowed)
        check_epsilon(request.epsilon, "the certificate's own slack of 2**-48 would show")
        scale, budget = table_scale(request), float(request.epsilon)
        for attempt in range(200):
            law = cls(
                request.allowed, request.sensitivity, request.epsilon, request.loss, decay_of(scale)
            )
            proved = law.certificate.epsilon_upper
            if proved <= request.epsilon:
                return law
            # The loss falls about as scale^-2; and a little more each time.
            scale *= math.sqrt(float(proved) / budget) * (1 + min(0.25, 2.0 ** (attempt - 46)))
        raise InternalError("a flat table did not certify")

    @staticmethod
    def weights(allowed: GridSet, p: int) -> list[int]:
        """Return 2**top times e^(-d^2 / (2 scale^2)), each step's factor rounded up."""
        out: list[int] = []
        add, w, up = out.append, 1 << top_bits(allowed), (1 << _BITS) - 1
        ratio = min(math.isqrt(p << _BITS) + 1, 1 << _BITS)
        for _ in range(allowed.hull_steps + 1):
            if w <= 1:
                break
            add(w)
            w = (w * ratio + up) >> _BITS
            ratio = (ratio * p + up) >> _BITS
        return out

    @property
    def scale(self) -> float:
        """In steps."""
        return math.inf if self.p == 2**_BITS else 1 / math.sqrt(_rate(self.p))

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho, rounded up; on one run about s^2 / 2 scale^2."""
        bounds = [range_rho(self.table, self.capped_sensitivity)]
        if len(self.allowed.runs) == 1 and 0 < self.p < 2**_BITS:
            bounds.append(_gaussian_rho(self, self.capped_sensitivity))
        return min(bounds)


def decay_of(scale: float) -> int:
    """Return p for a scale in steps, rounded up: a slightly wider law, never a narrower one."""
    lost = Fraction(-math.expm1(-1 / scale**2))
    return max(1, (1 << _BITS) - math.floor((1 << _BITS) * lost))


def _rate(p: int) -> float:
    """Return 1 / scale^2."""
    if p < 2 ** (_BITS - 1):
        return _BITS * math.log(2) - math.log(p)
    return -math.log1p(-float(Fraction(2**_BITS - p, 2**_BITS)))


def _gaussian_rho(law: BoundedGaussianLaw, distance: int) -> Fraction:
    """Return the interval's bound, widened by what rounding W can change; see the module."""
    rate = _rate(law.p) / 2
    weights = law.table.weights.astype(np.float64)
    d = np.arange(weights.size, dtype=np.float64)
    exponent = rate * d * d
    off = np.log(weights / weights[0]) + exponent
    kappa = float(np.abs(off).max()) + 2.0**-44 * (1 + float(exponent[-1]))
    plain = rate * distance**2 * math.exp(rate)
    most = float(law.certificate.epsilon_upper) / plain + 1  # the largest alpha that counts
    drift = min(2 * kappa * most, 300.0)
    spread = 2 * rate * distance * math.sqrt(math.exp(rate) / (2 * rate)) * math.exp(drift)
    return Fraction((spread + 2 * kappa) ** 2 / 2 * (1 + 2.0**-40))
