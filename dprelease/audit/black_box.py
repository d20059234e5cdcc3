"""Layer C: a lower bound of epsilon from draws alone, with no knowledge of the mechanism.

Draws of two neighbouring tables are halved. The first half chooses an event: a threshold on one
column, one exact value, a text's length, or a level set of the summed log-ratio of all columns'
histograms (columns are drawn independently, so the sum is the likelihood ratio up to the bins). The
second half tests it. For an event with k1 of n hits under one table and k0 of n under the other,

    epsilon >= log((lower(k1) - delta) / upper(k0))

with probability 1 - alpha, where lower and upper are Clopper-Pearson bounds at alpha / 2 each.

Units    nats. Shapes: features `(draws,)`, numbers or text.
Sources  Clopper & Pearson, "The use of confidence or fiducial limits";
         `docs/theory/certificates.md#audits`.
Limits   a lower bound for one pair: events of small probability are invisible to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

ALPHA = 1e-6
"""Chance of a false alarm per pair of tables."""

_CHOOSING = 0.05
_BINS = 24
_THRESHOLDS = 24

Features = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Bound:
    """epsilon is at least `epsilon`, by `event`: hits of `draws` under either table."""

    epsilon: float
    event: str
    hits: tuple[int, int]
    draws: int


def epsilon_at_least(
    k1: int, n1: int, k0: int, n0: int, *, alpha: float = ALPHA, delta: float = 0.0
) -> float:
    """Return the bound of the module for k1 of n1 hits against k0 of n0; at least 0."""
    low = 0.0 if k1 == 0 else float(betaincinv(k1, n1 - k1 + 1, alpha / 2))
    high = 1.0 if k0 == n0 else float(betaincinv(k0 + 1, n0 - k0, 1 - alpha / 2))
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def strongest_event(
    first: Features, second: Features, *, alpha: float = ALPHA, delta: float = 0.0
) -> Bound:
    """Return the bound of the best event, chosen on one half and tested on the other.

    Args:
        first, second: named columns of equally many draws under either table.
        alpha: chance that the bound is wrong, both directions together.
    """
    names = [n for n in first if n in second]
    sides = [{n: _numbers(f[n]) for n in names} for f in (first, second)]
    half = min((v.shape[0] for side in sides for v in side.values()), default=0) // 2
    if half == 0:
        return Bound(0.0, "no draws", (0, 0), 0)
    chosen = [{n: v[:half] for n, v in side.items()} for side in sides]
    tested = [{n: v[half : 2 * half] for n, v in side.items()} for side in sides]
    best = Bound(0.0, "nothing tells them apart", (0, 0), half)
    for one, other in ((0, 1), (1, 0)):
        ratio = _log_ratio(chosen[one], chosen[other])
        pick: tuple[float, str, Any] = (-1.0, "", None)
        for name, event in _events(chosen[one], chosen[other], ratio):
            hits = [int(event(c).sum()) for c in (chosen[one], chosen[other])]
            found = epsilon_at_least(hits[0], half, hits[1], half, alpha=_CHOOSING, delta=delta)
            if found > pick[0]:
                pick = (found, name, event)
        if pick[2] is None:
            continue
        hits = [int(pick[2](t).sum()) for t in (tested[one], tested[other])]
        found = epsilon_at_least(hits[0], half, hits[1], half, alpha=alpha / 2, delta=delta)
        if found > best.epsilon:
            best = Bound(found, pick[1], (hits[0], hits[1]), half)
    return best


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a column as numbers; text as its length, nulls as a number of their own."""
    if values.dtype.kind in "iufb":
        out = values.astype(np.float64)
        return np.where(np.isnan(out), -1e300, out)
    return np.array([-1.0 if v is None else float(len(str(v))) for v in values.tolist()])


def _edges(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], count: int) -> Any:
    pooled = np.unique(np.concatenate([a, b]))
    if pooled.size <= count:
        return pooled
    shares = np.linspace(0, 1, count + 1)[1:-1]
    return np.unique(np.quantile(np.concatenate([a, b]), shares))


def _log_ratio(one: Features, other: Features) -> Any:
    """Return a function of columns: the summed log-ratio of the histograms of this half."""
    tables = {}
    for name in one:
        edges = _edges(one[name], other[name], _BINS)
        places = [np.searchsorted(edges, side[name], side="right") for side in (one, other)]
        counts = [np.bincount(p, minlength=edges.size + 1) + 0.5 for p in places]
        tables[name] = (edges, np.log(counts[0] / counts[1]))

    known: dict[int, npt.NDArray[np.float64]] = {}  # every threshold asks for the same four sides

    def score(columns: Features) -> npt.NDArray[np.float64]:
        if id(columns) in known:
            return known[id(columns)]
        total = np.zeros(next(iter(columns.values())).shape[0])
        for name, (edges, ratio) in tables.items():
            total += ratio[np.searchsorted(edges, columns[name], side="right")]
        known[id(columns)] = total
        return total

    return score


def _events(one: Features, other: Features, ratio: Any) -> list[tuple[str, Any]]:
    scores = ratio(one)
    out: list[tuple[str, Any]] = [
        (f"log-ratio of all columns >= {t:.4g}", lambda c, t=t: ratio(c) >= t)
        for t in _edges(scores, ratio(other), _THRESHOLDS)
    ]
    for name in one:
        for t in _edges(one[name], other[name], _THRESHOLDS):
            out.append((f"{name} <= {t:.6g}", lambda c, n=name, t=t: c[n] <= t))
            out.append((f"{name} >= {t:.6g}", lambda c, n=name, t=t: c[n] >= t))
        values, counts = np.unique(one[name], return_counts=True)
        out += [
            (f"{name} = {v:.6g}", lambda c, n=name, v=v: c[n] == v)
            for v in values[np.argsort(-counts)[:8]]
        ]
    return out
