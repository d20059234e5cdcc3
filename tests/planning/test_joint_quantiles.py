"""Which quantiles are chosen together, what the plan says, and what the wall refuses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.entropy import SystemBits
from dprelease.core.errors import ConfigError, InternalError
from dprelease.measurements.joint_ranks import JointLaw
from dprelease.measurements.law import Law, draw_from_json
from dprelease.measurements.ranks import ExponentialLaw
from dprelease.planning.make import make_plan
from dprelease.query.bounded import Near
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.planning.requests import forged

FIFTHS = [f"quantile(x, 0.{i})" for i in (4, 2, 6, 8)]


def declared(statistics: list[Any], most: int = 120, **more: Any) -> dict[str, Any]:
    return {
        "dprelease": "schema/1",
        "name": "joint",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"expected": 300, "max": 1000},
        "columns": {
            "who": {"kind": "identifier"},
            "x": {"kind": "integer", "range": [0, most]},
            "g": {"kind": "category", "values": ["a", "b"]},
        },
        "release": {"epsilon": 1, "statistics": statistics, **more.pop("release", {})},
        **more,
    }


def planned(statistics: list[Any], most: int = 120, **more: Any) -> ReleasePlan:
    schema = Schema.from_dict(declared(statistics, most, **more))
    return make_plan(resolve(schema, merge_release(schema)))


def families(plan: ReleasePlan) -> list[str]:
    return [b.family for b in plan.blocks]


def test_quantiles_of_one_column_are_one_choice_of_the_whole_epsilon() -> None:
    plan = planned([*FIFTHS, "count"])
    (block,) = (b for b in plan.blocks if b.family == "joint_ranks")
    assert [s.view for s in plan.statistics] == [1, 0, 2, 3, None]
    assert block.cells == tuple(f"candidate chosen for {FIFTHS[i]}" for i in (1, 0, 2, 3))
    assert block.mechanism == "exponential"
    assert not block.has_interval
    execute.check(plan)
    execute.check(ReleasePlan.from_json(plan.to_json()))


def test_the_plan_says_what_each_would_cost_by_itself() -> None:
    plan = planned(FIFTHS)
    told = plan.statistics[0]
    assert told.error_text == "±10 rows in rank where rows differ, ±31 at most (95 %)"
    assert told.sensitivity == "3.2 rows in rank"
    assert [o.note for o in told.chosen] == [
        "4 values chosen together, in order; if there are 300 rows, 3 or more of them share a value",
        "by itself at epsilon/4: ±15 rows in rank where rows differ, ±38 at most (95 %)",
    ]
    assert any("one choice for all of them" in note for note in told.notes)
    first = next(i for i, note in enumerate(told.notes) if note.startswith("chosen by rank"))
    assert "among 121 allowed values, together with 3 others; it aims at" in told.notes[first]
    assert told.notes[first + 1].endswith(
        "at most 31 rows from that aim, for any data; 10 rows if the rows differ and lie evenly over the domain"
    )
    assert (
        "the bound holds for all at once, however many rows share a value" in told.notes[first + 2]
    )


def test_a_plan_says_nothing_of_ranks_where_no_two_rows_may_share_a_value() -> None:
    told = planned(FIFTHS, release={"epsilon": 1e-9}).statistics[0]
    assert told.error_text == "any rank"
    assert "nothing is known of its rank at this epsilon" in told.notes


@pytest.mark.parametrize(
    ("statistics", "most", "more"),
    [
        (["median(x)", "min(x)"], 120, {}),
        (["median(x)", "quantile(x, 0.5)"], 120, {}),
        (FIFTHS, 10**6, {}),
        ([{"statistic": "median(x)", "share": 0.5}, "quantile(x, 0.9)"], 120, {}),
        ([{"statistic": "median(x)", "mechanism": "exponential"}, "quantile(x, 0.9)"], 120, {}),
        ([{"statistic": "median(x)", "domain": {"range": [0, 60]}}, "quantile(x, 0.9)"], 120, {}),
    ],
)
def test_quantiles_that_cannot_share_a_draw_are_chosen_one_by_one(
    statistics: list[Any], most: int, more: dict[str, Any]
) -> None:
    assert "joint_ranks" not in families(planned(statistics, most, **more))


UNITS: list[dict[str, Any]] = [
    {},
    {"adjacency": "substitution"},
    {"unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 3}},
    {
        "unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 3},
        "adjacency": "substitution",
    },
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("by", [[], ["g"]])
def test_every_unit_and_adjacency_keeps_its_epsilon(unit: dict[str, Any], by: list[str]) -> None:
    plan = planned(FIFTHS, 20,
                   release={"by": by}, **unit)  # fmt: skip
    assert families(plan) == ["joint_ranks"]
    execute.check(plan)
    draw = plan.blocks[0].law
    assert isinstance(draw, JointLaw)
    assert draw.law.certify().epsilon_upper <= plan.epsilon


def test_released_values_are_in_order_and_have_no_interval() -> None:
    rows = pd.DataFrame({"who": "p", "x": np.repeat(np.arange(100), 3), "g": ["a", "b", "a"] * 100})
    schema = declared(FIFTHS, release={"by": ["g"]})
    with pytest.warns(dp.UnledgeredWarning):
        table = dp.release(rows, schema).table.to_pandas()
    for _, group in table.groupby("g"):
        values = dict(zip(group["statistic"], group["value"], strict=True))
        rising = [values[n] for n in sorted(values)]
        assert rising == sorted(rising)
        assert set(group["status"]) <= {"no_interval", "at_bound", "uninformative"}
        assert group["lower"].isna().all()


def test_the_noisy_integers_that_a_law_can_draw() -> None:
    draw = planned(FIFTHS, 20).blocks[0].law
    raw = np.array([[0, 0, 9, 20], [3, 2, 5, 5], [0, 5, 5, 21], [-1, 0, 0, 0]], dtype=object)
    assert draw.drawable(raw).tolist() == [True, False, False, False]


def broken(plan: ReleasePlan, **changed: Any) -> ReleasePlan:
    (block,) = plan.blocks
    return replace(plan, blocks=(replace(block, **changed),))


def changed_law(block: Block, **law: Any) -> Law:
    return replace(block.law, law=replace(block.law.law, **law))  # type: ignore[attr-defined]


def test_the_wall_refuses_what_claims_less() -> None:
    plan = planned(FIFTHS, 20)
    (block,) = plan.blocks
    targets = [[str(i), "5", "0"] for i in (1, 2, 3, 4)]
    assert block.measurement.to_json()["weights"] == targets
    for weights in (
        [targets[1], targets[0], *targets[2:]],
        [targets[0], ["2", "6", "0"], *targets[2:]],
        [targets[0], ["2", "5", "1"], *targets[2:]],
        [*targets[:3], ["6", "5", "0"]],
        [[a, "10", "0"] for a, _, _ in targets],
        targets[:3],
        [],
    ):
        with pytest.raises(InternalError):
            execute.check(replace(plan, blocks=(forged(block, weights=weights),)))
    for law in (
        changed_law(block, spread=block.law.law.spread - 1),
        changed_law(block, p=block.law.law.p // 2),
        changed_law(block, candidates=21),
        replace(block.law, many=2),
        ExponentialLaw(block.law.law, block.law.allowed, block.law.step),
    ):
        with pytest.raises(InternalError):
            execute.check(broken(plan, law=law))


def test_the_wall_refuses_codes_of_one_rank_only() -> None:
    plan = planned(FIFTHS, 20)
    (tally,) = plan.query.primitives
    cut = replace(plan.query, primitives=(replace(tally, near=Near(1, 2, 0, 2**62)),))
    with pytest.raises(InternalError):
        execute.check(replace(plan, query=cut))


def test_a_law_that_was_replaced_is_read_and_never_drawn() -> None:
    (block,) = planned(FIFTHS, 20).blocks
    old = {**block.law.to_json(), "draw": "joint_exponential", "levels": 4}
    draw = draw_from_json(old)
    assert draw.cells(np.array([[0, 0, 9, 20]], dtype=object)).tolist() == [[0, 0, 9, 20]]
    with pytest.raises(InternalError, match="laws of its own"):
        execute.check(broken(planned(FIFTHS, 20), law=draw))
    with pytest.raises(InternalError, match="read and no longer drawn") as caught:
        draw.certify(Sensitivity(1, 1, 1, 1))
    assert caught.value.code == "DPR905"
    with pytest.raises(InternalError, match="read and no longer drawn"):
        draw.draw(np.empty((1, 1), dtype=object), SystemBits())
    with pytest.raises(ConfigError, match="its `levels` is not `4`"):
        draw_from_json({**old, "levels": 5})


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"expected": 121}, ""),
        ({"expected": 122}, "; if there are 122 rows, 2 or more of them share a value"),
        ({"expected": 10**6}, "; if there are 1,000,000 rows, 8,265 or more of them share a value"),
    ],
)
def test_the_plan_says_what_is_certain_about_rows_that_share_a_value(
    rows: dict[str, int], told: str
) -> None:
    note = planned(FIFTHS, rows=rows).statistics[0].chosen[0].note
    assert note == "4 values chosen together, in order" + told


def test_no_sequence_is_offered_whose_weights_would_be_alike_too_soon() -> None:
    """A user of a million rows at a small epsilon: weights end before they fall by the number of sequences."""
    user = {"user": "who", "max_groups": 1, "max_rows_per_group": 10**6}
    rows = {"expected": 10**9, "max": 10**10}
    enough = planned(FIFTHS, 120, unit=user, rows=rows, release={"epsilon": 10})
    assert families(enough) == ["joint_ranks"]
    few = planned(FIFTHS, 120, unit=user, rows=rows, release={"epsilon": 0.01})
    assert "joint_ranks" not in families(few)


def test_rank_errors_are_kept_on_rows_of_their_own() -> None:
    """All four ranks at once, 6 times: the bound is wide, a twentieth of it is not kept."""
    plan = planned(FIFTHS)
    draw = plan.blocks[0].law
    assert isinstance(draw, JointLaw)
    rows = np.arange(121)
    schema = declared(FIFTHS)
    frame = pd.DataFrame({"who": "p", "x": rows, "g": "a"})
    error = draw.rank_error(5, 0.95)
    assert error is not None
    kept = near = 0
    for _ in range(6):
        with pytest.warns(dp.UnledgeredWarning):
            values = sorted(dp.release(frame, schema).table.to_pandas()["value"])
        off = max(abs(v - q * 121) for v, q in zip(values, (0.2, 0.4, 0.6, 0.8), strict=True))
        kept += off <= error + 1
        near += off <= error / 20
    assert kept == 6
    assert near < 6
    assert all(a <= b for a, b in itertools.pairwise(values))
