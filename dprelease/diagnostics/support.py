"""What a Gaussian mechanism shows of the noisy line: kept intervals, point masses, or a condition.

Each law is N(location, scale^2) seen through its allowed set D:

    truncated   conditioned on D: the density on D, divided by its mass          (BoundedGaussian)
    rectified   D kept, everything else moved to the nearest allowed point       (RectifiedGaussian)
    sign        nothing kept, two point masses: (-inf, 0) and (0, inf)                  (StochasticSign)

A rectified union sends each half of a gap to its own edge; an isolated point is a point mass.
All three have a monotone likelihood ratio in the location.

Units    ends, scale and locations: the domain's unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number
from dprelease.schema.domain import Box, Domain

FloatArray = npt.NDArray[np.float64]
Pieces = tuple[tuple[float, float], ...]

_KINDS = {"BoundedGaussian": "truncated", "RectifiedGaussian": "rectified"}


class NormalNoise(Protocol):
    """A mechanism of normal noise, as a type checker tells it from one of other noise: it has a `gdp`."""

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The noise's standard deviation, or one per side."""

    def gdp(self, sensitivity: Number) -> float:
        """Return mu such that it is mu-GDP."""


@dataclass(frozen=True, slots=True)
class Support:
    """One coordinate's view of the noisy line.

    Attributes:
        as_released: intervals whose points are released as they are.
        point_masses: intervals of which only "it landed here" is released.
        conditioned: the law is divided by the mass of `as_released` (then there are no point masses).
        scale: the Gaussian's standard deviation.
    """

    as_released: Pieces
    point_masses: Pieces
    conditioned: bool
    scale: float

    @property
    def pace(self) -> float:
        """Return a distance of locations over which the law's Fisher information changes little.

        An interval's information varies at the scale, or more slowly if the interval is narrow
        (log-concavity). On a union the weight of two islands `extent` apart tips within
        scale^2 / extent.
        """
        if not self.conditioned:
            return self.scale / 2
        (_, first), (last, _) = self.as_released[0], self.as_released[-1]
        width = self.as_released[-1][1] - self.as_released[0][0]
        if len(self.as_released) == 1:
            return max(self.scale, self.scale * (self.scale / width)) / 2
        extent = min(width, last - first + 20 * self.scale)
        return min(self.scale, self.scale * (self.scale / extent)) / 2


def supports(mechanism: object) -> tuple[Support, ...]:
    """Return the view per coordinate: one for a domain, one per side of a box.

    Raises:
        ArgumentError: the mechanism is not of the Gaussian family (DPR670).
    """
    name = type(mechanism).__name__
    scale = getattr(mechanism, "scale", None)
    if name == "StochasticSign" and scale is not None:
        zero = ((-math.inf, 0.0), (0.0, math.inf))
        return (Support(as_released=(), point_masses=zero, conditioned=False, scale=float(scale)),)
    domain = getattr(mechanism, "domain", None)
    if name not in _KINDS or scale is None or not isinstance(domain, Domain | Box):
        raise ArgumentError(
            "there is no per-instance diagnostic for this mechanism",
            why="formulas are proved for the Gaussian family",
            fix="pass a BoundedGaussian, RectifiedGaussian or StochasticSign",
            code="DPR670",
        )
    sides = (domain,) if isinstance(domain, Domain) else domain.sides
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (len(sides),))
    build = truncated if _KINDS[name] == "truncated" else rectified
    return tuple(build(d.pieces, float(s)) for d, s in zip(sides, scales, strict=True))


def truncated(pieces: Pieces, scale: float) -> Support:
    """Return the law conditioned on `pieces`; isolated points have no mass."""
    stretches = tuple((a, b) for a, b in pieces if a < b)
    return Support(as_released=stretches, point_masses=(), conditioned=True, scale=scale)


def rectified(pieces: Pieces, scale: float) -> Support:
    """Return the law whose misses move to the nearest point of `pieces`."""
    middles = [(b + c) / 2 for (_, b), (c, _) in pairwise(pieces)]
    walls = [-math.inf, *middles, math.inf]
    point_masses: list[tuple[float, float]] = []
    for (a, b), (low, high) in zip(pieces, pairwise(walls), strict=True):
        ends = [(low, high)] if a == b else [(low, a), (b, high)]
        point_masses += [(x, y) for x, y in ends if x < y]
    stretches = tuple((a, b) for a, b in pieces if a < b)
    return Support(
        as_released=stretches, point_masses=tuple(point_masses), conditioned=False, scale=scale
    )


def check_finite(value: npt.ArrayLike, name: str) -> FloatArray:
    """Return finite floats (DPR671 otherwise). Locations may lie outside the domain."""
    try:
        out = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.asarray(np.nan)
    if not np.isfinite(out).all():
        raise ArgumentError(
            f"{name} is not a finite number", fix=f"give {name} finite values", code="DPR671"
        )
    return out


def check_alpha(alpha: object) -> float:
    """Return a finite order above 1 (DPR672 otherwise)."""
    if not isinstance(alpha, int | float | np.number) or not 1 < float(alpha) < math.inf:
        raise ArgumentError(
            "alpha must be a finite order above 1", fix="use alpha=2, say", code="DPR672"
        )
    return float(alpha)


def split_coordinates(
    views: tuple[Support, ...], values: FloatArray
) -> list[tuple[Support, FloatArray]]:
    """Pair each coordinate's view with its values: all of them, or a slice of the last axis."""
    if len(views) == 1:
        return [(views[0], values)]
    if values.ndim == 0 or values.shape[-1] != len(views):
        raise ArgumentError(
            "the location does not fit the box",
            why=f"the box has {len(views)} sides",
            fix="let the last axis of `location` hold the coordinates",
            code="DPR674",
        )
    return [(view, values[..., j]) for j, view in enumerate(views)]


def join_coordinates(parts: list[FloatArray]) -> FloatArray:
    """Undo `split_coordinates`."""
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=-1)
