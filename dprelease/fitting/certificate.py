"""What a reader checks of a fit without fitting: every constraint, and how far from the nearest point.

The distance is bounded by Lagrange multipliers that the publication states: with any multipliers
the sum of every cell's least value of

    w (R v - t)^2 - 2 R (multiplier of its parent + those of its margins) v   over its own set

and what the multipliers say of the sums is at most the objective of every valid point. All of it is
in integers. Nothing here is shared with what fits; wrong multipliers only make the bound wider.

Units    steps; targets in 1/R step, R = 2^16.
Sources  `docs/theory/publications-that-add-up.md#the-certificate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.structure import Dimension, Level, Structure, Table, coarser

_R = 2**16
_UNIT = 2**32
_HEAVIEST, _MARGIN = 2**10, 2**6

Set = Sequence[tuple[int, int]]


def violations(
    structure: Structure,
    domains: Mapping[str, Sequence[Any]],
    totals: Mapping[str, Sequence[int]],
    values: Mapping[str, Sequence[int]],
    *,
    counts: Mapping[str, Sequence[int]] | None = None,
    between: tuple[int, int] = (0, 0),
) -> list[str]:
    """Return what the published values break; nothing if every constraint holds.

    Args:
        domains: per table, one set of runs or one per cell.
        totals: public totals per table.
        values: what is published.
        counts: published counts beside sums, which then lie between `between` times them.
    """
    found = []
    finest = values[structure.finest.name]
    for table in structure.tables:
        own = values[table.name]
        if len(own) != table.cells:
            found.append(f"{table.name}: {len(own)} values for {table.cells} cells")
            continue
        sums = [0] * table.cells
        for cell, value in zip(table.of.tolist(), finest, strict=False):
            sums[cell] += value
        empty = _empty(structure, table)
        for cell, value in enumerate(own):
            problem = None
            if sums[cell] != value:
                problem = "is not the sum of its parts"
            elif empty[cell]:
                problem = None if value == 0 else "is not 0"
            elif not _allowed(domains.get(table.name), cell, value):
                problem = "is outside its domain"
            elif table.name in totals and totals[table.name][cell] != value:
                problem = "is not its public total"
            elif counts is not None:
                count = counts[table.name][cell]
                if not between[0] * count <= value <= between[1] * count:
                    problem = "does not fit the count beside it"
            if problem:
                found.append(f"{table.name}: cell {cell + 1} {problem}")
    return found


def gaps(
    structure: Structure,
    sets: Mapping[str, Sequence[Set]],
    estimates: Mapping[str, Sequence[int]],
    variances: Mapping[str, npt.NDArray[np.float64]],
    values: Mapping[str, Sequence[int]],
    proof: Mapping[str, Any],
) -> dict[str, Fraction]:
    """Return, per nested table, how far its objective is from the least one at most.

    In squared steps of the table's most accurate cell. Given are the tables above it, as they are
    published.

    Args:
        sets: per nested table what every cell can take.
        estimates: per table, in 2^-32 step.
        variances: of the estimates.
        proof: multipliers per nested table, as the publication states them.
    """
    out = {}
    chain = [structure.tables[j] for j in structure.chain]
    for step, table in enumerate(chain):
        stated = proof.get(table.name, {"parents": [], "margins": {}})
        parent = structure.parent(step).tolist() if step else [0] * table.cells
        multipliers = [int(m) for m in stated["parents"]] if step else [0]
        aims, weights = _aims(estimates[table.name]), _weights(variances[table.name])
        pulls = [multipliers[up] for up in parent]
        spent = bound = 0
        if step:
            above = values[chain[step - 1].name]
            bound += sum(2 * _R * m * v for m, v in zip(multipliers, above, strict=True))
        for name, margin in sorted(stated["margins"].items()):
            side = structure.table(name)
            of = _through(side, table)
            pulls = [pull + int(margin[at]) for pull, at in zip(pulls, of, strict=True)]
            some, least = _margin_part(side, table, estimates, variances, values, margin)
            spent, bound = spent + some, bound + least
        for v, t, w, pull, allowed in zip(
            values[table.name], aims, weights, pulls, sets[table.name], strict=True
        ):
            spent += w * (_R * v - t) ** 2
            bound += _least(t, w, pull, allowed)
        out[table.name] = Fraction(spent - bound, _R * _R * _HEAVIEST)
    return out


def node_faults(
    axes: Sequence[Dimension],
    order: Sequence[tuple[Level, Sequence[Level]]],
    estimates: Mapping[Level, Sequence[int]],
    values: Mapping[Level, Sequence[int]],
    nodes: Mapping[Level, Sequence[Sequence[int]]],
) -> list[str]:
    """Return the tables that are not the nearest ones with their margins, by their node numbers.

    With the numbers u + v of its margins' cells a cell x of estimate t has up(x - 1) <= u + v <= up(x), up(x) = 2 R x + R - 2 t.

    Args:
        order: tables, each with its margins; estimates: in 2^-32 step; nodes: per table, of each margin a number per cell.
    """
    found = []
    for table, margins in order:
        pulls = [0] * len(values[table])
        for margin, numbers in zip(margins, nodes[table], strict=True):
            places = coarser(axes, table, margin).tolist()
            pulls = [pull + int(numbers[at]) for pull, at in zip(pulls, places, strict=True)]
        for v, t, pull in zip(values[table], _aims(estimates[table]), pulls, strict=True):
            up = 2 * _R * v + _R - 2 * t
            if margins and (pull > up or (v > 0 and pull < up - 2 * _R)):
                found.append(f"the table of levels {list(table)} is not the nearest one")
                break
    return found


def _margin_part(
    side: Table,
    table: Table,
    estimates: Mapping[str, Sequence[int]],
    variances: Mapping[str, npt.NDArray[np.float64]],
    values: Mapping[str, Sequence[int]],
    margin: Sequence[int],
) -> tuple[int, int]:
    """Return a margin's part of the objective, and the least that it can be at its multipliers."""
    weight = _margin_weight(variances[table.name], variances[side.name])
    spent = least = 0
    for s, t, m in zip(values[side.name], _aims(estimates[side.name]), margin, strict=True):
        spent += weight * (_R * s - t) ** 2
        best = t - Fraction(int(m), weight)
        near = (best / _R).__floor__()
        least += min(weight * (_R * k - t) ** 2 + 2 * _R * int(m) * k for k in (near, near + 1))
    return spent, least


