"""Winsorised statistics whole: asked for, planned, drawn, read back; what a forged plan is refused for."""

from __future__ import annotations

import itertools
import json
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
from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.planning.again import plan_again
from dprelease.query.statistic import parse_statistic
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.statistics.base import Floats, Reading, StatisticKind, kind_named
from dprelease.statistics.clipped import clipped
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.planning.requests import USER, asked, forged, planned
from tests.sizes import sized, some, whole

INNER = ("mean", "sum", "variance", "std")
SMALL = {"kind": "number", "range": [2, 5], "step": 0.5}
GAP = {"kind": "number", "range": [0, 10], "forbidden": [[3, 6]], "step": 1}


def winsorised(inner: str = "mean", share: object = 0.25, **more: object) -> dict[str, object]:
    return {"statistic": f"{inner}(x)", "winsorize": share, **more}


TOGETHER = (("mean", "sum"), ("variance", "std"))
"""Whose cells are the same: of one block, drawn together."""


def made(*inner: str, share: object = 0.25, **request: Any) -> ReleasePlan:
    asked = [winsorised(one, share) for one in inner or ("mean",)]
    return planned(asked, **{"rows": {"max": 90, "expected": 40}, **request})


def parts(plan: ReleasePlan) -> tuple[Measurement, WinsorisedLaw]:
    (block,) = plan.blocks
    draw = block.law
    assert isinstance(draw, WinsorisedLaw)
    assert WinsorisedLaw.from_json(draw.to_json()) == draw
    return block.measurement, draw


# --- asking ----------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNER)
def test_the_option_asks_for_another_statistic_under_its_own_name(inner: str) -> None:
    spec = parse_statistic(winsorised(inner, "0.01"), origin="f:1")
    assert (spec.function, spec.arguments) == (f"winsorised_{inner}", ("x", "0.01"))
    assert (spec.text, spec.name) == (f"winsorised_{inner}(x, 0.01)", f"winsorised_{inner}_x")
    assert parse_statistic(spec.text, origin="f:1").arguments == spec.arguments
    plain = parse_statistic({"statistic": f"{inner}(x)"}, origin="f:1")
    assert plain.function == inner


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"statistic": "median(x)", "winsorize": 0.1}, "DPR135"),
        ({"statistic": "count", "winsorize": 0.1}, "DPR135"),
        ({"statistic": "mean(x)", "winsorize": 0.5}, "DPR133"),
        ({"statistic": "mean(x)", "winsorize": 0}, "DPR135"),
        ({"statistic": "mean(x)", "winsorize": "much"}, "DPR135"),
        ({"statistic": "mean(x)", "winsorize": "0.0001"}, "DPR133"),
        ({"statistic": "winsorised_mean(x, 0.1)", "winsorize": 0.1}, "DPR135"),
        ("winsorised_from(x, 0.1)", "DPR131"),
        ("winsorised_mean(x)", "DPR133"),
    ],
)
def test_other_shares_and_statistics_are_refused(item: object, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_statistic(item, origin="f:1")
    assert caught.value.code == code


def test_two_limits_are_published_beside_the_mean() -> None:
    plan = made(by=["g"])
    assert [s.name for s in plan.statistics] == [
        "winsorised_mean_x", "winsorised_mean_x_from", "winsorised_mean_x_to"
    ]  # fmt: skip
    assert [b.name for b in plan.blocks] == ["winsorised_mean_x"]
    said = " ".join(plan.statistics[0].notes)
    assert "not the mean of x" in said
    assert "is not measured" in said
    assert plan.statistics[1].error_text == "exact: the limit that was used"


def test_another_statistic_may_not_have_a_limits_name() -> None:
    with pytest.raises(ConfigError) as caught:
        asked([winsorised(**{"as": "m"}), {"statistic": "max(x)", "as": "m_to"}])  # type: ignore[arg-type]
    assert caught.value.code == "DPR134"


def test_statistics_of_one_column_and_share_have_the_same_limits() -> None:
    plan = planned(
        [
            winsorised("mean"),
            winsorised("std"),
            winsorised("sum"),
            winsorised("mean", 0.1, **{"as": "m"}),
        ]
    )
    assert [b.name for b in plan.blocks] == [
        "winsorised_mean_x+winsorised_std_x+winsorised_sum_x", "m"
    ]  # fmt: skip
    assert [len(b.cells) for b in plan.blocks] == [5, 4]  # a variance needs three cells


REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"unit": USER, "by": ["g"]},
    {"adjacency": "substitution"},
    {"adjacency": "substitution", "rows": {"exact": 40}, "x": {**SMALL, "nulls": {"default": 2}}},
    {"adjacency": "substitution", "unit": USER, "by": ["g"]},
    {"epsilon": 2, "delta": 1e-6},
    {"loss": "squared", "where": "x > 1", "x": GAP},
)


