"""Which quantiles are chosen one inside the other, what the plan says, and what the wall refuses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ArgumentError, ConfigError, InternalError
from dprelease.measurements.law import draw_from_json
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.query.bounded import Near
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.planning.requests import forged
from tests.planning.test_joint_quantiles import UNITS, broken, declared, families
from tests.planning.test_joint_quantiles import planned as plan_of
from tests.sizes import whole

WIDE = 10**6
"""The greatest value of a column for which no sequence can be drawn."""
QUARTILES = ["quantile(x, 0.5)", "quantile(x, 0.25)", "quantile(x, 0.75)"]


MANY = {"expected": 10**4, "max": 10**5}
"""Rows of which a value by itself is told apart by a fortieth and less."""


def planned(statistics: list[Any], most: int = 120, **more: Any) -> ReleasePlan:
    """Plan for few rows: a value by itself misses more than a fortieth of them."""
    return plan_of(statistics, most, **{"rows": {"expected": 100, "max": 1000}} | more)


def shares(many: int) -> list[str]:
    return [f"quantile(x, {i / (many + 1):.3g})" for i in range(1, many + 1)]


def law_of(plan: ReleasePlan) -> RecursiveRanksLaw:
    draw = plan.blocks[0].law
    assert isinstance(draw, RecursiveRanksLaw)
    return draw


def test_quartiles_are_chosen_one_inside_the_other() -> None:
    plan = planned([*QUARTILES, "count"], WIDE)
    (block,) = (b for b in plan.blocks if b.family == "recursive_ranks")
    assert [s.view for s in plan.statistics] == [1, 0, 2, None]
    assert block.cells == tuple(f"candidate chosen for {QUARTILES[i]}" for i in (1, 0, 2))
    assert block.mechanism == "exponential"
    assert not block.has_interval
    execute.check(plan)
    execute.check(ReleasePlan.from_json(plan.to_json()))


def test_the_plan_says_what_the_other_ways_would_cost() -> None:
    told = planned(QUARTILES, WIDE).statistics[0]
    assert told.error_text == (
        "±6 rows in rank where rows differ, ±54 at most (95 %) if no two rows share a value"
    )
    assert told.sensitivity == "2 rows in rank"
    where = "rows in rank, root mean square where all rows differ"
    assert [o.note for o in told.chosen] == [
        f"3 values chosen one inside the other: about 2.83 {where}",
        f"by itself at epsilon/3: about 4.24 {where}",
    ]
    first = next(i for i, note in enumerate(told.notes) if note.startswith("chosen by rank"))
    assert "among 1,000,001 allowed values, together with 2 others; it aims at" in told.notes[first]
    assert told.notes[first + 1].endswith(
        "at most 54 rows from that aim if no two rows share a value, and 75 if no more than 1,000 do, "
        "for any data; 6 rows if the rows differ and lie evenly over the domain"
    )
    assert "in 2 levels of which a row is in one choice each" in told.notes[first + 2]


def test_the_plan_says_what_is_certain_about_rows_that_share_a_value() -> None:
    rows = {"expected": 10**7, "max": 10**8}
    told = planned(QUARTILES, WIDE, rows=rows, release={"epsilon": 1e-5}).statistics[0]
    assert told.chosen[0].note.endswith(
        "if there are 10,000,000 rows, 10 or more of them share a value"
    )


def test_a_plan_says_what_a_choice_of_sequences_would_cost() -> None:
    notes = [o.note for o in planned(shares(39)).statistics[19].chosen]
    assert (
        notes[2]
        == "together by one choice: about 17.2 rows in rank, root mean square where all rows differ"
    )


def test_a_plan_says_nothing_of_ranks_where_it_knows_nothing() -> None:
    told = planned(QUARTILES, WIDE, release={"epsilon": 1e-9}).statistics[0]
    assert told.error_text == "any rank"
    assert "nothing is known of its rank at this epsilon" in told.notes


@pytest.mark.parametrize(
    ("statistics", "most", "more", "family"),
    [
        (QUARTILES, 120, {}, "joint_ranks"),
        (QUARTILES, 50_000_000, {}, "recursive_ranks"),  # no sequence can be drawn there
        (shares(19), 120, {}, "joint_ranks"),
        (shares(19), 1000, {}, "recursive_ranks"),  # too much work
        (shares(39), 120, {"rows": {"expected": 10**4}}, "joint_ranks"),  # some value has 83 of them
        (shares(39), 120, {}, "recursive_ranks"),
        (shares(39), 120, {"adjacency": "substitution"}, "joint_ranks"),
        (shares(19), 120, {"rows": {"expected": 30}}, "joint_ranks"),
        (shares(whole(49, 99)), 50_000_000, {}, "recursive_ranks"),
        (["quantile(x, 0.001)", "quantile(x, 0.002)"], 10**6, {}, "recursive_ranks"),
        (shares(4), 120, {}, "joint_ranks"),
        (shares(9), 120, {}, "joint_ranks"),
        (QUARTILES, 120, {"adjacency": "substitution"}, "joint_ranks"),
        (QUARTILES, WIDE, {"rows": MANY}, "ranks"),  # each finds what a fortieth of the rows share
        (QUARTILES, WIDE, {"rows": MANY, "release": {"epsilon": 0.01}}, "recursive_ranks"),
        (shares(9), WIDE, {"rows": MANY}, "recursive_ranks"),  # less than half the error
        (shares(9), WIDE, {"rows": MANY, "release": {"delta": 1e-6}}, "ranks"),  # not where rho adds up
        (["median(x)"], 120, {}, "ranks"),
        (["median(x)", "max(x)"], 120, {}, "ranks"),
        ([{"statistic": "median(x)", "share": 0.5}, "quantile(x, 0.9)"], 120, {}, "ranks"),
        ([{"statistic": "median(x)", "mechanism": "exponential"}, "quantile(x, 0.9)"], 120, {}, "ranks"),
        (QUARTILES, 2**60 - 2, {}, "ranks"),  # every hundredth point is too many
    ],
)  # fmt: skip
def test_the_way_that_misses_less_is_taken(
    statistics: list[Any], most: int, more: dict[str, Any], family: str
) -> None:
    plan = planned(statistics, most, **more)
    assert set(families(plan)) == {family}
    execute.check(plan)


def test_a_domain_that_is_asked_for_is_kept() -> None:
    asked = [{"statistic": s, "domain": {"range": [0, 50_000_000]}} for s in QUARTILES]
    assert set(families(planned(asked, 50_000_000))) == {"ranks"}
    assert {s.step for s in planned(QUARTILES, 50_000_000).statistics} == {Fraction(10)}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("by", [[], ["g"]])
def test_every_unit_and_adjacency_keeps_its_epsilon(unit: dict[str, Any], by: list[str]) -> None:
    plan = planned(QUARTILES, 10**6, release={"by": by}, **unit)
    assert families(plan) == ["recursive_ranks"]
    execute.check(plan)
    assert law_of(plan).law.certify().epsilon_upper <= plan.epsilon


def test_released_values_are_in_order_whatever_the_rows() -> None:
    """Groups of 2,000 equal rows, of one row, of none, of rows that all differ."""
    rows = pd.concat(
        [
            pd.DataFrame({"x": 50, "g": "heap"}, index=range(2_000)),
            pd.DataFrame({"x": [7], "g": "one"}),
            pd.DataFrame({"x": np.arange(121), "g": "differ"}),
        ]
    )
    schema = declared(QUARTILES, release={"by": ["g"], "epsilon": 4})
    schema["columns"]["g"]["values"] = ["heap", "one", "none", "differ"]
    with pytest.warns(dp.UnledgeredWarning):
        table = dp.release(rows, schema).table.to_pandas()
    assert len(table) == 12
    for name, group in table.groupby("g"):
        values = dict(zip(group["statistic"], group["value"], strict=True))
        rising = [values[n] for n in sorted(values)]
        assert rising == sorted(rising)
        assert all(0 <= v <= 120 for v in rising)
        assert group["lower"].isna().all()
        if name == "heap":
            assert rising == [50, 50, 50]


def test_under_a_delta_the_levels_count_by_their_rho() -> None:
    """Of 24 columns: the same epsilon and delta, and each column has more of it than by adding losses up."""
    columns = {f"x{i}": {"kind": "integer", "range": [0, 10**6]} for i in range(24)}
    asked = [
        {"statistic": f"quantile(x{i}, {p})", "as": f"q{i}_{int(100 * p)}"}
        for i in range(24)
        for p in (0.25, 0.5, 0.75)
    ]
    plain = planned(asked, columns=columns)
    plan = planned(asked, columns=columns, release={"delta": 0.000001})
    assert {b.family for b in plan.blocks} == {"recursive_ranks"}
    assert plan.composition is not None
    assert plan.composition.method == "zcdp/1"
    execute.check(plan)
    assert law_of(plan).law.epsilon > 3 * law_of(plain).law.epsilon


def test_the_wall_refuses_what_claims_less() -> None:
    plan = planned(QUARTILES, WIDE)
    (block,) = plan.blocks
    targets = [["1", "4", "0"], ["2", "4", "0"], ["3", "4", "0"]]
    assert block.measurement.to_json()["weights"] == targets
    for weights in (
        [targets[1], targets[0], targets[2]],
        [targets[0], ["2", "5", "0"], targets[2]],
        [targets[0], ["2", "4", "1"], targets[2]],
        [*targets[:2], ["5", "4", "0"]],
        [["1", "8", "0"], ["2", "8", "0"], ["3", "8", "0"]],
        targets[:2],
        [],
    ):
        with pytest.raises(InternalError):
            execute.check(replace(plan, blocks=(forged(block, weights=weights),)))
    draw = law_of(plan)
    for changed in (
        replace(draw, law=replace(draw.law, spread=draw.law.spread - 1)),
        replace(draw, law=replace(draw.law, p=draw.law.p // 2)),
        replace(draw, law=replace(draw.law, candidates=draw.law.candidates - 1)),
        replace(draw, many=2),
        replace(draw, targets=(1, 2), many=2),
        replace(draw, targets=(3, 4, 5), b=6),
    ):
        with pytest.raises((ArgumentError, InternalError)):
            execute.check(broken(plan, law=changed))
    for unread in (
        {**block.law.to_json(), "targets": [2, 1, 3]},
        {**block.law.to_json(), "copies": 0},
        {**block.law.to_json(), "units": 2**13},
    ):
        with pytest.raises(ConfigError):
            draw_from_json(unread)


def test_the_wall_refuses_codes_of_one_rank_only() -> None:
    plan = planned(QUARTILES, WIDE)
    (tally,) = plan.query.primitives
    cut = replace(plan.query, primitives=(replace(tally, near=Near(1, 2, 0, 2**62)),))
    with pytest.raises(InternalError):
        execute.check(replace(plan, query=cut))


def test_the_noisy_integers_that_a_law_can_draw() -> None:
    draw = law_of(planned(QUARTILES, WIDE))
    raw = np.array([[0, 0, WIDE], [3, 2, 5], [0, 5, WIDE + 1], [-1, 0, 0]], dtype=object)
    assert draw.drawable(raw).tolist() == [True, False, False, False]
