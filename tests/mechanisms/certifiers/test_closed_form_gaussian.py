"""The closed form against the table, the proof against enumeration, draws against the law."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError, InternalError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.bounded_gaussian import BoundedGaussian
from dprelease.mechanisms.certifiers import closed_form_gaussian as wide
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.certifiers.table_gaussian import BoundedGaussianLaw
from dprelease.mechanisms.kernels.gaussian_wide import WideGaussianNoise
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import StuckBits
from tests.sizes import FULL, some, whole

Runs = tuple[tuple[int, int], ...]


def log_pmf(runs: Runs, rate: float, q: float) -> np.ndarray:
    points = np.concatenate([np.arange(a, b + 1) for a, b in runs]).astype(np.float64)
    exponent = -rate * (points - q) ** 2
    peak = exponent.max()
    out: np.ndarray = exponent - peak - math.log(np.exp(exponent - peak).sum())
    return out


def brute_loss(runs: Runs, rate: float, distance: int) -> float:
    low, high = runs[0][0], runs[-1][1]
    rows = [log_pmf(runs, rate, q) for q in range(low, high + 1)]
    return max(
        float(np.abs(rows[i + k] - rows[i]).max())
        for k in range(1, distance + 1)
        for i in range(len(rows) - k)
    )


unions = st.lists(st.tuples(st.integers(0, 9), st.integers(2, 6)), min_size=1, max_size=3).map(
    lambda parts: tuple(
        (at, at + size)
        for at, size in zip(
            np.cumsum([0] + [s + g for s, g in parts])[: len(parts)].tolist(),
            [s for s, _ in parts],
            strict=True,
        )
    )
)


@settings(max_examples=whole(30, 60))
@given(unions, st.integers(1, 30), st.fractions("1/50", "1/5", max_denominator=60))
def test_enumerated_loss_is_never_more_than_certified(
    runs: Runs, sensitivity: int, epsilon: Fraction
) -> None:
    allowed = GridSet.from_runs(runs)
    if allowed.hull_steps < 3:
        return
    request = GridRequest(allowed, sensitivity, epsilon, point_masses=False)
    try:
        law = BoundedGaussianWideLaw.calibrate(request)
    except ArgumentError:  # islands in a wide hull, scales below 6 steps: refusals are tested below
        return
    true = brute_loss(allowed.runs, float(law.noise.rate), request.capped_sensitivity)
    assert law.certificate.epsilon_upper <= epsilon
    assert true <= float(epsilon) * (1 + 1e-10)
    assert true >= float(epsilon) * 0.97, "noise above the minimum"
    supports = {frozenset(law.pmf(q)) for q in range(allowed.lower, allowed.upper + 1)}
    assert supports == {frozenset(allowed.points().tolist())}


def test_looking_at_one_end_of_a_union_understates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the mirror image of the worst pair left out."""
    runs, distance, rate = ((0, 100), (130, 130)), 40, Fraction(1, 9000)
    true = brute_loss(runs, float(rate), distance)
    found = wide.worst_ratio(GridSet(runs), distance, rate)
    assert math.log(found) == pytest.approx(true, rel=1e-5)
    assert math.log(found) >= true
    flipped = GridSet(tuple((-b, -a) for a, b in reversed(runs)))
    one_end = min(_first_end(GridSet(runs), distance, rate), _first_end(flipped, distance, rate))
    assert math.log(one_end) < 0.99 * true


def _first_end(allowed: GridSet, distance: int, rate: Fraction) -> float:
    first, last = allowed.lower, allowed.upper
    rows = [log_pmf(allowed.runs, float(rate), q) for q in (first, first + distance)]
    assert last > first
    return math.exp(float(np.abs(rows[1] - rows[0]).max()))


@pytest.mark.parametrize(
    ("runs", "sensitivity", "epsilon"),
    [
        (((0, 1000),), 20, Fraction(1)),
        (((0, 400), (460, 1000)), 30, Fraction(1, 2)),
        (((0, 1000),), 1000, Fraction(1, 10)),
        (((-500, -100), (-60, -60), (0, 300)), 50, Fraction(2)),
    ],
)
def test_same_law_as_the_table(runs: Runs, sensitivity: int, epsilon: Fraction) -> None:
    request = GridRequest(GridSet(runs), sensitivity, epsilon, point_masses=False)
    law, table = BoundedGaussianWideLaw.calibrate(request), BoundedGaussianLaw.calibrate(request)
    assert law.scale == pytest.approx(table.scale, rel=1e-7)
    y = np.array([runs[0][0], runs[-1][1], runs[0][1], runs[-1][0]])
    for a, b in zip(law.interval(y), table.interval(y), strict=True):
        assert np.abs(a - b).max() <= 2
    for ours, theirs in (
        (law.expected_error().average, table.expected_error().average),
        (law.expected_error().worst, table.expected_error().worst),
    ):
        assert ours == pytest.approx(theirs, rel=0.01)
    for q in (runs[0][0], 3, 77):
        ours_pmf, theirs_pmf = law.pmf(q), table.pmf(q)
        assert all(ours_pmf[k] == pytest.approx(float(theirs_pmf[k]), rel=1e-6) for k in ours_pmf)


