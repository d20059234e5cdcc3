"""Bins of a private number of rows under replacement: a hidden cell takes what they gain or lose."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.balanced import BalancedLaw
from dprelease.mechanisms.forms.balanced import BalancedNoise
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, sensitivity
from dprelease.wall import execute
from tests.planning.requests import planned
from tests.several_tables import schema

BINS = "histogram(x, [0, 4, 7])"  # values beyond 7 are in no bin
USER = {"user": "who", "max_groups": 1, "max_rows_per_group": 2}


def private(text: str = BINS, **more: object) -> ReleasePlan:
    request = {"adjacency": "substitution", "rows": {"max": 900}, **more}
    return planned([text], **request)  # type: ignore[arg-type]


def law(plan: ReleasePlan) -> BalancedLaw:
    draw = plan.blocks[0].law
    assert isinstance(draw, BalancedLaw)
    assert draw.rows is None
    return draw


@pytest.mark.parametrize(("text", "gain"), [(BINS, 0.67), ("histogram(x, [0, 4, 7, 10])", 0.75)])
@pytest.mark.parametrize("more", [{}, {"unit": USER}, {"where": "x > 1"}])
def test_bins_of_a_private_size_have_less_noise(
    text: str, gain: float, more: dict[str, object]
) -> None:
    plan = private(text, **more)
    draw = law(plan)
    assert draw.noise.cells == draw.count + 1
    best, other = plan.statistics[0].chosen[:2]
    assert best.expected_error is not None
    assert other.expected_error is not None
    assert best.expected_error < gain * other.expected_error
    assert "a hidden one" in best.note
    assert execute.check(plan) <= 1
    assert BalancedLaw.from_json(draw.to_json()) == draw


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (BINS, {"adjacency": "add_remove"}),
        (BINS, {"adjacency": "add_remove", "unit": USER}),
        (BINS, {"by": ["g"]}),
        (BINS, {"by": ["g"], "unit": USER}),
        ("histogram(x, [0, 7])", {}),
    ],
)
def test_elsewhere_noise_is_independent(text: str, more: dict[str, object]) -> None:
    plan = private(text, **more)
    assert not any(isinstance(b.law, BalancedLaw) for b in plan.blocks)


def contents(groups: int, most: int, rows: int, bins: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield what one unit adds to each bin of each group: `most` groups of `rows` rows at most."""
    inside = [v for v in itertools.product(range(rows + 1), repeat=bins) if sum(v) <= rows]
    for kept in itertools.product(inside, repeat=groups):
        if sum(any(v) for v in kept) <= most:
            yield kept


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("groups", "most", "rows"), [(1, 1, 1), (1, 1, 3), (2, 1, 1), (2, 1, 2), (2, 2, 2), (3, 2, 1)]
)
def test_what_comes_and_what_goes_is_half_of_the_move_each(
    adjacency: Adjacency, groups: int, most: int, rows: int
) -> None:
    """Every pair of contents of one unit: twice the larger of both, over all groups, is within the move."""
    moved = sensitivity(bins(2), Bounds(rows, most), adjacency, groups, positive=True)
    every = list(contents(groups, most, rows, 2))
    nothing = ((0, 0),) * groups
    worst = 0
    for before, after in itertools.product(every, every):
        if adjacency is Adjacency.add_remove and nothing not in (before, after):
            continue
        cost = 0
        for a, b in zip(before, after, strict=True):
            change = [y - x for x, y in zip(a, b, strict=True)]
            cost += 2 * max(sum(max(c, 0) for c in change), sum(max(-c, 0) for c in change))
        worst = max(worst, cost)
    assert moved.one_sided_half == (adjacency is Adjacency.substitution and groups <= most)
    assert moved.one_sided_half == (
        worst <= moved.l1_over_groups
    )  # controls: everywhere else it costs more


def bins(count: int) -> Measurement:
    plan = private("histogram(x, [0, 4, 7])")
    found = plan.blocks[0].measurement
    assert (len(found.cells), found.l1_added_row, found.l1_replaced_row) == (count, 1, 2)
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_the_published_cells_alone_cost_twice_the_larger_of_both(count: int) -> None:
    """Weights q^(|z| + |sum z|) in whole exponents: the largest quotient over all outcomes, per move."""
    outcomes = list(itertools.product(range(-4, 5), repeat=count))
    for move in itertools.product(range(-2, 3), repeat=count):
        rises, falls = (sum(max(s * d, 0) for d in move) for s in (1, -1))
        worst = 0
        for y in outcomes:
            other = [a - b for a, b in zip(y, move, strict=True)]
            worst = max(
                worst, sum(map(abs, other)) + abs(sum(other)) - sum(map(abs, y)) - abs(sum(y))
            )
        assert worst == 2 * max(rises, falls)


