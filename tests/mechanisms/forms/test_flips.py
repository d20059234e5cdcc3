"""Permute-and-flip: the proof in rationals, the law by three roads, fit, totality, twins."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import stats

from dprelease.audit.flips import flip_chances
from dprelease.audit.sampler import fit
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ConfigError, InternalError
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms.forms.flips import FlipLaw, _binomial, _heads, power_bounds
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.law import law_from_json
from dprelease.mechanisms.permute_and_flip import PermuteAndFlip
from tests.mechanisms.plans import EPSILONS, StuckBits
from tests.sizes import whole


def ratio_between(law: ScoreLaw, before: list[int], after: list[int]) -> Fraction:
    p, q = law.pmf(before), law.pmf(after)
    return max(a / b for a, b in zip(p, q, strict=True))


def changed(scores: list[int], by: tuple[int, ...]) -> list[int]:
    return [s + c for s, c in zip(scores, by, strict=True)]


def test_every_neighbour_within_the_spread_is_within_epsilon_in_rationals() -> None:
    """Near scores and scores in the flat end of the weights, all changes up to a common shift."""
    pick = random.Random("flips")
    for i in range(whole(30, 60)):
        m, spread = pick.randint(2, 4), pick.choice([1, 2, 3])
        epsilon = EPSILONS[i % len(EPSILONS)]
        law = PermuteAndFlip.for_scores(m, spread=spread, epsilon=epsilon)
        law = replace(law, last=min(law.last, pick.choice([1, 3, 10**6])))
        assert law.certificate.epsilon_upper == epsilon
        scores = [pick.choice([0, 1, 2, 5, 40, 900]) for _ in range(m)]
        changes = list(product(range(spread + 1), repeat=m))
        tried = changes if len(changes) < 60 else pick.sample(changes, 60)
        assert max(ratio_between(law, scores, changed(scores, c)) for c in tried) <= exp_lower(
            epsilon
        )


def test_the_bound_is_attained_nothing_is_wasted() -> None:
    law = PermuteAndFlip.for_scores(2, spread=1, epsilon=Fraction(3))
    assert ratio_between(law, [0, 2], [0, 3]) > exp_lower(Fraction(299, 100))


def walked(coins: list[Fraction]) -> list[Fraction]:
    """Return the chances by the definition: all orders, the first coin that falls right."""
    out = [Fraction(0)] * len(coins)
    orders = list(permutations(range(len(coins))))
    for order in orders:
        left = Fraction(1, len(orders))
        for y in order:
            out[y] += left * coins[y]
            left *= 1 - coins[y]
    return out


def summed(coins: list[Fraction], y: int) -> Fraction:
    """Return the closed form of McKenna & Sheldon: v_y times a sum over sets of others, signs in turn."""
    others = coins[:y] + coins[y + 1 :]
    total = Fraction(0)
    for size in range(len(others) + 1):
        for part in combinations(others, size):
            product_ = Fraction(1)
            for coin in part:
                product_ *= coin
            total += (-1) ** size * product_ / (size + 1)
    return coins[y] * total


@pytest.mark.parametrize("scores", [[0], [3, 3], [0, 1, 4], [7, 5, 5, 6, 20]])
def test_the_law_is_the_walk_and_the_papers_closed_form(scores: list[int]) -> None:
    law = PermuteAndFlip.for_scores(len(scores), spread=2, epsilon=1)
    weights = law.weights(np.array(scores) - min(scores))
    best = law.weights(np.array([0]))[0]
    coins = [Fraction(int(w), int(best)) for w in weights]
    found = law.pmf(scores)
    assert found == walked(coins) == [summed(coins, y) for y in range(len(coins))]
    assert sum(found) == 1


def test_permute_and_flip_never_errs_more_than_the_exponential_mechanism_and_nearly_half_as_often() -> (
    None
):
    pick, least = random.Random("error"), Fraction(1)
    for _ in range(200):
        m = pick.randint(2, 6)
        flip = PermuteAndFlip.for_scores(m, spread=2, epsilon=pick.choice([Fraction(1, 2), 2, 6]))
        plain = ScoreLaw.calibrate(m, spread=2, epsilon=flip.epsilon)
        scores = [pick.choice([0, 1, 2, 3, 9]) for _ in range(m)]
        one, other = (
            sum(p * (s - min(scores)) for p, s in zip(law.pmf(scores), scores, strict=True))
            for law in (flip, plain)
        )
        assert one <= other
        least = min(least, one / other if other else least)
    assert Fraction(1, 2) < least < Fraction(11, 20)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 4])
def test_the_score_error_bounds_the_tail_of_all_scores_and_one_less_does_not(
    epsilon: Fraction, level: float
) -> None:
    """Worst scores: one best candidate, all others alike just above the score error; and it is smaller than that of tries."""
    law = PermuteAndFlip.for_scores(12, spread=2, epsilon=epsilon)
    error = law.score_error(level)
    other = ScoreLaw.calibrate(12, spread=2, epsilon=epsilon).score_error(level)
    assert error is not None
    assert other is not None
    assert error < other or (law.rate > 1 and error == other)
    pick = random.Random("tail")
    tables = [[0] + [error + 1] * 11]
    tables += [[0, *(pick.randint(0, 2 * error + 2) for _ in range(11))] for _ in range(20)]
    beyond = [
        float(sum(p for p, s in zip(law.pmf(t), t, strict=True) if s > error)) for t in tables
    ]
    assert max(beyond) == beyond[0] <= 1 - level
    if error:
        assert float(sum(law.pmf([0] + [error] * 11)[1:])) > (1 - level) * 0.5


def test_the_support_is_the_same_whatever_the_scores() -> None:
    law = PermuteAndFlip.for_scores(4, spread=1, epsilon=Fraction(10))
    extremes = np.array([-(2**63), 2**63 - 1, 0, 7])
    assert min(law.pmf(extremes)) > 0
    assert sum(law.pmf(extremes)) == 1
    assert set(law.draw_scores(np.array([extremes] * 50), ReplayBits("far")).tolist()) == {0}


@pytest.mark.statistical
def test_draws_of_runs_fit_the_law_and_that_of_the_exponential_mechanism_does_not() -> None:
    law, bits = PermuteAndFlip.for_scores(10, spread=2, epsilon=2), ReplayBits("runs")
    counts, scores = np.array([3, 1, 0, 4, 2]), np.array([5, 1, 0, 2, 3])
    every = np.repeat(scores, counts)
    starts = np.cumsum(counts) - counts
    drawn = [law.draw_runs(counts, scores - scores.min() + 4, bits) for _ in range(8_000)]
    seen = np.bincount([starts[run] + place for run, place in drawn], minlength=10)
    plain = ScoreLaw.calibrate(10, spread=2, epsilon=2)

    def fits(of: ScoreLaw) -> float:
        chance = np.array([float(c) for c in of.pmf(every - 1)])
        return float(stats.chisquare(seen, seen.sum() * chance / chance.sum()).pvalue)

    assert fits(law) > 1e-6
    assert fits(plain) < 1e-6


class Words:
    """Bits that say these numbers of 64 binary places, and then ones."""

    system = False

    def __init__(self, *words: int) -> None:
        self.left = b"".join(w.to_bytes(8, "little") for w in words)

    def read(self, count: int) -> bytes:
        out, self.left = self.left[:count], self.left[count:]
        return out + b"\xff" * (count - len(out))


def test_coins_are_compared_to_their_last_place() -> None:
    """One coin of chance 5 / 2**64 + 2**-128 for none: 64 places are not enough to tell."""
    none = (5 << 64) + 1
    right, of = np.array([(1 << 128) - none, 1 << 128], dtype=object), np.full(2, 1 << 128)
    for words, heads in (((4, 9), 0), ((6, 9), 1), ((5, 9, 0), 0), ((5, 9, 1), 1)):
        assert _heads(np.ones(2, int), right, of.astype(object), Words(*words)) == [heads, 1]


@pytest.mark.parametrize(("count", "right", "of"), [(1, 1, 3), (4, 1, 7), (5, 6, 7), (3, 1, 1)])
def test_every_number_of_heads_has_its_binomial_stretch(count: int, right: int, of: int) -> None:
    """Just below and just above every end of the distribution function, to 64 places and to 128."""
    chance, below = Fraction(right, of), Fraction(0)
    for heads in range(count + 1):
        term = math.comb(count, heads) * chance**heads * (1 - chance) ** (count - heads)
        if not term:
            continue
        for at in (math.ceil(below * 2**128), math.floor((below + term) * 2**128) - 1):
            whole, rest = divmod(at, 2**64)
            assert _binomial(count, right, of, whole, Words(rest)) == heads
        below += term
    assert below == 1


def test_powers_are_bounds_of_any_exponent() -> None:
    for part, of, exponent in ((2, 3, 0), (2, 3, 11), (999, 1000, 700), (0, 1, 5)):
        low, high = power_bounds(part, of, exponent, 1 << 128)
        assert low <= Fraction(part, of) ** exponent * 2**128 <= high <= low + 2000


@pytest.mark.statistical
def test_runs_of_any_length_fit_the_law_and_another_rate_does_not() -> None:
    """A million good candidates beside thirty better ones and the best: times, not coins one by one."""
    counts, scores = np.array([10**6, 1, 30, 2**58]), np.array([30, 0, 9, 90])
    law = PermuteAndFlip.for_scores(int(counts.sum()), spread=2, epsilon=Fraction(4, 5))
    for worse, fits in ((0, True), (1, False)):
        drawn = replace(law, p=law.p - worse * 2**115)
        seen = [drawn.draw_runs(counts, scores, ReplayBits(f"{i}"))[0] for i in range(4_000)]
        chance = counts * flip_chances(law, counts, scores)
        assert abs(chance.sum() - 1) < 1e-12
        assert (fit(np.array(seen), np.arange(4), chance) > 1e-6) == fits


def test_a_stuck_source_chooses_or_stops() -> None:
    law = PermuteAndFlip.for_scores(3, spread=1, epsilon=Fraction(1))
    assert law.draw_scores([[4, 4, 4]], StuckBits(0)).tolist() == [0]
    many = PermuteAndFlip.for_scores(
        8, spread=1, epsilon=Fraction(1)
    )  # nobody is in the first half of the times: all are in the other
    assert many.draw_runs(np.array([8]), np.array([4]), StuckBits(0)) == (0, 0)
    with pytest.raises(InternalError):
        law.draw_scores([[4, 4, 4]], StuckBits(0xFF))


def test_a_law_of_many_candidates_is_read_back_and_a_false_one_is_refused() -> None:
    law = PermuteAndFlip.for_scores(2**60, spread=4, epsilon=Fraction(1, 3))
    assert law_from_json(json.loads(json.dumps(law.to_json()))) == law
    assert "permute_and_flip" in law.describe()
    for change in ({"p": 0}, {"candidates": 0}, {"family": "exponential"}):
        with pytest.raises((ConfigError, ValueError)):
            FlipLaw.from_json(law.to_json() | change)


class TestBrokenTwins:
    def test_forgetting_that_scores_move_both_ways(self) -> None:
        """Where they part by 2, the rate for a spread of 1 gives away more than epsilon."""
        twin = PermuteAndFlip.for_scores(2, spread=1, epsilon=Fraction(1))
        assert ratio_between(twin, [0, 3], [0, 5]) > exp_upper(Fraction(19, 10))

    def test_a_false_claim_shows(self) -> None:
        law = PermuteAndFlip.for_scores(5, spread=2, epsilon=Fraction(1))
        assert replace(law, p=law.p - 2**90).certify().epsilon_upper > 1
