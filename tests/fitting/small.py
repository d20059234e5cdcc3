"""Small structures, and the slow obvious forms of what is computed about them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from dprelease.fitting.structure import Dimension, crossed, nested
from dprelease.intervals.noise import Gaussian, Laplace

REGION = np.array([0] * 5 + [1] * 3 + [2] * 4)
UNEVEN = {"nation": np.zeros(12, dtype=int), "region": REGION, "leaf": np.arange(12)}
NOISES = {"nation": Laplace(Fraction(1, 3)), "region": Gaussian(9), "leaf": Laplace(Fraction(1, 5))}


def plain(size):
    return Dimension((np.arange(size),))


def even(*fans):
    size = int(np.prod(fans))
    return Dimension(
        tuple(np.arange(size) // (size // int(np.prod(fans[: k + 1]))) for k in range(len(fans)))
    )


def tree(zeros=None):
    return nested(UNEVEN, zeros)


def cube(tables=None):
    """A 3 x 2 x (2 groups of 2) cross with crossing margins."""
    tables = tables or {
        "a": (1, 0, 0),
        "b": (0, 1, 0),
        "ab": (1, 1, 0),
        "y": (0, 0, 1),
        "all": (1, 1, 2),
    }
    return crossed([plain(3), plain(2), even(2, 2)], tables)


def matrix(table):
    """The 0/1 matrix that sums finest cells to a table."""
    out = np.zeros((table.cells, table.of.size))
    out[table.of, np.arange(table.of.size)] = 1
    return out


def least_squares(structure, noises, noisy):
    """Return the estimates and the covariance of the finest cells, by dense linear algebra."""
    measured = [t for t in structure.tables if noises.get(t.name) is not None]
    rows = np.vstack([matrix(t) for t in measured])
    weights = np.concatenate(
        [np.full(t.cells, 1 / float(noises[t.name].variance())) for t in measured]
    )
    values = np.concatenate([noisy[t.name] for t in measured]).astype(float)
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    return covariance @ rows.T @ (weights * values), covariance


def noisy_of(structure, noises, rng):
    return {
        t.name: rng.integers(-60, 60, t.cells).tolist()
        for t in structure.tables
        if noises.get(t.name) is not None
    }


def members(runs):
    return [x for low, high in runs for x in range(low, high + 1)]


def points(sets, total):
    """Every choice of one member per set that adds up to `total`."""
    for values in itertools.product(*[members(runs) for runs in sets]):
        if sum(values) == total:
            yield values
