"""Quantiles with an interval: three choices by rank, by brute force over small tables.

Rows are lists; the k rows that nobody has are appended to them, ranks are counted, and the chance of each end is the
exact law of its scores. The interval must hold the quantile of every table with at least 95 %.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ConfigError, InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.rank_interval import IntervalLaw
from dprelease.planning.again import plan_again
from dprelease.query.bounded import Fixed
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.schema.domain import GridSet
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.rank_interval import interval_scores, interval_spreads
from dprelease.wall import execute
from tests.planning.requests import USER, planned
from tests.sizes import sized

Rows = tuple[int, ...]
GRIDS = {"whole": GridSet(((0, 3),)), "with a gap": GridSet(((0, 1), (4, 6)))}
SHARES = [(1, 2), (1, 4), (9, 10)]


def points(grid: GridSet) -> list[int]:
    return [k for low, high in grid.runs for k in range(low, high + 1)]


def tables(grid: GridSet, most: int) -> Iterator[Rows]:
    for n in range(most + 1):
        yield from itertools.combinations_with_replacement(points(grid), n)


def held(rows: Rows, a: int, b: int) -> Positions:
    codes = np.unique(np.array(rows, dtype=np.int64))
    below = np.array([sum(v < c for v in rows) for c in codes], dtype=np.int64)
    upto = np.array([sum(v <= c for v in rows) for c in codes], dtype=np.int64)
    return Positions(codes, below, upto, len(rows), (a,), b)


def quantile(rows: Rows, a: int, b: int) -> int:
    """Return the least value with at least a n / b rows at or below it."""
    return next(v for v in sorted(rows) if b * sum(w <= v for w in rows) >= a * len(rows))


def scores(rows: Rows, grid: GridSet, a: int, b: int, k: int) -> list[list[int]]:
    """Return the scores of all candidates for the value, the lower and the upper end, from lists of rows."""
    more = sorted([*rows, *[0] * k, *[points(grid)[-1]] * k])
    out = []
    for aim in (k, 0, 2 * k):
        target = a * len(rows) + b * aim
        made = []
        for y in points(grid):
            below, upto = sum(v < y for v in more), sum(v <= y for v in more)
            made.append(max(b * below - target, target - b * upto))
        out.append(made)
    return out


def drawer(grid: GridSet, a: int, b: int, epsilon: object = 12, spread: int = 0) -> IntervalLaw:
    code = Fixed("x", grid, Fraction(1), None)
    stated = max(interval_spreads(a, b, 0))
    return IntervalLaw.calibrate(code, b, spread=spread or stated, epsilon=Fraction(epsilon))  # type: ignore[arg-type]


def laws(draw: IntervalLaw, rows: Rows, a: int, b: int) -> list[list[Fraction]]:
    return [draw.law.pmf(np.array(s)) for s in scores(rows, draw.allowed, a, b, draw.inside)]


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("share", SHARES)
def test_scores_are_those_of_rows_added_at_both_ends(grid: GridSet, share: tuple[int, int]) -> None:
    draw = drawer(grid, *share)
    for rows, k in itertools.product(tables(grid, 4), (1, 3)):
        slow = scores(rows, grid, *share, k)
        for known, wanted in zip(
            interval_scores(held(rows, *share), 6 if len(grid) > 4 else 3, k), slow, strict=True
        ):
            _, counts, apart = draw.runs(known)
            assert np.repeat(apart, counts).tolist() == wanted
        assert all(min(s) <= 0 for s in slow)  # some candidate is right, in empty groups too


def missed(draw: IntervalLaw, rows: Rows, a: int, b: int) -> tuple[Fraction, Fraction]:
    """Return the chances that the lower end is above the quantile, and the upper end below it."""
    _, low, high = laws(draw, rows, a, b)
    q, at = quantile(rows, a, b), points(draw.allowed)
    return (
        sum((p for y, p in zip(at, low, strict=True) if y > q), Fraction(0)),
        sum((p for y, p in zip(at, high, strict=True) if y < q), Fraction(0)),
    )


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("share", SHARES)
def test_the_interval_holds_the_quantile_of_every_small_table(
    grid: GridSet, share: tuple[int, int]
) -> None:
    draw = drawer(grid, *share, epsilon=30)
    assert draw.inside < 4  # else no table here would have so many rows
    worst = Fraction(0)
    for rows in tables(grid, 7):
        if rows:
            below, above = missed(draw, rows, *share)
            assert below <= Fraction(1, 40)
            assert above <= Fraction(1, 40)
            worst = max(worst, below + above)
    assert worst > 0


def test_twin_ends_a_row_outside_miss() -> None:
    grid, share = GRIDS["whole"], SHARES[0]
    draw = drawer(grid, *share, epsilon=6)
    rows = tuple(v for v in points(grid) for _ in range(40))
    assert sum(missed(draw, rows, *share)) <= Fraction(1, 20)
    heap = (0,) * 30 + (3,) * 30
    twin = replace(draw, inside=1)
    assert max(sum(missed(twin, r, *share)) for r in (rows, heap, (0, 3), (1, 2))) > Fraction(1, 20)


@pytest.mark.parametrize("swap", [False, True], ids=["added", "replaced"])
@pytest.mark.parametrize("share", SHARES)
def test_no_neighbours_cost_more_than_three_choices(share: tuple[int, int], swap: bool) -> None:
    grid = GRIDS["with a gap"]
    spread = interval_spreads(*share, 0)[swap]
    draw = drawer(grid, *share, spread=spread)
    assert cost(draw, share, swap=swap) <= float(draw.law.certify().epsilon_upper) + 1e-12
    assert float(draw.law.certify().epsilon_upper) <= 12


def test_twin_the_spread_of_one_choice_is_caught() -> None:
    share = SHARES[0]
    draw = drawer(GRIDS["with a gap"], *share, spread=interval_spreads(*share, 0)[0] // 3)
    assert cost(draw, share, swap=False) > 12


def cost(draw: IntervalLaw, share: tuple[int, int], *, swap: bool) -> float:
    """Return the largest exact loss of tables that differ in one row: of three choices, each at its worst outcome."""
    known: dict[Rows, list[list[Fraction]]] = {}
    worst = 0.0
    for rows in tables(draw.allowed, 4):
        near = [tuple(sorted((*rows, v))) for v in points(draw.allowed)]
        if swap:
            near = [
                tuple(sorted((*rows[:i], *rows[i + 1 :], v)))
                for i in range(len(rows))
                for v in points(draw.allowed)
            ]
        for other in near:
            p, r = (known.setdefault(t, []) or known[t] for t in (rows, other))
            for table, law in ((rows, p), (other, r)):
                if not law:
                    law.extend(laws(draw, table, *share))
            loss = sum(
                max(abs(math.log(x / y)) for x, y in zip(one, two, strict=True))
                for one, two in zip(p, r, strict=True)
            )
            worst = max(worst, loss)
    return worst


# --- whole -----------------------------------------------------------------------------------


def made(statistic: str = "median(x)", **request: Any) -> ReleasePlan:
    return planned(
        [{"statistic": statistic, "interval": True}],
        **{"rows": {"max": 900, "expected": 400}, **request},
    )


REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"unit": USER, "by": ["g"], "epsilon": 4},
    {"adjacency": "substitution"},
    {"epsilon": 2, "delta": 1e-6},
    {"x": {"kind": "number", "range": [0, 10], "forbidden": [[3, 6]], "step": 1}},
)


@pytest.mark.parametrize("request_", REQUESTS, ids=[str(i) for i in range(len(REQUESTS))])
@pytest.mark.parametrize("statistic", ["median(x)", "quantile(x, 0.9)"])
def test_a_plan_is_priced_and_made_again(statistic: str, request_: dict[str, Any]) -> None:
    plan = made(statistic, **request_)
    assert execute.check(plan) <= plan.epsilon
    assert execute.check(plan) > plan.epsilon * Fraction(99, 100)
    (block,) = plan.blocks
    draw = block.law
    assert isinstance(draw, IntervalLaw)
    assert IntervalLaw.from_json(draw.to_json()) == draw
    again = plan_again(plan.request, json.loads(json.dumps(plan.to_json())))  # type: ignore[arg-type]
    assert again.hash == plan.hash
    assert "95 % interval" in plan.statistics[0].error_text
    alone = (
        planned([statistic], **{"rows": {"max": 900, "expected": 400}, **request_}).blocks[0].law
    )
    assert alone.law.rate > 1.5 * draw.law.rate  # type: ignore[attr-defined]


def test_an_interval_is_an_option_of_quantiles_and_costs_nothing_where_it_is_not_asked_for() -> (
    None
):
    plain = planned(["median(x)", "quantile(x, 0.25)"])
    asked = planned([{"statistic": "median(x)", "interval": False}, "quantile(x, 0.25)"])
    assert [b.law for b in plain.blocks] == [b.law for b in asked.blocks]
    for text in ("mean(x)", "min(x)", "max(x)", "count"):
        with pytest.raises(ConfigError) as caught:
            planned([{"statistic": text, "interval": True}])
        assert caught.value.code == "DPR135"
    vague = made(epsilon=0.000001).blocks[0].law
    assert vague.inside > 10**6  # type: ignore[attr-defined]
    raw = vague.draw(np.array([[held((1, 2), 1, 2)]] * 50, dtype=object), ReplayBits("vague"))
    assert len(set(raw[:, 0].tolist())) > 5  # nothing is known, and the ends say so
    assert (raw[:, 1] == 0).mean() > 0.9


def test_a_plan_that_claims_the_spread_of_one_choice_is_refused() -> None:
    plan = made()
    (block,) = plan.blocks
    assert isinstance(block.law, IntervalLaw)
    law = replace(block.law, law=replace(block.law.law, spread=block.law.law.spread // 3))
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, blocks=(replace(block, law=law),)))
    assert caught.value.code == "DPR901"
    alone = planned(["median(x)"]).blocks[0].law
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, blocks=(replace(block, law=alone),)))
    assert caught.value.code == "DPR902"
    near = planned(["median(x)"]).query.primitives[0].near
    (tally,) = plan.query.primitives
    assert near is not None
    far = replace(near, last=2**40)  # as far as the law sees, around the value's rank alone
    query = replace(plan.query, primitives=(replace(tally, near=far),))
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, query=query))
    assert caught.value.code == "DPR902"


def table(values: Any) -> pa.Table:
    return pa.table(
        {
            "who": [str(i) for i in range(len(values))],
            "x": pa.array(values, pa.float64()),
            "g": ["a"] * len(values),
        }
    )


def test_no_pair_of_tables_costs_more_than_epsilon() -> None:
    plan = made(x={"kind": "number", "range": [0, 3], "step": 1}, epsilon=6)
    every = {
        rows: cells_of(plan, answer_of(plan, table(rows), ReferenceEngine()))
        for n in range(4)
        for rows in itertools.combinations_with_replacement((0.0, 1.0, 3.0), n)
    }
    worst = max(
        pair_loss(plan, every[rows], every[other]).nats
        for rows in every
        for v in (0.0, 1.0, 3.0)
        if (other := tuple(sorted((*rows, v)))) in every
    )
    assert 2 < worst <= 6


@pytest.mark.parametrize("wrong", [False, True], ids=["as planned", "a row outside"])
def test_drawn_intervals_hold_the_quantile(wrong: bool) -> None:
    """Up to 10,000 draws of ages with ties and a heap; ends a row outside do not hold it."""
    plan = made("quantile(x, 0.9)", x={"kind": "integer", "range": [0, 120]}, epsilon=1)
    (block,) = plan.blocks
    draw = block.law
    assert isinstance(draw, IntervalLaw)
    count, pick = sized(600, 10_000), np.random.default_rng(2)
    ages = np.concatenate([pick.integers(18, 90, 600), [67] * 60]).astype(float)
    exact = cells_of(plan, answer_of(plan, table(ages), DuckDBEngine()))[0]
    used = replace(draw, inside=1) if wrong else draw
    raw = used.draw(np.repeat(exact, count, axis=0), ReplayBits("ages"))
    assert draw.drawable(raw).all()
    low, high = draw.box(raw, 0.95)
    q = float(np.sort(ages)[math.ceil(0.9 * ages.size) - 1])
    inside = float(((low[:, 0] <= q) & (q <= high[:, 0])).mean())
    assert (inside < 0.9) if wrong else (inside >= 0.95 - 5 * (0.05 * 0.95 / count) ** 0.5)


def test_an_empty_group_and_one_row_have_an_interval_of_the_domain() -> None:
    plan = made(by=["g"], x={"kind": "integer", "range": [0, 20]})
    rows = pa.table({"who": ["1"], "x": pa.array([4.0]), "g": ["b"]})
    (exact,) = cells_of(plan, answer_of(plan, rows, DuckDBEngine()))
    draw = plan.blocks[0].law
    raw = draw.draw(exact, ReplayBits("few"))
    frame = assemble(
        plan.by, plan.keys, plan.statistics, plan.blocks, {plan.blocks[0].name: raw.tolist()}
    ).to_pandas()
    assert (frame["lower"] <= frame["value"]).all()
    assert (frame["value"] <= frame["upper"]).all()
    assert (frame["upper"] - frame["lower"] >= 15).all()
