"""How far the pivot of a ratio may be from 0, where it has many different terms.

The pivot at an angle is F(angle) = cos(angle) T - sin(angle) B (`reading.ratio_interval`). In a cell of
angles of half width d about m,

    |F(angle)| <= |F(m)| + sin(d) |F(m + pi / 2)|,

and both have certified quantiles: at level + e and at 1 - e, so the sum bounds |F| at the level. That is done
only where it may matter: T and B, each at half the risk, bound F in every cell, and cells
that this bound already rules out keep it.

Source: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.reading.linear_interval import quantile_of_many
from dprelease.reading.noise_sums import Noise

__all__ = ["Shape", "reaches_of_many"]

Floats = npt.NDArray[np.float64]
Shape = tuple[tuple[Noise, int, float, float], ...]
"""Per term: law, how many, weight in the top, weight in the bottom; both of norm 1."""

_BESIDE = 1e-6
"""e: the risk that the turned form exceeds its own quantile."""


def reaches_of_many(
    shape: Shape, level: float, edges: Floats, far: Callable[[Floats], npt.NDArray[np.bool_]]
) -> Floats:
    """Return a bound of |F| per cell of angles, right at `level`.

    Args:
        far: which cells a bound rules out.
    """
    half = 1 - (1 - level) / 2
    top, bottom = (_quantile(shape, angle, half) for angle in (0.0, math.pi / 2))
    a, b = edges[:-1], edges[1:]
    cosine = np.maximum(np.cos(a), np.cos(b))
    cosine = np.where(a * b <= 0, 1.0, cosine)
    sine = np.maximum(np.abs(np.sin(a)), np.abs(np.sin(b)))
    out = np.asarray(cosine * top + sine * bottom)
    turned = math.sin(float(b[0] - a[0]) / 2) * (1 + 1e-9)
    for i in np.flatnonzero(~far(out)).tolist():
        middle = float(a[i] + b[i]) / 2
        own = _quantile(shape, middle, level + _BESIDE * (1 - level))
        beside = _quantile(shape, middle + math.pi / 2, 1 - _BESIDE * (1 - level))
        out[i] = min(out[i], own + turned * beside)
    return out


@lru_cache(maxsize=4096)
def _quantile(shape: Shape, angle: float, level: float) -> float:
    cosine, sine = math.cos(angle), math.sin(angle)
    terms = [(noise, m, abs(t * cosine - b * sine)) for noise, m, t, b in shape]
    return quantile_of_many([term for term in terms if term[2]], level)
