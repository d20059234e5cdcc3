"""Choices one inside the other draw what their weights say: runs against every copy, draws against the exact law."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dprelease.aggregates.recursive_ranks import steps
from dprelease.choice_tree import Node, halves
from dprelease.entropy import SystemBits
from dprelease.mechanisms.forms.recursive_scores import Copies
from dprelease.mechanisms.forms.scores import ScoreLaw
from tests.contracts.recursive_rank_worlds import COPIES, WORLDS, Law, Table, drawer, positions
from tests.sizes import some

Outcome = tuple[int, ...]


TABLES = [(), (1,), (0, 0, 2), (0, 1, 1, 1, 2), (2,) * 9, (0,) * 7 + (1,) * 2 + (2,) * 30]


SPOTS = some(range(0, 3 * COPIES, 5), 2)


@pytest.mark.parametrize(
    ("name", "last"), some(itertools.product(WORLDS, [None, 40_000, 100, 0]), 3)
)
def test_runs_weigh_what_every_copy_weighs(name: str, last: int | None) -> None:
    """With scores that are told apart up to few rows too: then values far from an aim are left out."""
    targets, tree = WORLDS[name]
    draw = drawer(targets, Fraction(3), 3)
    law = draw.law if last is None else ScoreLaw(
        draw.law.candidates, draw.law.spread, draw.law.epsilon, draw.law.p, last
    )  # fmt: skip
    nodes = halves([a for a, _, _ in targets], targets[0][1])
    for rows in TABLES:
        copies = draw.candidates_of(positions(rows, targets))
        table = Table(rows, 3, targets, tree)
        for node, unit, spot in zip(nodes, steps(nodes), tree, strict=True):
            ends = [[None] if end is None else SPOTS for end in spot[1:3]]
            for lo, hi in itertools.product(*ends):
                if lo is None or hi is None or lo <= hi:
                    assert runs(copies, node, unit, (lo, hi), law) == {
                        y: int(w)
                        for y in table.between(lo, hi)
                        for w in law.weights(np.array([table.score(spot, lo, hi, y)]))
                    }


def runs(
    copies: Copies, node: Node, unit: int, ends: tuple[int | None, int | None], law: ScoreLaw
) -> dict[int, int]:
    """Return the weight of every copy between two, as the form lays them out."""
    lo, hi = ends
    spots = (0 if lo is None else lo, 3 * COPIES - 1 if hi is None else hi)
    ranks = (
        0 if lo is None else copies.rank(lo),
        2 * COPIES * copies.total if hi is None else copies.rank(hi),
    )
    first, counts, scores = copies._runs(node.part, spots, ranks, unit, law.last)
    weights = law.weights(scores - scores.min())
    return {
        int(start) + i: int(w)
        for start, many, w in zip(first, counts, weights, strict=True)
        for i in range(many)
    }


@pytest.mark.parametrize("name", some(["low", "two", "quartiles"], 2))
def test_draws_follow_the_law_and_not_another(name: str) -> None:
    targets, tree = WORLDS[name]
    draw, rows, bits = drawer(targets, Fraction(6), 3), (0, 1, 1, 1, 2), SystemBits()
    count = 4_500 if name == "low" else 1_500  # another law passes for it with a chance below 1e-8
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
    copies = Copies(places, np.concatenate([[0], upto[:-1]]), upto, 2**40, n, COPIES)
    law = ScoreLaw.calibrate(2**44, spread=2**15, epsilon=1, joint=True)
    found = copies.draw(law, nodes, steps(nodes), SystemBits())
    assert [y // COPIES for y in found] == places.tolist()
