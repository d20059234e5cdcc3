"""The exact loss of a joint choice between two tables, and whether its draws follow its law.

The largest ratio of two such laws is at one sequence of candidates. As the law is a product along the
sequence, that sequence is found target by target; the ratio is then made of whole numbers. Candidates are
told apart by their levels, which nobody publishes: the loss of what is published is no larger.

Units    ratios of chances; places of blocks.
Sources  `docs/theory/quantiles.md#several-quantiles-together`, `docs/theory/certificates.md#audits`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.joint_ranks import Positions
from dprelease.audit.sampler import fit
from dprelease.entropy import RandomBits, SystemBits
from dprelease.measurements.joint_ranks import JointExponentialDraw
from dprelease.mechanisms.forms.joint_scores import Blocks, JointExponential
from dprelease.mechanisms.forms.scores import ScoreLaw

__all__ = ["joint_fit", "joint_worst"]

FloatArray = npt.NDArray[np.float64]
_POINTS = 12
_ROWS = 3


def joint_worst(draw: JointExponentialDraw, here: Positions, there: Positions) -> Fraction:
    """Return the largest ratio of the chances of one outcome under two groups' rows, either way."""
    codes = np.union1d(here.codes, there.codes)
    one, other = (draw.blocks(rows.at(codes))[0] for rows in (here, there))
    totals = [int(JointExponential(draw.law, b).last.sum()) for b in (one, other)]
    first = _largest(draw.law, one, other) * Fraction(totals[1], totals[0])
    second = _largest(draw.law, other, one) * Fraction(totals[0], totals[1])
    return max(first, second)


def _largest(law: ScoreLaw, over: Blocks, under: Blocks) -> Fraction:
    """Return the largest quotient of the products of weights of one sequence."""
    best = _quotients(law, over, under, 0, np.zeros(1, dtype=np.int64))[0]
    came: list[npt.NDArray[np.int64]] = []
    many = len(over.targets)
    for j in range(1, many):
        steps = _quotients(law, over, under, j, np.arange(over.ranks.size))
        steps = np.where(
            np.tri(steps.shape[0], steps.shape[1], -1, dtype=np.bool_), -np.inf, steps
        )  # never back
        total = best[:, None] + steps
        came.append(total.argmax(axis=0))
        best = total.max(axis=0)
    ends = [_apart(b, many, b.ranks, np.full(b.ranks.size, b.whole)) for b in (over, under)]
    best = best + _logs(law, ends[0]) - _logs(law, ends[1])
    path = [int(best.argmax())]
    for step in reversed(came):
        path.insert(0, int(step[path[0]]))
    return Fraction(_product(law, over, path), _product(law, under, path))


def _quotients(
    law: ScoreLaw, over: Blocks, under: Blocks, j: int, places: npt.NDArray[np.int64]
) -> FloatArray:
    """Return log w / w' of gap j from each of `places` (of nothing at j = 0) to every block."""
    found = []
    for b in (over, under):
        before = np.zeros(1, dtype=np.int64) if j == 0 else b.ranks[places]
        found.append(_logs(law, _apart(b, j, before[:, None], b.ranks[None, :])))
    out: FloatArray = found[0] - found[1]
    return out


def _apart(blocks: Blocks, j: int, before: Any, after: Any) -> Any:
    return np.abs(after - before - blocks.steps[j])


def _logs(law: ScoreLaw, apart: npt.NDArray[np.int64]) -> FloatArray:
    weights = law.weights(apart)
    flat = [math.log(int(w)) for w in weights.ravel()]
    return np.array(flat).reshape(weights.shape)


def _product(law: ScoreLaw, blocks: Blocks, path: list[int]) -> int:
    ranks = [0, *(int(blocks.ranks[b]) for b in path), blocks.whole]
    apart = np.abs(np.diff(np.array(ranks, dtype=np.int64)) - np.array(blocks.steps))
    return math.prod(int(w) for w in law.weights(apart))


def joint_fit(draw: JointExponentialDraw, count: int, bits: RandomBits | None = None) -> float:
    """Return the p-value of the last target's block over `count` draws of a made-up group."""
    points, m = len(draw.allowed), draw.many
    places = np.unique(np.linspace(0, points - 1, min(points, _POINTS)).astype(np.int64))
    codes = draw.allowed.at(places) - draw.allowed.lower
    upto = _ROWS * np.arange(1, places.size + 1)
    targets = tuple(range(1, m + 1))
    rows = Positions(codes, upto - _ROWS, upto, int(upto[-1]), targets, m + 1)
    choice = JointExponential(draw.law, draw.blocks(rows)[0])
    source = bits or SystemBits()
    drawn = np.array([choice.draw(source)[-1][0] for _ in range(count)])
    total = int(choice.last.sum())
    chance = np.array([float(Fraction(int(w), total)) for w in choice.last])
    return fit(drawn, np.arange(chance.size), chance)
