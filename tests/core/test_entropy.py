"""Random bits: uniform integers without bias, a repeatable stream that says it is one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from dprelease.core.entropy import (
    ROUND_LIMIT,
    ReplayBits,
    SystemBits,
    drawn_by_rejection,
    uniform_below,
)
from dprelease.core.errors import InternalError
from tests.mechanisms.plans import StuckBits


def test_sources_say_what_they_are() -> None:
    assert SystemBits().system
    assert not ReplayBits("x").system
    assert len(SystemBits().read(17)) == 17
    assert SystemBits().read(32) != SystemBits().read(32)


def test_replay_repeats_and_does_not_depend_on_the_read_sizes() -> None:
    one, two = ReplayBits("a"), ReplayBits("a")
    whole = one.read(1000)
    parts = b"".join(two.read(k) for k in [1, 31, 32, 33, 0, 3, 900])
    assert whole == parts
    assert ReplayBits("b").read(1000) != whole


def test_children_of_a_fork_differ() -> None:
    readers = []
    for _ in range(2):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, SystemBits().read(16))
            os._exit(0)
        os.close(writer)
        readers.append(reader)
    drawn = {os.read(reader, 16) for reader in readers}
    for reader in readers:
        os.wait()
        os.close(reader)
    assert len(drawn) == 2


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 100, 2**16, 2**62 + 1, 2**63])
def test_values_stay_below_the_bound(bound: int) -> None:
    drawn = uniform_below(bound, 2000, ReplayBits(f"below {bound}"))
    assert drawn.shape == (2000,)
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) < bound


def test_values_are_uniform_and_a_modulo_bias_is_caught() -> None:
    bound, count = 6, 60_000
    drawn = uniform_below(bound, count, ReplayBits("uniform"))
    assert stats.chisquare(np.bincount(drawn, minlength=bound)).pvalue > 1e-6
    eight = uniform_below(8, count, ReplayBits("biased"))
    biased = np.bincount(eight % bound, minlength=bound)  # the twin: reduce instead of reject
    assert stats.chisquare(biased).pvalue < 1e-6


@pytest.mark.parametrize("bound", [0, -1])
def test_impossible_bounds(bound: int) -> None:
    with pytest.raises(AssertionError):
        uniform_below(bound, 1, ReplayBits("x"))


@pytest.mark.parametrize("masked", [True, False], ids=["mask", "positions"])
def test_every_place_gets_the_value_of_the_attempt_that_brought_it_one(masked):
    seen = []

    def attempt(todo):
        seen.append(todo.tolist())
        good = (todo + len(seen)) % 3 == 0
        return (good if masked else np.flatnonzero(good)), 10 * todo[good] + len(seen)

    assert drawn_by_rejection(7, attempt).tolist() == [3, 12, 21, 33, 42, 51, 63]
    assert seen == [[0, 1, 2, 3, 4, 5, 6], [0, 1, 3, 4, 6], [0, 3, 6]]


def test_attempts_that_bring_nothing_end_as_an_error():
    rounds = []

    def attempt(todo):
        rounds.append(todo.size)
        return np.zeros(todo.size, dtype=bool), np.zeros(0, dtype=np.int64)

    with pytest.raises(InternalError) as found:
        drawn_by_rejection(2, attempt)
    assert found.value.code == "DPR904"
    assert rounds == [2] * ROUND_LIMIT


def test_places_drawn_otherwise_after_a_few_rounds_keep_their_order_and_never_fail():
    def attempt(todo):
        good = todo % 3 == 0
        return good, 100 + todo[good]

    out = drawn_by_rejection(7, attempt, otherwise=lambda place: -place)
    assert out.tolist() == [100, -1, -2, 103, -4, -5, 106]


def test_a_sound_source_is_not_given_up_and_one_that_repeats_itself_is():
    rounds = []

    def attempt(todo):
        rounds.append(todo.size)
        done = len(rounds) > 3 * ROUND_LIMIT
        return np.full(todo.size, done), np.zeros(todo.size * done, dtype=np.int64)

    assert drawn_by_rejection(2, attempt, bits=ReplayBits("late")).tolist() == [0, 0]
    rounds.clear()
    with pytest.raises(InternalError):
        drawn_by_rejection(2, attempt, bits=StuckBits(7))
    assert len(rounds) == ROUND_LIMIT