def weights(rate: float, cutoff: int) -> dict[tuple[int, int], float]:
    pairs = itertools.product(range(-cutoff, cutoff + 1), repeat=2)
    found = {(a, b): math.exp(-rate * (abs(a) + abs(b) + abs(a + b))) for a, b in pairs}
    total = sum(found.values())
    return {z: w / total for z, w in found.items()}


def test_two_published_cells_have_their_joint_law() -> None:
    draw = law(private(epsilon=3))
    many, exact = 6000, np.array([[40, 60]], dtype=object)
    raw = draw.draw(np.repeat(exact, many, axis=0), ReplayBits("hidden")) - exact
    assert raw.shape == (many, 2)
    seen = Counter(map(tuple, raw.tolist()))
    chance = weights(float(draw.noise.noise.rate), 40)

    def surprise(chance: dict[tuple[int, int], float]) -> float:
        often = {z: c for z, c in chance.items() if c * many >= 5}
        rest = many - sum(seen[z] for z in often)
        left = many * (1 - sum(often.values()))
        score = sum((seen[z] - c * many) ** 2 / (c * many) for z, c in often.items())
        score += (rest - left) ** 2 / left
        return float(chi2.sf(score, len(often)))

    assert surprise(chance) > 1e-6
    single = Counter[int]()
    for (a, _), c in chance.items():
        single[a] += c  # type: ignore[assignment]
    assert (
        surprise({(a, b): single[a] * single[b] for a, b in chance}) < 1e-6
    )  # control: independent


def test_intervals_cover_by_enumeration() -> None:
    draw = law(private(epsilon=2))
    chance = weights(float(draw.noise.noise.rate), 60)
    half = draw.noise.quantile(0.95)
    inside = [sum(c for (a, _), c in chance.items() if abs(a) <= k) for k in (half, half - 1)]
    assert inside[0] >= 0.95 > inside[1]
    low, high = draw.box(np.array([[40, 60]], dtype=object), 0.95)
    assert (high - low == 2 * half).all()


def test_an_audited_pair_costs_what_the_plan_says_and_no_more() -> None:
    plan = private(epsilon=1)
    tables = [
        pa.table({"who": ["a", "b"], "x": pa.array(x, pa.float64()), "g": ["a", "a"]})
        for x in ([1.0, 1.0], [1.0, 5.0], [1.0, 9.0], [9.0, None])
    ]
    cells = [cells_of(plan, answer_of(plan, t, ReferenceEngine())) for t in tables]
    rate = law(plan).noise.noise.rate
    costs = [pair_loss(plan, cells[i], cells[j]) for i, j in ((0, 1), (0, 2), (1, 2), (2, 3))]
    assert [c.nats for c in costs] == pytest.approx([2 * float(rate)] * 4)
    assert all(c.within(Fraction(1)) for c in costs)
    assert not pair_loss(plan, cells[0], cells[3]).within(Fraction(1))  # control: two rows replaced


def test_a_hidden_cell_is_refused_where_units_are_not_replaced_in_one_group() -> None:
    """Broken twins: the same law in plans whose units do more, and laws of too few cells."""
    forged = law(private())
    for more in ({"adjacency": "add_remove"}, {"by": ["g"]}, {"by": ["g"], "unit": USER}):
        plan = private(**more)
        block = replace(plan.blocks[0], law=forged)
        with pytest.raises(InternalError) as refused:
            execute.check(replace(plan, blocks=(block,)))
        assert refused.value.code == "DPR901"
    honest = private()
    few = BalancedNoise.keeping(2, 2, Fraction(1))  # the sum of the published bins would be public
    weak = BalancedNoise.keeping(3, 1, Fraction(1))
    for noise in (few, weak):
        block = replace(honest.blocks[0], law=replace(forged, noise=noise))
        with pytest.raises(InternalError) as refused:
            execute.check(replace(honest, blocks=(block,)))
        assert refused.value.code == "DPR901"
    public = replace(forged, rows=900, noise=few)
    block = replace(honest.blocks[0], law=public)
    with pytest.raises(InternalError) as refused:
        execute.check(replace(honest, blocks=(block,)))
    assert refused.value.code == "DPR901"


def test_tables_that_are_fitted_keep_independent_cells() -> None:
    """A nation's table is one group; its cells are averaged as independent ones."""
    ages = "histogram(age, [0, 40, 101])"
    tables = [{"name": "nation", "by": [], "statistics": [ages]}]
    plan = dp.plan(schema(tables, adjacency="substitution"))
    execute.check(plan)
    assert [b.table for b in plan.blocks] == ["nation"]
    assert not any(isinstance(b.law, BalancedLaw) for b in plan.blocks)
    forged = BalancedLaw(BalancedNoise.keeping(3, 2, plan.blocks[0].epsilon), 2)
    with pytest.raises(InternalError) as refused:  # at the wall too
        execute.check(replace(plan, blocks=(replace(plan.blocks[0], law=forged),)))
    assert refused.value.code == "DPR901"
