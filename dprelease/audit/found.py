"""Keys that are found, audited: what neighbours publish of a key, from the weights that the sampler uses.

    layer A    `worst_delta`, over every number of persons; `key_losses`, between two tables
    layer B    `key_fits`, draws against the weights

A key of n persons is left out, or published by 1, 2, ... above the bound; nothing else of it is seen.

Units    persons; epsilon in nats.
Sources  `docs/theory/certificates.md#audits`, `docs/theory/found-keys.md#the-law`.
"""

from __future__ import annotations

from fractions import Fraction
from math import e
from typing import Any

import numpy as np

from dprelease.audit.powers import exp_above
from dprelease.audit.sampler import FloatArray, fit
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.mechanisms.kernels.selecting import TOTAL, SelectingNoise


def worst_delta(noise: SelectingNoise, epsilon: Fraction) -> Fraction:
    """Return the largest delta, rounded down, of a key of n persons and of n + 1, over every n and both orders.

    The same number has weight m at n and m + 1 at n + 1. The most is told of keys that are published for certain: of
    others some numbers are one outcome, left out.
    """
    grown, one = exp_above(epsilon).as_integer_ratio()
    rest = TOTAL - sum(noise.weights)  # of no law: the sampler's last place takes it
    weights = np.array([0, *noise.weights, rest, 0], dtype=object)
    both = np.stack([weights[:-1], weights[1:]])
    more = np.maximum(both * one - both[::-1] * grown, 0)
    return Fraction(more.sum(axis=1).max(), TOTAL * one)


def _chances(noise: SelectingNoise, persons: int, most: int) -> FloatArray:
    """Return the chances that a key is left out, and that it is published by 1, 2, ... `most` above the bound."""
    weights, out = noise.weights[:persons], np.zeros(most + 1)
    out[persons + 1 - len(weights) : persons + 1] = weights[::-1]
    out[0] = TOTAL - sum(weights)
    return out / TOTAL


def key_losses(noise: SelectingNoise, here: int, there: int) -> Any:
    """Return losses and chances of a key of so many persons, in both orders; what one alone can give loses 200."""
    p, r = (_chances(noise, persons, max(here, there)) for persons in (here, there))
    loss = np.log(np.maximum(p, e**-200)) - np.log(np.maximum(r, e**-200))
    return (loss[p > 0], p[p > 0]), (-loss[r > 0], r[r > 0])


def key_fits(noise: SelectingNoise, count: int, bits: RandomBits | None = None) -> list[float]:
    """Return the p-values of `count` keys of nobody, of one person, of the bound, and of enough for certain."""
    made = []
    for persons in sorted({0, 1, noise.bound, len(noise.weights)}):
        drawn = noise.draws(np.full(count, persons, dtype=np.int64), bits or SystemBits())
        outputs = np.append(0, noise.bound + 1 + np.arange(persons))
        made.append(fit(drawn, outputs, _chances(noise, persons, persons)))
    return made