WIDE = {
    "million": ((0, 10**6),),
    "thousand million": ((0, 10**9),),
    "gap": ((0, 4 * 10**8), (4 * 10**8 + 2000, 10**9)),
    "widest": ((-(2**59), 2**59),),
}


@pytest.mark.parametrize(
    ("share", "runs"),
    [
        pytest.param(share, runs, id=f"{share}-{name}")
        for i, (name, runs) in enumerate(WIDE.items())
        for share in ((1000, 1) if FULL else ((1000, 1)[i % 2],))
    ],
)
def test_wide_domains(runs: Runs, share: int) -> None:
    allowed = GridSet(runs)
    request = GridRequest(allowed, allowed.hull_steps // share, Fraction(1, 2), point_masses=False)
    [law] = BoundedGaussian.grid_laws(request)
    ratio = law.certificate.ratio
    assert ratio is not None
    assert ratio <= exp_lower(request.epsilon)
    assert math.log(ratio) >= float(request.epsilon) * (1 - 1e-8), "noise above the minimum"
    again = law_from_json(json.loads(json.dumps(law.to_json())))
    assert again == law
    assert again.certify() == law.certificate
    answers = np.array([allowed.lower, allowed.upper, 4 * 10**8 + 999, -(2**61), 2**61] * 400)
    out = law.draw_raw(answers, ReplayBits("wide"))
    assert allowed.contains(out).all()
    low, high = law.interval(out[:50])
    assert (low <= high).all()
    cover = law.interval(law.draw_raw(np.full(400, allowed.upper // 3), ReplayBits("cover")))
    inside = (cover[0] <= allowed.upper // 3) & (allowed.upper // 3 <= cover[1])
    assert inside.mean() > 0.9
    price = law.expected_error()
    assert 0 < price.average <= price.worst < allowed.hull_steps


def chi_square(draws: IntArray, law: BoundedGaussianWideLaw, q: int) -> float:
    """Return the p-value of the draws; values that are expected fewer than five times are one."""
    pmf = law.pmf(q)
    cells = np.array([(draws == y).sum() for y in pmf])
    expected = np.array(list(pmf.values())) * draws.size
    often = expected >= 5
    cells = np.append(cells[often], cells[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    if expected[-1] == 0 == cells[-1]:
        cells, expected = cells[:-1], expected[:-1]
    return float(stats.chisquare(cells, expected * cells.sum() / expected.sum()).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("q", "epsilon"),
    some(product([0, 30, 45, 100, -7], [Fraction(1, 10), Fraction(2)]), 3),
    ids=str,
)
def test_draws_fit_the_law_and_a_wrong_scale_is_caught(q: int, epsilon: Fraction) -> None:
    request = GridRequest(GridSet(((0, 40), (50, 100))), 8, epsilon, point_masses=False)
    law = BoundedGaussianWideLaw.calibrate(request)
    draws = law.draw_raw(np.full(whole(20_000, 60_000), q), ReplayBits(f"fit {q}"))
    assert law.noise.uniform_fits(100) == (epsilon < 1)
    assert chi_square(draws, law, q) > 1e-6
    if law.noise.uniform_fits(100) and q in (30, 45):
        return  # so flat a law hardly depends on its scale from the middle
    for move in (-1, 1):
        other = BoundedGaussianWideLaw(
            law.allowed, 8, epsilon, "absolute", WideGaussianNoise(law.noise.p, law.noise.m + move)
        )
        assert chi_square(draws, other, q) < 1e-6


class TestRho:
    @pytest.mark.parametrize("width", [4, 12, 40])
    @pytest.mark.parametrize("rate", [0.4, 1 / 32, 1 / 400, 1 / 20000])
    def test_the_variance_of_an_interval_at_any_real_location(
        self, width: int, rate: float
    ) -> None:
        points, most = np.arange(width + 1), 0.0
        for t in np.linspace(-3 * width, 4 * width, 701):
            w = np.exp(log_pmf(((0, width),), rate, t))
            most = max(most, float((w * points**2).sum() - (w * points).sum() ** 2))
        assert most <= min(math.exp(rate) / (2 * rate), width**2 / 4) * (1 + 1e-9)

    def test_the_continuous_bound_fails_on_integers(self) -> None:
        """The control: without e^rate it is wrong halfway between two points of a narrow law."""
        w = np.exp(log_pmf(((0, 9),), 3.0, 4.5))
        points = np.arange(10)
        spread = float((w * points**2).sum() - (w * points).sum() ** 2)
        assert spread > 1 / (2 * 3.0)
        assert spread <= math.exp(3.0) / (2 * 3.0)

    @pytest.mark.parametrize("runs", [((0, 60),), ((0, 9), (40, 60))], ids=["run", "gap"])
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
    def test_renyi_divergences_of_all_pairs(self, runs: Runs, epsilon: Fraction) -> None:
        request = GridRequest(GridSet(runs), 6, epsilon, point_masses=False)
        law = BoundedGaussianWideLaw(
            request.allowed, 6, epsilon, "absolute", wide.largest_noise(request)
        )
        rho, rate = float(law.rho_upper), float(law.noise.rate)
        rows = [log_pmf(runs, rate, q) for q in range(61)]
        worst = 0.0
        for alpha in (1.0001, 1.5, 2, 4, 16, 64, 500):
            for k in (1, 3, 6):
                for i in range(61 - k):
                    for p, r in ((rows[i], rows[i + k]), (rows[i + k], rows[i])):
                        terms = alpha * p + (1 - alpha) * r
                        peak = terms.max()
                        d = (peak + math.log(np.exp(terms - peak).sum())) / (alpha - 1)
                        worst = max(worst, d / alpha)
        assert worst <= rho * (1 + 1e-6)
        if len(runs) == 1:
            assert rho <= 6**2 * rate * 1.1  # the Gaussian's own

    def test_the_gaussian_value_is_false_across_a_gap(self) -> None:
        """The control of the weaker bound: two islands, a narrow law."""
        runs, rate = ((0, 5), (50, 55)), 0.01
        p, r = log_pmf(runs, rate, 26), log_pmf(runs, rate, 29)
        assert float((np.exp(p) * (p - r)).sum()) > 5 * rate * 3**2
        assert float((np.exp(p) * (p - r)).sum()) <= (rate * 3 * 55) ** 2 / 2


@pytest.mark.parametrize(
    ("runs", "sensitivity", "epsilon", "code"),
    [
        (((0, 10**6),), 1, Fraction(1, 2**41), "DPR626"),
        (((0, 10**6),), 1, Fraction(10**5), "DPR624"),
        (((0, 10), (10**6, 10**6 + 10)), 1, Fraction(1), "DPR627"),
    ],
)
def test_a_request_without_a_proof_is_refused_and_other_families_serve_it(
    runs: Runs, sensitivity: int, epsilon: Fraction, code: str
) -> None:
    request = GridRequest(GridSet(runs), sensitivity, epsilon, point_masses=False)
    with pytest.raises(ArgumentError) as caught:
        BoundedGaussian.grid_laws(request)
    assert caught.value.code == code
    other = GridRequest(GridSet(runs), sensitivity, epsilon)  # other families serve it
    assert BoundedGaussian.grid_laws(other) == []


def test_a_domain_of_one_value_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        BoundedGaussianWideLaw.calibrate(GridRequest(GridSet(((5, 5),)), 1, Fraction(1)))
    assert caught.value.code == "DPR624"


@pytest.mark.parametrize("byte", some([0, 0x33, 0xFF], 2))
def test_stuck_sources_end(byte: int) -> None:
    for epsilon in (Fraction(1, 100), Fraction(1)):
        request = GridRequest(GridSet(((1, 10), (900, 10**6))), 999, epsilon, point_masses=False)
        law = BoundedGaussianWideLaw(
            request.allowed, 999, epsilon, "absolute", wide.largest_noise(request)
        )
        try:
            drawn = law.draw_raw(np.array([500]), StuckBits(byte))
        except InternalError:
            continue
        assert law.allowed.contains(drawn).all()


def test_stored_laws_are_checked() -> None:
    request = GridRequest(GridSet(((0, 10**6),)), 10, Fraction(1), point_masses=False)
    [law] = BoundedGaussian.grid_laws(request)
    good = law.to_json()
    for change in ({"p": "5"}, {"m": 3}, {"loss": "cubic"}, {"allowed": [["1", "1"]]}):
        with pytest.raises(ConfigError) as caught:
            law_from_json(good | change)
        assert caught.value.code == "DPR180"
    narrower = law_from_json(good | {"m": good["m"] - 2})
    assert narrower.certify().epsilon_upper > request.epsilon


def test_levels_are_checked() -> None:
    request = GridRequest(GridSet(((0, 10**6),)), 10, Fraction(1), point_masses=False)
    [law] = BoundedGaussian.grid_laws(request)
    with pytest.raises(ArgumentError) as caught:
        law.interval(np.array([1]), 1.0)
    assert caught.value.code == "DPR625"
    assert law.finish(np.array([3]))[0] == 3
    assert "scale" in law.describe()
