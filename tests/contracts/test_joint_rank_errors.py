"""Stated rank errors of choices, by exact enumeration: heaps of equal rows, few rows, all rows at an end."""

from __future__ import annotations

import itertools
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from dprelease.measurements.joint_ranks import JointLaw
from dprelease.measurements.ranks import ExponentialLaw, PermuteAndFlipLaw
from dprelease.mechanisms.forms.joint_scores import JointExponential, SequenceLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.schema.domain import GridSet
from dprelease.statistics.joint_ranks import Positions, joint_spreads
from dprelease.statistics.ranks import spreads
from tests.contracts.joint_rank_worlds import TARGETS, Targets, drawer, errors, sequences

LEVEL = 0.95
HEAPS = (0, 1, 2, 5, 40)
Counts = tuple[int, ...]


def missed(counts: Counts, point: int, target: tuple[int, int, int]) -> Fraction:
    """Return how many rows the target rank is from the nearest rank of the rows at a point."""
    a, b, offset = target
    aim = min(max(Fraction(a * sum(counts) + offset, b), Fraction(0)), Fraction(sum(counts)))
    below = sum(counts[:point])
    return max(Fraction(0), below - aim, aim - below - counts[point])


def beyond(draw: JointLaw, counts: Counts, targets: Targets, error: Fraction) -> Fraction:
    """Return the exact chance that one value or more is further than `error` rows from its target."""
    b, n = targets[0][1], sum(counts)
    far = total = 0
    for outcome in sequences(len(targets), len(counts)):
        misses = [0]
        for p, (a, _, _) in zip(outcome, targets, strict=True):
            low = b * sum(counts[:p]) - a * n
            misses.append(sorted((low, misses[-1], low + b * counts[p]))[1])
        mass = 1
        for w in draw.law.weights(np.abs(np.diff([*misses, 0]))):
            mass *= int(w)
        total += mass
        off = (missed(counts, p, t) for p, t in zip(outcome, targets, strict=True))
        far += mass if max(off) > error else 0
    return Fraction(far, total)