@pytest.mark.parametrize(
    ("inner", "number"), some(itertools.product(INNER, range(len(REQUESTS))), 3)
)
def test_a_plan_is_priced_and_made_again(inner: str, number: int) -> None:
    plan = made(inner, **REQUESTS[number])
    assert execute.check(plan) <= plan.epsilon
    assert execute.check(plan) > plan.epsilon * Fraction(999, 1000)
    again = plan_again(plan.request, json.loads(json.dumps(plan.to_json())))  # type: ignore[arg-type]
    assert again.hash == plan.hash
    first = plan.statistics[0]
    assert len(first.chosen) == 5  # four ways to part epsilon, and what it is not
    assert "not winsorised" in first.chosen[-1].note


def test_a_wide_range_makes_the_plain_mean_dearer_and_a_filled_one_does_not() -> None:
    wide = {"kind": "integer", "range": [0, 1_000_000], "expected": {"sd": 2_000}}
    plan = made(x=wide, rows={"max": 20_000, "expected": 10_000}, share=0.01)
    best, plain = plan.statistics[0].chosen[0], plan.statistics[0].chosen[-1]
    assert best.expected_error is not None
    assert plain.expected_error is not None
    assert 20 * best.expected_error < plain.expected_error
    filled = {**wide, "expected": {"sd": 288_000}}
    plan = made(x=filled, rows={"max": 20_000, "expected": 10_000}, share=0.01)
    best, plain = plan.statistics[0].chosen[0], plan.statistics[0].chosen[-1]
    assert (best.expected_error or 0) > (plain.expected_error or 0)


def test_the_rho_of_both_draws_is_less_than_that_of_any_loss() -> None:
    plan = made()
    _, draw = parts(plan)
    moved = Sensitivity(0, 1, 1, 1, score_spread=10)
    proof = draw.proof(moved)
    assert sum(proof.pure) == draw.certify(moved)
    assert proof.concentrated < sum(proof.pure) ** 2 / 3


# --- the wall --------------------------------------------------------------------------------


def tampered(plan: ReleasePlan, **change: Any) -> ReleasePlan:
    (block,) = plan.blocks
    law = {key: value for key, value in change.items() if key in block.law.to_json()}
    rest = {key: value for key, value in change.items() if key not in law}
    return replace(plan, blocks=(forged(block, law=law, **rest),))


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_a_plan_that_claims_less_than_it_moves_is_refused(adjacency: str) -> None:
    unit = {"user": "who", "max_groups": 1, "max_rows_per_group": 3}
    plan = made(epsilon=2, unit=unit, adjacency=adjacency)
    _, draw = parts(plan)
    choice, noise = draw.choice.to_json(), draw.noise.to_json()
    changes: list[tuple[dict[str, Any], str]] = [
        ({"choice": {**choice, "spread": choice["spread"] - 1}}, "DPR901"),
        ({"choice": {**choice, "candidates": "5"}}, "DPR901"),
        ({"noise": {**noise, "l1_sensitivity": noise["l1_sensitivity"] - 1}}, "DPR901"),
        ({"degree": 2}, "DPR902"),
        ({"allowed": [["1", "21"]]}, "DPR902"),
        ({"step": "1"}, "DPR902"),
        ({"weights": [["1", "4", "0"], ["2", "4", "0"]]}, "DPR902"),
        ({"weights": [["2", "4", "0"], ["2", "4", "0"]]}, "DPR902"),
        ({"form": "linear"}, "DPR902"),
        ({"form": "joint_ranks"}, "DPR902"),
    ]
    for change, code in changes:
        assert set(change) <= {*plan.blocks[0].law.to_json(), *plan.blocks[0].measurement.to_json()}
        with pytest.raises(InternalError) as caught:
            execute.check(tampered(plan, **change))
        assert caught.value.code == code, change
    assert execute.check(plan) <= 2


def test_a_tally_of_codes_near_one_rank_is_refused() -> None:
    plan = made()
    near = planned(["median(x)"]).query.primitives[0].near
    (tally,) = plan.query.primitives
    query = replace(plan.query, primitives=(replace(tally, near=near),))
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, query=query))
    assert caught.value.code == "DPR902"


def test_a_law_without_limits_has_no_loss() -> None:
    _, draw = parts(made())
    for moved in (
        Sensitivity(1, 1, 1, 1),
        Sensitivity(1, 1, 1, 1, score_spread=10**6),
        Sensitivity(9, 9, 1, 1, score_spread=1),
    ):
        with pytest.raises(InternalError):
            draw.certify(moved)


# --- rows to values --------------------------------------------------------------------------


