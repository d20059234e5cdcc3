"""What the audit says of permute-and-flip: its chances and worst ratios, against the law's own fractions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.audit.flips import flip_chances, flip_worst
from dprelease.audit.sampler import exponential_fit
from dprelease.core.entropy import ReplayBits
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.permute_and_flip import PermuteAndFlip

ONES = np.ones(5, dtype=np.int64)
TABLES = ([0, 1, 2, 3, 4], [2, 0, 0, 1, 1], [0, 0, 0, 0, 0], [9, 8, 0, 30, 1])


@pytest.mark.parametrize("scores", TABLES)
def test_chances_are_those_of_the_law(scores: list[int]) -> None:
    law = PermuteAndFlip.for_scores(5, spread=2, epsilon=2)
    exact = [float(p) for p in law.pmf(scores)]
    assert flip_chances(law, ONES, np.array(scores)) == pytest.approx(exact, rel=1e-12)
    counts, few = np.array([2, 0, 3]), np.array([4, 0, 5])
    one, none, other = flip_chances(law, counts, few)
    wanted = [float(p) for p in law.pmf([4, 4, 5, 5, 5])]
    assert (one, none, other) == pytest.approx((wanted[0], 0, wanted[2]), rel=1e-12)


def test_the_largest_ratio_is_that_of_the_fractions_and_never_less() -> None:
    law = PermuteAndFlip.for_scores(5, spread=2, epsilon=2)
    pairs = [(i, i) for i in range(5)]
    for before, after in itertools.permutations(TABLES, 2):
        both = list(zip(law.pmf(before), law.pmf(after), strict=True))
        exact = max(max(a / b, b / a) for a, b in both)
        found = flip_worst(law, (ONES, np.array(before)), (ONES, np.array(after)), pairs)
        assert found.ratio is not None
        assert exact <= found.ratio <= exact * (1 + Fraction(1, 2**200))


def test_twin_a_law_of_too_high_a_rate_is_found() -> None:
    law = PermuteAndFlip.for_scores(5, spread=2, epsilon=2)
    high = replace(law, p=law.p - 2**110)
    tables = [(ONES, np.array(s)) for s in ([4, 0, 4, 4, 4], [6, 0, 4, 4, 4])]
    pairs = [(i, i) for i in range(5)]
    assert flip_worst(law, *tables, pairs).within(law.epsilon)
    assert not flip_worst(high, *tables, pairs).within(law.epsilon)


@pytest.mark.statistical
def test_the_largest_ratio_of_many_alike_candidates_is_not_overstated() -> None:
    """That none of 110 has its time in the last stretch is rarer than the numbers' last digit: a sound law of 111 ages was called broken."""
    law = PermuteAndFlip.for_scores(111, spread=8, epsilon=Fraction(1, 6))
    before, after = (np.array([111]), np.array([0])), (np.array([110, 1]), np.array([2, -2]))
    assert flip_worst(law, before, after, [(0, 0), (0, 1)]).within(law.epsilon)


def test_draws_fit_and_those_of_another_law_do_not() -> None:
    law = PermuteAndFlip.for_scores(8, spread=2, epsilon=2)
    counts, scores = np.array([1, 2, 1, 4]), np.array([3, 0, 1, 2])
    assert exponential_fit(law, counts, scores, 8_000, ReplayBits("coins")) > 1e-6

    class Tried(FlipLaw):  # again and again, until a coin falls right
        draw_runs = ScoreLaw.draw_runs

    other = Tried(law.candidates, law.spread, law.epsilon, law.p, law.last)
    assert exponential_fit(other, counts, scores, 8_000, ReplayBits("coins")) < 1e-6
