"""Histograms for ranges and cumulative shares of few bins under replacement: their noise adds up to zero."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.binned_tree import BalancedTreeLaw
from dprelease.mechanisms.forms.balanced import BalancedNoise
from dprelease.reading.derive import derive
from dprelease.reading.evaluation import Periods
from dprelease.reading.released_values import ReleasedValues
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw, assemble
from dprelease.statistics.base import kind_named
from dprelease.wall import execute
from tests.planning.requests import planned

REPLACED = "substitution"
PUBLIC, PRIVATE = {"exact": 60}, {"max": 90, "expected": 60}
SHARES = "cdf(x, [0, 1, 2])"
WIDTH = 25


def ranges(edges: Sequence[int]) -> dict[str, Any]:
    return {"statistic": f"histogram(x, {list(edges)})", "accurate_for": "ranges"}


def few(statistic: Any, rows: dict[str, int], top: int = 2, **more: Any) -> ReleasePlan:
    x = {"kind": "integer", "range": [0, top], "nulls": {"default": 0}}
    return planned([statistic], x=x, rows=rows, **{"adjacency": REPLACED, "epsilon": 2, **more})


def law(plan: ReleasePlan) -> BalancedTreeLaw:
    draw = plan.blocks[0].law
    assert isinstance(draw, BalancedTreeLaw)
    return draw


def vectors(
    cells: int, rate: float, width: int = WIDTH
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the vectors of so many cells that add up to zero, as far as they matter, and their chances."""
    free = np.array(list(itertools.product(range(-width, width + 1), repeat=cells - 1)))
    noise = np.column_stack([free, -free.sum(axis=1)])
    chance = np.exp(-rate * np.abs(noise).sum(axis=1))
    return noise, chance / chance.sum()


CASES = [
    (ranges([0, 1, 2, 3]), PUBLIC, 3),
    (ranges([0, 2]), PUBLIC, None),
    (ranges([0, 1, 2]), PRIVATE, 3),
    (SHARES, PUBLIC, 3),
    (SHARES, PRIVATE, None),  # a quotient of two noisy sums
]


@pytest.mark.parametrize(("statistic", "rows", "cells"), CASES, ids=str)
def test_the_plan_takes_the_noise_with_the_least_stated_error(
    statistic: Any, rows: dict[str, int], cells: int | None
) -> None:
    plan = few(statistic, rows)
    best, *others = plan.statistics[0].chosen
    found = [o for o in (best, *others) if "adds up to zero" in o.note]
    if cells is None:
        assert not found
        return
    assert found == [best]
    assert law(plan).noise.cells == cells
    noise, chance = vectors(cells, float(law(plan).noise.noise.rate))
    bins = len(plan.blocks[0].cells)
    sums = np.cumsum(noise, axis=1)[:, :bins]
    root = np.sqrt((chance[:, None] * sums**2).sum(axis=0))
    share = kind_named(plan.statistics[0].function).name == "cdf"
    root = root / 60 / np.sqrt(1 + (root / 60 * 3 * math.sqrt(2 / math.pi)) ** 2) if share else root
    assert best.expected_error == pytest.approx(root.mean() * math.sqrt(2 / math.pi), rel=1e-6)
    flat = next(o for o in others if o.note == "the bins alone")
    assert flat.expected_error is not None
    assert best.expected_error < 0.95 * flat.expected_error
    assert any("to zero" in note for note in plan.statistics[0].notes)


def test_balanced_noise_is_not_taken_where_a_tree_is_better_or_rows_come_and_go() -> None:
    many = few(ranges(range(41)), PRIVATE, top=39)
    assert len(many.blocks[0].measurement.weights[0]) == 2
    for plan in (many, few(ranges([0, 1, 2]), PRIVATE, adjacency="add_remove")):
        assert not isinstance(plan.blocks[0].law, BalancedTreeLaw)


@pytest.mark.parametrize(("statistic", "rows"), [(c[0], c[1]) for c in CASES if c[2]], ids=str)
def test_no_replaced_row_costs_more_than_epsilon_and_engines_agree(
    statistic: Any, rows: dict[str, int]
) -> None:
    """All tables of three rows, values beyond the bins and nulls too, through both engines and the audit."""
    plan = few(statistic, {"exact": 3} if rows is PUBLIC else rows)
    assert execute.check(plan) <= 2
    made, every = {}, (None, 0.0, 1.0, 2.0)
    for values in itertools.combinations_with_replacement(every, 3):
        table = pa.table({"who": list("abc"), "x": pa.array(values, pa.float64()), "g": ["a"] * 3})
        made[values] = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
        if values[0] is None:
            other = cells_of(plan, answer_of(plan, table, DuckDBEngine()))
            assert made[values][0].tolist() == other[0].tolist()
    worst = max(
        pair_loss(plan, made[one], made[other]).nats
        for rest in itertools.combinations_with_replacement(every, 2)
        for one, other in itertools.permutations(
            [tuple(sorted((value, *rest), key=every.index)) for value in every], 2
        )
    )
    assert worst == pytest.approx(2.0, abs=1e-6)


def forged(plan: ReleasePlan, draw: BalancedTreeLaw) -> ReleasePlan:
    return replace(plan, blocks=(replace(plan.blocks[0], law=draw),))


