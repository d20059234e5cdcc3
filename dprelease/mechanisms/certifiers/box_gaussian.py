"""The proof of bounded Gaussian noise on a box: one certified table per side, one joint certificate.

The sides are drawn independently, so for neighbours k_1, k_2, ... grid steps apart the loss is at
most sum E_i(k_i), E_i(k) the certified loss of side i at distances up to k steps.

* per-coordinate sensitivities: side i moves at most ceil(sensitivity_i / step_i) steps: the sum.
* an l2 ball, with or without such caps: rounding moves side i by k steps only if its answer moved more than (k - 1) step_i,
  so the splits to maximise over satisfy sum((k_i - 1)+ step_i)^2 < radius^2. For every
  multiplier >= 0 the dual bound

      sum over i of max over k of (E_i(k) - multiplier ((k - 1)+ step_i)^2) + multiplier radius^2

  holds; the stated certificate is that bound at one stored rational multiplier. It needs no
  concavity of E_i, which rounded tables do not promise. With caps, k is at most ceil(cap_i / step_i).

Units    the box's unit outside, grid steps inside; epsilon in nats.
Sources  `forms/box.py`, `certifiers/table.py`; `docs/theory/certificates.md#boxes`.
Limits   curves cost hull times sensitivity operations per side: at most 2**24. The last step of rounding
         per side is paid for: a step well below sensitivity / sides keeps that small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError, InternalError
from dprelease.mechanisms.certificate import Certificate, log_upper
from dprelease.mechanisms.certifiers.table import loss_curve, worst_ratio
from dprelease.mechanisms.certifiers.table_gaussian import BoundedGaussianLaw, decay_of
from dprelease.mechanisms.forms.box import BoxLaw
from dprelease.mechanisms.forms.table import check_size
from dprelease.schema.domain import Box, GridSet

_CURVE_LIMIT = 2**24
_MARGIN = 1 + 2.0**-40
_WIDEST = 2.0**40


@dataclass(frozen=True, slots=True)
class BoundedGaussianBoxLaw(BoxLaw):
    """Independent certified tables, one per side, in the box's unit.

    Attributes:
        laws: one table per side; each law's own `sensitivity` and `epsilon` are the side's alone.
        steps: size of a grid step per side.
        l2: the l2 sensitivity, or None where all are per coordinate.
        per_coordinate: beside an l2 sensitivity: one of each side by itself, where that is known.
        moved: steps that side i can move (0 where its sensitivity is 0).
        epsilon: the loss asked for.
        multiplier: of the dual bound; 0 without an l2 sensitivity.
    """

    family: ClassVar[str] = "bounded_gaussian"
    constants: ClassVar[Mapping[str, str]] = {"family": "family", "kind": "kind"}

    laws: tuple[BoundedGaussianLaw, ...]
    l2: Fraction | None
    moved: tuple[int, ...]
    epsilon: Fraction
    multiplier: Fraction
    per_coordinate: tuple[Fraction, ...] | None = None

    @classmethod
    @lru_cache(maxsize=64)
    def calibrate(
        cls,
        box: Box,
        steps: tuple[Fraction, ...],
        l2: Fraction | None,
        per_coordinate: tuple[Fraction, ...] | None,
        epsilon: Fraction,
        scales: tuple[float, ...],
    ) -> BoundedGaussianBoxLaw:
        """Return the law whose certificate is within `epsilon`, widening `scales` (the box's unit).

        The same arguments give the same law; the last ones are kept, as a plan asks again for each
        statistic of a block. Of `l2` and `per_coordinate` at least one is given.

        Raises:
            ArgumentError: a grid that is too fine (DPR622), a side without grid points (DPR604).
        """
        parts = zip(box.sides, steps, strict=True)
        allowed = tuple(side.on_grid(step) for side, step in parts)
        distances = _steps_apart(allowed, steps, l2, per_coordinate)
        _check(allowed, distances if l2 is not None else (0,) * len(distances))

        def law_at(factor: float) -> BoundedGaussianBoxLaw:
            parts = zip(scales, steps, strict=True)
            decays = tuple(decay_of(s * factor / float(g)) for s, g in parts)
            return cls._build(allowed, decays, steps, l2, per_coordinate, distances, epsilon)

        bad, good = 0.0, 1.0
        law = law_at(good)
        while (proved := law.certificate.epsilon_upper) > epsilon:
            if good > _WIDEST:
                raise InternalError("a flat box law did not certify")
            # The loss falls about as scale^-2.
            bad, good = good, good * math.sqrt(proved / epsilon) * (1 + 2.0**-20)
            law = law_at(good)
        while bad > 0 and good - bad > 2.0**-16 * good:
            closer = law_at((bad + good) / 2)
            if closer.certificate.epsilon_upper > epsilon:
                bad = (bad + good) / 2
            else:
                good, law = (bad + good) / 2, closer
        return law

    @classmethod
    def _build(
        cls,
        allowed: tuple[GridSet, ...],
        decays: tuple[int, ...],
        steps: tuple[Fraction, ...],
        l2: Fraction | None,
        per_coordinate: tuple[Fraction, ...] | None,
        distances: tuple[int, ...],
        epsilon: Fraction,
    ) -> BoundedGaussianBoxLaw:
        laws = []
        for a, k, p in zip(allowed, distances, decays, strict=True):
            own = _side_loss(a, p, k) or epsilon
            laws.append(BoundedGaussianLaw(a, max(k, 1), own, "absolute", p))
        multiplier = Fraction(0)
        if l2 is not None:
            curves = _curves(tuple(laws), distances)
            multiplier = Fraction(_best_multiplier(curves, steps, l2))
        stated = None if l2 is None else per_coordinate
        return cls(tuple(laws), steps, l2, distances, epsilon, multiplier, stated)

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    def certify(self) -> Certificate:
        """Recompute the joint proof from the sides' integers."""
        if self.l2 is None:
            parts = zip(self.laws, self.moved, strict=True)
            proved = sum((_side_loss(law.allowed, law.p, k) for law, k in parts), Fraction(0))
            method = "sum of the sides' certified losses"
        else:
            curves = _curves(self.laws, self.moved)
            bound = _dual(curves, self.steps, self.l2, float(self.multiplier))
            proved = Fraction(bound * _MARGIN)
            method = "dual bound over all splits of the l2 sensitivity, rounding included"
        stated = [(f"p_{i}", str(law.p)) for i, law in enumerate(self.laws)]
        stated += [(f"moved_{i}", str(k)) for i, k in enumerate(self.moved)]
        stated += [("multiplier", str(self.multiplier)), ("l2", str(self.l2))]
        stated += [(f"per_coordinate_{i}", str(c)) for i, c in enumerate(self.per_coordinate or ())]
        return Certificate("bounded_gaussian", proved, None, method, tuple(stated))

    def completed(self) -> BoundedGaussianBoxLaw:
        laws, steps, distances, l2 = self.laws, self.steps, self.moved, self.l2
        if not len(laws) == len(steps) == len(distances) or self.multiplier < 0:
            raise ValueError("sides")
        if self.per_coordinate is not None and (
            l2 is None or len(self.per_coordinate) != len(laws)
        ):
            raise ValueError("per_coordinate")
        allowed = tuple(law.allowed for law in laws)
        if l2 is not None and distances != _steps_apart(allowed, steps, l2, self.per_coordinate):
            raise ValueError("moved")
        return self


def _steps_apart(
    allowed: tuple[GridSet, ...],
    steps: tuple[Fraction, ...],
    l2: Fraction | None,
    per_coordinate: tuple[Fraction, ...] | None,
) -> tuple[int, ...]:
    """Return how many steps each side's rounded answer can move by itself."""
    out = []
    for i, (a, g) in enumerate(zip(allowed, steps, strict=True)):
        limits = [
            x
            for x in (l2, per_coordinate[i] if per_coordinate is not None else None)
            if x is not None
        ]
        out.append(min(math.ceil(min(limits) / g), a.hull_steps))
    return tuple(out)


def _check(allowed: tuple[GridSet, ...], distances: tuple[int, ...]) -> None:
    for a, k in zip(allowed, distances, strict=True):
        check_size(a)
        if (a.hull_steps + 1) * k > _CURVE_LIMIT:
            raise ArgumentError(
                "the grid is too fine for a joint proof over an l2 sensitivity",
                why=f"on one side the steps of the hull times those of the sensitivity pass {_CURVE_LIMIT}",
                fix="use a coarser step, or per-coordinate sensitivities",
                code="DPR622",
            )


@lru_cache(maxsize=64)
def _side_loss(allowed: GridSet, p: int, distance: int) -> Fraction:
    """Return the certified loss of the table that `p` makes at distances up to `distance`; 0 for 0."""
    if not distance:
        return Fraction(0)
    side = BoundedGaussianLaw(allowed, distance, Fraction(1), "absolute", p)
    return log_upper(worst_ratio(side.table, distance))


@lru_cache(maxsize=8)
def _curves(
    laws: tuple[BoundedGaussianLaw, ...], distances: tuple[int, ...]
) -> tuple[npt.NDArray[np.float64], ...]:
    """Return E_i(0), E_i(1), ..., E_i(moved_i) per side."""
    return tuple(loss_curve(law.table, k) for law, k in zip(laws, distances, strict=True))


def _dual(
    curves: tuple[npt.NDArray[np.float64], ...],
    steps: tuple[Fraction, ...],
    l2: Fraction,
    multiplier: float,
) -> float:
    total = multiplier * float(l2) ** 2
    for curve, step in zip(curves, steps, strict=True):
        moves = np.maximum(np.arange(curve.size) - 1, 0) * float(step)
        total += float((curve - multiplier * moves**2).max())
    return total


def _best_multiplier(
    curves: tuple[npt.NDArray[np.float64], ...], steps: tuple[Fraction, ...], l2: Fraction
) -> float:
    """Return about the best multiplier; the dual bound is convex in it."""
    low, high = 0.0, sum(float(c[-1]) for c in curves) / float(l2) ** 2
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        x, y = high - ratio * (high - low), low + ratio * (high - low)
        if _dual(curves, steps, l2, x) <= _dual(curves, steps, l2, y):
            high = y
        else:
            low = x
    return (low + high) / 2


@lru_cache(maxsize=16)
def _certificate(law: BoundedGaussianBoxLaw) -> Certificate:
    return law.certify()
