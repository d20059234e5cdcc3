"""The hockey-stick divergence of bounded Laplace noise, rounded outward, free of cancellation.

For q < q' = q + z the log ratio of p_q to p_q' is z/b + r left of q, r = log C(q') / C(q), falls by
2 / b per unit between the two and is r - z/b right of q'. For epsilon above z/b + r the divergence is 0.
Else p_q exceeds e^epsilon p_q' left of cut = q + b (z/b + r - epsilon) / 2, and with L the log ratio the divergence is

    integral over x < cut of p_q(x) (1 - e^(epsilon - L(x))):

the mass left of q times one factor, plus, on every stretch [u, v] between q and the cut,
e^(-(u - q) / b) (1 - e^(-(2 cut - u - v) / b)) (1 - e^(-(v - u) / b)) / C. Positive terms only: small
deltas keep their relative precision, where a difference of two probabilities would not. The other
direction is the mirror image.

Likelihood ratios are monotone, so longer distances are worse: pairs at full distance decide.

Units    the domain's unit; epsilon in nats.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace-with-delta`.
Limits   float64; z/b + r - epsilon is raised by 2**-46 of its terms and the result by 2**-44: more than
         they can err.
"""

from __future__ import annotations

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.kernels.laplace_pieces import segments
from dprelease.schema.domain import Domain

_ROOM = 2.0**-46
_UP = 1 + 2.0**-44


def hockey(
    domain: Domain,
    q: FloatArray,
    other: FloatArray,
    scale: float,
    epsilon: float,
    ratio: FloatArray,
) -> FloatArray:
    """Return the larger divergence of each pair's two directions; q <= other, ratio = log C'/C."""
    here, there = segments(domain, q, scale), segments(domain, other, scale)
    pieces = domain.pieces
    total = here.masses().sum(axis=0)
    first = _left(pieces, q, other, ratio, here.nearest, scale, epsilon) / total
    pieces = tuple((-c, -a) for a, c in reversed(domain.pieces))
    total = there.masses().sum(axis=0)
    second = _left(pieces, -other, -q, -ratio, there.nearest, scale, epsilon) / total
    out: FloatArray = np.minimum(np.maximum(first, second) * _UP, 1.0)
    return out


def _left(
    pieces: tuple[tuple[float, float], ...],
    q: FloatArray,
    other: FloatArray,
    ratio: FloatArray,
    near: FloatArray,
    scale: float,
    epsilon: float,
) -> FloatArray:
    """Return the divergence of p_q from p_other times C(q), relative to e^(-near / b)."""
    distance = (other - q) / scale
    excess = np.maximum(
        distance + ratio - epsilon + _ROOM * (distance + np.abs(ratio) + epsilon), 0.0
    )
    cut = np.minimum(q + scale * excess / 2, other)
    gain = -np.expm1(-excess)
    out = np.zeros(q.size)
    for a, c in pieces:
        end = np.minimum(c, q)
        length = np.maximum(end - a, 0.0) / scale
        apart = np.where(end > a, q - end - near, 0.0) / scale
        out += np.where(end > a, gain * np.exp(-apart) * -np.expm1(-length), 0.0)
        u, v = np.maximum(a, q), np.minimum(c, cut)
        solid = (u < v) & (excess > 0)
        u, v = np.where(solid, u, q), np.where(solid, v, q)
        far = np.where(solid, u - q - near, 0.0) / scale
        inner = -np.expm1(-(2 * cut - u - v) / scale) * -np.expm1(-(v - u) / scale)
        out += np.where(solid, np.exp(-far) * inner, 0.0)
    return out
