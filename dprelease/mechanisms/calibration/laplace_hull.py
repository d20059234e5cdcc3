"""The worst pair of answers in the hull of a union, and the smallest scale that keeps it within a budget.

Scales are searched on few pairs; the worst of all pairs at the result is added while it is too much. Pairs are
looked at in passes over the ends (`calibration/laplace_passes.py`), where these are exact enough; whatever is
returned was judged without cancellation (`calibration/laplace_pairs.py`) at the worst pair that was found.

Units    the domain's unit; nats.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace-on-a-union`.
Limits   float64. Pairs: ends of pieces and 51 nodes per smooth stretch, refined by zooming in: observed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.laplace_pairs import AnswerPairs, Ends, around, log_ratio
from dprelease.mechanisms.calibration.laplace_passes import Passes
from dprelease.mechanisms.calibration.search import next_scale, smallest_scale, widen

_ZOOM, _ROUNDS = 65, 4  # four rounds of a thirty-second each: 1e-6 of a stretch
_WORST_PAIRS = 12
_JUDGED = 1 - 1e-13  # beyond the rounding of a loss; a search ends at least ten times as far below

Judge = Callable[[AnswerPairs], Callable[[FloatArray], FloatArray]]
"""Pairs -> their losses as a function of scales."""


def pair_losses(ends: Ends, pairs: AnswerPairs, scale: float | FloatArray) -> FloatArray:
    """Return the loss of every pair: shape `(pairs,)`, or `(scales, pairs)`."""
    b = np.asarray(scale, dtype=np.float64)[..., None]
    out: FloatArray = pairs.distance / b + np.abs(log_ratio(ends, pairs, scale))
    return out


def worst_pair(
    ends: Ends, smooth: list[tuple[AnswerPairs, float]], scale: float, judge: Judge | None = None
) -> tuple[float, AnswerPairs]:
    """Return the largest loss over hull pairs and its pair: nodes, then zooming in.

    Args:
        judge: what pairs are compared by, if not by what the loss is judged by in the end.
    """
    at = np.asarray(scale, dtype=np.float64)
    if judge is None:

        def judge(pairs: AnswerPairs) -> Callable[[FloatArray], FloatArray]:
            return lambda b: pair_losses(ends, pairs, b)

    everywhere = AnswerPairs.joined([nodes for nodes, _ in smooth])
    values = judge(everywhere)(at).reshape(len(smooth), -1)  # as many nodes on every stretch
    tops = values.argmax(axis=1)
    best, pair = _better(0.0, everywhere.take(0), everywhere, values.ravel())
    places = tops + np.arange(len(smooth)) * values.shape[1]
    anchor, centre = everywhere.anchor[places], everywhere.offset[places]
    size = np.array([length for _, length in smooth])
    steps = np.array([around(top, values.shape[1]) for top in tops.tolist()])
    low, high = centre - size * steps[:, 0], centre + size * steps[:, 1]
    # Few wide rounds, not golden section: a call costs more than its elements.
    share = np.linspace(0, 1, _ZOOM)[:, None]
    anchor, distance = np.tile(anchor, _ZOOM), np.tile(everywhere.distance[places], _ZOOM)
    rows = np.arange(centre.size)
    for _ in range(_ROUNDS):
        tried = low + (high - low) * share
        pairs = AnswerPairs(anchor, tried.ravel(), distance)
        found = judge(pairs)(at)
        best, pair = _better(best, pair, pairs, found)
        top = found.reshape(tried.shape).argmax(axis=0)
        low = tried[np.maximum(top - 1, 0), rows]
        high = tried[np.minimum(top + 1, _ZOOM - 1), rows]
    return float(pair_losses(ends, pair, scale)[0]), pair


def _better(
    best: float, pair: AnswerPairs, pairs: AnswerPairs, found: FloatArray
) -> tuple[float, AnswerPairs]:
    top = int(np.argmax(found))
    return (float(found[top]), pairs.take(top)) if found[top] > best else (best, pair)


def hull_scale(ends: Ends, distance: Fraction, epsilon: float) -> float:
    """Return the smallest scale found at which no pair of answers in the hull, `distance` apart, loses more."""
    least = float(distance) / epsilon
    smooth = ends.stretches(distance, 2 * least)
    passes = Passes.for_answers(ends, float(distance), epsilon)

    def judge(pairs: AnswerPairs) -> Callable[[FloatArray], FloatArray]:
        if passes is not None:
            return passes.losses(ends, pairs)
        return lambda b: pair_losses(ends, pairs, b)

    few = AnswerPairs.joined([nodes.every(8) for nodes, _ in smooth])
    scale, goal = least, epsilon * _JUDGED
    for attempt in range(_WORST_PAIRS):
        at = judge(few)

        def outside(scale: FloatArray, at: Callable[[FloatArray], FloatArray] = at) -> FloatArray:
            out: FloatArray = at(scale).max(axis=-1)
            return out

        if attempt:
            scale = next_scale(outside, scale, epsilon)
        else:
            scale = smallest_scale(outside, least, epsilon)
        loss, pair = worst_pair(ends, smooth, scale, judge)
        if loss <= goal:
            return scale
        few = AnswerPairs.joined([few, pair])
    return widen(lambda b: worst_pair(ends, smooth, b)[0] <= goal, scale)
