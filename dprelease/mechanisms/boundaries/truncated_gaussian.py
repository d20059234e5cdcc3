"""Density, distribution function and moments of Gaussian noise truncated to one side.

Both tails of the distribution function are integrals of the density over their own half, so each
keeps its relative precision where it is small.

Units    the domain's unit.
Sources  `kernels/normal_pieces.py`.
Limits   float64: quotes and plots, never a draw.
"""

from __future__ import annotations

import numpy as np

from dprelease.mechanisms.arguments import FloatArray, check_inside
from dprelease.mechanisms.calibration.gaussian_loss import Side
from dprelease.mechanisms.kernels.normal_pieces import normal_nodes


def pdf(side: Side, x: FloatArray, q: FloatArray, scale: float) -> FloatArray:
    """Return the density, broadcast; 0 outside the pieces."""
    points, at = np.broadcast_arrays(x, check_inside(q, side.lowest, side.highest))
    nodes = side.nodes(at.ravel(), scale)
    norm, near = (v.reshape(at.shape) for v in (nodes.sum(), nodes.near))
    inside = ((points >= side.low[..., None]) & (points <= side.high[..., None])).reshape(
        side.low.size, *at.shape
    )
    far = np.abs(points - at) / scale
    inner = inside.any(axis=0)
    far = np.where(inner, far, near)
    return np.where(inner, np.exp(-(far - near) * (far + near) / 2) / norm, 0.0)


def cdf(side: Side, x: FloatArray, q: FloatArray, scale: float) -> FloatArray:
    """Return P(Y <= x), broadcast."""
    points, at = np.broadcast_arrays(x, check_inside(q, side.lowest, side.highest))
    flat = at.ravel()
    end = np.clip(points.ravel(), side.low, side.high)
    part = normal_nodes(np.broadcast_to(side.low, end.shape), end, flat, scale)
    whole = side.nodes(flat, scale)
    front = np.exp(-(part.near - whole.near) * (part.near + whole.near) / 2)
    share = np.minimum(part.sum() / whole.sum() * front, 1.0)
    # Not left to rounding: everything lies at or below the top.
    share = np.where(points.ravel() >= side.top, 1.0, share)
    out: FloatArray = share.reshape(at.shape)
    return out


def survival(side: Side, x: FloatArray, q: FloatArray, scale: float) -> FloatArray:
    """Return P(Y > x), broadcast."""
    return cdf(side.mirror, -x, -q, scale)


def mass(side: Side, q: FloatArray, scale: float) -> FloatArray:
    """Return P(q + N(0, scale^2) lands in the pieces)."""
    out: FloatArray = np.exp(
        side.nodes(check_inside(q, side.lowest, side.highest).ravel(), scale).log_mass()
    )
    return out.reshape(q.shape)


def mean(side: Side, q: FloatArray, scale: float) -> FloatArray:
    """Return the mean."""
    nodes = side.nodes(check_inside(q, side.lowest, side.highest).ravel(), scale)
    out: FloatArray = nodes.sum(nodes.from_location()) / nodes.sum()
    return q + out.reshape(q.shape)


def variance(side: Side, q: FloatArray, scale: float) -> FloatArray:
    """Return the variance, from moments around the mean: nothing cancels."""
    nodes = side.nodes(check_inside(q, side.lowest, side.highest).ravel(), scale)
    away, total = nodes.from_location(), nodes.sum()
    middle = nodes.sum(away) / total
    out: FloatArray = nodes.sum((away - middle[:, None]) ** 2) / total
    return out.reshape(q.shape)
