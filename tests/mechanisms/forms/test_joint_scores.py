"""The joint choice draws what its weights say: sums against every sequence, draws against the exact law."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dprelease.core.entropy import SystemBits
from dprelease.mechanisms.forms import joint_scores
from dprelease.mechanisms.forms.joint_scores import (
    MARGIN,
    Heaps,
    JointExponential,
    SequenceLaw,
    work,
)
from dprelease.mechanisms.forms.scores import LONGEST
from tests.contracts.joint_rank_worlds import TARGETS, drawer, masses, positions

LAW = SequenceLaw.calibrate(8, spread=7, epsilon=2)
SHORT = replace(LAW, last=3)
"""Its weights are alike from three steps on."""


def heaps(ranks: list[int], runs: list[int], *targets: int) -> Heaps:
    return Heaps(np.array(ranks), np.array(runs), targets)


WORLDS = {
    "one target": heaps([0, 4, 9, 12], [3, 0, 2, 1], 5),
    "three targets": heaps([0, 1, 4, 9, 12], [1, 0, 2, 0, 1], 3, 5, 7),
    "all in one heap": heaps([0, 1, 11, 12], [1, 1, 0, 1], 3, 6, 9),
    "one value": heaps([0, 12], [2, 2], 3, 6, 9),
    "nothing but heaps": heaps([0, 5, 6, 12], [0, 0, 0, 0], 3, 6, 9),
    "targets at edges": heaps([0, 3, 6, 9, 12], [1, 1, 1, 1, 1], 3, 6, 9),
    "equal targets": heaps([0, 6], [2, 3], 6, 6, 6),
    "targets at both ends": heaps([0, 5, 6], [1, 2, 1], 0, 0, 6),
    "no rows": heaps([0], [5], 0, 0),
}
Outcome = tuple[tuple[int, int], ...]


def brute(found: Heaps, law: SequenceLaw) -> dict[Outcome, int]:
    """Return the weight of every sequence: each candidate by its place, its number and its two ranks."""
    ranks, runs = found.ranks.tolist(), found.runs.tolist()
    every = []
    for i, rank in enumerate(ranks):
        every += [(2 * i, one, rank, rank) for one in range(runs[i])]
        every += [(2 * i + 1, 0, rank, ranks[i + 1])] if i + 1 < len(ranks) else []
    out = {}
    for outcome in itertools.combinations_with_replacement(every, len(found.targets)):
        miss, mass = 0, 1
        for (_, _, low, high), target in zip(outcome, found.targets, strict=True):
            new = sorted((low - target, miss, high - target))[1]
            mass, miss = mass * int(law.weights(np.array([abs(new - miss)]))[0]), new
        mass *= int(law.weights(np.array([abs(miss)]))[0])
        out[tuple((place, one) for place, one, _, _ in outcome)] = mass
    return out


def chances(choice: JointExponential, monkeypatch: pytest.MonkeyPatch) -> dict[Outcome, Fraction]:
    """Return the chance of every outcome of `choice.draw`, exactly: every way through its choices is walked."""
    out: dict[Outcome, Fraction] = {}
    waiting: list[list[int]] = [[]]
    while waiting:
        script, asked = waiting.pop(), list[list[Fraction]]()

        def chosen(weights: list[int], _: object, script=script, asked=asked) -> int:  # type: ignore[no-untyped-def]
            total = sum(weights)
            asked.append([Fraction(int(w), int(total)) for w in weights])
            at = len(asked) - 1
            if at == len(script):
                script.append(next(i for i, p in enumerate(asked[at]) if p))
            return script[at]

        def in_order(candidates: int, many: int, bits: object, chosen=chosen) -> list[int]:  # type: ignore[no-untyped-def]
            ways = list(itertools.combinations_with_replacement(range(candidates), many))
            return list(ways[chosen([1] * len(ways), bits)])

        monkeypatch.setattr(joint_scores, "_chosen", chosen)
        monkeypatch.setattr(joint_scores, "_in_order", in_order)
        start = len(script)
        outcome = tuple(choice.draw(SystemBits()))
        chance = math.prod((p[i] for p, i in zip(asked, script, strict=True)), start=Fraction(1))
        assert outcome not in out  # one way to each
        out[outcome] = chance
        for at in range(start, len(script)):
            others = [i for i, p in enumerate(asked[at]) if p and i > script[at]]
            waiting += [[*script[:at], i] for i in others]
    return out


@pytest.mark.parametrize("law", [LAW, SHORT])
@pytest.mark.parametrize("name", WORLDS)
def test_the_sums_are_those_over_all_sequences(name: str, law: SequenceLaw) -> None:
    by_last = Counter[int]()
    for outcome, mass in brute(WORLDS[name], law).items():
        by_last[outcome[-1][0]] += mass
    choice = JointExponential(law, WORLDS[name])
    assert choice.total == by_last.total()
    assert {i: int(w) for i, w in enumerate(choice.by_last()) if w} == dict(by_last)


@pytest.mark.parametrize("law", [LAW, SHORT])
@pytest.mark.parametrize("name", WORLDS)
def test_every_sequence_is_drawn_with_exactly_its_chance(
    name: str, law: SequenceLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    masses = brute(WORLDS[name], law)
    total = sum(masses.values())
    found = chances(JointExponential(law, WORLDS[name]), monkeypatch)
    assert found == {y: Fraction(m, total) for y, m in masses.items()}


def test_random_heaps_are_drawn_with_exactly_their_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    pick = np.random.default_rng(5)
    for _ in range(40):
        values, many = int(pick.integers(1, 4)), int(pick.integers(1, 4))
        ranks = np.concatenate([[0], np.cumsum(pick.integers(1, 6, values))])
        targets = sorted(int(t) for t in pick.integers(0, int(ranks[-1]) + 1, many))
        world = Heaps(ranks, pick.integers(0, 3, values + 1), tuple(targets))
        masses = brute(world, SHORT)
        total = sum(masses.values())
        found = chances(JointExponential(SHORT, world), monkeypatch)
        assert found == {y: Fraction(m, total) for y, m in masses.items()}
        monkeypatch.undo()


@pytest.mark.parametrize(
    "name", ["three targets", "all in one heap", "targets at edges", "equal targets"]
)
def test_draws_follow_the_law_and_not_another(name: str) -> None:
    """With the system's bits, places in runs included."""
    law = brute(WORLDS[name], LAW)
    choice, bits, count = JointExponential(LAW, WORLDS[name]), SystemBits(), 2_000
    seen = Counter(tuple(choice.draw(bits)) for _ in range(count))
    assert set(seen) <= set(law)

    def unlikely(masses: dict[Outcome, int]) -> float:
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
    table = JointExponential(LAW, WORLDS["three targets"]).total
    monkeypatch.setattr(joint_scores, "_TABLE", 0)
    assert table == JointExponential(LAW, WORLDS["three targets"]).total


