"""Checks of what users hand to a mechanism, so that every message is ours.

Units    domain's unit for scales, sensitivities and locations; nats for epsilon.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exact, positive
from dprelease.schema.domain import Domain

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def check_domain(domain: object) -> Domain:
    """Return `domain` if it is one.

    Raises:
        ArgumentError: otherwise (DPR629).
    """
    if not isinstance(domain, Domain):
        raise ArgumentError(
            "a mechanism needs a Domain",
            fix="write dp.Domain(lower, upper, forbidden=[...])",
            code="DPR629",
        )
    return domain


def check_level(level: float) -> None:
    """Refuse a confidence level that is not strictly between 0 and 1 (DPR625)."""
    if not (isinstance(level, int | float | Decimal | Fraction) and 0 < level < 1):
        raise ArgumentError(
            "a confidence level lies strictly between 0 and 1", fix="use 0.95", code="DPR625"
        )


def float_scale(scale: object) -> float:
    """Return a finite scale above 0 as a float (DPR606 otherwise)."""
    return as_float(positive(scale, "scale"), "scale")


def as_float(value: Fraction, name: str) -> float:
    """Return a number above 0 as a normal float (DPR606 if it under- or overflows)."""
    if not Fraction(1, 10**300) < value < 10**300:
        raise ArgumentError(
            f"{name} is out of range",
            why="it is below 1e-300 or above 1e300",
            fix=f"use a moderate {name}",
            code="DPR606",
        )
    return float(value)


def capped(domain: Domain, sensitivity: Fraction) -> Fraction:
    """Return how far two answers of the hull can be apart: the sensitivity, at most the domain's width."""
    width = domain.width
    return min(sensitivity, width) if isinstance(width, Fraction) else sensitivity


def least_scale(sensitivity: Fraction, epsilon: Fraction) -> float:
    """Return the least float that is no smaller than sensitivity / epsilon (DPR606 if out of range)."""
    scale = as_float(sensitivity / epsilon, "sensitivity / epsilon")
    while Fraction(scale) * epsilon < sensitivity:
        scale = float(np.nextafter(scale, np.inf))
    return scale


def optional(value: object, name: str) -> Fraction | None:
    """Return None, or a finite number above 0 as a Fraction (DPR606 otherwise)."""
    return None if value is None else positive(value, name)


def check_locations(domain: Domain, location: npt.ArrayLike) -> FloatArray:
    """Return `location` as floats.

    Raises:
        ArgumentError: a location is NaN, infinite or outside the hull (DPR630).
    """
    return check_inside(np.asarray(location, dtype=np.float64), *domain.hull)


def check_inside(q: FloatArray, low: float, high: float) -> FloatArray:
    """Return locations in the hull [low, high] (DPR630 otherwise)."""
    if not (np.isfinite(q) & (q >= low) & (q <= high)).all():
        raise ArgumentError(
            "a location lies outside the hull of the domain",
            why=f"answers are clamped to [{low:g}, {high:g}] before the draw",
            fix="clamp the location first, e.g. numpy.clip(location, *domain.hull)",
            code="DPR630",
        )
    return q


def check_answers(answers: object) -> None:
    """Refuse what does not say where answers lie (DPR685)."""
    if answers not in ("hull", "domain"):
        raise ArgumentError(
            "`answers` is neither hull nor domain", fix='use answers="hull"', code="DPR685"
        )


def check_delta(delta: object) -> float:
    """Return a delta in [0, 1) as a float (DPR631 otherwise)."""
    value = exact(delta, "delta")
    if not isinstance(value, Fraction) or not 0 <= value < 1:
        raise ArgumentError("delta must lie in [0, 1)", fix="use a small delta or 0", code="DPR631")
    return float(value)


def coordinates(points: FloatArray, count: int) -> list[FloatArray]:
    """Return the coordinates of points of shape `(..., count)`.

    Raises:
        ArgumentError: the last axis has another length (DPR637).
    """
    if points.ndim == 0 or points.shape[-1] != count:
        raise ArgumentError(
            f"a point of this box has {count} coordinates",
            fix=f"give arrays of shape (..., {count})",
            code="DPR637",
        )
    return [points[..., i] for i in range(count)]
