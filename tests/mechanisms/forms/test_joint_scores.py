"""The joint choice draws what its weights say: sums against every sequence, draws against the exact law."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dprelease.entropy import SystemBits
from dprelease.mechanisms.forms import joint_scores
from dprelease.mechanisms.forms.joint_scores import Blocks, JointExponential, work
from dprelease.mechanisms.forms.scores import ScoreLaw
from tests.contracts.joint_rank_worlds import TARGETS, drawer, masses, positions

LAW = ScoreLaw.calibrate(8, spread=7, epsilon=2)
WORLDS = {
    "one target": Blocks(np.array([3, 1, 2]), np.array([0, 4, 9]), (5,), 12),
    "equal ranks": Blocks(np.array([1, 2, 1]), np.array([4, 4, 4]), (3, 7), 12),
    "three targets": Blocks(np.array([3, 1, 1, 2, 1]), np.array([0, 0, 4, 4, 9]), (3, 5, 7), 12),
    "equal targets": Blocks(np.array([2, 3]), np.array([0, 6]), (6, 6, 6), 6),
    "no rows": Blocks(np.array([5]), np.array([0]), (0, 0), 0),
}


def brute(blocks: Blocks) -> dict[tuple[tuple[int, int], ...], int]:
    every = [(b, i) for b, many in enumerate(blocks.counts.tolist()) for i in range(many)]
    out = {}
    for found in itertools.combinations_with_replacement(every, len(blocks.targets)):
        ranks = [0, *(int(blocks.ranks[b]) for b, _ in found), blocks.whole]
        apart = [
            abs(b - a - t)
            for (a, b), t in zip(itertools.pairwise(ranks), blocks.steps, strict=True)
        ]
        out[found] = math.prod(int(w) for w in LAW.weights(np.array(apart)))
    return out


@pytest.mark.parametrize("name", WORLDS)
def test_the_sums_are_those_over_all_sequences(name: str) -> None:
    blocks = WORLDS[name]
    by_last = Counter[int]()
    for outcome, mass in brute(blocks).items():
        by_last[outcome[-1][0]] += mass
    made = JointExponential(LAW, blocks).last
    assert [int(v) for v in made] == [by_last[b] for b in range(blocks.counts.size)]


@pytest.mark.parametrize("name", WORLDS)
def test_draws_follow_the_law_and_not_another(name: str) -> None:
    law = brute(WORLDS[name])
    choice, bits, count = JointExponential(LAW, WORLDS[name]), SystemBits(), 3_000
    seen = Counter(tuple(choice.draw(bits)) for _ in range(count))
    assert set(seen) <= set(law)

    def unlikely(masses: dict[tuple[tuple[int, int], ...], int]) -> float:
        total = sum(masses.values())
        expected = {y: count * m / total for y, m in masses.items()}
        few = {y for y, e in expected.items() if e < 5}
        parts = [(seen[y], e) for y, e in expected.items() if y not in few]
        parts += [(sum(seen[y] for y in few), sum(expected[y] for y in few))] if few else []
        return float(chi2.sf(sum((s - e) ** 2 / e for s, e in parts), max(1, len(parts) - 1)))

    assert unlikely(law) > 1e-6
    tilted = {y: m * (4 if y[0][1] == 0 else 1) for y, m in law.items()}
    if len({y[0][1] for y in law}) > 1:
        assert unlikely(tilted) < 1e-6


def test_a_law_without_a_table_of_weights_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = WORLDS["three targets"]
    table = JointExponential(LAW, blocks).last
    monkeypatch.setattr(joint_scores, "_TABLE", 0)
    assert np.array_equal(table, JointExponential(LAW, blocks).last)


@pytest.mark.parametrize("targets", TARGETS)
def test_blocks_of_equal_rank_give_the_law_of_all_candidates(
    targets: tuple[tuple[int, int, int], ...],
) -> None:
    draw = drawer(targets, Fraction(1))
    for rows in [(), (1,), (0, 0, 2), (0, 1, 1, 1, 2)]:
        blocks, first = draw.blocks(positions(rows, targets))
        total = int(JointExponential(draw.law, blocks).last.sum())
        assert total == sum(masses(draw, rows, targets).values())
        assert first.size == blocks.counts.size


def test_work_grows_with_the_square_of_the_blocks() -> None:
    assert work(10, 2) == 2 * (50 + 20)