@pytest.mark.parametrize("targets", TARGETS)
def test_runs_and_heaps_give_the_law_of_all_candidates(
    targets: tuple[tuple[int, int, int], ...],
) -> None:
    draw = drawer(targets, Fraction(1))
    for rows in [(), (1,), (0, 0, 2), (0, 1, 1, 1, 2)]:
        held = positions(rows, targets)
        choice = JointExponential(draw.law, draw.heaps(held))
        by_last = Counter[int]()
        for outcome, mass in masses(draw, rows, targets).items():
            by_last[outcome[-1]] += mass
        assert choice.total == by_last.total()
        first = draw.first(held)
        for place, mass in enumerate(choice.by_last()):
            run = 1 if place % 2 else int(draw.heaps(held).runs[place // 2])
            points = range(int(first[place]), int(first[place]) + run)
            assert sum(by_last[p] for p in points) == mass


@pytest.mark.parametrize("many", [1, 4, 9, 19])
@pytest.mark.parametrize("epsilon", ["1/100", "1", "10", "50"])
def test_weights_tell_one_sequence_from_all_others(many: int, epsilon: str) -> None:
    """They fall by the number of all sequences and `MARGIN` nats, wherever the table is not at its end."""
    candidates = math.comb(121 + many - 1, many)
    law = SequenceLaw.calibrate(candidates, spread=4 * (many + 1), epsilon=epsilon, joint=True)
    assert law.reach >= math.log(candidates) + MARGIN
    assert law.last < LONGEST - 1


def test_work_grows_with_the_square_of_the_values() -> None:
    assert work(121, 9) == 192_163
    assert work(242, 9) == pytest.approx(4 * work(121, 9), rel=1e-4)
