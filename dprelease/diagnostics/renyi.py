"""Rényi divergence of truncated, rectified and sign Gaussians, one pair of locations. Curator only.

D = D_alpha(p_t || p_u), c = u - t, v = alpha t + (1 - alpha) u, s = scale, Z = Gaussian mass of D:

    truncated   alpha c^2 / 2s^2 + log(Z(u) / Z(t)) + log(Z(v) / Z(t)) / (alpha - 1)
    rectified   log(e^{alpha (alpha - 1) c^2 / 2s^2} Z(v) + sum over point masses of
    and sign        P_t^alpha P_u^{1 - alpha}) / (alpha - 1)

for every allowed set. Both lose all digits where D is small, so near pairs use positive terms:

    truncated   integral over [v, t] of |x - v| eta^2(x) dx / (alpha - 1)
                + integral over [t, u] of |u - x| eta^2(x) dx                  (log Z(x) is convex
                up to x^2: second differences against their Peano kernel)
    others      log1p(sum of p_u g(log p_t / p_u)) / (alpha - 1),
                g(L) = e^{alpha L} - 1 - alpha (e^L - 1) >= 0

The first integral also shows amplification on an interval, where eta <= 1 / s: D <= alpha c^2 / 2s^2.
On a union that bound fails.

Units    locations: the domain's unit; divergence in nats; alpha is a pure number above 1.
Sources  `docs/theory/per-instance.md#renyi-divergence`, `docs/theory/errata.md#hu-et-al`;
         [BS] Lemmas 4.4 and 4.7. Its equation 6 prints log[(Z(t+c)/Z(t)) (Z((1-alpha)(c+t))/Z(t))^
         (1-alpha)]: the argument should be t + (1-alpha) c and the exponent 1 / (alpha - 1) (at
         alpha = 2, t = 0.3, c = s = 1, [-1, 1]: 0.280452; the printed form gives 1.0).
Limits   relative error 1e-10 for |t - u| up to thousands of scales and locations up to 100 scales
         outside the domain; beyond that the absolute error is 1e-16 times the squared distance.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dprelease.diagnostics.curator import CuratorOnly, marked
from dprelease.diagnostics.fisher import information
from dprelease.diagnostics.quadrature import HALF_LOG_TWO_PI, legendre, log_mass, nodes, score
from dprelease.diagnostics.support import (
    FloatArray,
    NormalNoise,
    Support,
    check_alpha,
    check_finite,
    join_coordinates,
    split_coordinates,
    supports,
)

_X, _W = legendre(12)
_FEW = legendre(4)  # enough (1e-16) where the pair spans a tenth of the pace
_PANELS = 64


def renyi_divergence(
    mechanism: NormalNoise, location: npt.ArrayLike, other: npt.ArrayLike, alpha: float
) -> CuratorOnly:
    """Return D_alpha(law at `location` || law at `other`), broadcast. Curator only.

    This is one direction of one pair; `per_instance_rdp` takes the worst over neighbours.

    Args:
        mechanism: a BoundedGaussian, RectifiedGaussian or StochasticSign.
        location: exact answers, any shape; the last axis holds the coordinates of a box, and the
            result is per coordinate.
        other: the other locations, broadcast against `location`.
        alpha: the order, above 1.

    Raises:
        ArgumentError: another mechanism (DPR670), a location that is not finite (DPR671), an
            order not above 1 (DPR672), or a last axis that does not match the box (DPR674).
    """
    views, order = supports(mechanism), check_alpha(alpha)
    t, u = np.broadcast_arrays(check_finite(location, "location"), check_finite(other, "other"))
    firsts, seconds = split_coordinates(views, t), split_coordinates(views, u)
    parts = [
        divergence(view, a.ravel(), b.ravel(), order).reshape(a.shape)
        for (view, a), (_, b) in zip(firsts, seconds, strict=True)
    ]
    return marked(join_coordinates(parts))


def divergence(view: Support, t: FloatArray, u: FloatArray, alpha: float) -> FloatArray:
    """Return D_alpha for pairs of locations, both of shape `(N,)`."""
    out = np.zeros(t.shape)
    apart = alpha * np.abs(u - t)
    if view.conditioned:
        panels = np.ceil(apart / view.pace)
        close = (apart > 0) & (apart <= view.pace / 10)
        if close.any():
            out[close] = _truncated_near(view, t[close], u[close], alpha, *_FEW)
        for count in np.unique(panels[(panels > 0) & (panels <= _PANELS) & ~close]):
            at = (panels == count) & ~close
            x = ((np.arange(count)[:, None] + _X) / count).ravel()
            out[at] = _truncated_near(view, t[at], u[at], alpha, x, np.tile(_W / count, int(count)))
        far = panels > _PANELS
        if far.any():
            out[far] = _truncated_far(view, t[far], u[far], alpha)
    else:
        near = apart <= view.pace
        if near.any():
            out[near] = _collapsed_near(view, t[near], u[near], alpha)
        if not near.all():
            out[~near] = _collapsed_far(view, t[~near], u[~near], alpha)
    return np.maximum(out, 0.0)


def _truncated_near(
    view: Support, t: FloatArray, u: FloatArray, alpha: float, x: FloatArray, w: FloatArray
) -> FloatArray:
    x, w = x[:, None], w[:, None]
    c = u - t
    behind = (alpha - 1) * c  # from v to t
    first = information(view, (t - behind + behind * x).ravel()).reshape(x.size, -1)
    second = information(view, (t + c * x).ravel()).reshape(x.size, -1)
    total = behind**2 * (w * x * first).sum(axis=0) / (alpha - 1)
    out: FloatArray = total + c**2 * (w * (1 - x) * second).sum(axis=0)
    return out


def _truncated_far(view: Support, t: FloatArray, u: FloatArray, alpha: float) -> FloatArray:
    z = (u - t) / view.scale
    v = t - (alpha - 1) * (u - t)
    mass_t, mass_u, mass_v = (nodes(view.as_released, x, view.scale).log_mass() for x in (t, u, v))
    out: FloatArray = alpha * z * z / 2 + (mass_u - mass_t) + (mass_v - mass_t) / (alpha - 1)
    return out


def _collapsed_near(view: Support, t: FloatArray, u: FloatArray, alpha: float) -> FloatArray:
    d = (t - u) / view.scale
    excess = np.zeros_like(t)
    if view.as_released:
        grid = nodes(view.as_released, u, view.scale)
        z = grid.offset + grid.near
        peak = np.exp(-(grid.near**2) / 2 - HALF_LOG_TWO_PI)
        excess += peak * (grid.weight * _above_tangent(d * (z - d / 2), alpha)).sum(axis=0)
    for piece in view.point_masses:
        along = (u + (t - u) * _X[:, None]).ravel()
        slopes = score(piece, along, view.scale).reshape(_X.size, -1)
        ratio = d * (_W[:, None] * slopes).sum(axis=0)  # log P_t - log P_u, to full precision
        excess += np.exp(log_mass(piece, u, view.scale)) * _above_tangent(ratio, alpha)
    out: FloatArray = np.log1p(excess) / (alpha - 1)
    return out


def _collapsed_far(view: Support, t: FloatArray, u: FloatArray, alpha: float) -> FloatArray:
    z = (u - t) / view.scale
    logs: list[FloatArray] = []
    excess = np.zeros_like(t)
    with np.errstate(over="ignore", invalid="ignore"):
        for piece in view.as_released:
            v = t - (alpha - 1) * (u - t)
            logs.append(alpha * (alpha - 1) * z * z / 2 + log_mass(piece, v, view.scale))
            ends = [np.exp(log_mass(piece, x, view.scale)) for x in (t, u)]
            excess += np.exp(logs[-1]) - alpha * ends[0] + (alpha - 1) * ends[1]
        for piece in view.point_masses:
            first, second = (log_mass(piece, x, view.scale) for x in (t, u))
            logs.append(alpha * first + (1 - alpha) * second)
            excess += np.exp(second) * _above_tangent(first - second, alpha)
    total: FloatArray = np.logaddexp.reduce(np.stack(logs), axis=0)
    # Where nearly everything collapses onto one point mass, 1 + excess has lost the excess.
    small = (total < 0.1) & np.isfinite(excess)
    out: FloatArray = np.where(small, np.log1p(np.where(small, excess, 0.0)), total) / (alpha - 1)
    return out


def _above_tangent(ratio: FloatArray, alpha: float) -> FloatArray:
    """Return e^{alpha L} - 1 - alpha (e^L - 1) for L = `ratio`, to full relative precision."""
    small = np.abs(alpha * ratio) < 0.25
    near = np.where(small, ratio, 0.0)
    total = np.zeros_like(near)
    for k in range(15, 1, -1):  # Horner in L: coefficients (alpha^k - alpha) / k!
        total = total * near + alpha * math.expm1((k - 1) * math.log(alpha)) / math.factorial(k)
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.expm1(alpha * ratio) - alpha * np.expm1(ratio)
    out: FloatArray = np.where(small, total * near * near, far)
    return out
