"""Margins that cross the nested tables: multipliers and unit moves that bring them to their estimates.

Cells are shared under their parents with a multiplier per margin cell beside the parents' own; the
margins' multipliers are found by turns, each margin's sums set to the nearest integers of its own
estimates, then the parents'. What is left is moved unit by unit: from a cell to another one under
the same parent, so the nested tables stay as they are and every point on the way is valid. Units go
from the margin cell most above its estimate to the one most below, where that is cheapest, as long
as the whole objective falls:

    S w (R v - t)^2 over cells + W S (R s - t)^2 over margin cells.

Moves keep the margins that came before. How far the end is from the optimum is bounded by the
multipliers.

Units    targets in 1/R step, values in steps.
Sources  `docs/theory/publications-that-add-up.md#crossing-margins`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import Estimates, alike
from dprelease.fitting.sets import Runs, holds
from dprelease.fitting.shares import FINE, Shares, in_fine, laid_out, multipliers_of, shared
from dprelease.fitting.structure import IntArray, Structure, Table, coarser, factor, sums_of, within

HEAVY = 64
"""How much more than by its variance a margin weighs beside the cells: margins come first."""

_ROUNDS = 1_000
_AROUND = 8
"""Margin cells that units are moved from, and to, at a time."""
_MOST = 2**58
_TURNS, _FEW_TURNS, _MANY = 12, 4, 20_000


@dataclass(frozen=True)
class Margin:
    """A margin of one nested table.

    Attributes:
        of: which margin cell each cell of the nested table is in.
        targets: estimates of the margin cells.
        within: which group each margin cell is in: the finest cells that the margin shares with the
            nested table above, whose sums are fixed.
        above: which group each cell of the nested table above is in.
    """

    name: str
    of: IntArray
    targets: list[int]
    weight: int
    within: IntArray
    above: IntArray


def _above(structure: Structure, step: int) -> list[Table]:
    """Return the margins that the nested table at `step` is the first to refine."""
    out = []
    for place in structure.sides:
        side = structure.tables[place]
        firsts = [
            k
            for k, j in enumerate(structure.chain)
            if within(side.level, structure.tables[j].level)
        ]
        if firsts[0] == step:
            out.append(side)
    return out


def sides_of(
    structure: Structure,
    step: int,
    estimates: Estimates,
    variances: Mapping[str, npt.NDArray[np.float64]],
) -> list[Margin]:
    """Return the margins to be met by the nested table at `step`, coarse first."""
    table, parent = (structure.tables[structure.chain[k]] for k in (step, step - 1))
    own = variances[table.name]
    least = float(own[own > 0].min()) if (own > 0).any() else 1.0
    out = []
    for side in _above(structure, step):
        typical = float(np.max(variances[side.name]))
        weight = max(1, round(2**10 * least / typical)) * HEAVY if typical > 0 else 2**16
        aim = in_fine(estimates.values[side.name])
        shared_levels = tuple(map(min, side.level, parent.level))
        common = coarser(structure.axes, structure.finest.level, shared_levels)
        groups = factor(common, side.of), factor(common, parent.of)
        out.append(Margin(side.name, factor(side.of, table.of), aim, weight, *groups))
    return out


def pulled(
    aim: Sequence[int],
    weights: Sequence[int],
    sets: Sequence[Runs],
    parent: IntArray,
    totals: Sequence[int],
    sides: Sequence[Margin],
) -> tuple[Shares, dict[str, Any]]:
    """Return the shares of all parents, near to the margins, and the margins' multipliers."""
    if not sides:
        return shared(aim, weights, sets, parent, totals), {}
    pulls = _by_turns(aim, weights, sets, parent, totals, sides)
    offsets = _offsets(pulls, sides)
    made = shared(aim, weights, sets, parent, totals, offsets)
    values = list(made.values)
    before: list[IntArray] = [parent]
    for side in sides:
        _Pull(values, aim, weights, sets, side, _joint(before)).run()
        before.append(side.of)
    return (
        Shares(values, made.multipliers, made.mended),
        {side.name: pull.tolist() for side, pull in zip(sides, pulls, strict=True)},
    )


def _offsets(pulls: Sequence[IntArray], sides: Sequence[Margin]) -> IntArray:
    out = np.zeros(sides[0].of.size, dtype=np.int64)
    for side, pull in zip(sides, pulls, strict=True):
        out += pull[side.of]
    return out


