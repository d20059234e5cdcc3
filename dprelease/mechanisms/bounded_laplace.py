"""Bounded Laplace: Laplace noise conditioned on the allowed set, one interval or a union.

    p(x | q) = e^(-|x - q| / b) / (2b C(q)) on D,   C(q) = integral over D of the same.

Privacy. For |q - q'| = k the loss is k / b + |log C(q) - log C(q')| (proved, attained), growing
along chains, so pairs at distance min(sensitivity, width) decide. Truncating at the scale
sensitivity / epsilon is in general *not* private at epsilon (it is on one interval that is no wider
than the sensitivity); the scale is re-calibrated here.

* one interval: d + log1p((1 - e^-d)(1 - e^-(k - d)) / (1 - e^-k)), d = sensitivity / b,
  k = width / b, worst pair at an end; decreasing in b; b in [1, 2] sensitivity / epsilon;
* a union, answers anywhere in the hull (default): maximised over all hull pairs;
* a union, answers inside D only (opt-in: the two sides of a gap wider than the sensitivity are
  then not protected from each other): a finite list of pairs.

On a union the loss is not monotone in b, so a returned scale is always one that was verified.

Rules    `exact`: the smallest verified scale. `holohan`: Theorem 3.5 of [BL], intervals only; its
         delta > 0 form is pure privacy at epsilon - log(1 - delta). `croft`: the metric guarantee
         of [TNL], loss <= epsilon |q - q'| / sensitivity for all pairs.
Place    Laplace kernel, truncating boundary; forms `forms/table.py`, `forms/closed_form.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#bounded-laplace-on-one-interval`, `#bounded-laplace-on-a-union`;
         `docs/theory/certificates.md#bounded-laplace-tables`, `#wide-laplace`.
Erratum  `docs/theory/errata.md#holohan-et-al`, `#croft-et-al`.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats.
Sources  [BL] Holohan, Antonatos, Braghin & Mac Aonghusa, "The Bounded Laplace Mechanism in
         Differential Privacy". [TNL] Croft, Sack & Shi, truncated noise; its variable scale on a
         half-line is false and not offered. Exact losses:
         `docs/theory/kernels-and-boundaries.md#bounded-laplace`.
Limits   scales and curves are float64; what is drawn is `on_grid(step)`, certified exactly.
         Isolated single points have no mass here; on a grid they do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    FloatArray,
    as_float,
    check_answers,
    check_delta,
    check_domain,
    check_locations,
)
from dprelease.mechanisms.boundaries.truncate import truncated_laws
from dprelease.mechanisms.calibration import laplace_loss as losses
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.kernels.laplace_pieces import segments
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.scaled import Scaled
from dprelease.mechanisms.unit_law import calibrated_with_delta
from dprelease.schema.domain import Domain

Rule = Literal["exact", "holohan", "croft"]
Answers = Literal["hull", "domain"]


@dataclass(frozen=True, slots=True, init=False)
class TruncatedLaplace(Scaled):
    """Laplace noise of `scale` conditioned on landing in `domain`: its loss and its curves."""

    @staticmethod
    def _taken(domain: object) -> Domain:
        found = check_domain(domain)
        if all(a == b for a, b in found.pieces):
            raise ArgumentError(
                "bounded Laplace needs an interval of positive width",
                why="the domain consists of single points",
                fix="use `staircase` or `bounded_laplace` on a grid of those points",
                code="DPR632",
            )
        return found

    def _view(self) -> losses.LossView:
        return losses.LossView(self.domain, "hull")

    def loss(self, *, sensitivity: Number) -> float:
        """Return the exact worst-case loss, in nats (float64 evaluation)."""
        distance = positive(sensitivity, "sensitivity")
        as_float(distance, "sensitivity")
        return self._view().loss(self.scale, distance)

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density, vectorised over `x` and `location` (broadcast); 0 outside D.

        Raises:
            ArgumentError: a location outside the hull (DPR630).
        """
        q = check_locations(self.domain, location)
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        parts = segments(self.domain, q.ravel(), self.scale)
        norm = (self.scale * parts.masses().sum(axis=0)).reshape(q.shape)
        near = parts.nearest.reshape(q.shape)
        inside = self.domain.contains(points)
        gap = np.where(inside, np.abs(points - q), np.inf)
        return np.where(inside, np.exp(-(gap - near) / self.scale) / norm, 0.0)

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), vectorised over `x` and `location`."""
        q = check_locations(self.domain, location)
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        shape, flat, at = q.shape, q.ravel(), points.ravel()
        near = segments(self.domain, flat, self.scale).nearest
        total, below = np.zeros(flat.size), np.zeros(flat.size)
        for a, c in self.domain.pieces:
            total += losses.piece_mass(flat, near, a, np.full(flat.size, c), self.scale)
            below += losses.piece_mass(flat, near, a, np.clip(at, a, c), self.scale)
        out: FloatArray = np.clip(below / total, 0.0, 1.0).reshape(shape)
        return out

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return C(location): the chance that plain Laplace noise lands in the domain."""
        q = check_locations(self.domain, location)
        out: FloatArray = np.exp(segments(self.domain, q.ravel(), self.scale).log_mass())
        return out.reshape(q.shape)

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        q = check_locations(self.domain, location)
        return q + self._moments(q.ravel())[0].reshape(q.shape)

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        q = check_locations(self.domain, location)
        return self._moments(q.ravel())[1].reshape(q.shape)

    def _moments(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = segments(self.domain, q, self.scale)
        m0, m1, m2 = parts.moments()
        start = np.where(m0 > 0, parts.start, 0.0)
        total = m0.sum(axis=0)
        mean = (parts.sign * (start * m0 + m1)).sum(axis=0) / total
        apart = parts.sign * start - mean  # moments around the mean: nothing cancels
        square = apart**2 * m0 + 2 * apart * parts.sign * m1 + m2
        return mean, square.sum(axis=0) / total


@dataclass(frozen=True, slots=True, init=False)
class BoundedLaplace(TruncatedLaplace):
    """Laplace noise of `scale` conditioned on landing in `domain`.

    `sensitivity` and `epsilon` are remembered from `calibrate`, for `on_grid`.
    """

    answers: Answers

    def __init__(
        self,
        domain: Domain,
        *,
        scale: Number,
        answers: Answers = "hull",
        sensitivity: Number | None = None,
        epsilon: Number | None = None,
    ) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: not a Domain (DPR629), a domain of single points only (DPR632), a scale
                that is not above 0 (DPR606), or unknown `answers` (DPR685).
        """
        Scaled.__init__(self, domain, scale=scale, sensitivity=sensitivity, epsilon=epsilon)
        check_answers(answers)
        object.__setattr__(self, "answers", answers)

    @classmethod
    def calibrate(
        cls,
        domain: Domain,
        *,
        sensitivity: Number,
        epsilon: Number,
        delta: Number = 0.0,
        rule: Rule = "exact",
        answers: Answers = "hull",
    ) -> BoundedLaplace:
        """Return the mechanism whose loss for `sensitivity` is verified to be within the budget.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606, DPR631), an unknown rule (DPR633), or
                a rule without a proof for this domain or delta (DPR634).
        """
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        plain, goal = as_float(distance, "sensitivity"), as_float(budget, "epsilon")
        slack = check_delta(delta)
        probe = cls(domain, scale=1, answers=answers)
        if rule not in ("exact", "holohan", "croft"):
            raise ArgumentError(
                "there is no such calibration rule",
                fix="use exact, holohan or croft",
                code="DPR633",
            )
        if rule == "holohan" and len(domain.exact_pieces) > 1:
            raise ArgumentError(
                "rule holohan is proved for one interval only",
                why="on a union its formula understates the loss",
                fix='use rule="exact"',
                code="DPR634",
            )
        if rule == "croft" and slack > 0:
            raise ArgumentError(
                "rule croft has no delta", fix='use rule="exact" or delta=0', code="DPR634"
            )
        view = probe._view()
        if rule == "croft":
            scale = view.croft_scale(plain, goal)
        elif rule == "holohan":
            scale = view.pure_scale(distance, goal - math.log1p(-slack))
        else:
            scale = view.pure_scale(distance, goal)
            if slack > 0:
                scale = view.delta_scale(plain, goal, slack, scale)
        return cls(
            probe.domain,
            scale=scale,
            answers=answers,
            sensitivity=distance,
            epsilon=None if slack > 0 else budget,
        )

    def delta(self, *, epsilon: Number, sensitivity: Number) -> float:
        """Return the exact hockey-stick divergence at `epsilon`, worst over hull pairs."""
        budget = float(positive(epsilon, "epsilon", allow_zero=True))
        distance = as_float(positive(sensitivity, "sensitivity"), "sensitivity")
        return self._view().delta(self.scale, distance, budget)

    def _view(self) -> losses.LossView:
        return losses.LossView(self.domain, self.answers)

    def _loss_of(self, sensitivity: Fraction) -> Fraction:
        """Return its own loss; after calibration with delta above 0 there is none (DPR634)."""
        if self.sensitivity is not None and self.epsilon is None:
            raise calibrated_with_delta()
        return Fraction(self.loss(sensitivity=sensitivity))

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the certified table, on wide grids and in deep gaps the closed form; nothing for splits.

        Raises:
            ArgumentError: point masses are forbidden, and epsilon is too small (DPR626).
        """
        return truncated_laws(request, BoundedLaplaceLaw.calibrate, BoundedLaplaceWideLaw.calibrate)

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the table, or the closed form."""
        wide = value.get("form") == BoundedLaplaceWideLaw.form
        return (BoundedLaplaceWideLaw if wide else BoundedLaplaceLaw).from_json(value)
