"""Trees of choices: those written by hand, of least depth, whole, and in an order that can be drawn in."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.core.choice_tree import depth, halves
from tests.contracts.recursive_rank_worlds import WORLDS


@pytest.mark.parametrize("name", WORLDS)
def test_the_choices_are_those_of_the_trees_written_by_hand(name: str) -> None:
    targets, tree = WORLDS[name]
    found = halves([a for a, _, _ in targets], targets[0][1])
    assert [
        (n.target, None if n.low < 0 else n.low, None if n.high < 0 else n.high, n.level)
        for n in found
    ] == list(tree)


@pytest.mark.parametrize("many", [1, 2, 3, 4, 6, 7, 8, 20, 63, 64, 99])
def test_no_tree_is_deeper_than_it_must_be_and_none_is_left_out(many: int) -> None:
    rng = np.random.default_rng(many)
    for targets in (range(1, many + 1), np.sort(rng.choice(9_998, many, replace=False) + 1)):
        nodes = halves([int(t) for t in targets], 10_000)
        assert sorted(n.target for n in nodes) == list(range(many))
        assert max(n.level for n in nodes) + 1 == depth(many) == len(f"{many:b}")
        made: set[int] = set()
        for node in nodes:  # those around a choice are chosen before it, and nothing between them
            around = {node.low, node.high} - {-1}
            assert around <= made
            assert node.low < node.target
            assert node.target < node.high or node.high == -1
            top = many if node.high == -1 else node.high
            assert not any(node.low < other < top for other in made)
            made.add(node.target)


@pytest.mark.parametrize("targets", [[1, 1], [2, 1], [0, 1], [1, 4], [-1], [5]])
def test_targets_that_do_not_rise_are_refused(targets: list[int]) -> None:
    with pytest.raises(ValueError, match="rise"):
        halves(targets, 4)