def test_the_wall_refuses_it_where_the_sum_may_change() -> None:
    private, public = few(ranges([0, 1, 2]), PRIVATE), few(ranges([0, 1, 2, 3]), PUBLIC)
    wide = few(ranges([0, 1, 2, 3]), PUBLIC, top=3)  # 3 is in the last bin, which is closed
    assert execute.check(forged(wide, law(public))) <= 2
    some = few(ranges([0, 1, 2, 3]), PUBLIC, top=4)  # 4 is in no bin
    (block,) = some.blocks
    claimed = replace(block, measurement=replace(block.measurement, public_rows=60))
    claims = replace(some, blocks=(claimed,))
    added = few(ranges([0, 1, 2]), PRIVATE, adjacency="add_remove")
    with_hidden = replace(law(private), rows=None)
    three = replace(law(public), rows=90)
    shares = few(SHARES, PRIVATE)
    wrong = (some, law(public)), (claims, law(public)), (added, with_hidden), (shares, three)
    for plan, draw in wrong:
        with pytest.raises(InternalError) as refused:
            execute.check(forged(plan, draw))
        assert refused.value.code == "DPR901"


def test_twin_a_tree_of_two_levels_has_no_such_noise() -> None:
    """Its runs and its bins each add up to the rows: all cells together do not."""
    plan = few(ranges([0, 1, 2, 3]), PUBLIC)
    (block,) = plan.blocks
    cells = ("bins 1 to 2", "bins 3 to 3", *block.cells)
    measurement = replace(
        block.measurement, weights=((2, 1), (3, 0)), cells=cells, l1_added_row=2, l1_replaced_row=4
    )
    for hidden in (False, True):
        noise = BalancedNoise.keeping(5 + hidden, 4, block.epsilon)
        draw = BalancedTreeLaw(noise, 5, None, rows=None if hidden else 60)
        other = replace(block, measurement=measurement, law=draw)
        with pytest.raises(InternalError) as refused:
            execute.check(replace(plan, blocks=(other,)))
        assert refused.value.code == "DPR901"


@pytest.mark.parametrize("statistic", [ranges(range(5)), "cdf(x, [0, 1, 2, 3])"], ids=str)
def test_intervals_cover_by_enumeration_and_one_row_less_does_not(statistic: Any) -> None:
    plan = few(statistic, PUBLIC, top=3, epsilon="2.5")
    draw, exact = law(plan), np.array([20, 15, 10, 15], dtype=object)
    noise, chance = vectors(4, float(draw.noise.noise.rate), width=8)
    raw = exact + noise.astype(object)
    assert draw.drawable(raw).all()
    measurement = plan.blocks[0].measurement
    statistic_kind = kind_named(plan.statistics[0].function)
    low, high = statistic_kind.interval(measurement, draw.reading(raw, 0.95))
    true = statistic_kind.finish(measurement, exact[None, :].astype(float))[0]
    row = 1.0 if statistic_kind.name != "cdf" else 1 / 60
    for k in range(low.shape[1]):
        inside = (low[:, k] <= true[k]) & (true[k] <= high[:, k])
        less = (low[:, k] + row <= true[k] + 1e-9) & (true[k] <= high[:, k] - row + 1e-9)
        assert chance[inside].sum() >= 0.95
        assert (statistic_kind.name == "cdf" and k == 3) or chance[less].sum() < 0.95


@pytest.mark.parametrize("statistic", [ranges([0, 1, 2, 3]), SHARES], ids=str)
def test_what_is_published_is_valid_whatever_is_drawn(statistic: Any) -> None:
    plan = few(statistic, PUBLIC)
    name = plan.blocks[0].name
    for seed in range(20):
        exact = np.array([[0, 60, 0]], dtype=object)
        cells = {name: law(plan).draw(exact, ReplayBits(f"ranges {seed}")).tolist()}
        table = assemble((), [()], plan.statistics, plan.blocks, cells).to_pydict()
        values = np.array(table["value"])
        if "cdf" in table["statistic"][0]:
            assert (np.diff(values) >= 0).all()
            assert values[-1] == 1
        else:
            assert values.sum() == 60
        assert values.min() >= 0
        assert (np.array(table["lower"]) <= values).all()
        assert (values <= np.array(table["upper"])).all()


def test_sums_of_bins_have_the_interval_of_their_own_law() -> None:
    """A reader's sum of two bins: narrower than both intervals added up, and covering by enumeration."""
    plan = few(ranges([0, 1, 2, 3, 4]), PUBLIC, top=4, epsilon=1)
    draw = law(plan)
    names, cells = plan.statistics[0].columns, {plan.blocks[0].name: ((10, 20, 18, 12),)}
    table = assemble((), [()], plan.statistics, plan.blocks, cells)
    held = Periods(ReleasedValues(Draw(plan, table, cells)), "1", {})
    sums, ends = {}, {}
    for count in (1, 2, 3, 4):
        (sums[count],) = derive(held, " + ".join(f'"{n}"' for n in names[:count])).table.to_pylist()
        ends[count] = sums[count]["upper"] - sums[count]["lower"]
    assert [sums[k]["value"] for k in sums] == [10, 30, 48, 60]
    assert [ends[k] / 2 for k in ends] == [draw.noise.quantile_of_sum(k, 0.95) for k in ends]
    assert ends[2] < 1.5 * ends[1]
    assert ends[4] == 0
    (twice,) = derive(held, f'"{names[0]}" + "{names[0]}"').table.to_pylist()  # one bin, not two
    assert twice["upper"] - twice["lower"] == pytest.approx(2 * ends[1])