def table(values: tuple[float | None, ...]) -> pa.Table:
    return pa.table(
        {
            "who": [str(i) for i in range(len(values))],
            "x": pa.array(values, pa.float64()),
            "g": ["a"] * len(values),
        }
    )


def plainly(values: list[float], low: float, high: float, inner: str) -> float:
    clamped = np.clip(values, low, high)
    if inner == "sum":
        return float(clamped.sum())
    return float({"mean": np.mean, "variance": np.var, "std": np.std}[inner](clamped))


@pytest.mark.parametrize("inner", TOGETHER, ids=str)
def test_exact_cells_of_both_engines_give_the_statistic_of_the_clamped_rows(
    inner: tuple[str, str],
) -> None:
    plan = made(*inner, x=GAP)
    measurement, draw = parts(plan)
    ends = [0.0, 10.0]
    values = [*ends, ends[0] + 1, None, ends[1] + 9]
    for rows in some(itertools.combinations_with_replacement(values, 2), 2):
        (exact,) = cells_of(plan, answer_of(plan, table(rows), ReferenceEngine()))
        (other,) = cells_of(plan, answer_of(plan, table(rows), DuckDBEngine()))
        assert exact[0, 0] == other[0, 0]
        held = [min(max(v, ends[0]), ends[1]) for v in rows if v is not None]
        raw = draw.draw(exact, ReplayBits("1"))
        low, high = int(raw[0, 0]), int(raw[0, 1])
        assert draw.drawable(raw).all()
        clean = np.array([[low, high, *clipped(exact[0, 0], low, high, draw.degree)]], dtype=float)
        limits = [float(measurement.offset + measurement.step_size * k) for k in (low, high)]
        for one in inner if held else ():
            value = float(kind_named(f"winsorised_{one}").finish(measurement, clean)[0, 0])
            assert value == pytest.approx(plainly(held, *limits, one), abs=1e-9)


def test_a_release_of_ties_empty_groups_and_one_row_is_valid_and_names_its_limits() -> None:
    plan = made("std", by=["g"], x=GAP, unit="row")
    rows = pa.table({"who": ["1"] * 41, "x": [6.0] * 40 + [10.0], "g": ["a"] * 40 + ["b"]})
    exact = cells_of(plan, answer_of(plan, rows, DuckDBEngine()))
    _, draw = parts(plan)
    for seed in range(whole(15, 40)):
        raw = draw.draw(exact[0], ReplayBits(str(seed)))
        assert raw.shape == (3, 5)
        assert draw.drawable(raw).all()
        shown = assemble(
            plan.by, plan.keys, plan.statistics, plan.blocks, {plan.blocks[0].name: raw.tolist()}
        )
        frame = shown.to_pandas().pivot(index="g", columns="statistic", values="value")
        low, high = frame["winsorised_std_x_from"], frame["winsorised_std_x_to"]
        assert (low < high).all()
        assert set(low) | set(high) <= {0.0, 1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0, 10.0}
        assert (
            (frame["winsorised_std_x"] >= 0)
            & (frame["winsorised_std_x"] <= (high - low) / 2 + 0.01)
        ).all()
    for wrong in (
        [3, 3, 1, 1, 1],
        [5, 4, 1, 1, 1],
        [-1, 4, 1, 1, 1],
        [0, 11, 1, 1, 1],
        [0, 4, 1, 1, 1],
    ):
        assert not draw.drawable(np.array([wrong], dtype=object)).all()  # 4 lies in the gap


def test_no_pair_of_tables_that_differ_in_one_row_costs_more_than_epsilon() -> None:
    plan = made(x={"kind": "number", "range": [0, 3], "step": 1}, epsilon=3)
    every = {
        rows: cells_of(plan, answer_of(plan, table(rows), ReferenceEngine()))
        for n in range(4)
        for rows in itertools.combinations_with_replacement((0.0, 1.0, 3.0), n)
    }
    worst = 0.0
    for rows, cells in every.items():
        for value in (0.0, 1.0, 3.0):
            other = tuple(sorted((*rows, value)))
            if other in every:
                cost = pair_loss(plan, cells, every[other])
                assert cost.within(Fraction(3))
                worst = max(worst, cost.nats)
    assert worst > 1.5
    assert not pair_loss(plan, every[()], every[0.0, 1.0, 3.0]).within(Fraction(3) / 2)


# --- intervals -------------------------------------------------------------------------------


def around(exact: list[int], rate: float, cutoff: int) -> tuple[Floats, Floats]:
    """Return all noisy cells within `cutoff` of the exact ones, and their chances."""
    z = np.arange(-cutoff, cutoff + 1)
    one = np.exp(-rate * np.abs(z)) * np.tanh(rate / 2)
    axes = np.meshgrid(*[z] * len(exact), indexing="ij")
    chance = one
    for _ in exact[1:]:
        chance = np.multiply.outer(chance, one)
    return np.stack(axes, axis=-1).reshape(-1, len(exact)) + np.array(exact), chance.ravel()


