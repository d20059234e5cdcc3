"""Scores by rank candidate by candidate, from rows per candidate: what stretches stand for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.engines.tally import near_rows
from dprelease.measurements.ranks import ExponentialLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.query.bounded import Near
from dprelease.schema.domain import GridSet
from dprelease.statistics.ranks import stretches

Ints = npt.NDArray[np.int64]


def rank_scores(tally: Any, a: int, b: int, offset: int) -> Ints:
    """Return s(y) for every code, `(groups, K + 1)`, from the rows per code."""
    part = np.asarray(tally, dtype=np.int64)
    upto = np.cumsum(part, axis=1)
    target = a * upto[:, -1:] + offset
    return np.maximum(b * (upto - part) - target, target - b * upto)


def sparse(tally: Any) -> Ints:
    """Return the table that an engine gives for rows per code, `(codes, 5)`."""
    part = np.asarray(tally, dtype=np.int64)
    upto = np.cumsum(part, axis=1)
    group, code = np.nonzero(part)
    found = upto[group, code]
    return np.stack([group, code, found - part[group, code], found, upto[group, -1]], axis=1)


def spread_out(draw: ExponentialLaw, scores: Any) -> list[int]:
    """Return the score of each candidate of one group."""
    _, counts, apart = draw.runs(scores)
    return np.repeat(apart, counts).tolist()


def chances(
    law: ScoreLaw, tally: list[int], a: int, b: int, offset: int, last: int | None = None
) -> list[Fraction]:
    """Return P(y) per code, from what the engine hands over near the rank, through stretches."""
    table = sparse([tally])
    table = table[near_rows(table, Near(a, b, offset, law.last if last is None else last))]
    draw = ExponentialLaw(law, GridSet(((0, len(tally) - 1),)), Fraction(1))
    return law.pmf(np.array(spread_out(draw, stretches(table, 1, a, b, offset)[0, 0])))
