"""Random bits: uniform integers without bias, a repeatable stream that says it is one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from dprelease.entropy import ReplayBits, SystemBits, uniform_below


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


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1])
def test_impossible_bounds(bound: int) -> None:
    with pytest.raises(AssertionError):
        uniform_below(bound, 1, ReplayBits("x"))
