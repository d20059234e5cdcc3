"""Choices one inside the other draw what their weights say: runs against every copy, draws against the exact law."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dprelease.core.choice_tree import Node, halves
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.measurements.recursive_ranks import COPIES as MANY
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.mechanisms.forms import recursive_scores
from dprelease.mechanisms.forms.recursive_scores import Copies, _Choice
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.schema.domain import GridSet
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.recursive_ranks import steps
from tests.contracts.recursive_rank_worlds import COPIES, WORLDS, Law, Table, drawer, positions
from tests.sizes import some

Outcome = tuple[int, ...]


TABLES = [(), (1,), (0, 0, 2), (0, 1, 1, 1, 2), (2,) * 9, (0,) * 7 + (1,) * 2 + (2,) * 30]


SPOTS = some(range(0, 3 * COPIES, 5), 2)


@pytest.mark.parametrize("wide", [70, 10**6])
@pytest.mark.parametrize(
    ("name", "last"), some(itertools.product(WORLDS, [None, 40_000, 100, 0]), 3)
)
def test_segments_hold_every_copy_at_a_score_that_none_is_below(
    name: str, last: int | None, wide: int
) -> None:
    """Then what is kept of their draws weighs what every copy weighs; those that are `last` away weigh alike."""
    targets, tree = WORLDS[name]
    draw = drawer(targets, Fraction(3), 3)
    law = draw.law if last is None else replace(draw.law, last=last)
    nodes = halves([a for a, _, _ in targets], targets[0][1])
    for rows in TABLES:
        copies = draw.candidates_of(positions(rows, targets))
        table = Table(rows, 3, targets, tree)
        for node, unit, spot in zip(nodes, steps(nodes), tree, strict=True):
            ends = [[None] if end is None else SPOTS for end in spot[1:3]]
            for lo, hi in itertools.product(*ends):
                if lo is None or hi is None or lo <= hi:
                    choice = chosen_from(copies, node, unit, (lo, hi))
                    between = table.between(lo, hi)
                    every = np.array(between)
                    scores = [table.score(spot, lo, hi, y) for y in between]
                    assert choice.scores(every, every).tolist() == scores
                    first, after = choice.segments(law.last, wide)
                    assert [y for a, b in zip(first, after, strict=True) for y in range(a, b)] == [
                        *between
                    ]
                    least = choice.scores(first, after - 1)
                    for low, a, b in zip(
                        least, first - between.start, after - between.start, strict=True
                    ):
                        inside = scores[a:b]
                        assert low <= min(inside)


def test_few_draws_are_repeated_however_many_rows_share_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heaps of a million rows, of two rows, and none: segments stay few, and most of their draws are kept."""
    asked: list[int] = []
    plain = recursive_scores.uniform_below

    def counted(bound: int, count: int, bits: RandomBits) -> object:
        asked.append(bound)
        return plain(bound, count, bits)

    monkeypatch.setattr(recursive_scores, "uniform_below", counted)
    targets = WORLDS["quartiles"][0]
    held = [[10**6, 400_000, 10**6], [2] * 500, [1, 10**6] * 100, [10**6]]
    for epsilon in ("1/10", "1", "10"):
        draw = RecursiveRanksLaw.calibrate(
            GridSet(((0, 999),)), Fraction(1), targets, spread=2 * 2**15, epsilon=Fraction(epsilon)
        )
        for counts in held:
            upto = np.cumsum(counts)
            rows = Positions(
                np.arange(len(counts)), upto - counts, upto, int(upto[-1]), (1, 2, 3), 4
            )
            exact = np.empty((20, 1), dtype=object)
            exact[:, 0] = [rows] * 20
            asked.clear()
            draw.draw(exact, SystemBits())
            assert len(asked) <= 4 * 3 * 20
            nodes, units = draw.shape.nodes, draw.shape.units
            whole = 0, 2 * draw.copies * rows.total
            root = _Choice(
                draw.candidates_of(rows),
                nodes[0].part,
                (0, 1000 * draw.copies - 1),
                whole,
                units[0],
            )
            assert root.segments(draw.law.last, max(1, int(0.7 / draw.law.rate)))[0].size < 2_000


