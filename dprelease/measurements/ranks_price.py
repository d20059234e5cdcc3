"""What a value drawn by rank costs and is worth, from a public simulation; where min and max aim.

Aiming at the last row itself on one side, everything beyond the data scores as well as the data's end, and
if the declared range is wider than the data the value lands there, uniformly. Aiming at the k-th row from
the end, its value alone scores best, and a candidate beyond the data scores k - 1/2 worse, at half the rate
(the scores have two sides then, `statistics.ranks`). Which is better, and for which k, depends on the
data; so eighteen public tables speak for them: rows spread evenly, skewed to one end, or heaped on eleven
values, over all of the range, half or a tenth of it at either end, at the public guess of rows per group.
The aim of least mean error is taken. Where the data fill the range, aiming at the last row would have
been better; where they end far inside it and there are more rows than guessed, a larger k. Pricing reads
no row and is never what a release draws from. The mean rank error as a share of the rows is added to each
error, so that no draw seems free where values are few. Of wide ranges 1,024 candidates stand for the
others: each has rows of its own, the rest of its share lies between it and the next one. Permute-and-flip
is priced as the exponential mechanism of its weights, which errs no less.

Units: errors as a share of the candidates' hull (or its square); rates in nats per score step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from dprelease.core.numeric import ranking
from dprelease.statistics.base import Floats
from dprelease.statistics.ranks import aimed

_MOST_POINTS = 1024
_PARTS = (1.0, 0.5, 0.1)
_ROWS_INSIDE = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453, 640, 905, 1280)


def rows_inside(
    rate: float,
    candidates: int,
    size: int,
    end: tuple[int, int],
    loss: Literal["absolute", "squared"],
) -> int:
    """Return k, the row from the end of least error to aim at for min or max, counted from 1.

    Args:
        rate: of the law, nats per half row.
        end: (0, 1) for min, (1, 1) for max.
    """
    offers = [k for k in _ROWS_INSIDE if k <= max(1, size)]

    def price(k: int) -> float:
        return ranking(exponential_error(rate, candidates, size, aimed(*end, k), loss))

    return min(offers, key=price)


@lru_cache(maxsize=4096)
def exponential_error(
    rate: float,
    candidates: int,
    size: int,
    target: tuple[int, int, int],
    loss: Literal["absolute", "squared"],
) -> float:
    """Return the mean error of a drawn value over the public tables.

    Args:
        target: (a, b, offset) of `statistics.ranks`; the error is to the value at rank a n / b.
    """
    a, b, offset = target
    tally = _tables(min(candidates, _MOST_POINTS), size)
    upto = np.cumsum(tally, axis=1)
    rank = a * upto[:, -1:] + offset
    at = np.maximum(np.maximum(b * (upto - tally) - rank, rank - b * upto), 0)
    after = np.abs(b * upto - rank)
    least = np.minimum(at, after).min(axis=1, keepdims=True)
    between = candidates / upto.shape[1] - 1  # candidates after each, up to the next
    weights = np.exp(-rate * (at - least)) + between * np.exp(-rate * (after - least))
    wanted = np.maximum(1, -(-a * upto[:, -1:] // b))
    truth = np.argmax(upto >= wanted, axis=1)[:, None]
    off = np.abs(np.arange(upto.shape[1])[None, :] - truth) / max(1, upto.shape[1] - 1)
    off = off + min(1.0, 1 / (rate * b * max(1, size)))
    if loss == "squared":
        off = off * off
    return float(np.mean((weights * off).sum(axis=1) / weights.sum(axis=1)))


@lru_cache(maxsize=64)
def _tables(points: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the rows at each of `points` values, `(tables, points)`; a row adds up to `size`."""
    at = np.arange(points) / max(1, points - 1)
    shares: list[Floats] = []
    for part in _PARTS:
        t = np.minimum(at / part, 1.0)
        skewed = -np.expm1(-t * np.log(2.0 * size + 2.0))
        shares += [t, np.where(t >= 1, 1.0, skewed), np.floor(t * 10 + 1) / 11]
    upto = np.floor(np.stack(shares) * size + 0.5).astype(np.int64)
    tally = np.diff(upto, axis=1, prepend=0)
    return np.concatenate([tally, tally[:, ::-1]])