@pytest.mark.parametrize("targets", TARGETS)
def test_the_rank_error_holds_for_all_small_tables_with_heaps(targets: Targets) -> None:
    """However many rows share a value: there is no most that may."""
    draw, worst, near, told = drawer(targets, Fraction(2), points=3), Fraction(0), Fraction(0), 0
    error = draw.rank_error(targets[0][1], LEVEL)
    assert error is not None
    for counts in itertools.product(HEAPS, repeat=3):
        if error < sum(counts):
            told += 1
            worst = max(worst, beyond(draw, counts, targets, Fraction(error)))
            near = max(near, beyond(draw, counts, targets, Fraction(-(-error // 2))))
    assert told > 10
    assert worst <= Fraction(1, 20)
    assert near > Fraction(1, 20)  # control: half of it is not kept


@pytest.mark.parametrize("targets", TARGETS)
def test_values_that_hold_the_targets_cost_nothing_and_a_miss_costs_twice(targets: Targets) -> None:
    for counts in itertools.product((0, 1, 6), repeat=3):
        rows = tuple(point for point, held in enumerate(counts) for _ in range(held))
        found = {y: sum(errors(rows, y, targets)) for y in sequences(len(targets), 3)}
        assert min(found.values()) == 0
        for outcome, cost in found.items():
            off = [missed(counts, p, t) for p, t in zip(outcome, targets, strict=True)]
            assert (cost == 0) == (max(off) == 0)
            assert cost >= 2 * max(off)


def test_twin_weights_that_end_too_soon_state_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where weights fall by less than their rate says, a bound by that rate is none."""
    targets: Targets = ((1, 2, 0),)
    assert drawer(targets, Fraction(12)).rank_error(2, LEVEL) == 1
    monkeypatch.setattr(SequenceLaw, "room", 8)
    assert drawer(targets, Fraction(12)).rank_error(2, LEVEL) is None


COUNTS = (0, 3, 0, 747, 0, 0, 110, 133, 0, 7, 0, 0)
"""1,000 rows, most of them at three of twelve values."""


@pytest.mark.parametrize("epsilon", [1, 10])
def test_heaps_are_met_wherever_a_target_lies_in_them(epsilon: int) -> None:
    """Deciles: seven within one value's rows. The exact chance to miss any of them, and of one choice each."""
    targets: Targets = tuple((i, 10, 0) for i in range(1, 10))
    draw = JointLaw.calibrate(
        GridSet(((0, 11),)), Fraction(1), 9, spread=joint_spreads(targets)[0], epsilon=Fraction(epsilon)
    )  # fmt: skip
    held = np.array([i for i, c in enumerate(COUNTS) if c])
    upto = np.cumsum([COUNTS[i] for i in held])
    below = np.concatenate([[0], upto[:-1]])
    rows = Positions(held, below, upto, 1000, tuple(range(1, 10)), 10)
    choice = JointExponential(draw.law, draw.heaps(rows))
    met = (
        int(draw.law.weights(np.zeros(1, np.int64))[0]) ** 10
    )  # the sequence that holds all targets
    assert 1 - Fraction(met, choice.total) < Fraction(1, 1000)
    if epsilon == 1:
        law = ScoreLaw.calibrate(12, spread=18, epsilon=Fraction(1, 9))
        off = [int(10 * missed(COUNTS, y, (9, 10, 0))) for y in range(12)]
        assert law.pmf(off)[7] < Fraction(19, 20)  # control: by itself the last one misses


def test_one_value_is_met_by_all_quantiles() -> None:
    """2,000 equal rows, the eighths: every sequence but one misses by 250 rows and more."""
    targets = tuple((i, 8, 0) for i in range(1, 8))
    draw = JointLaw.calibrate(
        GridSet(((0, 120),)), Fraction(1), 7, spread=joint_spreads(targets)[0], epsilon=Fraction(1)
    )
    rows = Positions(np.array([50]), np.array([0]), np.array([2000]), 2000, tuple(range(1, 8)), 8)
    choice = JointExponential(draw.law, draw.heaps(rows))
    met = int(draw.law.weights(np.zeros(1, np.int64))[0]) ** 8
    assert 1 - Fraction(met, choice.total) < Fraction(1, 10**12)


ENDS = ((1, 2, 0), (3, 4, 0), (1, 1, 0), (0, 1, 0), (2, 2, -3), (0, 2, 3))


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize("target", ENDS)
def test_a_single_choice_keeps_its_error_of_heaps_and_ends(
    target: tuple[int, int, int], flips: bool
) -> None:
    """All rows equal, at an end, at both, two rows: the exact chance of a value too far by its nearest rank."""
    law = ScoreLaw.calibrate(6, spread=spreads(*target)[0], epsilon=4)
    draw = ExponentialLaw(law, GridSet(((0, 5),)), Fraction(1))
    draw = PermuteAndFlipLaw.from_exponential(draw) if flips else draw
    error = draw.rank_error(target[1], LEVEL)
    assert error is not None
    worst = near = Fraction(0)
    heaps = [[n * (i == at) for i in range(6)] for at in (0, 3, 5) for n in (2, 9, 200)]
    heaps += [[1, 0, 0, 0, 0, 1], [100, 0, 0, 0, 0, 100], [0, 1, 1, 0, 0, 0], [9, 0, 0, 0, 1, 0]]
    heaps += [[n, 0, 0, 0, 0, n] for n in (3, 4)] + [[1, 0, 0, 0, 0, n] for n in range(8)]
    heaps += [[n, 0, 0, 0, 0, 1] for n in range(8)]
    for counts in heaps:
        misses = [missed(tuple(counts), y, target) for y in range(6)]
        chances = draw.law.pmf([int(target[1] * m) for m in misses])
        pairs = list(zip(chances, misses, strict=True))
        worst = max(worst, sum((p for p, m in pairs if m > error), Fraction(0)))
        near = max(near, sum((p for p, m in pairs if m > Fraction(error, 3)), Fraction(0)))
    assert worst <= Fraction(1, 20)
    assert near > Fraction(1, 25)  # control: a third of it is missed


def held_by(counts: list[int], many: int) -> Positions:
    codes = np.flatnonzero(counts)
    upto = np.cumsum(np.array(counts)[codes])
    below = np.concatenate([[0], upto[:-1]])
    return Positions(codes, below, upto, sum(counts), tuple(range(1, many + 1)), many + 1)


def missing_any(counts: list[int], many: int, epsilon: int) -> Fraction:
    """Return the exact chance that one or more of equally spaced quantiles is not the value that holds it."""
    targets = tuple((i, many + 1, 0) for i in range(1, many + 1))
    draw = JointLaw.calibrate(
        GridSet(((0, len(counts) - 1),)), Fraction(1), many,
        spread=joint_spreads(targets)[0], epsilon=Fraction(epsilon),
    )  # fmt: skip
    met = int(draw.law.weights(np.zeros(1, np.int64))[0]) ** (many + 1)
    return 1 - Fraction(met, JointExponential(draw.law, draw.heaps(held_by(counts, many))).total)


def ages(rows: int) -> list[int]:
    """Return how many of `rows` have each age from 0 to 120: normal, 45 +- 18."""
    upto = [round(rows * NormalDist(45, 18).cdf(age + 0.5)) for age in range(121)]
    upto[-1] = rows
    return [upto[0], *(b - a for a, b in itertools.pairwise(upto))]


@pytest.mark.parametrize("epsilon", [1, 10])
def test_deciles_of_a_million_ages_and_quintiles_of_ratings_are_exact(epsilon: int) -> None:
    assert missing_any(ages(10**6), 9, epsilon) < Fraction(1, 10**9)
    for rows in (10**4, 10**6):
        ratings = [rows * part // 100 for part in (8, 7, 16, 31, 38)]
        assert missing_any(ratings, 4, epsilon) < Fraction(1, 10**9)


@pytest.mark.parametrize("epsilon", [1, 10])
def test_deciles_of_ten_thousand_ages_are_off_by_less_than_a_twentieth_of_a_year(
    epsilon: int,
) -> None:
    """By the chance of any miss: none is a year off more often than that, and none by two years."""
    assert missing_any(ages(10**4), 9, epsilon) < Fraction(1, 10)
