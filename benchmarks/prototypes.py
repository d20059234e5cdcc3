"""Float prototypes of published methods: what the goals of accuracy are measured against.

They are for comparison only: floating point, no certificate, seeded by the caller.

    joint       m quantiles by the joint exponential mechanism (Gillenwater, Joseph & Kulesza,
                arXiv:2102.08244), here with the range cut at the data's values
    recursive   m quantiles by halves: the middle one by the exponential mechanism, then those on either side of it
                among the rows there (Kaplan, Schnapp & Stemmer, ICML 2022)
    clipped     a mean after clipping to two quantiles that cost half of epsilon
    prefixes    variance of prefix sums from a hierarchy of counts by least squares, for the best fan-out
    weighted    the same from a few overlapping weighted counts, found by descent

Units: the column's; epsilon in nats; one row added or removed unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

Floats = np.ndarray[Any, np.dtype[np.float64]]

__all__ = [
    "clipped_mean",
    "joint_quantiles",
    "prefix_variance",
    "recursive_quantiles",
    "single_quantile",
    "weighted_counts",
]


def joint_quantiles(
    x: Floats, shares: list[float], ends: tuple[float, float], epsilon: float, draws: int, seed: int
) -> Floats:
    """Return `draws` joint choices of the quantiles, `(draws, shares)`, in order.

    The chance of outputs falls by e^(-epsilon / (2 spread)) with every row that lies too few or too many
    between two neighbours; spread 2 (1 - the least target) under add or remove.
    """
    pick = np.random.default_rng(seed)
    cuts = np.concatenate([[ends[0]], np.sort(np.clip(x, *ends)), [ends[1]]])
    with np.errstate(divide="ignore"):
        room = np.log(np.diff(cuts))
    count, many = room.size, len(shares)  # stretch i has i rows below it
    wanted = np.diff(np.array([0.0, *shares, 1.0])) * x.size
    rate = epsilon / (2 * 2 * (1 - wanted.min() / x.size))
    apart = np.arange(count)[None, :] - np.arange(count)[:, None]
    open_: Floats = np.full(
        (many + 1, count), -np.inf
    )  # the next output enters stretch i, j before it
    closed: Floats = np.full(
        (many + 1, count), -np.inf
    )  # j outputs, the last in i, no other follows there
    open_[0] = -rate * np.abs(np.arange(count) - wanted[0])
    runs = _runs(room, wanted, rate, many)
    for j in range(1, many + 1):
        closed[j] = logsumexp([open_[j - k] + runs[j - k, k] for k in range(1, j + 1)], axis=0)
        if j < many:
            step = np.where(apart > 0, -rate * np.abs(apart - wanted[j]), -np.inf)
            open_[j] = logsumexp(closed[j][:, None] + step, axis=0)
    last = closed[many] - rate * np.abs(x.size - np.arange(count) - wanted[many])
    out = np.empty((draws, many))
    for row in range(draws):
        j, weight = many, last
        while j:
            i = int(pick.choice(count, p=np.exp(weight - logsumexp(weight))))
            lengths = np.array([open_[j - k][i] + runs[j - k, k][i] for k in range(1, j + 1)])
            k = 1 + int(pick.choice(j, p=np.exp(lengths - logsumexp(lengths))))
            out[row, j - k : j] = np.sort(pick.uniform(cuts[i], cuts[i + 1], k))
            j -= k
            before = apart[:, i] > 0
            weight = np.where(before, closed[j] - rate * np.abs(apart[:, i] - wanted[j]), -np.inf)
    return out


def _runs(room: Floats, wanted: Floats, rate: float, many: int) -> dict[tuple[int, int], Floats]:
    """Return by (outputs before, k) the log weight of k outputs in one stretch, after the first's step."""
    return {
        (j, k): k * room - gammaln(k + 1) - rate * wanted[j + 1 : j + k].sum()
        for j in range(many)
        for k in range(1, many - j + 1)
    }


