"""The public class: curves, (epsilon, delta), composition, grids, arguments."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms import BoundedGaussian
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta
from dprelease.schema.domain import Box, Domain
from tests.reference import gaussian as reference

GAPPED = Domain(0, 12, forbidden=[(4, 6)])
BOX = Box([(0, 10), (1, 9)])
BOXES = [
    row for row in json.loads(reference.TABLE.read_text()) if row["name"] in ("joint", "worst")
]
INF = math.inf


@pytest.mark.parametrize("domain", [Domain(0, 1), GAPPED], ids=str)
@pytest.mark.parametrize("q", [0.0, 0.4, 1.0])
def test_curves_match_the_definition(domain: Domain, q: float) -> None:
    m, pieces = BoundedGaussian(domain, scale=0.7), domain.pieces
    with mp.workdps(40):
        z = float(reference.mass(pieces, q, 0.7))
        density = math.exp(-((0.9 - q) ** 2) / 0.98) / (0.7 * math.sqrt(2 * math.pi)) / z
        assert float(m.pdf(0.9, q)) == pytest.approx(density, rel=1e-12)
        assert float(m.mean(q)) == pytest.approx(float(reference.mean(pieces, q, 0.7)), rel=1e-12)
        spread = float(reference.variance(pieces, q, 0.7))
        assert float(m.variance(q)) == pytest.approx(spread, rel=1e-11)
        low = float(reference.cdf(pieces, 0.3, q, 0.7))
        assert float(m.cdf(0.3, q)) == pytest.approx(low, rel=1e-12)
        assert float(m.survival(0.3, q)) == pytest.approx(1 - low, rel=1e-12)


def test_the_two_tails_keep_their_relative_precision() -> None:
    m = BoundedGaussian(Domain(0, 100), scale=1)
    with mp.workdps(60):
        for x in (5.0, 20.0, 30.0):
            tail = mp.ncdf(x - 50) / reference.mass([(0, 100)], 50, 1)
            tail -= mp.ncdf(-50) / reference.mass([(0, 100)], 50, 1)
            assert float(m.cdf(x, 50)) == pytest.approx(float(tail), rel=1e-11)
            assert float(m.survival(100 - x, 50)) == pytest.approx(float(tail), rel=1e-11)


def test_curves_far_inside_a_wide_gap_do_not_underflow() -> None:
    m = BoundedGaussian(Domain(0, 1000, forbidden=[(1, 999)]), scale=0.01)
    assert float(m.mean(400.0)) == pytest.approx(1.0, rel=1e-6)
    assert float(m.pdf(1.0, 400.0)) == pytest.approx(399 / 0.01**2, rel=1e-4)
    assert np.isfinite(m.loss(sensitivity=1))
    assert m.mass(400.0) == 0  # true value 1e-345691462


def test_curves_are_vectorised_and_zero_outside() -> None:
    m = BoundedGaussian(GAPPED, scale=1)
    x = np.linspace(-1, 13, 29)
    density = m.pdf(x[:, None], np.array([0.0, 5.0, 12.0]))
    assert density.shape == (29, 3)
    inside = GAPPED.contains(x)
    assert (density[~inside] == 0).all()
    assert (density[inside] > 0).all()
    assert m.cdf(12, 5.0) == 1.0
    assert m.cdf(-0.1, 5.0) == 0.0
    assert m.cdf(4, 5.0) == m.cdf(5.9, 5.0)
    assert m.survival(-0.1, 5.0) == 1.0


def test_a_box_is_the_product_of_its_sides() -> None:
    m = BoundedGaussian(BOX, scale=[2, 3])
    first, second = (BoundedGaussian(d, scale=s) for d, s in zip(BOX.sides, (2, 3), strict=False))
    x, q = np.array([[2.0, 3.0], [4.0, 8.5], [11.0, 3.0]]), np.array([1.0, 9.0])
    for name in ("pdf", "cdf", "survival"):
        wanted = getattr(first, name)(x[:, 0], 1.0) * getattr(second, name)(x[:, 1], 9.0)
        np.testing.assert_allclose(getattr(m, name)(x, q), wanted, rtol=1e-14)
    assert m.mass(q) == pytest.approx(float(first.mass(1.0) * second.mass(9.0)))
    assert m.mean(q).tolist() == [float(first.mean(1.0)), float(second.mean(9.0))]
    assert m.variance(np.stack([q, q])).shape == (2, 2)
    assert m.scale == (2.0, 3.0)
    assert BoundedGaussian(BOX, scale=[2, 2]).scale == 2.0


class TestDelta:
    @pytest.mark.parametrize(
        "ends", [[(0, 1)], [(0, 0.4), (0.7, 1)], [(0, 0.3), (0.6, 1)]], ids=str
    )
    def test_the_worst_location_over_the_hull(self, ends: reference.Pieces) -> None:
        domain = Domain.from_pieces(ends)
        m = BoundedGaussian(domain, scale=0.2)
        for epsilon, sensitivity in ((0.1, 0.1), (0.5, 0.1), (1.0, 0.3)):
            with mp.workdps(30):
                starts = np.linspace(0, 1 - sensitivity, 101)
                brute = max(
                    max(
                        float(
                            reference.hockey_stick(domain.pieces, q + sensitivity, q, 0.2, epsilon)
                        ),
                        float(
                            reference.hockey_stick(domain.pieces, q, q + sensitivity, 0.2, epsilon)
                        ),
                    )
                    for q in starts
                )
            found = m.delta(epsilon=epsilon, sensitivity=sensitivity)
            assert found >= brute * (1 - 1e-10)
            assert found == pytest.approx(brute, rel=1e-3)

    def test_the_worst_location_is_often_inside(self) -> None:
        """The control: looking at an end only would understate delta."""
        m = BoundedGaussian(Domain(0, 1), scale=0.1)
        at_end = float(reference.hockey_stick([(0, 1)], 0.1, 0, 0.1, 0.3))
        assert m.delta(epsilon=0.3, sensitivity=0.1) > 1.05 * at_end

    def test_a_delta_makes_the_scale_smaller_and_is_kept(self) -> None:
        for domain in (Domain(0, 1), GAPPED):
            sensitivity = 0.1 * float(domain.width)
            pure = BoundedGaussian.calibrate(domain, sensitivity=sensitivity, epsilon=1)
            assert pure.delta(epsilon=1.0001, sensitivity=sensitivity) == 0
            relaxed = BoundedGaussian.calibrate(
                domain, sensitivity=sensitivity, epsilon=1, delta=1e-3
            )
            assert relaxed.scales[0] < pure.scales[0]
            spent = relaxed.delta(epsilon=1, sensitivity=sensitivity)
            assert 0.999e-3 <= spent <= 1e-3
            smaller = BoundedGaussian(domain, scale=relaxed.scales[0] * (1 - 1e-6))
            assert smaller.delta(epsilon=1, sensitivity=sensitivity) > 1e-3
            assert relaxed.epsilon is None

    def test_a_smaller_sensitivity_costs_less(self) -> None:
        m = BoundedGaussian(GAPPED, scale=1)
        found = [m.delta(epsilon=0.2, sensitivity=s) for s in (0.1, 0.5, 1, 3, 12, 50)]
        assert found == sorted(found)
        assert found[-1] == found[-2]

    def test_a_delta_makes_the_scales_of_a_box_smaller_and_is_kept(self) -> None:
        m = BoundedGaussian.calibrate(BOX, sensitivity=0.1, epsilon=1, delta=1e-2)
        pure = BoundedGaussian.calibrate(BOX, sensitivity=0.1, epsilon=1)
        assert m.scales[0] < pure.scales[0]
        assert 0.99e-2 <= m.delta(epsilon=1, sensitivity=0.1) <= 1e-2
        assert pure.delta(epsilon=1, sensitivity=0.1) == 0
        # where delta hardly helps, the pure scale is the limit
        far = BoundedGaussian.calibrate(BOX, sensitivity=[4, 3], epsilon=1, delta=1e-12)
        assert far.loss(sensitivity=[4, 3]) <= 1.01
        # an l2 ball on three sides, one with a gap: nothing is known up to its rho
        gapped = BoundedGaussian(Box([GAPPED, (0, 1), (0, 1)]), scale=2)
        rho = gapped.zcdp(0.1)
        assert gapped.delta(epsilon=rho, sensitivity=0.1) == 1
        assert 0 < gapped.delta(epsilon=2 * rho, sensitivity=0.1) < 1

    @pytest.mark.parametrize("row", BOXES, ids=lambda r: f"{r['c']}-{r['e']}")
    def test_the_delta_of_a_box_is_an_upper_bound(self, row: dict[str, Any]) -> None:
        """The reference integrates the joint law of all sides, of one pair or of the worst of some."""
        m = BoundedGaussian(Box([Domain.from_pieces(p) for p in row["sides"]]), scale=row["s"])
        assert float(row["value"]) <= m.delta(epsilon=row["e"], sensitivity=row["c"]) <= 1

    def test_with_much_room_the_delta_of_a_box_is_the_gaussian_curve(self) -> None:
        m = BoundedGaussian(Box([(0, 100)] * 3), scale=[1, 1, 0.5])
        for epsilon in (0.5, 1.0, 3.0):
            plain = gaussian_delta(math.sqrt(0.25 + 0.09 + 0.16), epsilon)
            assert m.delta(epsilon=epsilon, sensitivity=[0.5, 0.3, 0.2]) == pytest.approx(plain)


class TestComposition:
    def test_gdp_bounds_every_hockey_stick_of_an_interval(self) -> None:
        for scale in (0.05, 0.3, 2.0):
            m = BoundedGaussian(Domain(0, 1), scale=scale)
            for epsilon in (0.0, 0.1, 1.0, 3.0):
                curve = gaussian_delta(m.gdp(0.1), epsilon)
                assert m.delta(epsilon=epsilon, sensitivity=0.1) <= curve * (1 + 1e-9)
            assert m.gdp(0.1) == pytest.approx(0.1 / scale)

    def test_zcdp_bounds_renyi_divergences(self) -> None:
        for domain in (Domain(0, 1), Domain(0, 1, forbidden=[(0.1, 0.8)])):
            for scale in (0.1, 0.3, 1.0):
                rho = BoundedGaussian(domain, scale=scale).zcdp(0.2)
                with mp.workdps(30):
                    for q in (0.0, 0.3, 0.4, 0.8):
                        for alpha in (1.01, 2.0, 8.0):
                            r = q + 0.2
                            log_z = [
                                mp.log(reference.mass(domain.pieces, t, scale))
                                for t in (alpha * q + (1 - alpha) * r, q, r)
                            ]
                            value = alpha * mp.mpf(0.04) / (2 * scale**2) + (
                                log_z[0] - alpha * log_z[1] - (1 - alpha) * log_z[2]
                            ) / (alpha - 1)
                            assert value <= alpha * rho * (1 + 1e-12)

    def test_the_smaller_of_the_two_bounds_counts_on_intervals(self) -> None:
        narrow, wide = (BoundedGaussian(Domain(0, 1), scale=s).zcdp(0.1) for s in (0.1, 5))
        assert narrow == pytest.approx(0.5)
        assert wide == pytest.approx(0.01 / (8 * 625))
        assert BoundedGaussian(GAPPED, scale=1).zcdp(0.1) == pytest.approx(0.01 * 144 / 8)

    def test_boxes_spend_on_the_dearest_sides_first(self) -> None:
        m = BoundedGaussian(Box([(0, 1), (0, 4)]), scale=[0.2, 1])
        assert m.gdp([0.1, 0.5]) == pytest.approx(math.hypot(0.5, 0.5))
        assert m.gdp(2) == pytest.approx(math.sqrt(25 + 3))  # 1 on the first side, sqrt 3 left
        assert m.zcdp([0.1, 0.5]) == pytest.approx(0.125 + 0.125)
        assert m.zcdp(2) == pytest.approx(12.5 + 1.5)

    def test_gaussian_dp_is_refused_on_unions(self) -> None:
        with pytest.raises(ArgumentError, match="intervals only") as caught:
            BoundedGaussian(GAPPED, scale=1).gdp(1)
        assert "zcdp" in str(caught.value.fix)


class TestOnGrid:
    def test_the_certificate_holds_the_requested_epsilon(self) -> None:
        m = BoundedGaussian.calibrate(GAPPED, sensitivity=0.5, epsilon=1)
        law = m.on_grid(step=0.01)
        assert law.certificate.epsilon_upper == 1
        assert law.law.scale * 0.01 == pytest.approx(m.scale, rel=1e-3)
        values = law.draw(np.array([[0.0, 5.0], [12.0, INF]]))
        assert values.shape == (2, 2)
        assert GAPPED.contains(values).all()
        assert json.loads(json.dumps(law.to_json()))["step"] == "1/100"

    def test_a_mechanism_built_from_its_scale_needs_a_sensitivity(self) -> None:
        for m in (BoundedGaussian(GAPPED, scale=3), BoundedGaussian(BOX, scale=3)):
            with pytest.raises(ArgumentError) as caught:
                m.on_grid(step=0.1)
            assert caught.value.code == "DPR686"
            law = m.on_grid(step=0.1, sensitivity=0.5)
            assert law.certificate.epsilon_upper <= m.loss(sensitivity=0.5) * (1 + 1e-9)

    def test_delta_has_no_pure_grid_law(self) -> None:
        m = BoundedGaussian.calibrate(Domain(0, 1), sensitivity=0.5, epsilon=1, delta=0.01)
        with pytest.raises(ArgumentError) as caught:
            m.on_grid(step=0.1)
        assert caught.value.code == "DPR634"


def test_sensitivity_may_be_a_list_of_one() -> None:
    one = BoundedGaussian.calibrate(GAPPED, sensitivity=[0.5], epsilon=1, answers="domain")
    assert (
        one.scale
        == BoundedGaussian.calibrate(
            GAPPED, sensitivity=Fraction(1, 2), epsilon=1, answers="domain"
        ).scale
    )
    assert one.on_grid(0.1).certificate.epsilon_upper == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": 0}, "DPR606"),
        ({"epsilon": -1}, "DPR606"),
        ({"epsilon": math.nan}, "DPR605"),
        ({"epsilon": INF}, "DPR606"),
        ({"epsilon": "much"}, "DPR605"),
        ({"sensitivity": 0}, "DPR606"),
        ({"sensitivity": -2}, "DPR606"),
        ({"sensitivity": math.nan}, "DPR605"),
        ({"sensitivity": [1, 2, 3]}, "DPR637"),
        ({"sensitivity": [0, 0]}, "DPR606"),
        ({"sensitivity": [1, -1]}, "DPR606"),
        ({"sensitivity": np.eye(2)}, "DPR605"),
        ({"delta": 1}, "DPR631"),
        ({"delta": -0.1}, "DPR631"),
        ({"rule": "guess"}, "DPR633"),
        ({"answers": "inside"}, "DPR685"),
        ({"scale_ratios": [1]}, "DPR637"),
        ({"scale_ratios": [1, 0]}, "DPR606"),
        ({"rule": "chen_hale", "delta": 0.1}, "DPR634"),
        ({"rule": "chen_hale", "sensitivity": [1, 1]}, "DPR634"),
        ({"rule": "chen_hale", "scale_ratios": [1, 2]}, "DPR634"),
        ({"rule": "chen_hale", "domain": GAPPED}, "DPR634"),
        ({"domain": (0, 1)}, "DPR629"),
        ({"domain": Domain(0, INF)}, "DPR603"),
        ({"domain": Domain(3, 3)}, "DPR632"),
        ({"domain": Box([GAPPED, (0, 1)]), "answers": "domain"}, "DPR634"),
        (
            {"domain": Domain.from_pieces([(0, 0), (5, 5), (9, 10)]), "answers": "domain",
             "sensitivity": "0.5"},
            None,
        ),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_arguments_are_refused_with_a_fix(change: dict[str, Any], code: str | None) -> None:
    good: dict[str, Any] = {"domain": BOX, "sensitivity": 1, "epsilon": 1} | change
    domain = good.pop("domain")
    if code is None:
        assert BoundedGaussian.calibrate(domain, **good).scales[0] > 0
        return
    with pytest.raises(ArgumentError) as caught:
        BoundedGaussian.calibrate(domain, **good)
    assert caught.value.code == code
    assert caught.value.fix


def test_more_invalid_arguments() -> None:
    m = BoundedGaussian(GAPPED, scale=1)
    for location in (-0.1, 12.1, math.nan, INF):
        for curve in (m.mean, m.mass, m.variance, lambda q: m.pdf(1, q), lambda q: m.cdf(1, q)):
            with pytest.raises(ArgumentError) as caught:
                curve(location)
            assert caught.value.code == "DPR630"
    for scale in (0, -1, math.nan, [1, 2]):
        with pytest.raises(ArgumentError):
            BoundedGaussian(GAPPED, scale=scale)
    for bad in (1.0, [1.0, 2.0, 3.0]):
        with pytest.raises(ArgumentError) as caught:
            BoundedGaussian(BOX, scale=1).pdf(bad, [1, 2])
        assert caught.value.code == "DPR637"
    islands = Domain.from_pieces([(0, 0), (5, 6)])
    many = BoundedGaussian(Box([GAPPED] * 11), scale=1)
    with pytest.raises(ArgumentError) as caught:
        many.loss(sensitivity=1)
    assert caught.value.code == "DPR634"
    assert BoundedGaussian(islands, scale=1).loss(sensitivity=6) > 0
    points = Domain.from_pieces([(0, 0), (5, "5.1"), (9, 9)])
    alone = BoundedGaussian(points, scale=1, answers="domain")
    assert alone.loss(sensitivity="0.1") > 0


def test_a_grid_of_one_value_is_refused_for_what_it_is() -> None:
    m = BoundedGaussian.calibrate(Domain(0, "0.4"), sensitivity=1, epsilon=1)
    with pytest.raises(ArgumentError, match="one allowed value") as caught:
        m.on_grid(1)
    assert (caught.value.code, caught.value.fix) == ("DPR628", "use a finer step")


def test_a_box_on_its_grid_says_what_the_step_costs() -> None:
    """Rounded answers move by whole steps: the proof covers that, and the variance of the law shows it."""
    m = BoundedGaussian.calibrate(Box([(0, 34), (0, 33)]), sensitivity=2, epsilon=1)
    at = [17.0, 16.5]
    free = np.ravel(m.variance(at))
    ratios = []
    for step in ("1", "0.5", "0.25"):
        law: Any = m.on_grid(step)
        found = law.variance(at)
        ratios.append(float((found / free).max()))
        (one, _), (g, _) = law.laws, law.steps
        steps = np.arange(one.allowed.lower, one.allowed.upper + 1)
        q = round(17 / float(g))
        weights = np.exp(-((steps - q) ** 2) / (2 * one.scale**2))  # a law of its own
        mean = (weights @ steps) / weights.sum()
        spread = (weights @ (steps - mean) ** 2) / weights.sum()
        assert found[0] == pytest.approx(spread * float(g) ** 2, rel=1e-3)
    assert ratios[0] == pytest.approx(1.19, abs=0.01)
    assert ratios[0] > ratios[1] > ratios[2] > 1