def held_by(
    plan: ReleasePlan, rows: list[int], low: int, high: int, *, wrong: float = 1.0
) -> float:
    """Return the chance that the interval holds the mean or sum of the rows clamped to these limits."""
    measurement, draw = parts(plan)
    clamped = [min(max(k, low), high) for k in rows]
    exact = [sum(k - low for k in clamped), sum(high - k for k in clamped)]
    rate = float(draw.noise_at(low, high).rate)
    noisy, chance = around(exact, rate, int(16 / rate))
    raw = np.concatenate([np.full((len(noisy), 2), [low, high]), noisy], axis=1).astype(float)
    assert draw.noise_scale is not None
    reading = Reading(raw, raw, raw, draw.noise_scale * wrong, 0.95)
    statistic_kind: StatisticKind = kind_named(plan.statistics[0].function)
    ends = statistic_kind.interval(measurement, reading)
    value = float(measurement.offset) * len(rows) + float(measurement.step_size) * sum(clamped)
    value = value if plan.statistics[0].function == "winsorised_sum" else value / len(rows)
    inside = (ends[0][:, 0] <= value + 1e-9) & (value - 1e-9 <= ends[1][:, 0])
    return float(chance[inside].sum())


ROWS = [[0], [3, 3, 3], [0, 1, 5, 6, 6, 6], [2] * 10 + [4] * 20]


@pytest.mark.parametrize("inner", ["mean", "sum"])
def test_intervals_hold_the_statistic_between_any_limits_by_enumeration(inner: str) -> None:
    plan = made(inner, x=SMALL, epsilon=4)
    found = [
        held_by(plan, rows, low, high)
        for rows in ROWS
        for low, high in [(0, 1), (0, 6), (2, 4), (5, 6)]
    ]
    assert min(found) >= 0.95 - 1e-6
    wide = made(inner, x=SMALL, epsilon={"mean": 0.8, "sum": 1.6}[inner])
    assert held_by(wide, ROWS[-1], 0, 6) >= 0.95 - 1e-6
    assert held_by(wide, ROWS[-1], 0, 6, wrong=0.9) < 0.95  # control: a tenth too short


@pytest.mark.parametrize("inner", TOGETHER, ids=str)
def test_intervals_of_whole_draws_hold_the_statistic_of_the_clamped_rows(
    inner: tuple[str, str],
) -> None:
    """Both draws together, up to 10,000 times: skewed rows with ties in a range that is much too wide."""
    x = {"kind": "number", "range": [0, 200], "step": 1}
    plan = made(*inner, share=0.1, x=x, epsilon=1, rows={"max": 900, "expected": 300})
    measurement, draw = parts(plan)
    pick, count = np.random.default_rng(7), sized(700, 10_000)
    values = np.minimum(np.floor(pick.exponential(5, 300)), 40)
    exact = cells_of(plan, answer_of(plan, table(tuple(values)), DuckDBEngine()))[0]
    raw = draw.draw(np.repeat(exact, count, axis=0), ReplayBits("whole"))
    limits = [(int(a), int(b)) for a, b, *_ in raw.tolist()]
    assert len(set(limits)) > 30
    reading = draw.reading(raw, 0.95)
    assert reading.scale is not None
    few = whole(200, count)  # of 200 draws the control's deviation is 0.03
    narrow = replace(draw.reading(raw[:few], 0.95), scale=reading.scale / 2)
    for one in inner:
        statistic_kind: StatisticKind = kind_named(f"winsorised_{one}")
        wanted = {(a, b): plainly(list(values), a, b, one) for a, b in set(limits)}
        truth = np.array([wanted[pair] for pair in limits])
        held = _held(statistic_kind, measurement, reading, truth)
        assert held >= 0.95 - 5 * (0.05 * 0.95 / count) ** 0.5
        assert _held(statistic_kind, measurement, narrow, truth[:few]) < 0.9  # control


def _held(
    statistic_kind: StatisticKind, measurement: Measurement, reading: Reading, truth: Floats
) -> float:
    low, high = statistic_kind.interval(measurement, reading)
    return float(((low[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= high[:, 0])).mean())


def test_a_table_of_several_holds_it_by_itself() -> None:
    tables = [
        {"name": "all", "by": [], "statistics": [winsorised()]},
        {"name": "g", "by": ["g"], "statistics": ["count"]},
    ]
    plan = planned(None, tables=tables)
    assert [b.table for b in plan.blocks if b.measurement.form == "winsorised"] == ["all"]
    assert execute.check(plan) == plan.epsilon
