"""Sharing a parent's value among its children, beside enumeration."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dprelease.fitting import mending
from dprelease.fitting.sets import holds, joined, times
from dprelease.fitting.shares import FINE, shared
from tests.fitting.small import members, points
from tests.sizes import whole


def cost(values, targets, weights):
    return sum(w * (FINE * v - t) ** 2 for v, t, w in zip(values, targets, weights, strict=True))


def bound(values, targets, weights, sets, multiplier):
    """How far above the Lagrangian's least these values are."""

    def at(v, t, w):
        return w * (FINE * v - t) ** 2 - 2 * FINE * multiplier * v

    return sum(
        at(v, t, w) - min(at(x, t, w) for x in members(s))
        for v, t, w, s in zip(values, targets, weights, sets, strict=True)
    )


def problem(rng, gap, most=4):
    k = rng.randint(1, most)
    sets = [
        joined([(0, 0), (rng.randint(2, 5), 9)])
        if gap and rng.random() < 0.8
        else ((rng.randint(-2, 0), rng.randint(3, 8)),)
        for _ in range(k)
    ]
    targets = [rng.randint(-4 * FINE, 12 * FINE) for _ in range(k)]
    if rng.random() < 0.3:
        targets = [t // FINE * FINE for t in targets]  # ties
    weights = [rng.choice([1, 1, 1, 3, 7]) for _ in range(k)]
    total = sum(rng.choice(members(s)) for s in sets)
    return targets, weights, sets, total


def settled(targets, weights, sets, total):
    return shared(targets, weights, sets, np.zeros(len(sets), dtype=np.int64), [total])


def test_the_fitted_shares_are_the_nearest_point_by_enumeration():
    rng = random.Random(11)
    for _ in range(400):
        targets, weights, sets, total = problem(rng, gap=False)
        found = settled(targets, weights, sets, total)
        least = min(cost(v, targets, weights) for v in points(sets, total))
        assert cost(found.values, targets, weights) == least
        assert bound(found.values, targets, weights, sets, found.multipliers[0]) == 0
        assert found.mended == 0


def test_across_gaps_it_is_within_its_own_bound_of_the_nearest():
    rng = random.Random(12)
    mended = 0
    for _ in range(whole(160, 400)):
        targets, weights, sets, total = problem(rng, gap=True)
        found = settled(targets, weights, sets, total)
        assert sum(found.values) == total
        assert all(holds(s, v) for s, v in zip(sets, found.values, strict=True))
        least = min(cost(v, targets, weights) for v in points(sets, total))
        own = cost(found.values, targets, weights)
        assert own == least
        assert own - least <= bound(found.values, targets, weights, sets, found.multipliers[0])
        mended += found.mended
    assert mended > whole(8, 20)


def test_several_parents_are_settled_as_each_alone():
    rng = random.Random(13)
    problems = [problem(rng, gap=k % 2 == 1) for k in range(40)]
    flat = [
        (p, t, w, s)
        for p, (targets, weights, sets, _) in enumerate(problems)
        for t, w, s in zip(targets, weights, sets, strict=True)
    ]
    rng.shuffle(flat)
    parent = np.array([p for p, *_ in flat])
    found = shared(
        [t for _, t, _, _ in flat], [w for _, _, w, _ in flat], [s for *_, s in flat],
        parent, [total for *_, total in problems],
    )  # fmt: skip
    for p, (_, _, _, total) in enumerate(problems):
        mine = [k for k, row in enumerate(flat) if row[0] == p]
        alone = settled(*zip(*[flat[k][1:] for k in mine], strict=True), total)
        assert [found.values[k] for k in mine] == alone.values


@pytest.mark.parametrize("far", [2**40, -(2**40), 2**80, -(2**80)])
def test_far_away_targets_still_end_in_a_valid_point(far):
    sets = [((0, 2**45),), ((0, 0), (10, 2**45)), ((0, 5),)]
    for total in (0, 3, 17, 2**44):
        found = settled([far * FINE, -far * FINE, 3 * FINE], [1, 1000, 7], sets, total)
        assert sum(found.values) == total
        assert all(holds(s, v) for s, v in zip(sets, found.values, strict=True))


def test_where_moves_do_not_add_up_children_go_in_turn(monkeypatch):
    monkeypatch.setattr(mending, "_cheapest", lambda *_: None)
    rng = random.Random(14)
    for _ in range(200):
        targets, weights, sets, total = problem(rng, gap=True)
        found = settled(targets, weights, sets, total)
        assert sum(found.values) == total
        assert all(holds(s, v) for s, v in zip(sets, found.values, strict=True))


def test_every_sum_of_narrow_sets_is_reached():
    """{0} and [10, 12]: from 0 to 60 only some totals exist, and each that exists is met."""
    one = ((0, 0), (10, 12))
    rng = random.Random(15)
    for total in members(times(one, 5)):
        targets = [rng.randint(-20 * FINE, 30 * FINE) for _ in range(5)]
        found = settled(targets, [1] * 5, [one] * 5, total)
        assert sum(found.values) == total
        least = min(cost(v, targets, [1] * 5) for v in points([one] * 5, total))
        over = cost(found.values, targets, [1] * 5) - least
        assert over <= bound(found.values, targets, [1] * 5, [one] * 5, found.multipliers[0])


def test_the_broken_twin_without_ties_settled_does_not_add_up(monkeypatch):
    from dprelease.fitting import shares

    monkeypatch.setattr(shares, "_settle_ties", lambda *_: None)
    found = settled([FINE // 2] * 4, [1] * 4, [((0, 9),)] * 4, 2)
    assert found.mended == 1  # then `mending` has to do it
    assert sum(found.values) == 2
