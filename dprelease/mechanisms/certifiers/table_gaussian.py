"""The grid law of bounded Gaussian noise: an integer weight table, truncated to the allowed set.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), with

    W[0] = 2**top,  W[d + 1] = ceil(W[d] P[d] / 2**120),
    P[0] = floor(2**60 sqrt(p)) + 1,  P[d + 1] = ceil(P[d] p / 2**120),   p = 2**120 e^(-1 / scale^2).

The law *is* the integer p: P[d] / 2**120 is e^(-(2d + 1) / (2 scale^2)), rounded up, so
W[d] / W[d + k] never exceeds the Gaussian's own ratio, and W ends on a floor of at least 1 (a mass
below 2**-24) instead of at 0: every answer has the same support. No atoms are added anywhere.

Privacy. The certificate is `forms.table.worst_ratio`: all hull pairs at all distances up to
reach = min(shift, hull), answers inside gaps included, from the integers alone. That the loss
grows with the distance, as it does for the exact Gaussian, is not assumed of the rounded table.

zCDP. `forms.table.range_rho` holds for any table. On one run there is more: for real alpha let
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
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits
from dprelease.errors import InternalError
from dprelease.mechanisms.calibration.gaussian_scale import first_bracket, scale_within
from dprelease.mechanisms.certifiers.table_laplace import check_epsilon, check_size
from dprelease.mechanisms.forms.table import (
    SymmetricTable,
    range_rho,
    top_bits,
    worst_ratio,
)
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

__all__ = ["BoundedGaussianLaw", "decay_of"]

_BITS = 120


@dataclass(frozen=True, slots=True)
class BoundedGaussianLaw:
    """Truncated integer Gaussian table, scale^2 = -1 / log(p / 2**120). Satisfies `GridLaw`."""

    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    p: int

    @property
    def family(self) -> str:
        return "bounded_gaussian"

    @classmethod
    def calibrate(cls, request: GridRequest) -> BoundedGaussianLaw:
        """Return the law of (nearly) smallest scale whose exact certificate is within epsilon.

        The float search only proposes; the integer table decides, and the proposal is widened
        until the table's own certificate holds.

        Raises:
            ArgumentError: more than 2**18 hull points (DPR622), or epsilon below 2**-40 (DPR626).
        """
        check_size(request.allowed)
        check_epsilon(request.epsilon, "the certificate's own slack of 2**-48 would show")
        scale, budget = _proposal(request), float(request.epsilon)
        for attempt in range(200):
            law = cls(
                request.allowed, request.shift, request.epsilon, request.loss, decay_of(scale)
            )
            proved = law.certificate.epsilon_upper
            if proved <= request.epsilon:
                return law
            # The loss falls about as scale^-2; and a little more each time.
            scale *= math.sqrt(float(proved) / budget) * (1 + min(0.25, 2.0 ** (attempt - 46)))
        raise InternalError("a flat table did not certify")

    @property
    def scale(self) -> float:
        """In steps."""
        return math.inf if self.p == 2**_BITS else 1 / math.sqrt(_rate(self.p))

    @property
    def table(self) -> SymmetricTable:
        """The weights, rebuilt from `p`."""
        return _table(self.allowed, self.p)

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho, rounded up; on one run about reach^2 / 2 scale^2."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        bounds = [range_rho(self.table, reach)]
        if len(self.allowed.runs) == 1 and 0 < self.p < 2**_BITS:
            bounds.append(_gaussian_rho(self, reach))
        return min(bounds)

    def certify(self) -> Certificate:
        """Recompute the proof from the table, which `p` makes: check every pair."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        ratio = worst_ratio(self.table, reach)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "largest W ratio times largest Z ratio over all hull pairs at all distances to reach",
            p=self.p, top=top_bits(self.allowed), reach=reach,
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
        return law_fields(self, self.loss) | {"p": str(self.p)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BoundedGaussianLaw:
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


def decay_of(scale: float) -> int:
    """Return p for a scale in steps, rounded up: a slightly wider law, never a narrower one."""
    lost = Fraction(-math.expm1(-1 / scale**2))
    return max(1, (1 << _BITS) - math.floor((1 << _BITS) * lost))


def _rate(p: int) -> float:
    """Return 1 / scale^2."""
    rate: float = -math.log1p(-float(Fraction(2**_BITS - p, 2**_BITS)))
    return rate


def _gaussian_rho(law: BoundedGaussianLaw, reach: int) -> Fraction:
    """Return the interval's bound, widened by what rounding W can change; see the module."""
    rate = _rate(law.p) / 2
    weights = law.table.weights.astype(np.float64)
    d = np.arange(weights.size, dtype=np.float64)
    exponent = rate * d * d
    off = np.log(weights / weights[0]) + exponent
    kappa = float(np.abs(off).max()) + 2.0**-44 * (1 + float(exponent[-1]))
    plain = rate * reach**2 * math.exp(rate)
    most = float(law.certificate.epsilon_upper) / plain + 1  # the largest alpha that counts
    drift = min(2 * kappa * most, 300.0)
    spread = 2 * rate * reach * math.sqrt(math.exp(rate) / (2 * rate)) * math.exp(drift)
    return Fraction((spread + 2 * kappa) ** 2 / 2 * (1 + 2.0**-40))


def _proposal(request: GridRequest) -> float:
    """Return about the smallest scale whose exact discrete Gaussian is within epsilon."""
    allowed, reach, budget = request.allowed, request.reach, float(request.epsilon)
    if allowed.hull_steps == 0:
        return 1.0
    x = (allowed.points() - allowed.lower).astype(np.float64)
    ways = [x] if len(allowed.runs) == 1 else [x, (allowed.hull_steps - x)[::-1]]

    def loss(scale: float) -> float:
        return max(_upward(points, reach, scale) for points in ways)

    middle = math.sqrt(reach * allowed.hull_steps / budget)
    low, high = middle * math.sqrt(0.5), middle * (1 + 2.0**-40)
    if len(ways) > 1:
        low, high = first_bracket(loss, low, high, budget)
    return scale_within(loss, low, high, budget)


def _upward(x: npt.NDArray[np.float64], reach: int, scale: float) -> float:
    """Return -log E_0[e^(-reach (top - X) / scale^2)] of the discrete Gaussian at 0."""
    plain = x * x / (-2 * scale * scale)
    tilted = plain - (x[-1] - x) * (reach / scale**2)
    peak = float(tilted.max())
    return math.log(np.exp(plain).sum() / np.exp(tilted - peak).sum()) - peak


@lru_cache(maxsize=8)
def _table(allowed: GridSet, p: int) -> SymmetricTable:
    out = np.ones(allowed.hull_steps + 1, dtype=np.int64)
    up = (1 << _BITS) - 1
    w: int = 1 << top_bits(allowed)
    ratio = min(math.isqrt(p << _BITS) + 1, 1 << _BITS)
    weights: list[int] = []
    while w > 1 and len(weights) < out.size:  # a list: element by element, an array is slower
        weights.append(w)
        w = (w * ratio + up) >> _BITS
        ratio = (ratio * p + up) >> _BITS
    out[: len(weights)] = weights
    return SymmetricTable.of(allowed, out)


@lru_cache(maxsize=64)
def _certificate(law: BoundedGaussianLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=64)
def _expected_error(law: BoundedGaussianLaw) -> ExpectedError:
    return law.table.expected_error(law.loss)
