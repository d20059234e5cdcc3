"""The integer table: exact recurrence, exact certificate, draws, intervals, size."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, InternalError
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms import bounded_laplace_scale
from dprelease.mechanisms.calibration.laplace_grid import table_loss
from dprelease.mechanisms.certifiers.table_laplace import (
    BoundedLaplaceLaw,
    _decay_upper,
)
from dprelease.mechanisms.forms.table import top_bits
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import enumerate_law, hull, worst_ratio
from tests.sizes import some, whole

GAPPED = GridSet.from_runs([(-5, 4), (12, 12), (20, 29)])


@st.composite
def grids(draw: st.DrawFn) -> GridSet:
    at, runs = draw(st.integers(-20, 20)), []
    for _ in range(draw(st.integers(1, 4))):
        width = draw(st.integers(0, 12))
        runs.append((at, at + width))
        at += width + draw(st.integers(2, 15))
    return GridSet.from_runs(runs)


@given(grids(), st.integers(1, 60), st.fractions(Fraction(1, 100), 10, max_denominator=100))
@settings(max_examples=whole(15, 40))
def test_the_certificate_bounds_the_enumerated_loss(
    allowed: GridSet, sensitivity: int, epsilon: Fraction
) -> None:
    law = BoundedLaplaceLaw.calibrate(GridRequest(allowed, sensitivity, epsilon))
    ratio = worst_ratio(enumerate_law(law), sensitivity)
    certificate = law.certificate
    assert certificate.ratio is not None
    assert ratio <= certificate.ratio <= exp_lower(epsilon) or allowed.hull_steps == 0
    assert certificate.epsilon_upper == epsilon


@given(st.integers(1, 2**60), st.integers(1, 3000))
@settings(max_examples=60)
def test_weights_fall_by_at_most_the_stated_ratio(p: int, steps: int) -> None:
    allowed = GridSet.from_runs([(0, steps)])
    top = top_bits(allowed)
    law = BoundedLaplaceLaw(allowed, 1, Fraction(1), "absolute", p)
    weights = [int(w) for w in law.table.weights]
    assert weights[0] == 2**top
    assert sum(weights) * 2 < 2**63
    for here, after in pairwise(weights):
        assert 1 <= after <= here
        assert after * 2**60 >= here * p


@given(st.integers(2**50, 2**60), st.integers(1, 500))
@settings(max_examples=60)
def test_the_decay_bound_is_outward_and_tight(p: int, distance: int) -> None:
    exact = Fraction(2**60, p) ** distance
    bound = _decay_upper(p, distance)
    assert exact <= bound <= exact * (1 + Fraction(1, 2**200))


def test_masses_are_sums_over_the_allowed_points() -> None:
    law = BoundedLaplaceLaw.calibrate(GridRequest(GAPPED, 3, Fraction(1)))
    weights = law.table.weights
    points = GAPPED.points()
    for q, z in zip(hull(GAPPED), law.table.mass.tolist(), strict=True):
        assert z == int(weights[np.abs(points - q)].sum())


@pytest.mark.parametrize("q", some([0, -5, 8, 12, 29, 16], 2))
def test_draws_fit_the_pmf_and_a_wrong_scale_is_caught(q: int) -> None:
    law = BoundedLaplaceLaw.calibrate(GridRequest(GAPPED, 6, Fraction(2)))
    draws = law.draw_raw(np.full(30_000, q), ReplayBits(f"table {q}"))

    def p_value(factor: float) -> float:
        p = round(2**60 * (law.p / 2**60) ** (1 / factor))
        other = BoundedLaplaceLaw(GAPPED, 6, Fraction(2), "absolute", p)
        pmf = {y: float(w) * draws.size for y, w in other.pmf(q).items()}
        counts = {y: int((draws == y).sum()) for y in pmf}
        assert sum(counts.values()) == draws.size
        statistic = sum((counts[y] - e) ** 2 / e for y, e in pmf.items())
        return float(stats.chi2.sf(statistic, len(pmf) - 1))

    assert p_value(1.0) > 1e-6
    assert p_value(0.7) < 1e-6
    assert p_value(1.3) < 1e-6


def test_intervals_cover_at_the_stated_level_by_enumeration() -> None:
    for runs, sensitivity, epsilon in [([(0, 300)], 10, "1"), ([(0, 90), (200, 300)], 25, "2")]:
        allowed = GridSet.from_runs(runs)
        law = BoundedLaplaceLaw.calibrate(GridRequest(allowed, sensitivity, Fraction(epsilon)))
        points = allowed.points()
        low, high = law.interval(points)
        assert (low <= high).all()
        box = dict(zip(points.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))
        for q in (0, 1, 20, 90, 140, 150, 250, 300):
            inside = sum(float(w) for y, w in law.pmf(q).items() if box[y][0] <= q <= box[y][1])
            assert inside >= 0.95 - 1e-6
        assert (high - low).mean() < 0.9 * allowed.hull_steps
    with pytest.raises(ArgumentError):
        law.interval(points, level=0.0)


def test_a_large_table_certifies_and_draws() -> None:
    allowed = GridSet.from_runs([(0, 60_000), (70_000, 100_000)])
    law = BoundedLaplaceLaw.calibrate(GridRequest(allowed, 1000, Fraction(1, 2)))
    assert law.certify().epsilon_upper == Fraction(1, 2)
    answers = np.linspace(-10, 100_010, 20_000).astype(np.int64)
    values = law.draw_raw(answers, ReplayBits("large"))
    assert allowed.contains(values).all()
    assert np.abs(values - answers).mean() == pytest.approx(law.expected_error().average, rel=0.05)


def test_too_many_points_are_refused_with_a_fix() -> None:
    with pytest.raises(ArgumentError, match="coarser step"):
        BoundedLaplaceLaw.calibrate(GridRequest(GridSet.from_runs([(0, 2**18)]), 5, Fraction(1)))


def test_a_tiny_epsilon_is_refused_or_left_to_other_families() -> None:
    request = GridRequest(GridSet.from_runs([(0, 9)]), 5, Fraction(1, 10**15), point_masses=False)
    with pytest.raises(ArgumentError) as caught:
        grid_laws(request)
    assert caught.value.code == "DPR626"
    with_spikes = GridRequest(request.allowed, 5, Fraction(1, 2**45))
    families = {law.family for law in grid_laws(with_spikes)}
    assert {"discrete_laplace", "rectified_laplace"} <= families
    assert not {"bounded_laplace", "staircase"} & families
    tiny = grid_laws(GridRequest(request.allowed, 5, request.epsilon))
    assert not {"bounded_laplace", "staircase"} & {law.family for law in tiny}
    small = BoundedLaplaceLaw.calibrate(GridRequest(request.allowed, 5, Fraction(1, 10**12)))
    assert small.certificate.epsilon_upper == Fraction(1, 10**12)


def test_a_certificate_over_no_pairs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    law = BoundedLaplaceLaw.calibrate(GridRequest(GAPPED, 3, Fraction(1)))
    monkeypatch.setattr(GridRequest, "capped_sensitivity", property(lambda _: 999))
    with pytest.raises(InternalError, match="no pairs"):
        law.certify()


def test_the_scale_is_not_wasted() -> None:
    """On a fine grid the integer law's scale is the continuous one to six digits."""
    law = BoundedLaplaceLaw.calibrate(
        GridRequest(GridSet.from_runs([(0, 10_000)]), 500, Fraction(1))
    )
    continuous = float(bounded_laplace_scale(0, 10_001, 500, 1.0))
    assert law.scale == pytest.approx(continuous, rel=1e-3)