@pytest.mark.parametrize("last", [None, 40_000])
def test_every_copy_is_kept_by_exactly_its_weight(
    last: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the numbers below the weight of all segments as many give a copy as it weighs, and no more."""
    targets, tree = WORLDS["low"]
    draw = drawer(targets, Fraction(3), 3)
    law = draw.law if last is None else replace(draw.law, last=last)
    node, unit = draw.shape.nodes[0], draw.shape.units[0]
    goals: list[int] = []
    monkeypatch.setattr(
        recursive_scores, "uniform_below", lambda *_: np.array([goals.pop(0)], dtype=object)
    )
    smaller = 0
    for rows in TABLES:
        choice = chosen_from(draw.candidates_of(positions(rows, targets)), node, unit, (None, None))
        table = Table(rows, 3, targets, tree)
        own = {
            y: int(w)
            for y in range(3 * COPIES)
            for w in law.weights(np.array([table.score(tree[0], None, None, y)]))
        }
        first, after = choice.segments(law.last, max(1, int(0.7 / law.rate)))
        start, places = 0, {}
        for a, b in zip(first.tolist(), after.tolist(), strict=True):
            each = int(law.weights(choice.scores(np.array([a]), np.array([b - 1])))[0])
            places |= {y: (start + (y - a) * each, each) for y in range(a, b)}
            start += (b - a) * each
        best = max(own, key=own.__getitem__)
        for y, (goal, each) in places.items():
            goals[:] = [goal + own[y] - 1]
            assert choice.draw(law, SystemBits()) == y
            if own[y] < each:
                smaller += 1
                goals[:] = [goal + own[y], places[best][0]]
                assert choice.draw(law, SystemBits()) == best
    assert smaller > 10


def chosen_from(
    copies: Copies, node: Node, unit: int, ends: tuple[int | None, int | None]
) -> _Choice:
    lo, hi = ends
    spots = (0 if lo is None else lo, 3 * COPIES - 1 if hi is None else hi)
    ranks = (
        0 if lo is None else copies.rank(lo),
        2 * COPIES * copies.total if hi is None else copies.rank(hi),
    )
    return _Choice(copies, node.part, spots, ranks, unit)


@pytest.mark.parametrize("name", some(["low", "two", "quartiles"], 2))
def test_draws_follow_the_law_and_not_another(name: str) -> None:
    targets, tree = WORLDS[name]
    draw, rows, bits = drawer(targets, Fraction(6), 3), (0, 1, 1, 1, 2), SystemBits()
    count = 2_500 if name == "low" else 1_000  # another law passes for it with a chance below 1e-6
    nodes = halves([a for a, _, _ in targets], targets[0][1])
    copies = draw.candidates_of(positions(rows, targets))
    seen = Counter(
        tuple(y // COPIES for y in copies.draw(draw.law, nodes, steps(nodes), bits))
        for _ in range(count)
    )
    order = [node[0] for node in tree]
    law: dict[Outcome, Fraction] = {}
    for chosen, chance in Law(draw, Table(rows, 3, targets, tree)).outcomes(tree).items():
        key = tuple(y // COPIES for _, y in sorted(zip(order, chosen, strict=True)))
        law[key] = law.get(key, Fraction(0)) + chance
    assert set(seen) <= set(law)
    assert all(list(y) == sorted(y) for y in law)

    def unlikely(masses: dict[Outcome, Fraction]) -> float:
        total = sum(masses.values())
        expected = {y: float(count * m / total) for y, m in masses.items()}
        few = {y for y, e in expected.items() if e < 5}
        parts = [(seen[y], e) for y, e in expected.items() if y not in few]
        parts += [(sum(seen[y] for y in few), sum(expected[y] for y in few))] if few else []
        return float(chi2.sf(sum((s - e) ** 2 / e for s, e in parts), max(1, len(parts) - 1)))

    assert unlikely(law) > 1e-6
    assert unlikely({y: m * (2 if y[0] == 0 else 1) for y, m in law.items()}) < 1e-6


def test_equal_rows_and_no_rows_are_drawn_from() -> None:
    targets = WORLDS["quartiles"][0]
    draw, bits = drawer(targets, Fraction(1), 3), SystemBits()
    exact = np.empty((2, 1), dtype=object)
    exact[:, 0] = [positions((1,) * 2_000, targets), positions((), targets)]
    raw = draw.draw(exact, bits)
    assert raw.shape == (2, 3)
    assert raw[0].tolist() == [1, 1, 1]
    assert draw.drawable(raw).all()


def test_many_rows_on_a_fine_grid_keep_their_integers() -> None:
    """2**47 rows and 2**40 points: no product passes 63 bits, and the quartiles are met."""
    n, nodes = 2**47, halves([1, 2, 3], 4)
    places = np.array([2**20, 2**39, 2**39 + 7], dtype=np.int64)
    upto = np.array([n // 4 + 500, n // 2 + 900, n], dtype=np.int64)
    copies = Copies(places, np.concatenate([[0], upto[:-1]]), upto, 2**40, n, MANY)
    law = ScoreLaw.calibrate(MANY * 2**40, spread=2**15, epsilon=1, joint=True)
    found = copies.draw(law, nodes, steps(nodes), SystemBits())
    assert [y // MANY for y in found] == places.tolist()
