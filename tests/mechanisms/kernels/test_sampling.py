"""Exact coins and uniforms: fit with controls on both sides, ties, stuck sources."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits, uniform_below
from dprelease.core.errors import InternalError
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import (
    bernoulli,
    bernoulli_exp,
    geometric_e,
    uniform_each,
)
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from tests.mechanisms.plans import StuckBits

N = 200_000


def off(share: float, probability: float) -> float:
    """Return how many standard errors a share of N coins is off."""
    return abs(share - probability) / math.sqrt(probability * (1 - probability) / N)


@pytest.mark.parametrize(("num", "den"), [(1, 3), (2**70 + 1, 2**71 + 5), (1, 100)])
def test_bernoulli_fits_and_a_wrong_probability_is_caught(num: int, den: int) -> None:
    share = float(bernoulli(num, den, N, ReplayBits("coin")).mean())
    assert off(share, num / den) < 5
    assert off(share, 0.7 * num / den) > 5
    assert off(share, 1.3 * num / den) > 5


@pytest.mark.parametrize("u", [0, 1, 3, 7])
def test_bernoulli_exp_fits_and_a_wrong_exponent_is_caught(u: int) -> None:
    share = float(bernoulli_exp(np.full(N, u), 7, ReplayBits(f"exp {u}")).mean())
    if u == 0:
        assert share == 1.0
        return
    assert off(share, math.exp(-u / 7)) < 5
    assert off(share, math.exp(-0.7 * u / 7)) > 5
    assert off(share, math.exp(-1.3 * u / 7)) > 5


def test_geometric_e_fits() -> None:
    draws = geometric_e(N, ReplayBits("geo"))
    for v in range(5):
        assert off(float((draws > v).mean()), math.exp(-v - 1)) < 5


def test_uniform_each_fits_every_bound() -> None:
    bounds = np.array([1, 2, 3, 5, 2**40 + 1, 2**61 + 1], dtype=np.int64)
    draws = uniform_each(np.repeat(bounds, 20_000), ReplayBits("each")).reshape(-1, 20_000)
    assert (draws >= 0).all()
    assert (draws < bounds[:, None]).all()
    for bound, row in zip(bounds.tolist(), draws, strict=True):
        middle = (bound - 1) / 2
        spread = math.sqrt((bound**2 - 1) / 12 / 20_000)
        assert abs(row.mean() - middle) <= 5 * spread
    assert np.unique(draws[2]).tolist() == [0, 1, 2]


class Words:
    """A source that returns the given 64-bit words in order."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    @property
    def system(self) -> bool:
        return False

    def read(self, count: int) -> bytes:
        return b"".join(self.values.pop(0).to_bytes(8, "little") for _ in range(count // 8))


def test_a_tie_in_the_first_64_digits_is_settled_by_the_next_ones() -> None:
    head = (1 << 64) // 3
    assert bernoulli(1, 3, 1, Words(head, head - 1)).tolist() == [True]
    assert bernoulli(1, 3, 1, Words(head, head + 1)).tolist() == [False]
    assert bernoulli(1, 3, 1, Words(head, head, head, 0)).tolist() == [True]
    assert bernoulli(1, 2, 1, Words(1 << 63, 0)).tolist() == [False]  # digits of 1/2 have ended


def test_a_stuck_source_ends_with_an_error_and_not_a_loop() -> None:
    ones, zeros = StuckBits(0xFF), StuckBits(0x00)
    with pytest.raises(InternalError) as caught:
        uniform_below(3, 4, ones)
    assert caught.value.code == "DPR904"
    with pytest.raises(InternalError):
        uniform_each(np.array([3], dtype=np.int64), ones)
    with pytest.raises(InternalError):
        bernoulli(1, 3, 1, _Thirds())
    assert uniform_below(3, 4, zeros).tolist() == [0, 0, 0, 0]
    assert geometric_e(3, zeros).tolist() == [0, 0, 0]


def test_every_rejection_loop_is_bounded() -> None:
    with pytest.raises(InternalError):
        geometric_e(1, Words(*[1 << 63, 0] * 1100))  # every trial ends at three: "once more"
    last = [(k - 1) << (64 - (k - 1).bit_length()) for k in range(2, 1100)]
    with pytest.raises(InternalError):
        bernoulli_exp(np.array([1]), 1, Words(*last))  # 1/k succeeds for every k
    with pytest.raises(InternalError):
        DiscreteLaplaceNoise(Fraction(1)).sample(1, StuckBits(0x80))  # minus zero for ever
    noise = StaircaseNoise.calibrate(2, Fraction(1), 1)
    with pytest.raises(InternalError):
        noise.sample(1, Words((1 << 64) - 1, *[0] * 1100))  # one more level for ever


class _Thirds:
    """The binary digits of 1/3 for ever: the one source that ties with it for ever."""

    @property
    def system(self) -> bool:
        return False

    def read(self, count: int) -> bytes:
        return bytes([0x55]) * count
