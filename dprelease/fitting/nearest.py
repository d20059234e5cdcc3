"""The published point: valid integers that add up, nearest to the estimates, parents first.

The coarsest nested table takes the nearest feasible values; then every parent's value is shared
among its children, level by level (`shares`). What a cell can take was worked out bottom up before
the charge (`feasible`), so nothing can fail here, whatever was drawn. Margins beside the nested
tables are sums of the finest cells, which are moved towards the margins' own estimates (`margins`).

Where counts stand beside sums, every sum's set is low * count .. high * count of the published
count, which add up as the counts do.

Units    steps; targets in 1 / `FINE` step.
Sources  `docs/theory/publications-that-add-up.md#parents-first`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import Estimates
from dprelease.fitting.feasible import Feasible
from dprelease.fitting.margins import pulled, sides_of
from dprelease.fitting.sets import Runs, nearest_in
from dprelease.fitting.shares import FINE, in_fine
from dprelease.fitting.structure import Structure, sums_of

_HEAVIEST = 2**10


@dataclass(frozen=True)
class SumBounds:
    """What published counts say of sums over the same rows: low * count <= sum <= high * count in every cell."""

    counts: Mapping[str, Sequence[int]]
    low: int
    high: int


@dataclass(frozen=True)
class Fit:
    """The published integers of every table, and what shows how near they are.

    Attributes:
        values: per table and cell, in steps.
        proof: JSON: per nested table the multipliers of its parents and of its margins.
        mended: parents whose children needed more than a multiplier.
    """

    values: dict[str, list[int]]
    proof: dict[str, Any]
    mended: int


def weights(variances: npt.NDArray[np.float64]) -> list[int]:
    """Return whole weights 1 to 2^10, inverse to the variances; 1 where a cell is known."""
    positive = variances[variances > 0]
    least = float(positive.min()) if positive.size else 1.0
    return [max(1, round(_HEAVIEST * least / v)) if v > 0 else 1 for v in variances.tolist()]


def nearest(
    structure: Structure,
    feasible: Feasible,
    estimates: Estimates,
    variances: Mapping[str, npt.NDArray[np.float64]],
    *,
    sum_bounds: SumBounds | None = None,
) -> Fit:
    """Return the published point. Never raises on account of what was drawn."""
    values: dict[str, list[int]] = {}
    proof: dict[str, Any] = {}
    count, above = 0, ""
    for step, place in enumerate(structure.chain):
        table = structure.tables[place]
        aim = in_fine(estimates.values[table.name])
        sets = _sets(feasible, table.name, sum_bounds)
        if step == 0:
            values[table.name] = [nearest_in(s, t, FINE) for s, t in zip(sets, aim, strict=True)]
            above = table.name
            continue
        parent = structure.parent(step)
        own = weights(variances[table.name])
        sides = sides_of(structure, step, estimates, variances)
        made, pulls = pulled(aim, own, sets, parent, values[above], sides)
        values[table.name] = made.values
        proof[table.name] = {"parents": made.multipliers, "margins": pulls}
        count, above = count + made.mended, table.name
    for place in structure.sides:
        side = structure.tables[place]
        values[side.name] = sums_of(values[structure.finest.name], side.of, side.cells)
    return Fit(values, proof, count)


def _sets(feasible: Feasible, table: str, bounds: SumBounds | None) -> list[Runs]:
    if bounds is None:
        return feasible.sets[table]
    return [((bounds.low * count, bounds.high * count),) for count in bounds.counts[table]]
