"""Which of several targets is chosen first, and between which others each is chosen: a tree of least depth.

Used where values are chosen one inside the other: `mechanisms.forms.recursive_scores` draws them,
`statistics.recursive_ranks` counts how far a row moves their scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

END = -1
"""In place of a target: an end of the whole."""


@dataclass(frozen=True, slots=True)
class Node:
    """One choice.

    Attributes:
        target: its place among all; low, high: the places of the targets around it, -1 for an end;
        part: f, its share of the way from `low` to `high`; level: 0 for the first choice.
    """

    target: int
    low: int
    high: int
    part: Fraction
    level: int


def depth(many: int) -> int:
    """Return the levels of `many` targets: ceil(log2(many + 1))."""
    return many.bit_length()


def halves(targets: Sequence[int], whole: int) -> tuple[Node, ...]:
    """Return the nodes of rising targets, those above first; of all trees of least depth one of even parts.

    Raises:
        ValueError: targets do not rise between 0 and `whole`.
    """
    ends = [0, *targets, whole]
    if any(later <= sooner for sooner, later in pairwise(ends)):
        raise ValueError("targets do not rise between 0 and the whole")
    found = _nodes(tuple(targets), whole, (END, len(targets)), 0, depth(len(targets)))
    return tuple(sorted(found, key=lambda node: (node.level, node.target)))


def _nodes(
    targets: tuple[int, ...], whole: int, around: tuple[int, int], level: int, levels: int
) -> Iterator[Node]:
    """Yield the nodes of the targets between two, with so many levels left."""
    low, high = around
    if high - low < 2:
        return
    at_low = 0 if low == END else targets[low]
    at_high = whole if high == len(targets) else targets[high]
    most = 2 ** (levels - 1)  # targets of one side, and one
    able = range(max(low + 1, high - most), min(high - 1, low + most) + 1)
    middle = min(able, key=lambda i: abs(2 * targets[i] - at_low - at_high))
    part = Fraction(targets[middle] - at_low, at_high - at_low)
    yield Node(middle, low, END if high == len(targets) else high, part, level)
    yield from _nodes(targets, whole, (low, middle), level + 1, levels - 1)
    yield from _nodes(targets, whole, (middle, high), level + 1, levels - 1)
