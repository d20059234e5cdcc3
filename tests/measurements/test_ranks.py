"""A choice by rank from rows to value: exact privacy of the whole path, the wall's guards, fit."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ConfigError, InternalError
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.measurements.law import draw_from_json
from dprelease.measurements.ranks import ExponentialLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.ranks import stretches
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.planning.requests import USER, declared, planned
from tests.sizes import FULL, some, whole
from tests.statistics.dense_ranks import rank_scores, sparse, spread_out

Json = dict[str, Any]

GAPPED = {"kind": "number", "range": [0, 5], "forbidden": [[1, 3]], "step": 1}
ROWS = [None, -7.0, 1.0, 2.0, 3.0, 9.0]
FEW = {"max": 50, "expected": 3}
"""So few that the planner's aim lies within the tables that are enumerated."""
MECHANISMS = ("exponential", "permute_and_flip")
FUNCTIONS = ("median(x)", "quantile(x, 0.75)", "min(x)", "max(x)")


def choice(plan: ReleasePlan, place: int = 0) -> ExponentialLaw:
    law = plan.blocks[place].law
    assert isinstance(law, ExponentialLaw)
    return law


def scores(plan: ReleasePlan, rows: list[tuple[float | None, str, str]]) -> list[list[int]]:
    """Return the scores of the candidates per group, from rows (x, group, unit), by the engine."""
    types = pa.schema([("x", pa.float64()), ("g", pa.string()), ("who", pa.string())])
    table = pa.table([pa.array(c, t.type) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
                     if rows else [pa.array([], t.type) for t in types], schema=types)  # fmt: skip
    answer = ReferenceEngine().compute(as_source(table), plan.query, b"salt").reveal_to_mechanism()
    block = plan.blocks[0]
    measurement = block.measurement
    exact = exact_cells(measurement, block.measurement.primitives, answer, len(plan.keys))
    return [spread_out(choice(plan), one) for (one,) in exact]


@pytest.mark.parametrize(
    ("adjacency", "text", "mechanism"),
    some(itertools.product(["add_remove", "substitution"], FUNCTIONS, MECHANISMS), 3),
)
def test_the_whole_path_keeps_epsilon_by_enumeration(
    text: str, adjacency: str, mechanism: str
) -> None:
    """Every table of up to four rows (three in every run), every neighbour, every candidate: exact pmfs."""
    asked = {"statistic": text, "mechanism": mechanism}
    plan = planned([asked], x=GAPPED, adjacency=adjacency, epsilon="0.8", rows=FEW)
    assert plan.blocks[0].mechanism == mechanism
    law, bound = choice(plan).law, math.exp(0.8) * (1 + 1e-12)
    pmf = {}
    for size in range(whole(4, 5)):
        for rows in itertools.combinations_with_replacement(range(len(ROWS)), size):
            pmf[rows] = law.pmf(scores(plan, [(ROWS[i], "a", "u") for i in rows])[0])
    worst = 0.0
    for rows, p in pmf.items():
        for i in range(len(rows)):
            rest = rows[:i] + rows[i + 1 :]
            near = [rest]
            if adjacency == "substitution":
                near = [tuple(sorted((*rest, j))) for j in range(len(ROWS))]
            for other in near:
                for a, b in zip(p, pmf[other], strict=True):
                    worst = max(worst, float(a / b), float(b / a))
    assert worst <= bound
    assert worst > math.exp(0.4)  # the bound is not idle


@pytest.mark.parametrize(
    ("text", "mechanism"), some(itertools.product(["median(x)", "max(x)"], MECHANISMS), 3)
)
def test_a_user_over_two_groups_keeps_epsilon(text: str, mechanism: str) -> None:
    """All that one user may do in two of three groups, on top of others' rows, against nothing."""
    plan = planned(
        [{"statistic": text, "mechanism": mechanism}], x={"kind": "number", "range": [0, 4], "step": 1}, by=["g"], epsilon=1,
        unit={"user": "who", "max_groups": 2, "max_rows_per_group": 2}, rows=FEW,
    )  # fmt: skip
    law = choice(plan).law
    others = [(1.0, g, f"u{i}") for i, g in enumerate("aaabbbccc")]
    others += [(3.0, g, f"v{i}") for i, g in enumerate("aaab")]
    before = [law.pmf(row) for row in scores(plan, others)]
    worst = 0.0
    for values in itertools.product((0.0, 2.0, 4.0), repeat=4):
        own = [(v, g, "me") for v, g in zip(values, "aabb", strict=True)]
        own += [(4.0, "c", "me"), (0.0, "a", "me")]  # too many groups, too many rows
        after = [law.pmf(row) for row in scores(plan, others + own)]
        ratios = [
            max(max(float(x / y), float(y / x)) for x, y in zip(p, q, strict=True))
            for p, q in zip(before, after, strict=True)
        ]
        worst = max(worst, math.prod(ratios))
    assert 1.5 < worst <= math.e * (1 + 1e-12)


def test_one_group_alone_cannot_carry_the_claim_of_two() -> None:
    plan = planned(["median(x)"], by=["g"], unit=USER)
    law = choice(plan)
    assert law.law.spread == 2 * 3 * 2  # spread 2 per row, 3 rows, 2 groups
    with pytest.raises(InternalError) as caught:
        law.certify(
            Sensitivity(l1_per_group=12, l1_over_groups=24, changed_groups=2, chain_length=2)
        )
    assert caught.value.code == "DPR901"


# --- reading back -------------------------------------------------------------------------------


def test_values_are_candidates_and_there_is_no_interval() -> None:
    law = choice(planned(["max(x)"], x=GAPPED))
    raw = np.array([[0], [1], [2], [4], [99], [-5]], dtype=object)
    assert law.cells(raw)[:, 0].tolist() == [0, 1, 3, 5, 5, 0]
    assert all(np.isnan(end).all() for end in law.box(raw, 0.95))
    assert not law.empty(raw).any()
    assert law.noise_scale is None


def test_no_candidate_lies_in_a_gap_however_often_it_is_drawn() -> None:
    plan = planned(["median(x)"], x=GAPPED, epsilon="0.1")
    law = choice(plan)
    # half of the rows at 1, half at 3: what lies between is best, and forbidden
    (exact,) = stretches(sparse([[0, 9, 0, 9, 0, 0]]), 1, 1, 2, 0)
    raw = law.draw(np.array([exact] * 500), ReplayBits("gap"))
    assert set(law.cells(raw)[:, 0].tolist()) == {0, 1, 3, 4, 5}


@pytest.mark.statistical
def test_draws_fit_the_pmf_with_a_control_on_both_sides() -> None:
    plan = planned(["median(x)"], x={"kind": "number", "range": [0, 9], "step": 1}, epsilon=2)
    law = choice(plan)
    row = scores(plan, [(float(v), "a", "u") for v in (2, 2, 3, 5, 5, 5, 8, 9)])[0]
    (exact,) = stretches(sparse([[0, 0, 2, 1, 0, 3, 0, 0, 1, 1]]), 1, 1, 2, 0)
    drawn = law.draw(np.array([exact] * whole(10_000, 20_000)), ReplayBits("choice"))[:, 0].astype(
        int
    )
    seen = np.bincount(drawn, minlength=10)

    def fits(other: ExponentialLaw) -> float:
        expected = np.array([float(x) for x in other.law.pmf(row)]) * seen.sum()
        return float(stats.chisquare(seen, expected).pvalue)

    assert fits(law) > 1e-6
    for factor in ("0.9", "1.1"):
        p = round(2**120 * math.exp(-law.law.rate * float(factor)))
        assert fits(replace(law, law=replace(law.law, p=p))) < 1e-6


@pytest.mark.parametrize("target", [(1, 2, 0), (3, 4, 0), (2, 2, -7)])
def test_the_rank_error_holds_for_all_small_tables(target: tuple[int, int, int]) -> None:
    from dprelease.mechanisms.forms.scores import ScoreLaw
    from dprelease.schema.domain import GridSet
    from dprelease.statistics.ranks import spreads

    law = ScoreLaw.calibrate(6, spread=spreads(*target)[0], epsilon=4)
    draw = ExponentialLaw(law, GridSet(((0, 5),)), Fraction(1))
    error = law.score_error(0.95)
    assert draw.rank_error(target[1], 0.95) == -(-error // target[1])
    worst = 0.0
    for counts in itertools.product((0, 1, 3, 9) if FULL else (0, 1, 9), repeat=6):
        row = rank_scores(np.array([counts]), *target)[0]
        beyond = row > row.min() + error
        worst = max(worst, float(sum(itertools.compress(law.pmf(row), beyond))))
    assert worst <= 0.05
    assert law.score_error(0.5) < error < law.score_error(0.999)


# --- the wall -----------------------------------------------------------------------------------


def other_candidates(plan: Json) -> None:
    plan["blocks"][0]["law"]["allowed"] = [["0", "4"]]


def fewer_codes(plan: Json) -> None:
    plan["query"]["codes"][0]["runs"] = [["0", "5"]]


def smaller_spread(plan: Json) -> None:
    law = plan["blocks"][0]["law"]["law"]
    law["spread"] = (
        str(int(law["spread"]) // 2) if isinstance(law["spread"], str) else law["spread"] // 2
    )


def steeper(plan: Json) -> None:
    law = plan["blocks"][0]["law"]["law"]
    law["p"] = str(int(law["p"]) * 9 // 10)


def another_share(plan: Json) -> None:
    plan["blocks"][0]["measurement"]["weights"] = [["9", "10", "0"]]


def nearer_codes(plan: Json) -> None:
    near = plan["query"]["primitives"][0]["near"]
    near[3] = str(int(near[3]) - 1)


def codes_near_another_rank(plan: Json) -> None:
    plan["query"]["primitives"][0]["near"][2] = "1"


def further_weights(plan: Json) -> None:
    plan["blocks"][0]["law"]["law"]["last"] += 1


def scores_as_cells(plan: Json) -> None:
    plan["blocks"][0]["measurement"]["form"] = "linear"


def a_law_for_numbers(plan: Json) -> None:
    other = planned(["count"]).to_json()["blocks"][0]
    plan["blocks"][0].update(law=other["law"], mechanism=other["mechanism"])


@pytest.mark.parametrize(
    "change",
    [other_candidates, fewer_codes, smaller_spread, steeper, another_share, nearer_codes,
     codes_near_another_rank, further_weights, scores_as_cells,
     a_law_for_numbers],
)  # fmt: skip
def test_a_tampered_choice_is_refused(change: Callable[[Json], None]) -> None:
    plan = json.loads(json.dumps(planned(["median(x)"], x=GAPPED).to_json()))
    execute.check(ReleasePlan.from_json(plan))
    value = copy.deepcopy(plan)
    change(value)
    with pytest.raises(InternalError) as caught:
        execute.check(ReleasePlan.from_json(value))
    assert caught.value.code in ("DPR901", "DPR902")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_json_round_trip_and_malformed_choices(mechanism: str) -> None:
    law = choice(planned([{"statistic": "median(x)", "mechanism": mechanism}], x=GAPPED))
    stored = json.loads(json.dumps(law.to_json()))
    assert type(law).from_json(stored) == draw_from_json(stored) == law
    number = planned(["count"]).to_json()["blocks"][0]["law"]["law"]
    for wrong in ({**stored["law"], "p": 0}, number):
        with pytest.raises(ConfigError) as caught:
            type(law).from_json({**stored, "law": wrong})
        assert caught.value.code == "DPR180"


def test_a_declared_but_empty_table_is_drawn_all_the_same() -> None:
    assert declared(["median(x)"]).release is not None
    plan = planned(["median(x)"], x=GAPPED)
    assert scores(plan, []) == [[0] * 5]


def test_a_quantile_far_out_of_users_with_many_rows_is_planned_and_said_to_say_nothing() -> None:
    """At an epsilon per rank below 10**-8: a refusal would not be an answer, and \"any rank\" is one."""
    many = {"user": "who", "max_groups": 1, "max_rows_per_group": 100}
    plan = planned(
        ["quantile(x, 0.999)"], epsilon="0.001", unit=many, rows={"max": 10**6, "expected": 1000}
    )
    (statistic,) = plan.statistics
    assert statistic.uninformative is not None
    assert plan.epsilon == Fraction(1, 1000)
