"""Many releases of one answer: the query is computed once, everything after it is repeated.

A plan whose groups are listed `draws` times, with the release's number as first key, is drawn by the
wall itself and assembled like any other. What one release publishes is what its number's rows say.

Units    noisy integers in grid steps, published numbers in their own units.
Sources  `docs/theory/certificates.md#audits`.
Limits   a graph's answer has no row per group: its blocks' draws are repeated without the wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.audit.answers import cells_of
from dprelease.core.entropy import SystemBits
from dprelease.core.secret import Secret
from dprelease.query.answer import Answer
from dprelease.release_plan.block import Cells
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw, assemble
from dprelease.wall import execute

RELEASE = "#release"
"""The first key column of repeated releases: their number, from 0."""

Columns = dict[str, np.ndarray[Any, Any]]
_GROUPS = 2


def releases(
    plan: ReleasePlan, answer: Answer, draws: int, groups: Sequence[int] | None = None
) -> Draw:
    """Return `draws` releases of `answer` as one, release by release in its rows.

    Args:
        groups: which groups to draw (default: all); one group's law does not depend on the others.
    """
    wide, cells = _drawn(plan, answer, draws, groups)
    return Draw(wide, assemble(wide.by, wide.keys, wide.statistics, wide.blocks, cells), cells)


def _drawn(
    plan: ReleasePlan, answer: Answer, draws: int, groups: Sequence[int] | None
) -> tuple[ReleasePlan, Cells]:
    keys = plan.keys or [(key,) for key in answer.keys]
    here = list(range(len(keys))) if groups is None else list(groups)
    wide = replace(
        plan,
        by=(RELEASE, *plan.by),
        keys=tuple((str(i), *keys[g]) for i in range(draws) for g in here),
        query=replace(plan.query, groups=replace(plan.query.groups, found=False)),  # they are here
    )
    if not answer.tables:
        # the wall itself, once for all draws
        return wide, execute.draw(wide, Secret(answer.repeated(here, draws)))
    cells: Cells = {}
    for block, exact in zip(plan.blocks, cells_of(plan, answer), strict=True):
        drawn = block.law.draw(np.tile(exact, (draws, 1)), SystemBits())
        cells[block.name] = tuple(tuple(line) for line in drawn.tolist())
    return wide, cells


def features_of(
    plan: ReleasePlan, answer: Answer, both: tuple[Answer, Answer], draws: int
) -> Columns:
    """Return the noisy integers that `draws` releases of `answer` publish, `(draws,)` each.

    Only groups where the two answers differ are drawn (at most two): the others have the same law
    under both.
    """
    _, cells = _drawn(plan, answer, draws, differing(*both))
    out: Columns = {}
    for block in plan.blocks:
        raw = np.array(cells[block.name], dtype=np.float64).reshape(draws, -1)
        out |= {f"{block.name}[{j}]": raw[:, j] for j in range(raw.shape[1])}
    return out


def shown_of(plan: ReleasePlan, answer: Answer, both: tuple[Answer, Answer], draws: int) -> Columns:
    """Return what the tidy table of `draws` releases shows: numbers, their texts, statuses."""
    table = releases(plan, answer, draws, differing(*both)).table
    out: Columns = {}
    for column in ("value", "lower", "upper", "consistent", "estimate", "status"):
        values = table[column].to_numpy(zero_copy_only=False).reshape(draws, -1)
        for j in range(values.shape[1]):
            out[f"{column}[{j}]"] = values[:, j]
            if column == "value":
                texts = [repr(v) for v in values[:, j].tolist()]
                out[f"text of {column}[{j}]"] = np.array(texts, dtype=object)
    return out


def differing(first: Answer, second: Answer) -> list[int]:
    """Return the first groups, at most two, whose exact sums differ; [0] if none does."""
    different: npt.NDArray[np.bool_] = np.asarray(first.sums != second.sums, dtype=bool)
    differ = np.logical_or.reduce(different, axis=1)
    for i, tally in first.tallies.items():
        for group in range(differ.size):
            one, other = (t[t[:, 0] == group] for t in (tally, second.tallies[i]))
            differ[group] |= not np.array_equal(one, other)
    return np.flatnonzero(differ)[:_GROUPS].tolist() or [0]
