"""Remap tables against brute force over posteriors; prices and intervals of additive laws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.boundaries import remap
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import corpus, hull
from tests.sizes import some, whole

Noise = StaircaseNoise | DiscreteLaplaceNoise


def additive(requests: list[GridRequest]) -> list[AdditiveLaw]:
    return [law for r in requests for law in grid_laws(r) if isinstance(law, AdditiveLaw)]


@cache
def laws() -> list[AdditiveLaw]:
    """Return those of the corpus; made when a test first asks, not while tests are collected."""
    return additive(corpus(whole(20, 40)))


def costs(noise: Noise, allowed: GridSet, raw: int, power: int) -> dict[int, float]:
    """Posterior expected |y - q|^power per allowed y, by summing over all hull answers."""
    distances = [abs(raw - q) for q in hull(allowed)]
    weights = noise.weights(max(distances) + 1)[distances]
    weights = weights / weights.sum()
    answers = np.array(hull(allowed))
    return {
        y: float((weights * np.abs(answers - y) ** power).sum()) for y in allowed.points().tolist()
    }


@pytest.mark.parametrize("kind", ["median", "mean"])
def test_every_table_entry_has_the_smallest_posterior_cost(kind: remap.Remap) -> None:
    power = 1 if kind == "median" else 2
    for law in laws()[: whole(30, 1_000)]:
        noise, allowed = law.noise, law.allowed
        margin = 2 * noise.period + 5
        raws = np.arange(allowed.lower - margin, allowed.upper + margin + 1)
        outputs = remap.apply(noise, allowed, kind, raws)
        for raw, y in zip(raws.tolist(), outputs.tolist(), strict=True):
            table = costs(noise, allowed, raw, power)
            assert table[y] <= min(table.values()) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("kind", "epsilon"), some(product(["median", "mean"], ["0.1", "2", "9"]), 2)
)
def test_entries_of_larger_tables_have_the_smallest_cost_too(
    kind: remap.Remap, epsilon: str
) -> None:
    power = 1 if kind == "median" else 2
    allowed = GridSet.from_runs([(-100, 150), (151 + 40, 191), (400, 700), (1100, 1100)])
    for law in additive([GridRequest(allowed, 90, Fraction(epsilon))]):
        raws = np.arange(-400, 1400, whole(83, 37))
        outputs = remap.apply(law.noise, allowed, kind, raws)
        for raw, y in zip(raws.tolist(), outputs.tolist(), strict=True):
            table = costs(law.noise, allowed, raw, power)
            assert table[y] <= min(table.values()) * (1 + 1e-9) + 1e-12


def test_the_posterior_remap_beats_nearest_on_average() -> None:
    for law in laws():
        if law.family != "rectified_laplace":
            nearest = replace(law, remap="nearest")
            assert law.expected_error().average <= nearest.expected_error().average * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_closed_form_prices_of_huge_grids_agree_with_enumerated_small_ones(loss: str) -> None:
    """The same law, priced with tables at 10**3 points and in closed form."""
    allowed = GridSet.from_runs([(-30, 200), (260, 260), (300, 500)])
    request = GridRequest(
        allowed, 20, Fraction(1, 2), "squared" if loss == "squared" else "absolute"
    )
    power = 1 if loss == "absolute" else 2
    for law in additive([request]):
        nearest = replace(law, remap="nearest")
        for q in (-30, 0, 200, 230, 231, 260, 280, 500):
            enumerated = sum(float(w) * abs(y - q) ** power for y, w in nearest.pmf(q).items())
            closed = float(nearest._nearest_errors(np.array([q]))[0])
            assert closed == pytest.approx(enumerated, rel=1e-9)


def test_huge_grids_are_priced_without_tables() -> None:
    request = GridRequest(
        GridSet.from_runs([(0, 10**12), (2 * 10**12, 3 * 10**12)]), 10**6, Fraction(1)
    )
    for law in additive([request]):
        assert law.remap == "nearest"
        assert 0 < law.expected_error().average <= law.expected_error().worst
        with pytest.raises(ArgumentError) as caught:
            law.pmf(0)
        assert caught.value.code == "DPR623"


def test_intervals_cover_every_answer_at_the_stated_level() -> None:
    for law in laws():
        k = law.noise.quantile(0.95)
        spread = np.arange(-k - 400, k + 401)
        weights = law.noise.weights(k + 401)[np.abs(spread)]
        for q in (law.allowed.lower, (law.allowed.lower + law.allowed.upper) // 2):
            low, high = law.interval(q + spread)
            assert (low >= law.allowed.lower).all()
            assert (high <= law.allowed.upper).all()
            assert weights[(low <= q) & (q <= high)].sum() >= 0.95 - 1e-12


def test_an_interval_is_no_point_where_noise_went_beyond_an_end() -> None:
    law = additive([GridRequest(GridSet.from_runs([(0, 1000)]), 1, Fraction(1, 4))])[0]
    k = law.noise.quantile(0.95)
    low, high = law.interval(np.array([-500, -1, 0, 5, 2000]))
    assert low.tolist() == [0, 0, 0, 0, 1000 - k]
    assert high.tolist() == [k, k, k, 5 + k, 1000]


def test_an_interval_of_noise_that_is_nearly_always_0_is_the_nearer_end() -> None:
    law = additive([GridRequest(GridSet.from_runs([(0, 10)]), 1, Fraction(5))])[0]
    low, high = law.interval(np.array([-500, 500, 2**62]))
    assert low.tolist() == [0, 10, 10]
    assert high.tolist() == [0, 10, 10]
