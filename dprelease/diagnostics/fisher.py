"""Fisher information loss of truncated, rectified and sign Gaussians. Curator only.

    eta(t)^2 = E (d/dt log p_t(x))^2, any allowed set; N(t, scale^2) itself has eta = 1 / scale.

    truncated   Var_t(X) / scale^4: the law is an exponential family in t / scale^2
    rectified   integral over kept of z^2 phi(z) + sum over point masses (phi(l) - phi(h))^2 / mass,
                divided by scale^2; z, l, h standardised
    sign        phi(t / scale)^2 / (Phi(t / scale) Phi(-t / scale)) / scale^2

eta <= 1 / scale for the post-processed laws, and for the truncated one on an interval (a
log-concave law truncated has variance at most scale^2). On a union a truncated law can have more:
two islands far apart, seen from the middle of their gap, say which side the location is on.

A query with Jacobian J (coordinates, inputs) has loss ||diag(eta) J||_2, the spectral norm.

Units    eta in 1 / (domain's unit); the composed loss in 1 / (the inputs' unit).
Sources  `docs/theory/per-instance.md#fisher-information-loss`, `docs/theory/errata.md#hu-et-al`;
         [BS] Lemma 4.1, for every set, in positive terms. Its equation 4 prints the middle term of
         the rectified loss as Phi((t - b) / s) - Phi((t - a) / s): the sign is wrong, and eta^2 is
         negative near the centre (-0.396 at t = 0.3, s = 1, [-1, 1]; 0.926221 is right). Its
         Algorithm 1 squares the norm; the loss is the norm.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.diagnostics.curator import CuratorOnly, marked
from dprelease.diagnostics.quadrature import HALF_LOG_TWO_PI, log_mass, nodes, score
from dprelease.diagnostics.support import (
    FloatArray,
    NormalNoise,
    Support,
    check_finite,
    join_coordinates,
    split_coordinates,
    supports,
)

_BLOCK = 16_384


def fisher_information_loss(mechanism: NormalNoise, location: npt.ArrayLike) -> CuratorOnly:
    """Return eta per location. Curator only: it depends on the exact answer.

    Args:
        mechanism: a BoundedGaussian, RectifiedGaussian or StochasticSign.
        location: exact answers, any shape, in or outside the hull; the last axis holds the
            coordinates if the mechanism acts on a box.

    Raises:
        ArgumentError: another mechanism (DPR670), a location that is not finite (DPR671), or a
            last axis that does not match the box (DPR674).
    """
    views = supports(mechanism)
    columns = split_coordinates(views, check_finite(location, "location"))
    parts = [information(view, column.ravel()).reshape(column.shape) for view, column in columns]
    return marked(np.sqrt(join_coordinates(parts)))


def composed_fisher_information_loss(
    mechanism: NormalNoise, location: npt.ArrayLike, jacobian: npt.ArrayLike
) -> CuratorOnly:
    """Return ||diag(eta) J||_2 of one release of all coordinates. Curator only.

    Args:
        mechanism: as above.
        location: shape `(coordinates,)`.
        jacobian: d location / d input, shape `(coordinates, inputs)`.

    Raises:
        ArgumentError: as above; shapes that do not match (DPR674).
    """
    eta = np.asarray(fisher_information_loss(mechanism, location))
    j = check_finite(jacobian, "jacobian")
    if eta.ndim != 1 or j.ndim != 2 or j.shape[0] != eta.shape[0]:
        raise ArgumentError(
            "the Jacobian does not fit the locations",
            why="it holds one row per coordinate and one column per input",
            fix="pass location of shape (d,) and jacobian of shape (d, inputs)",
            code="DPR674",
        )
    # The paper's Algorithm 1 sums squares instead: a Frobenius norm, squared.
    return marked(np.asarray(np.linalg.norm(eta[:, None] * j, ord=2)))


def information(view: Support, t: FloatArray) -> FloatArray:
    """Return eta^2 for locations of shape `(N,)`."""
    out = np.empty_like(t)
    for i in range(0, t.size, _BLOCK):  # bounds the node arrays to some 20 MB per interval
        out[i : i + _BLOCK] = _information(view, t[i : i + _BLOCK])
    return out


def _information(view: Support, t: FloatArray) -> FloatArray:
    total = np.zeros_like(t)
    if view.conditioned:
        total += nodes(view.as_released, t, view.scale).moments()[1]
    elif view.as_released:
        grid = nodes(view.as_released, t, view.scale)
        z = grid.offset + grid.near
        peak = np.exp(-(grid.near**2) / 2 - HALF_LOG_TWO_PI)
        total += peak * (grid.weight * z**2).sum(axis=0)
    for piece in view.point_masses:
        share = np.exp(log_mass(piece, t, view.scale))
        slope = score(piece, t, view.scale)
        total += np.where(share > 0, share * slope**2, 0.0)
    return total / (view.scale * view.scale)