def _least(t: int, w: int, pull: int, allowed: Set) -> int:
    """Return the least of w (R v - t)^2 - 2 R pull v over a set."""
    centre = (w * t + pull) // (w * _R)
    best = None
    for low, high in allowed:
        for v in (centre, centre + 1):
            point = min(max(v, low), high)
            cost = w * (_R * point - t) ** 2 - 2 * _R * pull * point
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def _aims(values: Sequence[int]) -> list[int]:
    ratio = _UNIT // _R
    return [(2 * value + ratio) // (2 * ratio) for value in values]


def _weights(variances: npt.NDArray[np.float64]) -> list[int]:
    known = [v for v in variances.tolist() if v > 0]
    least = min(known, default=1.0)
    return [max(1, round(_HEAVIEST * least / v)) if v > 0 else 1 for v in variances.tolist()]


def _margin_weight(own: npt.NDArray[np.float64], side: npt.NDArray[np.float64]) -> int:
    least = min((v for v in own.tolist() if v > 0), default=1.0)
    typical = max(side.tolist())
    return max(1, round(_HEAVIEST * least / typical)) * _MARGIN if typical > 0 else _R


def _allowed(runs_of_cells: Sequence[Any] | None, cell: int, value: int) -> bool:
    if runs_of_cells is None:
        return True
    runs = (
        runs_of_cells
        if runs_of_cells and isinstance(runs_of_cells[0][0], int)
        else runs_of_cells[cell]
    )
    return any(low <= value <= high for low, high in runs)


def _empty(structure: Structure, table: Table) -> list[bool]:
    empty = [True] * table.cells
    for cell, zero in zip(table.of.tolist(), structure.zeros.tolist(), strict=True):
        empty[cell] = empty[cell] and zero
    return empty


def _through(side: Table, table: Table) -> list[int]:
    """Return which cell of a margin every cell of a nested table is in."""
    out = [0] * table.cells
    for at, cell in zip(side.of.tolist(), table.of.tolist(), strict=True):
        out[cell] = at
    return out