def _by_turns(
    aim: Sequence[int],
    weights: Sequence[int],
    sets: Sequence[Runs],
    parent: IntArray,
    totals: Sequence[int],
    sides: Sequence[Margin],
) -> list[IntArray]:
    """Return multipliers of the margins, found by turns with those of the parents."""
    whole = [_whole(side, sets, totals) for side in sides]
    groupings = [(parent, list(totals)), *zip([side.of for side in sides], whole, strict=True)]
    laid = [laid_out(aim, weights, sets, of, sums) for of, sums in groupings]
    found = [np.zeros(wanted.size, dtype=np.int64) for _, _, wanted in laid]
    for _ in range(_TURNS if len(aim) <= _MANY else _FEW_TURNS):
        before = [one.copy() for one in found]
        for k in (*range(1, len(laid)), 0):
            order, children, wanted = laid[k]
            others = [found[j][groupings[j][0]] for j in range(len(laid)) if j != k]
            offsets = np.clip(np.sum(others, axis=0), -_MOST, _MOST)
            children.offsets = offsets[order]
            made = multipliers_of(children, wanted, found[k])
            found[k] = np.clip(made, -_MOST, _MOST)
        if all(np.array_equal(a, b) for a, b in zip(before, found, strict=True)):
            break
    return [
        pull - _centres(pull, side.within)[side.within]
        for pull, side in zip(found[1:], sides, strict=True)
    ]


def _centres(pull: IntArray, within: IntArray) -> IntArray:
    """Return the mean multiplier of every group: a constant there is the parents' business."""
    sums = np.zeros(int(within.max()) + 1, dtype=np.int64)
    np.add.at(sums, within, pull)
    return np.asarray(sums // np.bincount(within))


def _whole(side: Margin, sets: Sequence[Runs], totals: Sequence[int]) -> list[int]:
    """Return the integers nearest to a margin's estimates that add up to what is fixed."""
    fixed = sums_of(totals, side.above, int(side.within.max()) + 1)
    low = sums_of([runs[0][0] for runs in sets], side.of, len(side.targets))
    high = sums_of([runs[-1][1] for runs in sets], side.of, len(side.targets))
    hulls: list[Runs] = [((a, b),) for a, b in zip(low, high, strict=True)]
    return shared(side.targets, [1] * len(hulls), hulls, side.within, fixed).values


def _joint(maps: Sequence[IntArray]) -> IntArray:
    """Return one key for cells that agree in all maps."""
    key = np.zeros(maps[0].size, dtype=np.int64)
    for one in maps:
        key = alike(key * (int(one.max()) + 1) + one)
    return key


class _Pull:
    """Moves units between the cells of one margin."""

    def __init__(
        self,
        values: list[int],
        aim: Sequence[int],
        weights: Sequence[int],
        sets: Sequence[Runs],
        side: Margin,
        key: IntArray,
    ) -> None:
        self.values, self.aim, self.weights, self.sets = values, aim, weights, sets
        self.side, self.key = side, key.tolist()
        self.members: list[list[int]] = [[] for _ in side.targets]
        for cell, at in enumerate(side.of.tolist()):
            self.members[at].append(cell)
        sums = sums_of(values, side.of, len(side.targets))
        self.over = [FINE * s - t for s, t in zip(sums, side.targets, strict=True)]

    def run(self) -> None:
        """Move from the most surplus to the most wanting until nothing is gained."""
        done: set[tuple[int, int]] = set()
        for _ in range(_ROUNDS):
            ranked = sorted(range(len(self.over)), key=lambda b: (self.over[b], b))
            ends = itertools.product(ranked[: -_AROUND - 1 : -1], ranked[:_AROUND])
            pair = next((p for p in ends if p not in done and self._worth(*p)), None)
            if pair is None:
                return
            if self._improve(*pair):
                done.clear()
            else:
                done.add(pair)

    def _worth(self, high: int, low: int) -> bool:
        return self.over[high] - self.over[low] > FINE

    def _gain(self, high: int, low: int) -> int:
        """Return by how much the margin's part falls with one more unit moved."""
        a, b = self.over[high], self.over[low]
        fall = a * a - (a - FINE) ** 2 + b * b - (b + FINE) ** 2
        return self.side.weight * fall

    def _improve(self, high: int, low: int) -> bool:
        """Move one unit per key, cheapest first, as long as the objective falls."""
        out, into = self._best(high, -1), self._best(low, 1)
        both = sorted((out[k][0] + into[k][0], out[k][1], into[k][1]) for k in out.keys() & into)
        improved = False
        for cost, giver, taker in both:
            if not self._worth(high, low) or cost >= self._gain(high, low):
                break
            self.values[giver] -= 1
            self.values[taker] += 1
            self.over[high] -= FINE
            self.over[low] += FINE
            improved = True
        return improved

    def _best(self, at: int, move: int) -> dict[int, tuple[int, int]]:
        """Return the cheapest cell per key that can make the move, with its cost."""
        best: dict[int, tuple[int, int]] = {}
        for cell in self.members[at]:
            value = self.values[cell] + move
            if holds(self.sets[cell], value):
                here = FINE * self.values[cell] - self.aim[cell]
                cost = self.weights[cell] * ((here + FINE * move) ** 2 - here * here)
                key = self.key[cell]
                if key not in best or (cost, cell) < best[key]:
                    best[key] = cost, cell
        return best
