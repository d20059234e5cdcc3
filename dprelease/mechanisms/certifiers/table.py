"""Certifier of any symmetric table: every pair of answers, at every distance, from the weights alone.

`worst_ratio` bounds every likelihood ratio of two answers at most `distance` steps apart, whatever
the shape of W. For q < q' = q + k and y = q - m (or q' > y > q, or y beyond q'):

    W[|y - q|] / W[|y - q'|]  <=  A_k(q) = max over 0 <= m <= q - lowest of W[m] / W[m + k],

since W does not increase; and the ratio of the normalisers is Z(q') / Z(q). The other direction is
the mirror image. All k <= distance are covered, in blocks [k1, k2] of growing size below distance: A_k <=
A_k2, and Z(q + k) <= its maximum over the block. k = distance is a block of its own, so the bound is
exact where the loss is largest. That the loss grows with the distance is not assumed.

A pair whose losses span a range of at most r is r^2 / 8 zCDP (`range_rho`): the second derivative
in alpha of (alpha - 1) D_alpha is a variance of the loss, at most r^2 / 4, and it vanishes at 0 and 1.

Units    grid steps; losses and rho in nats.
Sources  `docs/theory/certificates.md#symmetric-tables`, `#zcdp-of-truncated-laws`.
Limits   float64 quotients, widened by 2**-48: more than their seven roundings can err.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.core.errors import InternalError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.forms.table import SymmetricTable, TableLaw, top_bits

_SLACK = 1 + Fraction(1, 2**48)


@dataclass(frozen=True, slots=True)
class CertifiedTableLaw(TableLaw):
    """A table of which nothing is assumed but its integers."""

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho, rounded up."""
        return range_rho(self.table, self.capped_sensitivity)

    def certify(self) -> Certificate:
        """Recompute the proof from the table, which `p` makes: check every pair."""
        return certify_ratio(
            self.family, worst_ratio(self.table, self.capped_sensitivity), self.epsilon,
            "largest W ratio times largest Z ratio over all hull pairs at all distances up to the largest",
            p=self.p, top=top_bits(self.allowed), distance=self.capped_sensitivity,
        )  # fmt: skip


def worst_ratio(table: SymmetricTable, distance: int) -> Fraction:
    """Return a rational upper bound of all likelihood ratios within `distance` >= 1 steps."""
    hull = table.weights.size - 1
    if hull == 0:
        return Fraction(1)  # one possible answer and one output: nothing can be told apart
    if not 1 <= distance <= hull:
        raise InternalError("a table was certified over no pairs")
    mass = table.mass.astype(np.float64)
    weights = table.weights.astype(np.float64)
    worst = max(_one_direction(weights, z, distance) for z in (mass, mass[::-1]))
    return Fraction(worst) * _SLACK


def _one_direction(weights: FloatArray, mass: FloatArray, distance: int) -> float:
    hull, worst = weights.size - 1, 0.0
    # Nothing lies beyond the hull: zeros there never win a maximum.
    beyond = np.concatenate([weights, np.full(distance, weights[-1])])
    window, size, last = np.concatenate([mass, np.zeros(distance)]), 1, distance
    while last >= 1:
        while 2 * size <= min(last, distance - last):
            window, size = np.maximum(window[:-size], window[size:]), 2 * size
        if size > last:  # the few distances left, one by one or in halves
            size //= 2
            window = _window(np.concatenate([mass, np.zeros(distance)]), size)
            continue
        first = last - size + 1
        end = hull - first + 1
        ratio = np.maximum.accumulate(weights[:end] / beyond[last : last + end])
        worst = max(worst, float((ratio * window[first : first + end] / mass[:end]).max()))
        last = first - 1
    return worst


def _window(mass: FloatArray, size: int) -> FloatArray:
    """Return the maximum of mass[i .. i + size - 1] per i; `size` a power of two."""
    window, width = mass, 1
    while width < size:
        window, width = np.maximum(window[:-width], window[width:]), 2 * width
    return window


def range_rho(table: SymmetricTable, distance: int) -> Fraction:
    """Return eighth of the square of the widest range of losses within `distance`, rounded up.

    The largest loss of a pair plus the largest of the pair reversed; normalisers cancel. Distances
    go in blocks as in `worst_ratio`.
    """
    hull = table.weights.size - 1
    log = np.log(table.weights.astype(np.float64))
    last, size, widest = min(distance, hull), 1, 0.0
    while last >= 1:
        first = last - size + 1
        starts = np.arange(hull - first + 1)
        up = np.maximum.accumulate(log[starts] - log[np.minimum(starts + last, hull)])
        widest = max(widest, float((up + up[::-1]).max()))
        last = first - 1
        size = min(2 * size, max(last, 1))
    # Four logarithms of at most log 2**61 < 64, each within an ulp (2**-47), and three differences.
    return (Fraction(widest) + Fraction(1, 2**43)) ** 2 / 8


def loss_curve(table: SymmetricTable, distance: int) -> FloatArray:
    """Return, for k = 0 .. distance, an upper bound of the loss at distances up to k, in nats."""
    hull = table.weights.size - 1
    mass, weights = table.mass.astype(np.float64), table.weights.astype(np.float64)
    worst = np.ones(distance + 1)
    for k in range(1, distance + 1):
        steepest = np.maximum.accumulate(weights[: hull + 1 - k] / weights[k:])
        for z in (mass, mass[::-1]):
            worst[k] = max(worst[k], float((steepest * z[k:] / z[: hull + 1 - k]).max()))
    out: FloatArray = np.maximum.accumulate(np.log(worst)) + 2.0**-47 * np.sign(
        np.arange(distance + 1)
    )
    return out
