"""Choice by scores: the spread bound in rationals, fit, totality, twins; and the scalar form."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError, InternalError
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms import Exponential
from dprelease.mechanisms.forms.scores import ScoreLaw, _power_upper
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.schema.domain import Domain, GridSet
from tests.mechanisms.plans import EPSILONS, StuckBits
from tests.sizes import whole


def ratio_between(law: ScoreLaw, before: list[int], after: list[int]) -> Fraction:
    p, q = law.pmf(before), law.pmf(after)
    return max(a / b for a, b in zip(p, q, strict=True))


def test_every_neighbour_within_the_spread_is_within_epsilon_in_rationals() -> None:
    pick = random.Random("scores")
    plans = 0
    for i in range(80):
        m, spread = pick.randint(2, 5), pick.choice([1, 2, 3])
        epsilon = EPSILONS[i % len(EPSILONS)]
        law = Exponential.for_scores(m, spread=spread, epsilon=epsilon)
        assert law.certificate.epsilon_upper == epsilon
        scores = [pick.choice([0, 1, 2, 5, 40, 900]) for _ in range(m)]
        changes = list(product(range(spread + 1), repeat=m))  # up to a common shift
        tried = changes if len(changes) < 80 else pick.sample(changes, 80)
        worst = max(
            ratio_between(law, scores, [s + c for s, c in zip(scores, change, strict=True)])
            for change in [*tried, tuple(spread * (s > min(scores)) for s in scores)]
        )
        assert worst <= exp_lower(epsilon)
        plans += 1
    assert plans >= 60


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=6),
    st.lists(st.integers(-2, 2), min_size=6, max_size=6),
)
@settings(max_examples=80)
def test_two_sided_changes_cost_twice_their_size(scores: list[int], change: list[int]) -> None:
    law = Exponential.for_scores(len(scores), spread=4, epsilon=Fraction(1))
    after = [s + c for s, c in zip(scores, change, strict=False)]
    assert ratio_between(law, scores, after) <= exp_lower(Fraction(1))
    assert ratio_between(law, after, scores) <= exp_lower(Fraction(1))


def test_the_bound_is_attained_nothing_is_wasted() -> None:
    law = Exponential.for_scores(2, spread=1, epsilon=Fraction(3))
    assert ratio_between(law, [0, 2], [0, 3]) > exp_lower(Fraction(299, 100))


def test_the_support_is_the_same_whatever_the_scores() -> None:
    law = Exponential.for_scores(4, spread=1, epsilon=Fraction(10))
    extremes = [-(2**63), 2**63 - 1, 0, 7]
    assert min(law.pmf(np.array(extremes))) > 0
    assert sum(law.pmf(np.array(extremes))) == 1
    low = law.draw_scores(np.array([extremes] * 50), ReplayBits("far"))
    assert set(low.tolist()) == {0}  # the smallest score wins, without overflow


@pytest.mark.parametrize(
    ("candidates", "rate"),
    [
        (2, 1),
        (5 * 10**7, "1/2"),
        (2**60, "1/2"),
        (2**60, "1/1000"),
        (9, "0.0000003"),
        (2**60, 200),
        (3, 41),
    ],
)
def test_weights_never_rise_never_fall_by_more_than_p_and_end_far_below_the_best(
    candidates, rate
) -> None:
    law = ScoreLaw.calibrate(candidates, spread=1, epsilon=rate)
    ratio, end = Fraction(law.p, 2**120), law.last
    near = [*range(min(end, 400) + 1), *range(max(0, end - 400), end + 1)]
    edges = [e + i for e in range(0, end, max(1, end // 200 // 65536 * 65536)) for i in (-1, 0)]
    for k in sorted({k for k in (*near, *edges) if 0 <= k < end + 3}):
        here, after = law.weights(np.array([k, k + 1]))
        assert here * ratio <= after <= here
    best, last = law.weights(np.array([0, end]))
    assert candidates * last <= best * Fraction(1, 2**20)
    assert law.weights(np.array([10**15]))[0] == last


@pytest.mark.parametrize("spread", [99_900, 10**9])
def test_a_rate_of_next_to_nothing_is_a_law_too(spread: int) -> None:
    """Its table ends early; rises and falls are the same, and so is the proof."""
    law = ScoreLaw.calibrate(1001, spread=spread, epsilon=Fraction(1, 1000))
    assert law.certify().epsilon_upper <= Fraction(1, 1000)
    assert float(law.certify().epsilon_upper) > 0.00099
    at = np.unique(np.linspace(0, law.last, 2000).astype(np.int64))
    weights = law.weights(np.concatenate([at, at + 1])).tolist()
    r = Fraction(law.p, 2**120)
    assert all(
        after <= before and before * r <= after
        for before, after in zip(weights[: len(at)], weights[len(at) :], strict=True)
    )
    assert weights[-1] < weights[0]


def test_runs_of_equal_scores_have_the_law_of_their_candidates() -> None:
    law, bits = ScoreLaw.calibrate(10, spread=2, epsilon=2), ReplayBits("runs")
    counts, scores = np.array([3, 1, 0, 4, 2]), np.array([5, 0, 0, 1, 7])
    chance = [float(c) for c in law.pmf(np.repeat(scores, counts))]
    starts = np.cumsum(counts) - counts
    drawn = [law.draw_runs(counts, scores, bits) for _ in range(8000)]
    seen = np.bincount([starts[run] + place for run, place in drawn], minlength=10)
    assert stats.chisquare(seen, 8000 * np.array(chance)).pvalue > 1e-6
    assert stats.chisquare(seen, 8000 * np.array(chance[::-1])).pvalue < 1e-6


def test_all_of_2_to_the_60_candidates_can_be_drawn_and_one_beats_them() -> None:
    law = ScoreLaw.calibrate(2**60, spread=1, epsilon=60)
    counts, scores = np.array([2**59, 1, 2**59 - 1]), np.array([1, 0, 1])
    assert {law.draw_runs(counts, scores, ReplayBits(f"{i}")) for i in range(50)} == {(1, 0)}
    flat = [law.draw_runs(counts, 0 * scores, ReplayBits(f"{i}")) for i in range(200)]
    assert stats.kstest([p / 2.0**59 for run, p in flat if run == 0], "uniform").pvalue > 1e-6
    assert 60 < sum(run for run, _ in flat) / 2 < 140


@pytest.mark.statistical
def test_draws_fit_the_pmf_and_a_wrong_rate_is_caught() -> None:
    law = Exponential.for_scores(8, spread=2, epsilon=Fraction(1))
    scores = np.array([5, 0, 1, 1, 3, 9, -2, 4])
    draws = law.draw_scores(np.tile(scores, (whole(10_000, 30_000), 1)), ReplayBits("choice"))

    def p_value(epsilon: Fraction) -> float:
        expected = np.exp(-float(epsilon) / 2 * (scores - scores.min()))
        expected *= draws.size / expected.sum()
        counts = np.bincount(draws, minlength=8)
        return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 7))

    assert p_value(Fraction(1)) > 1e-6
    assert p_value(Fraction(8, 10)) < 1e-6
    assert p_value(Fraction(12, 10)) < 1e-6


def test_groups_are_drawn_with_their_own_scores() -> None:
    law = Exponential.for_scores(10, spread=1, epsilon=Fraction(40))
    best = np.arange(100) % 10
    scores = np.abs(np.arange(10)[None, :] - best[:, None])
    assert law.draw_scores(scores, ReplayBits("chunks")).tolist() == best.tolist()
    assert law.draw_scores(scores[:0], ReplayBits("none")).size == 0


class TestBrokenTwins:
    def test_forgetting_that_scores_move_both_ways(self) -> None:
        """Rate epsilon / d instead of epsilon / 2d."""
        twin = Exponential.for_scores(2, spread=1, epsilon=Fraction(1))
        assert ratio_between(twin, [0, 0], [1, -1]) ** 2 > exp_upper(Fraction(1))
        loss = math.log(ratio_between(twin, [30, 31], [31, 30]))
        assert abs(loss) > 0
        assert replace(twin, spread=2).certify().epsilon_upper > Fraction(19, 10)

    def test_a_false_claim_shows(self) -> None:
        law = Exponential.for_scores(5, spread=2, epsilon=Fraction(1))
        assert law_from_json(law.to_json() | {"epsilon": "1/2"}).certify().epsilon_upper > 0.9
        assert replace(law, p=law.p - 2**90).certify().epsilon_upper > 1

    def test_clipping_scores_would_change_their_spread(self) -> None:
        law = Exponential.for_scores(2, spread=1, epsilon=Fraction(1))
        before, after = [0, 10], [50, 60]  # a common shift: no loss at all
        assert ratio_between(law, before, after) == 1
        clipped = [min(s, 20) for s in after]
        assert ratio_between(law, before, clipped) > exp_upper(Fraction(1, 4))


@given(st.integers(1, 2**120), st.integers(1, 500))
@settings(max_examples=60)
def test_powers_are_rounded_up_and_tight(p: int, exponent: int) -> None:
    exact = Fraction(2**120, p) ** exponent
    bound = _power_upper(Fraction(2**120, p), exponent)
    assert exact <= bound <= exact * (1 + Fraction(1, 2**200))


def test_a_stuck_source_chooses_or_stops() -> None:
    law = Exponential.for_scores(3, spread=1, epsilon=Fraction(1))
    assert law.draw_scores([[4, 4, 4]], StuckBits(0)).tolist() == [0]
    with pytest.raises(InternalError):
        law.draw_scores([[4, 4, 4]], StuckBits(0xFF))


@pytest.mark.parametrize(
    "change",
    [{"candidates": 0}, {"candidates": 2**61}, {"spread": 0}, {"epsilon": "1e-16"}, {"epsilon": 2000},
     {"epsilon": 0}],
)  # fmt: skip
def test_invalid_arguments_are_refused_with_a_fix(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"candidates": 3, "spread": 1, "epsilon": 1}
    with pytest.raises(ArgumentError) as caught:
        ScoreLaw.calibrate(**(good | change))
    assert caught.value.code in ("DPR683", "DPR606")
    assert caught.value.fix


@pytest.mark.parametrize("scores", [[[0.5, 1, 2]], [[1, 2]], [1, 2, 3]])
def test_scores_of_another_kind_or_shape_are_refused(scores: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Exponential.for_scores(3, spread=1, epsilon=1).draw_scores(scores, ReplayBits("x"))
    assert caught.value.code == "DPR683"


def test_json_round_trip_and_malformed_laws() -> None:
    law = Exponential.for_scores(2**60, spread=4, epsilon=Fraction(1, 3))
    assert law_from_json(json.loads(json.dumps(law.to_json()))) == law
    assert "exponential" in law.describe()
    for change in ({"p": 0}, {"candidates": 0}, {"spread": None}):
        with pytest.raises(ConfigError):
            law_from_json(law.to_json() | change)


class TestTheScalarForm:
    domain = Domain(0, 10, [(3, 5)])
    m = Exponential.calibrate(domain, sensitivity=1, epsilon=1)

    def test_the_scale_is_twice_that_of_laplace_and_the_loss_is_within_epsilon(self) -> None:
        assert self.m.scale == 2
        assert self.m.loss(sensitivity=1) <= 1
        for n in range(1, 20):
            m = Exponential.calibrate(Domain(0, 10), sensitivity=1, epsilon=Fraction(n, 7))
            assert Fraction(m.scale) * Fraction(n, 7) >= 2

    def test_curves_are_those_of_the_truncated_law(self) -> None:
        x = np.linspace(0, 10, 200_001)
        p = self.m.pdf(x, 4.0)
        assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-4)
        assert float(self.m.mean(4.0)) == pytest.approx(np.trapezoid(p * x, x), abs=1e-3)
        assert float(self.m.cdf(3.0, 4.0)) == pytest.approx(
            np.trapezoid(p[:60_001], x[:60_001]), abs=1e-4
        )
        assert float(self.m.variance(4.0)) > 0
        assert 0 < float(self.m.mass(4.0)) < 1

    def test_the_grid_law_is_certified_and_the_planner_has_a_better_one(self) -> None:
        unit = self.m.on_grid(Fraction(1, 10))
        assert unit.certificate.epsilon_upper <= 1
        assert self.domain.contains(unit.draw([0, 4, 10])).all()
        assert Exponential(self.domain, scale=4).on_grid(
            1, sensitivity=1
        ).certificate.epsilon_upper <= Fraction(1, 2)
        request = GridRequest(GridSet.from_runs([(0, 9)]), 1, Fraction(1))
        assert Exponential.grid_laws(request) == []


@pytest.mark.parametrize("epsilon", ["1/10", 1, 8])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_score_error_bounds_the_tail_of_all_scores_and_one_less_does_not(
    epsilon: Any, level: float
) -> None:
    """Worst scores: one best candidate, all others alike just above it."""
    law = ScoreLaw.calibrate(40, spread=2, epsilon=epsilon)
    error = law.score_error(level)
    assert float(sum(law.pmf([0] + [error + 1] * 39)[1:])) <= 1 - level
    if error:
        assert 39 * float(Fraction(law.pmf([0, *[error] * 39])[1])) > (1 - level) * 0.5
    assert ScoreLaw.calibrate(1, spread=2, epsilon=epsilon).score_error(level) == 0
    assert law.rate == pytest.approx(float(Fraction(epsilon)) / 2, rel=1e-6)


def test_weights_are_powers_as_far_as_is_said_and_no_further() -> None:
    law = ScoreLaw.calibrate(1000, spread=2, epsilon=1)
    r, slack = Fraction(law.p, 2**120), Fraction(1, 100)
    weights = [int(w) for w in law.weights(np.arange(law.last + 1))]
    end = law.geometric_to(slack)
    assert 0 < end < law.last
    over = [w / (weights[0] * r**k) - 1 for k, w in enumerate(weights[: end + 2])]
    assert all(0 <= before <= after for before, after in itertools.pairwise(over))
    assert over[end] <= slack < over[end + 1]