@pytest.mark.parametrize("distance", [1, 17, 400])
def test_many_runs_have_the_loss_that_is_summed_run_by_run(distance: int) -> None:
    random = np.random.default_rng(distance)
    edges = np.cumsum(random.integers(1, 12, 400)).reshape(-1, 2).tolist()
    allowed = GridSet.from_runs([(a, b) for a, b in edges])
    points = allowed.points()
    q = np.arange(allowed.lower, allowed.upper + 1)
    for scale in (3.0, 40.0, 900.0):
        mass = np.log(np.exp(-np.abs(q[:, None] - points) / scale).sum(axis=1))
        loss = distance / scale + float(np.abs(mass[distance:] - mass[:-distance]).max())
        assert table_loss(allowed, distance)(scale) == pytest.approx(loss, rel=1e-12)


class TestBrokenTwins:
    def test_the_interval_formula_on_a_union(self) -> None:
        """Half the sensitivity's scale from the hull's width is too small across a gap."""
        allowed = GridSet.from_runs([(0, 3), (60, 100)])
        scale = float(bounded_laplace_scale(0, 100, 20, 1.0))
        assert table_loss(allowed, 20)(scale) > 1.1
        p = round(2**60 * float(np.exp(-1 / scale)))
        law = BoundedLaplaceLaw(allowed, 20, Fraction(1), "absolute", p)
        assert worst_ratio(enumerate_law(law), 20) > exp_upper(Fraction(11, 10))
        assert law.certificate.epsilon_upper > Fraction(11, 10)

    def test_a_float_scale_slightly_below_the_exact_one(self) -> None:
        allowed = GridSet.from_runs([(0, 30)])
        law = BoundedLaplaceLaw.calibrate(GridRequest(allowed, 5, Fraction(1)))
        slipped = round(2**60 * float(np.exp(-1 / (law.scale * (1 - 1e-9)))))
        twin = BoundedLaplaceLaw(allowed, 5, Fraction(1), "absolute", slipped)
        assert worst_ratio(enumerate_law(twin), 5) > exp_upper(Fraction(1))
        assert twin.certificate.epsilon_upper > 1
