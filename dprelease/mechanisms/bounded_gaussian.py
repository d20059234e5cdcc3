"""Bounded Gaussian: normal noise conditioned on the allowed set; an interval, a union or a box.

    p(x | q) = phi((x - q) / scale) / (scale C(q)) on D,   C(q) = P(q + N(0, scale^2) in D).

Privacy. Truncation makes the Gaussian purely private: on one interval of width w, for answers at
most c = min(sensitivity, w) apart, the loss is exactly

    (2 w c - c^2) / (2 scale^2) - ln(C(a + c) / C(a)),

falling in the scale; unions and boxes are in `bounded_gaussian_loss.py` and `..._scale.py`. Note
the minus: Theorem 2.4 of [BG] adds a normaliser term, and needs 1.05 to 3.2 times the variance.

Composition. On intervals the continuous law is (sensitivity / scale)-GDP, and its zCDP cost is
min(D^2 / 2 scale^2, D^2 w^2 / 8 scale^4): the log-partition's second derivative is a variance, at
most scale^2 for a log-concave law and w^2 / 4 for any. On unions only the second holds (two islands
at scale .1: rho 1.11 where the first gives .125).

Rules    `exact`: the smallest verified scale. `chen_hale`: Theorems 2.4 and 3.4 of [BG] with their
         missing condition; intervals, one scale, an l2 sensitivity.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats. On a box, `x`, locations
         and moments have shape `(..., sides)`, densities and masses `(...)`.
Sources  [BG] Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy"; exact losses
         and zCDP: `mechanisms.md` section 3 and `semantics.md` section 5 of the design.
Limits   finite domains. float64; what is drawn is `on_grid(step)`, certified exactly, a law of its
         own to which the GDP statement does not carry over. delta on boxes is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.errors import ArgumentError
from dprelease.mechanisms import bounded_gaussian_curves as curves
from dprelease.mechanisms.arguments import FloatArray, check_delta, float_scale
from dprelease.mechanisms.bounded_gaussian_loss import Side, domain_pairs
from dprelease.mechanisms.bounded_gaussian_scale import (
    Reach,
    SideList,
    chen_hale_scale,
    delta_scale,
    exact_scale,
)
from dprelease.mechanisms.bounded_gaussian_table import BoundedGaussianLaw
from dprelease.mechanisms.bounded_laplace_table import POINT_LIMIT
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.normal_pieces import gaussian_delta
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.numeric import positive
from dprelease.schema.domain import Box, Domain

__all__ = ["BoundedGaussian"]

Rule = Literal["exact", "chen_hale"]
Answers = Literal["hull", "domain"]
Sensitivity = Fraction | tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, init=False)
class BoundedGaussian:
    """Normal noise conditioned on landing in `domain`.

    `scale` is a number, or one per side of a box if they differ. `sensitivity` (an l2 number, or
    one number per side) and `epsilon` are remembered from `calibrate`, for `on_grid`.
    """

    domain: Domain | Box
    scale: float | tuple[float, ...]
    answers: Answers
    sensitivity: Sensitivity | None
    epsilon: Fraction | None

    def __init__(
        self,
        domain: Domain | Box,
        *,
        scale: object,
        answers: Answers = "hull",
        sensitivity: object = None,
        epsilon: object = None,
    ) -> None:
        """Build the mechanism from its scale (one number, or one per side of a box).

        Raises:
            ArgumentError: neither a Domain nor a Box (DPR629), an infinite side (DPR603), a side
                of single points only (DPR632), a scale that is not above 0 (DPR606), a list of the
                wrong length (DPR637), unknown `answers` (DPR633), or `answers="domain"` on a box
                with gaps (DPR634).
        """
        sides = _sides(domain)
        if answers not in ("hull", "domain"):
            raise ArgumentError(
                "`answers` is neither hull nor domain", fix='use answers="hull"', code="DPR633"
            )
        if answers == "domain" and len(sides) > 1 and not all(s.is_interval for s in sides):
            raise ArgumentError(
                "answers inside the domain are proved for one coordinate only",
                why="this box has sides with gaps",
                fix='use answers="hull"',
                code="DPR634",
            )
        scales = tuple(float_scale(s) for s in _per_side(scale, "scale", len(sides)))
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "scale", scales[0] if len(set(scales)) == 1 else scales)
        object.__setattr__(self, "answers", answers)
        known = None if sensitivity is None else _sensitivity(sensitivity, len(sides))
        object.__setattr__(self, "sensitivity", known)
        budget = None if epsilon is None else positive(epsilon, "epsilon")
        object.__setattr__(self, "epsilon", budget)

    @classmethod
    def calibrate(
        cls,
        domain: Domain | Box,
        *,
        sensitivity: object,
        epsilon: object,
        delta: object = 0.0,
        rule: Rule = "exact",
        answers: Answers = "hull",
        scale_ratios: Sequence[object] | None = None,
    ) -> BoundedGaussian:
        """Return the mechanism whose loss for `sensitivity` is verified to be within the budget.

        `sensitivity` is an l2 number or, for a box, a list with one number per side.
        `scale_ratios` (one number above 0 per side) fixes the shape of the noise.

        Raises:
            ArgumentError: as the constructor; invalid numbers (DPR605, DPR606, DPR631), an unknown
                rule (DPR633), or a rule or delta without a proof for this request (DPR634).
        """
        sides = _sides(domain)
        budget, slack = positive(epsilon, "epsilon"), check_delta(delta)
        shift = _sensitivity(sensitivity, len(sides))
        ones = (1.0,) * len(sides)
        ratios = ones if scale_ratios is None else _ratios(scale_ratios, len(sides))
        cls(domain, scale=1, answers=answers)
        if rule not in ("exact", "chen_hale"):
            raise ArgumentError(
                "there is no such calibration rule", fix="use exact or chen_hale", code="DPR633"
            )
        if rule == "chen_hale":
            _check_chen_hale(sides, shift, ratios, slack)
            scale = chen_hale_scale(sides, float(_radius(shift)), float(budget))
        else:
            reach = _reach(domain, sides, shift, answers)
            scale = exact_scale(sides, ratios, reach, float(budget))
            if slack > 0:
                scale = _relaxed(sides, ratios, reach, float(budget), slack, scale)
        return cls(
            domain,
            scale=tuple(scale * r for r in ratios),
            answers=answers,
            sensitivity=shift,
            epsilon=None if slack > 0 else budget,
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """One scale per side."""
        many = self.scale
        return many if isinstance(many, tuple) else (many,) * len(_sides(self.domain))

    def loss(self, *, sensitivity: object) -> float:
        """Return the exact worst-case loss, in nats (float64 evaluation)."""
        return self._reach(sensitivity).loss(_sides(self.domain), self.scales)

    def delta(self, *, epsilon: object, sensitivity: object) -> float:
        """Return the hockey-stick divergence at `epsilon`, worst over hull answers.

        Exact for one coordinate; for a box of intervals, the Gaussian-DP curve: an upper bound.

        Raises:
            ArgumentError: a box with gaps whose loss exceeds `epsilon` (DPR634).
        """
        budget = float(positive(epsilon, "epsilon", allow_zero=True))
        return _delta(_sides(self.domain), self.scales, self._reach(sensitivity), budget)

    def gdp(self, sensitivity: object) -> float:
        """Return mu such that the continuous law is mu-GDP, rounded up; intervals only.

        Raises:
            ArgumentError: a side has a gap (DPR634).
        """
        return _gdp(_sides(self.domain), self.scales, self._reach(sensitivity))

    def zcdp(self, sensitivity: object) -> float:
        """Return rho such that the law is rho-zCDP, rounded up; the weaker bound on gaps."""
        sides, reach = _sides(self.domain), self._reach(sensitivity)
        rates = []
        for side, s in zip(sides, self.scales, strict=True):
            flat = side.span**2 / (8 * s**4)
            rates.append(min(1 / (2 * s * s), flat) if side.is_interval else flat)
        return _quadratic(sides, rates, reach) * (1 + 2.0**-50)

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density, vectorised over `x` and `location` (broadcast); 0 outside D.

        Raises:
            ArgumentError: a location outside the hull (DPR630), a wrong last axis (DPR637).
        """
        return self._product(curves.pdf, x, location)

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), in every coordinate, to full relative precision where it is small."""
        return self._product(curves.cdf, x, location)

    def survival(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y > x), in every coordinate, to full relative precision where it is small."""
        return self._product(curves.survival, x, location)

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return C(location): the chance that plain normal noise lands in the domain."""
        return self._product(lambda side, _, q, s: curves.mass(side, q, s), location, location)

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        return self._each(curves.mean, location)

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        return self._each(curves.variance, location)

    def on_grid(self, step: object, *, sensitivity: object = None) -> UnitLaw:
        """Return the certified integer law on multiples of `step`, answers in the whole hull.

        Raises:
            ArgumentError: see `unit_law.on_grid`; and DPR634 after calibration with delta > 0,
                because grid laws are purely private.
        """
        count = len(_sides(self.domain))
        known = self.sensitivity
        shift = known if sensitivity is None else _sensitivity(sensitivity, count)
        budget = self.epsilon
        if shift is not None and (budget is None or sensitivity is not None):
            if known is not None and budget is None:
                raise ArgumentError(
                    "a grid law is purely private",
                    why="this mechanism was calibrated with delta above 0",
                    fix="calibrate with delta=0",
                    code="DPR634",
                )
            budget = Fraction(self.loss(sensitivity=_plain(shift)))
        only = self.domain if isinstance(self.domain, Domain) else self.domain.sides[0]
        one = shift[0] if isinstance(shift, tuple) else shift
        return on_grid(only, step, one, budget, self.grid_laws)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the certified table, or nothing where only a linear loss is admissible.

        Raises:
            ArgumentError: spikes are forbidden and the grid is too fine (DPR622).
        """
        # The loss is concave in the shift: splits over coordinates would add up to more.
        if request.splits or (request.spikes and request.allowed.hull_steps >= POINT_LIMIT):
            return []
        return [BoundedGaussianLaw.calibrate(request)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the table law."""
        return BoundedGaussianLaw.from_json(value)

    def _product(self, curve: Any, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        sides = _sides(self.domain)
        points, q = np.asarray(x, dtype=np.float64), np.asarray(location, dtype=np.float64)
        if isinstance(self.domain, Domain):
            out: FloatArray = curve(sides[0], points, q, self.scales[0])
            return out
        parts = zip(
            sides,
            curves.coordinates(points, len(sides)),
            curves.coordinates(q, len(sides)),
            self.scales,
            strict=True,
        )
        product: FloatArray = np.asarray(math.prod(curve(*part) for part in parts))
        return product

    def _each(self, curve: Any, location: npt.ArrayLike) -> FloatArray:
        sides, q = _sides(self.domain), np.asarray(location, dtype=np.float64)
        if isinstance(self.domain, Domain):
            out: FloatArray = curve(sides[0], q, self.scales[0])
            return out
        parts = zip(sides, curves.coordinates(q, len(sides)), self.scales, strict=True)
        return np.stack([curve(*part) for part in parts], axis=-1)

    def _reach(self, sensitivity: object) -> Reach:
        sides = _sides(self.domain)
        shift = _sensitivity(sensitivity, len(sides))
        return _reach(self.domain, sides, shift, self.answers)


def _sides(domain: object) -> SideList:
    if isinstance(domain, Domain):
        return (Side.of(domain),)
    if isinstance(domain, Box):
        return tuple(Side.of(side) for side in domain.sides)
    raise ArgumentError(
        "a bounded Gaussian needs a Domain or a Box",
        fix="write dp.Domain(lower, upper, forbidden=[...]) or dp.Box([(a, b), (c, d)])",
        code="DPR629",
    )


def _listed(value: object) -> list[object] | None:
    """Return the elements of a list, tuple or array; None for a single number."""
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.ndim == 1 else None
    return list(value) if isinstance(value, list | tuple) else None


def _plain(shift: Sensitivity) -> object:
    return list(shift) if isinstance(shift, tuple) else shift


def _per_side(value: object, name: str, count: int) -> list[object]:
    """Return one value per side; a single one stands for all."""
    many = _listed(value)
    if many is None:
        return [value] * count
    if len(many) != count:
        raise ArgumentError(
            f"{name} has {len(many)} entries, the domain has {count} sides",
            fix=f"give one number, or {count}",
            code="DPR637",
        )
    return many


def _sensitivity(value: object, count: int) -> Sensitivity:
    if _listed(value) is None:
        return positive(value, "sensitivity")
    each = _per_side(value, "sensitivity", count)
    shifts = tuple(positive(v, "sensitivity", allow_zero=True) for v in each)
    if not any(shifts):
        raise ArgumentError(
            "every sensitivity is 0",
            why="without sensitivity there is nothing to protect",
            fix="give at least one coordinate a sensitivity above 0",
            code="DPR606",
        )
    return shifts


def _ratios(value: Sequence[object], count: int) -> tuple[float, ...]:
    return tuple(float(positive(r, "scale_ratios")) for r in _per_side(value, "scale_ratios", count))


def _reach(domain: Domain | Box, sides: SideList, shift: Sensitivity, answers: Answers) -> Reach:
    if isinstance(shift, tuple):
        if answers == "domain" and isinstance(domain, Domain):
            shift = shift[0]
        else:
            return Reach(each=tuple(float(s) for s in shift))
    if len(sides) > 1:
        return Reach(radius=float(shift))
    if answers == "hull" or sides[0].is_interval:
        return Reach(each=(float(shift),))
    only = domain if isinstance(domain, Domain) else domain.sides[0]
    pairs = domain_pairs(only, shift)
    if not pairs:
        raise ArgumentError(
            "no two answers are within the sensitivity of each other",
            why="the domain consists of points further apart",
            fix='use answers="hull"',
            code="DPR634",
        )
    return Reach(pairs=tuple((float(s), float(t - s)) for s, t in pairs))


def _radius(shift: Sensitivity) -> Fraction:
    return shift[0] if isinstance(shift, tuple) else shift


def _check_chen_hale(
    sides: SideList, shift: Sensitivity, ratios: tuple[float, ...], slack: float
) -> None:
    reasons = [
        (not all(side.is_interval for side in sides), "its theorems are for intervals"),
        (isinstance(shift, tuple) and len(shift) > 1, "its sensitivity is one l2 number"),
        (len(set(ratios)) > 1, "its noise has one scale"),
        (slack > 0, "its guarantee is pure"),
    ]
    for holds, why in reasons:
        if holds:
            raise ArgumentError(
                "rule chen_hale is not proved for this request",
                why=why,
                fix='use rule="exact"',
                code="DPR634",
            )


def _distance(reach: Reach, sides: SideList) -> float:
    """Return the largest shift of one coordinate."""
    if reach.pairs is not None:
        return max(c for _, c in reach.pairs)
    return reach.shifts(sides)[0]


def _quadratic(sides: SideList, rates: list[float], reach: Reach) -> float:
    """Return the largest sum of rate_i c_i^2 within reach."""
    if len(sides) == 1:
        return rates[0] * _distance(reach, sides) ** 2
    if reach.each is not None:
        return sum(r * c * c for r, c in zip(rates, reach.shifts(sides), strict=True))
    left, total = float(reach.radius or 0.0) ** 2, 0.0
    for rate, side in sorted(zip(rates, sides, strict=True), key=lambda part: -part[0]):
        used = min(left, side.width**2)
        total, left = total + rate * used, left - used
    return total


def _gdp(sides: SideList, scales: tuple[float, ...], reach: Reach) -> float:
    if not all(side.is_interval for side in sides):
        raise ArgumentError(
            "Gaussian DP is proved on intervals only",
            why="across a gap the truncated law is not log-concave",
            fix="use zcdp(sensitivity), which holds on unions too",
            code="DPR634",
        )
    return math.sqrt(_quadratic(sides, [s**-2.0 for s in scales], reach)) * (1 + 2.0**-50)


def _delta(sides: SideList, scales: tuple[float, ...], reach: Reach, epsilon: float) -> float:
    if len(sides) == 1:
        return sides[0].worst_hockey(_distance(reach, sides), scales[0], epsilon)
    if reach.loss(sides, scales) <= epsilon:
        return 0.0
    return gaussian_delta(_gdp(sides, scales, reach), epsilon)


def _relaxed(
    sides: SideList,
    ratios: tuple[float, ...],
    reach: Reach,
    epsilon: float,
    delta: float,
    pure: float,
) -> float:
    """Return the scale for (epsilon, delta), at most `pure`."""
    if len(sides) == 1:
        distance = _distance(reach, sides)
    else:
        distance = _gdp(sides, ratios, reach)
    goal = delta * (1 - 1e-9)

    def holds(scale: float) -> bool:
        return _delta(sides, tuple(scale * r for r in ratios), reach, epsilon) <= goal

    return delta_scale(holds, distance, epsilon, delta, pure)
