"""Bounded Gaussian: normal noise conditioned on the allowed set; an interval, a union or a box.

    p(x | q) = phi((x - q) / scale) / (scale C(q)) on D,   C(q) = P(q + N(0, scale^2) in D).

Privacy. Truncation makes the Gaussian purely private: on one interval of width w, for answers at
most c = min(sensitivity, w) apart, the loss is exactly

    (2 w c - c^2) / (2 scale^2) - ln(C(a + c) / C(a)),

falling in the scale; unions and boxes are in `calibration/gaussian_loss.py` and `..._scale.py`. Note
the minus: Theorem 2.4 of [BG] adds a normaliser term, and needs up to 3.25 times the variance on an interval.

Composition. On intervals the continuous law is (sensitivity / scale)-GDP, and its zCDP cost is
min(D^2 / 2 scale^2, D^2 w^2 / 8 scale^4): the log-partition's second derivative is a variance, at
most scale^2 for a log-concave law and w^2 / 4 for any. On unions only the second holds (two islands
at scale .1: rho 2.4 where the first gives .125).

Rules    `exact`: the smallest verified scale. `chen_hale`: Theorems 2.4 and 3.4 of [BG] with their
         missing condition; intervals, one scale, an l2 sensitivity.
Place    Gaussian kernel, truncating boundary; forms `forms/table.py`, `forms/closed_form.py`, boxes.
Theorem  `docs/theory/kernels-and-boundaries.md#bounded-gaussian`, `#bounded-gaussian-on-a-box`;
         `docs/theory/certificates.md#bounded-gaussian-tables`, `#wide-gaussian`, `#boxes`.
Erratum  `docs/theory/errata.md#chen-and-hale`.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats. On a box, `x`, locations
         and moments have shape `(..., sides)`, densities and masses `(...)`.
Sources  [BG] Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy"; exact losses
         `docs/theory/kernels-and-boundaries.md#bounded-gaussian`; zCDP:
         `docs/theory/certificates.md#zcdp-of-truncated-laws`.
Limits   finite domains. float64; what is drawn is `on_grid(step)`, certified exactly, a law of its
         own to which the GDP statement does not carry over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    FloatArray,
    check_answers,
    check_delta,
    coordinates,
    float_scale,
)
from dprelease.mechanisms.boundaries import truncated_gaussian as curves
from dprelease.mechanisms.boundaries.truncate import truncated_laws
from dprelease.mechanisms.calibration.gaussian_arguments import (
    Answers,
    Capped,
    PerSide,
    Sensitivity,
    SensitivityLike,
    as_argument,
    check_chen_hale,
    limits_of,
    per_side,
    ratios_of,
    sensitivity_of,
    sensitivity_set,
    sides_of,
)
from dprelease.mechanisms.calibration.gaussian_cost import (
    gdp_cost,
    relaxed_scale,
    worst_delta,
    zcdp_cost,
)
from dprelease.mechanisms.calibration.gaussian_scale import (
    SensitivitySet,
    chen_hale_scale,
    exact_scale,
)
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.mechanisms.certifiers.box_step import within_a_percent
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.certifiers.table_gaussian import BoundedGaussianLaw
from dprelease.mechanisms.forms.table import EPSILON_FLOOR
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.unit_law import UnitLaw, built_from_scale, calibrated_with_delta, on_grid
from dprelease.schema.domain import Box, Domain

Rule = Literal["exact", "chen_hale"]


@dataclass(frozen=True, slots=True, init=False)
class BoundedGaussian:
    """Normal noise conditioned on landing in `domain`.

    `scale` is a number, or one per side of a box if they differ. `sensitivity` (an l2 number, one
    number per side, or both) and `epsilon` are remembered from `calibrate`, for `on_grid`.
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
        scale: PerSide,
        answers: Answers = "hull",
        sensitivity: SensitivityLike | None = None,
        epsilon: Number | None = None,
    ) -> None:
        """Build the mechanism from its scale (one number, or one per side of a box).

        Raises:
            ArgumentError: neither a Domain nor a Box (DPR629), an infinite side (DPR603), a side
                of single points only (DPR632), a scale that is not above 0 (DPR606), a list of the
                wrong length (DPR637), unknown `answers` (DPR685), or `answers="domain"` on a box
                with gaps (DPR634).
        """
        sides = sides_of(domain)
        check_answers(answers)
        if answers == "domain" and len(sides) > 1 and not all(s.is_interval for s in sides):
            raise ArgumentError(
                "answers inside the domain are proved for one coordinate only",
                why="this box has sides with gaps",
                fix='use answers="hull"',
                code="DPR634",
            )
        scales = tuple(float_scale(s) for s in per_side(scale, "scale", len(sides)))
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "scale", scales[0] if len(set(scales)) == 1 else scales)
        object.__setattr__(self, "answers", answers)
        known = None if sensitivity is None else sensitivity_of(sensitivity, len(sides))
        object.__setattr__(self, "sensitivity", known)
        budget = None if epsilon is None else positive(epsilon, "epsilon")
        object.__setattr__(self, "epsilon", budget)

    @classmethod
    def calibrate(
        cls,
        domain: Domain | Box,
        *,
        sensitivity: SensitivityLike,
        epsilon: Number,
        delta: Number = 0.0,
        rule: Rule = "exact",
        answers: Answers = "hull",
        scale_ratios: Sequence[Number] | npt.NDArray[Any] | None = None,
    ) -> BoundedGaussian:
        """Return the mechanism whose loss for `sensitivity` is verified to be within the budget.

        `sensitivity` is an l2 number or, for a box, a list with one number per side, or both:
        `{"l2": 2, "per_coordinate": [1, 2]}`, for answers that keep both limits.
        `scale_ratios` (one number above 0 per side) fixes the shape of the noise.

        Raises:
            ArgumentError: as the constructor; invalid numbers (DPR605, DPR606, DPR631), an unknown
                rule (DPR633), or a rule or delta without a proof for this request (DPR634).
        """
        sides = sides_of(domain)
        budget, slack = positive(epsilon, "epsilon"), check_delta(delta)
        distance = sensitivity_of(sensitivity, len(sides))
        ones = (1.0,) * len(sides)
        ratios = ones if scale_ratios is None else ratios_of(scale_ratios, len(sides))
        cls(domain, scale=1, answers=answers)
        if rule not in ("exact", "chen_hale"):
            raise ArgumentError(
                "there is no such calibration rule", fix="use exact or chen_hale", code="DPR633"
            )
        if rule == "chen_hale":
            l2 = check_chen_hale(sides, distance, ratios, slack)
            scale = chen_hale_scale(sides, float(l2), float(budget))
        else:
            sensitivities = sensitivity_set(domain, sides, distance, answers)
            scale = exact_scale(sides, ratios, sensitivities, float(budget))
            if slack > 0:
                scale = relaxed_scale(sides, ratios, sensitivities, float(budget), slack, scale)
        return cls(
            domain,
            scale=tuple(scale * r for r in ratios),
            answers=answers,
            sensitivity=distance,
            epsilon=None if slack > 0 else budget,
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """One scale per side."""
        many = self.scale
        return many if isinstance(many, tuple) else (many,) * len(sides_of(self.domain))

    def loss(self, *, sensitivity: SensitivityLike) -> float:
        """Return the exact worst-case loss, in nats (float64 evaluation)."""
        return self._sensitivities(sensitivity).loss(sides_of(self.domain), self.scales)

    def delta(self, *, epsilon: Number, sensitivity: SensitivityLike) -> float:
        """Return the hockey-stick divergence at `epsilon`, worst over admissible answers.

        Exact for one coordinate (answers in gaps only count if `answers="hull"`). For a box an upper
        bound that can be several times too large: the curve of its `gdp` or of its `zcdp`.
        """
        budget = float(positive(epsilon, "epsilon", allow_zero=True))
        return worst_delta(
            sides_of(self.domain), self.scales, self._sensitivities(sensitivity), budget
        )

    def gdp(self, sensitivity: SensitivityLike) -> float:
        """Return mu such that the continuous law is mu-GDP, rounded up; intervals only.

        Raises:
            ArgumentError: a side has a gap (DPR634).
        """
        return gdp_cost(sides_of(self.domain), self.scales, self._sensitivities(sensitivity))

    def zcdp(self, sensitivity: SensitivityLike) -> float:
        """Return rho such that the law is rho-zCDP, rounded up; the weaker bound on gaps."""
        return zcdp_cost(sides_of(self.domain), self.scales, self._sensitivities(sensitivity))

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

    def on_grid(
        self, step: PerSide | None = None, *, sensitivity: SensitivityLike | None = None
    ) -> UnitLaw | BoundedGaussianBoxLaw:
        """Return the certified integer law on multiples of `step`, answers in the whole hull.

        For a box, `step` is one number or one per side, and the proof is joint. It covers answers
        that are rounded to the grid, so a coarse step costs variance: 1.19 to 1.39 times the continuous
        law's at a step of an eighth of the scale. The law's own `variance` says how much. Without a
        `step`, steps are chosen with which it is within 1 % of the continuous law's.

        Raises:
            ArgumentError: see `unit_law.on_grid`; DPR622 where no step of a box is fine enough and
                not too fine for a proof; and DPR634 after calibration with delta > 0,
                because grid laws are purely private.
        """
        count = len(sides_of(self.domain))
        known = self.sensitivity
        distance = known if sensitivity is None else sensitivity_of(sensitivity, count)
        budget = self.epsilon
        if distance is not None and (budget is None or sensitivity is not None):
            if known is not None and budget is None:
                raise calibrated_with_delta()
            budget = Fraction(self.loss(sensitivity=as_argument(distance)))
        if isinstance(self.domain, Domain):
            assert not isinstance(distance, Capped)
            one = distance[0] if isinstance(distance, tuple) else distance
            return on_grid(self.domain, step, one, budget, self.grid_laws)
        if distance is None or budget is None:
            raise built_from_scale()
        return self._box_law(step, distance, budget)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the certified table, on wide grids the closed form; nothing for splits.

        Raises:
            ArgumentError: point masses are forbidden, and epsilon is too small (DPR626) or the gaps are
                too wide (DPR627).
        """
        # A single allowed value needs no noise; other families serve it.
        small = request.epsilon < EPSILON_FLOOR  # on wide grids too
        if request.point_masses and (small or request.allowed.hull_steps == 0):
            return []
        return truncated_laws(
            request, BoundedGaussianLaw.calibrate, BoundedGaussianWideLaw.calibrate
        )

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the table, or the closed form."""
        wide = value.get("form") == BoundedGaussianWideLaw.form
        return (BoundedGaussianWideLaw if wide else BoundedGaussianLaw).from_json(value)

    def _box_law(
        self, step: PerSide | None, distance: Sensitivity, budget: Fraction
    ) -> BoundedGaussianBoxLaw:
        box, scales = self.domain, self.scales
        assert isinstance(box, Box)
        l2, per_coordinate = limits_of(distance)

        def law_on(steps: tuple[Fraction, ...]) -> BoundedGaussianBoxLaw:
            return BoundedGaussianBoxLaw.calibrate(box, steps, l2, per_coordinate, budget, scales)

        if step is not None:
            names = per_side(step, "step", len(scales))
            return law_on(tuple(positive(g, "step") for g in names))
        hulls = tuple(side.hull for side in box.sides)
        return within_a_percent(law_on, hulls, scales, self.variance)

    def _product(self, curve: Any, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        sides = sides_of(self.domain)
        points, q = np.asarray(x, dtype=np.float64), np.asarray(location, dtype=np.float64)
        if isinstance(self.domain, Domain):
            out: FloatArray = curve(sides[0], points, q, self.scales[0])
            return out
        parts = zip(
            sides,
            coordinates(points, len(sides)),
            coordinates(q, len(sides)),
            self.scales,
            strict=True,
        )
        product: FloatArray = np.asarray(math.prod(curve(*part) for part in parts))
        return product

    def _each(self, curve: Any, location: npt.ArrayLike) -> FloatArray:
        sides, q = sides_of(self.domain), np.asarray(location, dtype=np.float64)
        if isinstance(self.domain, Domain):
            out: FloatArray = curve(sides[0], q, self.scales[0])
            return out
        parts = zip(sides, coordinates(q, len(sides)), self.scales, strict=True)
        return np.stack([curve(*part) for part in parts], axis=-1)

    def _sensitivities(self, sensitivity: SensitivityLike) -> SensitivitySet:
        sides = sides_of(self.domain)
        distance = sensitivity_of(sensitivity, len(sides))
        return sensitivity_set(self.domain, sides, distance, self.answers)
