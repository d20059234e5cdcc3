"""Per-instance Rényi privacy: the worst neighbour of one exact answer. Curator only.

For a location t and neighbours at distance at most c,

    rdp(t) = max over sign and direction of D_alpha between the laws at t and t + sign * c.

The maximum over [0, c] is at c (proved): with a monotone likelihood ratio, the derivative of
E_q (p/q)^alpha in q's location is (1 - alpha) E_q[(p/q)^alpha * score], a covariance of a falling
and a rising function times a negative number. Truncated laws (unions too), rectified laws and the
sign all have that property. Mechanisms that clamp the answer first have at most this value.

Over coordinates, one release of independent coordinates whose neighbour may move each by c_j:

    composed = max over direction of sum_j max over sign of D_alpha,j.

The direction is one for all coordinates, the signs are free. Over rounds, divergences of the same
order add along the realised path; since later locations depend on earlier outputs, that sum
describes a run and is not a guarantee in advance.

Units    location, sensitivity: the domain's unit; result in nats at order alpha.
Sources  `docs/theory/per-instance.md#the-worst-neighbour`, `docs/theory/errata.md#hu-et-al`;
         [BS] Definition 2.3, Lemma 4.8. Its Algorithm 1 and Proposition 5.1 take +c and one
         direction only, which understates the loss, in cases more than a hundredfold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.diagnostics.curator import CuratorOnly, marked
from dprelease.diagnostics.renyi import renyi_divergence
from dprelease.diagnostics.support import FloatArray, NormalNoise, check_finite


def per_instance_rdp(
    mechanism: NormalNoise, location: npt.ArrayLike, sensitivity: npt.ArrayLike, alpha: float
) -> CuratorOnly:
    """Return the per-instance RDP of order `alpha` per location. Curator only.

    Args:
        mechanism: a BoundedGaussian, RectifiedGaussian or StochasticSign.
        location: exact answers, any shape; the last axis holds the coordinates of a box, and the
            result is per coordinate.
        sensitivity: how far a neighbour's answer may lie, broadcast against `location`.
        alpha: the order, above 1.

    Raises:
        ArgumentError: see `renyi_divergence`; a sensitivity below 0 (DPR671).
    """
    outward, inward = _directions(mechanism, location, sensitivity, alpha)
    return marked(np.maximum(outward, inward))


def composed_rdp(
    mechanism: NormalNoise, location: npt.ArrayLike, sensitivity: npt.ArrayLike, alpha: float
) -> CuratorOnly:
    """Return the per-instance RDP of one release of all coordinates (last axis). Curator only.

    Args:
        mechanism: acts on every coordinate alike (a domain), or per side (a box).
        location: shape `(..., coordinates)`.
        sensitivity: per coordinate, broadcast: a neighbour may move all of them at once.
        alpha: the order, above 1.

    Raises:
        ArgumentError: see `per_instance_rdp`; no axis of coordinates (DPR674).
    """
    outward, inward = _directions(mechanism, location, sensitivity, alpha)
    if outward.ndim == 0:
        raise ArgumentError(
            "there are no coordinates to compose",
            fix="pass an array whose last axis holds them, or use per_instance_rdp",
            code="DPR674",
        )
    return marked(np.maximum(outward.sum(axis=-1), inward.sum(axis=-1)))


def _directions(
    mechanism: NormalNoise, location: npt.ArrayLike, sensitivity: npt.ArrayLike, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return both directions' divergences, each the larger over both signs."""
    t, c = check_finite(location, "location"), check_finite(sensitivity, "sensitivity")
    if (c < 0).any():
        raise ArgumentError(
            "sensitivity is below 0", fix="give a distance of at least 0", code="DPR671"
        )
    pairs = [(t, t + c), (t, t - c)]
    outward = [np.asarray(renyi_divergence(mechanism, a, b, alpha)) for a, b in pairs]
    inward = [np.asarray(renyi_divergence(mechanism, b, a, alpha)) for a, b in pairs]
    return np.maximum(*outward), np.maximum(*inward)
