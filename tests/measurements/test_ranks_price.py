"""Where min and max aim: the public simulation, and what it says about skewed and even data."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dprelease.measurements.ranks import ExponentialLaw
from dprelease.measurements.ranks_price import exponential_error, rows_inside
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.statistics.ranks import aimed
from tests.planning.requests import USER, planned
from tests.statistics.dense_ranks import rank_scores

X = {"kind": "number", "range": [0, 1000], "step": 1}


def aims(plan: ReleasePlan) -> list[str]:
    return [o.note for s in plan.statistics for o in s.chosen]


def spread_out(text: str, **options: object) -> PlannedStatistic:
    plan = planned([text], x=X, rows={"max": 10_000, "expected": 1000}, **options)
    return plan.statistics[0]


def test_more_rows_or_less_noise_bring_the_aim_nearer_and_below_the_naive_price() -> None:
    near = [
        rows_inside(rate, 1001, 1000, (1, 1), "absolute") for rate in (0.025, 0.075, 0.25, 0.75)
    ]
    assert near == sorted(near, reverse=True)
    assert near[0] > 40 > near[-1] > 0
    for rate in (0.075, 0.25):
        inside = aimed(1, 1, rows_inside(rate, 1001, 1000, (1, 1), "absolute"))
        found = exponential_error(rate, 1001, 1000, inside, "absolute")
        assert found < 0.75 * exponential_error(4 * rate, 1001, 1000, (1, 1, 0), "absolute")


def test_a_large_epsilon_aims_at_the_end_itself() -> None:
    for candidates in (11, 1001, 10**9):
        assert rows_inside(41.0, candidates, 1000, (1, 1), "absolute") == 1
        assert rows_inside(41.0, candidates, 1000, (0, 1), "squared") == 1


def test_candidates_between_the_public_tables_weigh() -> None:
    """The wider the range, the more rows inside: what lies beyond the data are more candidates."""
    wide = [
        rows_inside(0.25, candidates, 1000, (1, 1), "absolute")
        for candidates in (1001, 10**6, 10**12)
    ]
    assert wide[0] < wide[1] < wide[2]
    errors = [
        exponential_error(0.5, candidates, 1000, (1, 2, 0), "absolute")
        for candidates in (1001, 10**12)
    ]
    assert errors[0] < errors[1]


def test_min_and_max_mirror_each_other() -> None:
    for loss in ("absolute", "squared"):
        for rate in (0.1, 1.0):
            low = rows_inside(rate, 401, 500, (0, 1), loss)
            high = rows_inside(rate, 401, 500, (1, 1), loss)
            assert low == high
            assert exponential_error(rate, 401, 500, aimed(0, 1, low), loss) == pytest.approx(
                exponential_error(rate, 401, 500, aimed(1, 1, high), loss)
            )


def test_a_price_falls_with_epsilon_and_is_never_zero() -> None:
    for target in ((1, 2, 0), (1, 1, 0), (9, 10, 0)):
        found = [
            exponential_error(rate, 2, 100, target, "absolute") for rate in (0.01, 0.1, 1.0, 10.0)
        ]
        assert found == sorted(found, reverse=True)
        assert found[-1] > 0
        assert exponential_error(0.1, 500, 100, target, "squared") <= exponential_error(
            0.1, 500, 100, target, "absolute"
        )


def test_the_plan_offers_both_aims_and_names_the_rows() -> None:
    high = spread_out("max(x)")
    assert high.chosen[0].note == "the value with 19 rows above it"
    assert high.chosen[2].note == "the last row's value or any value beyond"
    assert high.error_text == "19 ±6 rows from the end where rows differ, ±18 at most (95 %)"
    low = spread_out("min(x)", epsilon="0.05")
    assert low.chosen[0].note == "the first row's value or any value beyond"
    assert low.error_text.startswith("0 to ")
    assert low.error_text.endswith("(95 %), or beyond the data")


def test_a_quantile_states_its_error_in_rows_and_no_error_in_values() -> None:
    middle = spread_out("median(x)")
    assert middle.error_text == "±3 rows in rank where rows differ, ±9 at most (95 %)"
    assert middle.planned_error is None
    assert middle.sensitivity == "1 row in rank"
    assert middle.chosen[0].expected_error is None
    assert any("no interval" in note for note in middle.notes)
    assert any("without rows" in note for note in middle.notes)
    assert spread_out("quantile(x, 0.9)").sensitivity == "1.8 rows in rank"
    assert spread_out("median(x)", unit=USER, by=["g"]).sensitivity == "6 rows in rank"


def test_spikes_forbidden_and_the_exponential_pinned_are_both_met() -> None:
    for options in ({"spikes": "forbid"}, {"mechanism": "exponential"}):
        plan = planned([{"statistic": "median(x)", **options}], x=X)
        assert plan.blocks[0].mechanism == options.get("mechanism", "permute_and_flip")


def test_quantiles_of_one_column_are_charged_together_and_those_with_a_share_one_by_one() -> None:
    asked = ["quantile(x, 0.25)", "median(x)", "quantile(x, 0.75)", "max(x)"]
    plan = planned(asked, x=X, epsilon=2)
    assert [b.family for b in plan.blocks] == ["joint_ranks", "ranks"]
    assert sum(b.epsilon for b in plan.blocks) == 2
    apart = planned([{"statistic": s, "share": 0.25} for s in asked], x=X, epsilon=2)
    assert len(apart.blocks) == 4
    assert sum(b.epsilon for b in apart.blocks) == 2


# --- measured on data ---------------------------------------------------------------------------


def data(shape: str, n: int = 1000) -> np.ndarray:
    u = (np.arange(n) + 0.5) / n
    if shape == "even":
        return np.floor(u * 1001)
    if shape == "half":
        return np.floor(u * 500)
    return np.minimum(np.floor(-np.log1p(-u) * 40), 1000)  # skewed, its largest near 300


@cache
def points_and_shares() -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre's points: exact for polynomials of degree 1001, and a product has one of 1000."""
    return np.polynomial.legendre.leggauss(501)