def recursive_quantiles(
    x: Floats, shares: list[float], ends: tuple[float, float], epsilon: float, draws: int, seed: int
) -> Floats:
    """Return `draws` choices of the quantiles by halves, `(draws, shares)`, in order.

    A row is in one part of every level, so each of ceil(log2(m + 1)) levels has an equal part of epsilon.
    """
    pick = np.random.default_rng(seed)
    part = epsilon / math.ceil(math.log2(len(shares) + 1))
    out = np.empty((draws, len(shares)))

    def halve(
        out: Floats,
        rows: Floats,
        room: tuple[float, float],
        asked: range,
        between: tuple[float, float],
    ) -> None:
        if not asked:
            return
        at = asked[len(asked) // 2]
        share = (shares[at] - between[0]) / (between[1] - between[0])
        # one row more moves the score of a stretch by at most the larger of both shares
        found = single_quantile(rows, share, room, part / max(share, 1 - share), pick)
        out[at] = found
        middle = asked.index(at)
        halve(out, rows[rows <= found], (room[0], found), asked[:middle], (between[0], shares[at]))
        halve(
            out, rows[rows > found], (found, room[1]), asked[middle + 1 :], (shares[at], between[1])
        )

    for one in out:
        halve(one, x, ends, range(len(shares)), (0.0, 1.0))
    return out


def single_quantile(
    x: Floats, share: float, ends: tuple[float, float], epsilon: float, pick: np.random.Generator
) -> float:
    """Return one quantile by the exponential mechanism over the range (scores of spread 1)."""
    cuts = np.concatenate([[ends[0]], np.sort(np.clip(x, *ends)), [ends[1]]])
    with np.errstate(divide="ignore"):
        room = np.log(np.diff(cuts))
    weight = room - epsilon / 2 * np.abs(np.arange(room.size) - share * x.size)
    i = int(pick.choice(room.size, p=np.exp(weight - logsumexp(weight))))
    return float(pick.uniform(cuts[i], cuts[i + 1]))


def clipped_mean(
    x: Floats, ends: tuple[float, float], epsilon: float, pick: np.random.Generator
) -> float:
    """Return a mean of a public number of rows, clipped to quantiles 0.01 and 0.99 found with epsilon / 2."""
    low, high = sorted(single_quantile(x, p, ends, epsilon / 4, pick) for p in (0.01, 0.99))
    noise = pick.laplace(scale=2 * (high - low) / (epsilon * x.size))
    return float(np.clip(np.clip(x, low, high).mean() + noise, *ends))


def prefix_variance(bins: int, epsilon: float, fan: int) -> float:
    """Return the mean variance of all prefix sums, by least squares from a tree of counts of that fan-out.

    `fan` 1 is not a tree: the bins alone. Laplace noise, continuous, one row added or removed.
    """
    if fan == 1:
        return (bins + 1) / 2 * 2 / epsilon**2
    levels = math.ceil(math.log(bins) / math.log(fan) - 1e-9)
    full = fan**levels
    sums = [np.kron(np.eye(full // fan**k), np.ones(fan**k)) for k in range(levels)]
    gram: Floats = sum((s.T @ s for s in sums), np.zeros((full, full)))
    spread = np.linalg.inv(gram)[:bins, :bins] * 2 * (levels / epsilon) ** 2
    return float(np.mean(np.diag(np.cumsum(np.cumsum(spread, axis=0), axis=1))))


def weighted_counts(bins: int, hats: int = 3) -> float:
    """Return the root mean square error of prefix sums from bins alone over that of bins and `hats` weighted sums.

    The best found, from sums with weights that rise and fall, by descent over all weights that are not negative;
    continuous Laplace noise on both, a row moving all of them by 1 together. A local optimum: it shows what is possible.

    Source: McKenna, Miklau, Hay & Machanavajjhala, "Optimizing error of high-dimensional statistical queries
    under differential privacy", PVLDB 11 (2018): p-identity strategies.
    """
    place = np.arange(bins)
    wanted = bins - np.maximum(place[:, None], place[None, :]).astype(np.float64)
    middles = (np.arange(hats) + 0.5) / hats * bins
    start = np.maximum(0.05, 1 - np.abs(place - middles[:, None]) * hats / bins)

    def error(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(hats, bins)
        rows = np.vstack([np.eye(bins), np.abs(weights)])
        total = rows.sum(axis=0)
        strategy = rows / total
        inverse = np.linalg.inv(strategy.T @ strategy)
        slope = -2 * strategy @ (inverse @ wanted @ inverse)
        slope = (slope - (slope * strategy).sum(axis=0)) / total
        return float((inverse * wanted).sum()), (slope[bins:] * np.sign(weights)).ravel()

    found = minimize(error, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return float(np.sqrt(bins * (bins + 1) / 2 / found.fun))
