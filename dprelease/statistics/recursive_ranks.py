"""Several quantiles of one column, each chosen between those chosen before it.

The middle target is chosen first, then one on either side of it among the rows there, and so on
(`mechanisms.forms.recursive_scores`). A row's mass of 1 is split over the choices of a level, so a level costs what one choice
does, and there are ceil(log2(m + 1)) levels for m targets.

Spread of a level. A choice with a share f of the way between the targets around it moves by at most M p either way
if one added row has mass p between what was chosen around it, M = max(f, 1 - f). So a choice has as many score
steps to a row as make v = steps * M the same for all of a level, but for rounding: spread 2 v p, over the level at
most 2 max v. A replaced row has two masses: 2 steps if they are in one choice, else at most 2 (v + v') for the two largest.
Scores are whole and rounded down: one step more, up and down, for each choice.

Units: scores in steps, `UNITS` or more to a row. Spreads add up over rows and groups as L1 sensitivities do.
Sources: `docs/theory/quantiles.md#one-inside-the-other`; Kaplan, Schnapp & Stemmer (ICML 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from dprelease.core.choice_tree import Node, halves
from dprelease.statistics.measurement import Measurement

UNITS = 2**14
"""Score steps to a row in the choice of a level that moves by most."""


def level_spreads(weights: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Return the spreads of one added row and of one replaced row, level by level; ValueError for other targets."""
    fits = bool(weights) and all(len(w) == 3 for w in weights)
    b = weights[0][1] if fits else 0
    if not fits or b < 1 or any(w[1] != b or w[2] != 0 for w in weights):
        raise ValueError("targets are not shares of one whole")
    nodes = halves([w[0] for w in weights], b)
    out = []
    for _, found in groupby(zip(nodes, steps(nodes), strict=True), key=lambda one: one[0].level):
        level = [(unit, larger(node)) for node, unit in found]
        changes = sorted((each * part for each, part in level), reverse=True)
        apart = sum(changes[:2], Fraction(0)) if len(level) > 1 else Fraction(0)
        swapped = max([apart, *(Fraction(each) for each, _ in level)])
        row = math.ceil(2 * changes[0]) + 2 * len(level)
        out.append((row, math.ceil(2 * swapped) + 2 * len(level)))
    return tuple(out)


def larger(node: Node) -> Fraction:
    """Return M, the larger of both shares that a choice parts its rows in."""
    return max(node.part, 1 - node.part)


def steps(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Return the score steps of each choice to a row."""
    most: dict[int, Fraction] = {}
    for node in nodes:
        most[node.level] = max(most.get(node.level, Fraction(0)), larger(node))
    return tuple(math.floor(UNITS * most[n.level] / larger(n)) for n in nodes)


def recursive_spreads(weights: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the spreads of one added row and of one replaced row over all levels; ValueError as `level_spreads`."""
    levels = level_spreads(weights)
    return sum(row for row, _ in levels), sum(swap for _, swap in levels)


def recursive_ranks(
    first: Measurement, cells: Sequence[str], targets: Sequence[Fraction]
) -> Measurement:
    """Return the measurement that chooses the values at rising `targets`, between 0 and 1, one inside the other.

    Args:
        first: a measurement of one of them, on the grid of all.
    """
    b = math.lcm(*(t.denominator for t in targets))
    weights = tuple((int(t * b), b, 0) for t in targets)
    l1_added_row, l1_replaced_row = recursive_spreads(weights)
    return replace(
        first,
        family="recursive_ranks",
        key=("recursive_ranks", first.key[1], ",".join(map(str, targets))),
        cells=tuple(cells),
        weights=weights,
        l1_added_row=l1_added_row,
        l1_replaced_row=l1_replaced_row,
        form="recursive_ranks",
    )