def expected_error(law: ScoreLaw, values: np.ndarray, target: tuple[int, int, int]) -> float:
    """Return the mean error: a candidate y of weight w is chosen with w times the integral of prod (1 - t w_z) over z != y."""
    tally = np.bincount(values.astype(int), minlength=1001)[None, :]
    scores = rank_scores(tally, *target)[0]
    weights = law.weights(scores - scores.min()).astype(float)
    weights /= weights.max()
    nodes, shares = points_and_shares()
    t = (nodes[:, None] + 1) / 2
    each = np.log1p(-t * weights)
    others = each.sum(axis=1, keepdims=True) - each
    p = weights * (shares[:, None] / 2 * np.exp(others)).sum(axis=0)
    assert abs(p.sum() - 1) < 1e-6
    return float((p * np.abs(np.arange(1001) - values.max())).sum())


def test_aiming_inside_beats_the_naive_maximum_unless_the_data_fill_the_range() -> None:
    planned_draw = planned(["max(x)"], x=X, rows={"max": 10_000, "expected": 1000}).blocks[0].law
    assert isinstance(planned_draw, ExponentialLaw)
    assert isinstance(planned_draw.law, FlipLaw)
    naive = FlipLaw.from_scores(ScoreLaw.calibrate(1001, spread=1, epsilon=1))
    found = {
        shape: (
            expected_error(planned_draw.law, data(shape), aimed(1, 1, 20)),
            expected_error(naive, data(shape), (1, 1, 0)),
        )
        for shape in ("even", "half", "skewed")
    }
    assert found["half"][0] < 0.15 * found["half"][1]
    assert found["skewed"][0] < 0.65 * found["skewed"][1]
    assert found["even"][1] < found["even"][0] < 30  # the price of not knowing: 2 % of the range
