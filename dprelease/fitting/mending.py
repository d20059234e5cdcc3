"""Make children add up to their parent where the sets of their allowed values have gaps.

The children's values near their targets, in weighted squares, must have a given sum. A Lagrange multiplier of that
condition gives each child its best value, but with gaps these may miss the sum. Each move d away from the best value
costs its reduced cost, at least 0; the cheapest moves that make up what is missing are to be found. The sum of
reduced costs is the distance from the Lagrangian bound, so an answer that costs 0 is optimal, and
any answer carries its own certificate. Moves are sought by dynamic programming over the children
that can make some move cheaply; if these cannot add up, by going through the children once, each
staying where the sums of the rest allow the remainder: that always ends, because the total is a sum
of the children's sets.

Units    targets and multipliers in 1/R step (R is `_FINE`), values in steps.
Sources  `docs/theory/publications-that-add-up.md#parents-first`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from dprelease.fitting.sets import Runs, added, holds, met, nearest_in

_FINE = 2**16
_MOST_WINDOW = 512
_CANDIDATES = 2
"""Children kept per size of move."""


class Child(NamedTuple):
    """One child: its allowed values, its target in 1/R step, its weight, its best value at the multiplier."""

    allowed: Runs
    target: int
    weight: int
    value: int
    multiplier: int

    def cost(self, move: int) -> int:
        """Return the reduced cost of a move: how much dearer it is than staying."""
        there = _FINE * (self.value + move) - self.target
        here = _FINE * self.value - self.target
        return self.weight * (there * there - here * here) - 2 * self.multiplier * _FINE * move


def mended(children: Sequence[Child], total: int) -> list[int]:
    """Return allowed values of the children that add up to `total`, which some do."""
    left = total - sum(child.value for child in children)
    window = abs(left) + max((_gap(child) for child in children), default=0)
    for tried in (window, 2 * window):
        if tried <= _MOST_WINDOW:
            moves = _cheapest(children, left, tried)
            if moves is not None:
                return [child.value + move for child, move in zip(children, moves, strict=True)]
    return _in_turn(children, total)


def _gap(child: Child) -> int:
    """Return how wide a gap next to a child's best value is, the wider of two; 1 where there is none."""
    place = bisect_right(child.allowed, child.value, key=lambda run: run[0]) - 1
    first, last = child.allowed[max(place, 0)]
    widths = [1]
    if place > 0 and child.value == first:
        widths.append(first - child.allowed[place - 1][1])
    if place + 1 < len(child.allowed) and child.value == last:
        widths.append(child.allowed[place + 1][0] - last)
    return max(widths)


def _cheapest(children: Sequence[Child], left: int, window: int) -> list[int] | None:
    """Return the cheapest moves that add up to `left`, by dynamic programming; None if none do."""
    offers: dict[int, list[tuple[int, int]]] = {}
    for place, child in enumerate(children):
        for move in range(-window, window + 1):
            if move and holds(child.allowed, child.value + move):
                offers.setdefault(move, []).append((child.cost(move), place))
    options: dict[int, list[tuple[int, int]]] = {}
    for move, some in offers.items():
        for cost, place in sorted(some)[:_CANDIDATES]:
            options.setdefault(place, []).append((move, cost))
    best: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {0: (0, ())}
    for place in sorted(options):
        found = dict(best)
        for reached, (cost, path) in best.items():
            for move, more in options[place]:
                there = reached + move
                old = found.get(there)
                if abs(there) <= 2 * window and (old is None or cost + more < old[0]):
                    found[there] = cost + more, (*path, (place, move))
        best = found
    if left not in best:
        return None
    moves = [0] * len(children)
    for place, move in best[left][1]:
        moves[place] = move
    return moves


def _in_turn(children: Sequence[Child], total: int) -> list[int]:
    """Return such values by going through the children once: each near its best, the rest within reach of the later ones."""
    rest: list[Runs] = [((0, 0),)]
    for child in reversed(children):
        rest.append(added(child.allowed, rest[-1]))
    rest.pop()
    values = []
    for child, after in zip(children, reversed(rest), strict=True):
        possible = tuple((total - high, total - low) for low, high in reversed(after))
        value = nearest_in(met(child.allowed, possible), child.value)
        values.append(value)
        total -= value
    return values
