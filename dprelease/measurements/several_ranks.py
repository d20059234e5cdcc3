"""What follows of the targets alone, for several values chosen one inside the other or together: public numbers.

Units: score steps; errors in rows. Source: `docs/theory/quantiles.md#one-inside-the-other`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.core.choice_tree import Node, halves
from dprelease.statistics.recursive_ranks import UNITS, level_spreads, steps


@dataclass(frozen=True, slots=True)
class RankShape:
    """What follows of the targets alone.

    Attributes:
        nodes, units: the choices, those above first, and the score steps of each to a row;
        most: the most that a target is missed by if every choice misses its aim by at most 1;
        squares: the variance of each target's error if a choice of UNITS to a row errs with variance 1.
    """

    nodes: tuple[Node, ...]
    units: tuple[int, ...]
    most: Fraction
    squares: tuple[float, ...]


@lru_cache(maxsize=16)
def shape_of(targets: tuple[int, ...], b: int) -> RankShape:
    """Return what follows of rising targets over `b`; ValueError for others."""
    nodes = halves(targets, b)
    units = steps(nodes)
    mixed: list[dict[int, Fraction]] = [{} for _ in nodes]
    for node in nodes:
        own = {node.target: Fraction(1)}
        for place, share in ((node.low, 1 - node.part), (node.high, node.part)):
            for other, part in mixed[place].items() if place >= 0 else ():
                own[other] = own.get(other, Fraction(0)) + share * part
        mixed[node.target] = own
    each = {n.target: (UNITS / u) ** 2 for n, u in zip(nodes, units, strict=True)}
    return RankShape(
        nodes,
        units,
        max(sum(parts.values(), Fraction(0)) for parts in mixed),
        tuple(sum(float(p) ** 2 * each[i] for i, p in parts.items()) for parts in mixed),
    )


def part_of_rho(weights: Sequence[Sequence[int]]) -> Fraction:
    """Return what share of one choice's rho all levels have together, whether rows are added or replaced."""
    both = zip(*level_spreads(weights), strict=True)
    return max(Fraction(sum(s * s for s in spread), sum(spread) ** 2) for spread in both)


def bridge(i: int, many: int) -> float:
    """Return the variance of the i-th of `many` sums of gaps' errors that end at zero, of two-sided exponential ones of rate 1.

    Nearly: it is 0.5 for one sum of two, 0.83 for two of three.
    """
    return 2 * (i + 1) * (many - i) / (many + 1) - 0.5
