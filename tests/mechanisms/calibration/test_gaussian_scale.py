"""Scales against brute force in 40 digits: never below the smallest, within 1e-9 of it."""

from __future__ import annotations

import itertools
import math
import random

import mpmath as mp
import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exact
from dprelease.mechanisms import BoundedGaussian
from dprelease.mechanisms.calibration.gaussian_loss import Side
from dprelease.mechanisms.calibration.gaussian_scale import (
    SensitivitySet,
    chen_hale_scale,
    log_ratio,
)
from dprelease.mechanisms.calibration.laplace_pairs import domain_pairs
from dprelease.mechanisms.calibration.search import maximum
from dprelease.schema.domain import Box, Domain
from tests.reference import gaussian as reference
from tests.sizes import some, whole

EPSILONS = [0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
GRAPH = Box([(0, 10), (1, 9)])  # algebraic connectivity and degree on 10 nodes, [BG] section 4
SIDES = (Side.from_domain(Domain(0, 10)), Side.from_domain(Domain(1, 9)))


def random_domain(pick: random.Random, gaps: int) -> Domain:
    ends = sorted({round(pick.uniform(0, 1), 4) for _ in range(2 * gaps + 2)})
    while len(ends) < 2 * gaps + 2:
        ends = sorted({round(pick.uniform(0, 1), 4) for _ in range(2 * gaps + 2)})
    factor = 10 ** pick.randint(-3, 3)
    return Domain.from_pieces(
        [(a * factor, b * factor) for a, b in zip(ends[::2], ends[1::2], strict=False)]
    )


@pytest.mark.parametrize("part", range(6))
def test_random_intervals_and_unions(part: int) -> None:
    pick = random.Random(f"scales {part}")
    with mp.workdps(40):
        for i in range(whole(6, 54)):
            domain = random_domain(pick, i % 3)
            width = float(domain.width)
            sensitivity = float(f"{width * 10 ** pick.uniform(-4, 0.2):.4g}")
            epsilon = float(f"{10 ** pick.uniform(-5, 1):.4g}")
            m = BoundedGaussian.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon)
            assert reference.hull_loss(domain.pieces, sensitivity, m.scale) <= epsilon
            closer = m.scale * (1 - 1e-9)
            assert reference.hull_loss(domain.pieces, sensitivity, closer) > epsilon
            for factor in (0.3, 0.7, 0.9, 0.98):  # no smaller scale would have done
                smaller = m.scale * factor
                assert reference.hull_loss(domain.pieces, sensitivity, smaller, 3) > epsilon


def test_the_worst_pair_of_a_union_is_at_an_end_of_the_hull() -> None:
    for pieces in reference.UNIONS[2:]:
        low, high = pieces[0][0], pieces[-1][1]
        for s, c in ((0.05, 0.1), (0.3, 0.02), (1.0, 0.5)):
            scale, sensitivity = s * (high - low), c * (high - low)
            m = BoundedGaussian(Domain.from_pieces(pieces), scale=scale)
            with mp.workdps(40):
                brute = float(reference.hull_loss(pieces, sensitivity, scale, whole(51, 201)))
            assert m.loss(sensitivity=sensitivity) == pytest.approx(brute, rel=1e-10)


def test_the_bracket_holds_for_every_domain() -> None:
    pick = random.Random("bracket")
    for i in range(60):
        domain = random_domain(pick, i % 3)
        sensitivity, scale = (
            float(domain.width) * pick.random(),
            float(domain.width) * pick.random(),
        )
        loss = BoundedGaussian(domain, scale=scale).loss(sensitivity=sensitivity)
        span = sensitivity * float(domain.width) / scale**2
        assert span / 2 * (1 - 1e-12) <= loss <= span * (1 + 1e-12)


def test_the_loss_of_hull_answers_falls_with_the_scale() -> None:
    """On unions too, where that of bounded Laplace noise need not fall."""
    pick = random.Random("monotone")
    for i in range(whole(20, 60)):
        domain = random_domain(pick, i % 4)
        width = float(domain.width)
        sensitivity, scales = width * pick.random(), np.geomspace(0.02, 20, 60) * width
        losses = [BoundedGaussian(domain, scale=s).loss(sensitivity=sensitivity) for s in scales]
        assert (np.diff(losses) < 0).all()


def test_answers_inside_the_domain_use_exact_pairs() -> None:
    domain = Domain(0, 1, forbidden=[("0.1", "0.7")])
    pairs = domain_pairs(domain.exact_pieces, exact("0.6"))  # type: ignore[arg-type]
    # 0.7 - 0.6 = 0.1 exactly: in floats the pair would be lost
    assert (exact("0.1"), exact("0.7")) in pairs
    assert all(0 < t - s <= exact("0.6") for s, t in pairs)


@pytest.mark.parametrize("turned", [False, True])
def test_the_pair_list_matches_brute_force(turned: bool) -> None:
    parts = [("0", "0.3"), ("2", "2.5"), ("4", "4.01")]
    if turned:
        parts = [(f"-{b}", f"-{a}") for a, b in parts]
    islands = Domain.from_pieces(parts)
    for sensitivity in some((0.2, 1.7, 2.0, 3.7), 2):
        m = BoundedGaussian(islands, scale=0.8, answers="domain")
        points = [float(a + (b - a) * t) for a, b in islands.pieces for t in np.linspace(0, 1, 9)]
        points += [p + s * sensitivity for p in points for s in (-1, 1)]
        points = [p for p in points if islands.contains(p)]
        with mp.workdps(30):
            brute = max(
                float(reference.pair_loss(islands.pieces, p, q, 0.8))
                for p, q in itertools.combinations(points, 2)
                if 0 < abs(q - p) <= sensitivity * (1 + 1e-12)
            )
        assert m.loss(sensitivity=sensitivity) == pytest.approx(brute, rel=1e-9)
        tight = BoundedGaussian.calibrate(
            islands, sensitivity=sensitivity, epsilon=1, answers="domain"
        )
        assert 1 - 1e-9 <= tight.loss(sensitivity=sensitivity) <= 1


def brute_box_loss(widths: list[float], scales: list[float], radius: float, count: int) -> float:
    """Return the largest sum of closed-form losses over directions on the sphere."""
    best = 0.0
    angles = [np.linspace(0, math.pi / 2, count)] * (len(widths) - 1)
    for at in itertools.product(*angles):
        c, rest = [], radius
        for a in at:
            c.append(rest * math.cos(a))
            rest *= math.sin(a)
        c.append(rest)
        total = 0.0
        for w, s, d in zip(widths, scales, c, strict=False):
            d = min(d, w)
            lead = (2 * w * d - d * d) / (2 * s * s)
            ratio = reference.mass([(0, w)], d, s) / reference.mass([(0, w)], 0, s)
            total += lead - math.log(ratio)
        best = max(best, total)
    return best


@pytest.mark.parametrize("epsilon", some(EPSILONS, 6))
def test_chen_hale_reproduces_table_1(epsilon: float) -> None:
    """[BG] prints 84.3 for epsilon = 1; its own rule gives 84.38."""
    printed = dict(zip(EPSILONS, [857.52, 170.27, 84.38, 55.77, 41.47, 32.90, 27.20], strict=False))
    m = BoundedGaussian.calibrate(GRAPH, sensitivity=20**0.5, epsilon=epsilon, rule="chen_hale")
    assert m.scale**2 == pytest.approx(printed[epsilon], abs=0.0051)
    assert m.loss(sensitivity=20**0.5) < epsilon


def test_chen_hale_needs_up_to_three_and_a_quarter_times_the_variance() -> None:
    """On one interval: above 1, at most 2 + c + 2 m / c, and close to both ends of that range."""
    unit, found = Domain(0, 1), {}
    for c in (1e-4, 0.01, 0.3, 0.5, 0.7, 1.0):
        m = (c - c * c) / 2 if c <= 0.5 else 1 / 8
        for epsilon in (1e-3, 0.1, 1.0, 10.0 if c > 1e-4 else 1000.0):
            theirs, ours = (
                BoundedGaussian.calibrate(unit, sensitivity=c, epsilon=epsilon, rule=rule).scale
                for rule in ("chen_hale", "exact")
            )
            found[c, epsilon] = (theirs / ours) ** 2
            assert 1 < found[c, epsilon] <= 2 + c + 2 * m / c + 1e-8
    assert found[1e-4, 1000.0] == min(found.values()) == pytest.approx(1.0005, abs=1e-4)
    assert found[1.0, 1e-3] == max(found.values()) == pytest.approx(3.25, abs=1e-4)


@pytest.mark.parametrize("epsilon", some(EPSILONS, 6))
def test_the_exact_rule_needs_a_third_of_that_variance(epsilon: float) -> None:
    wanted = dict(zip(EPSILONS, [290.9, 61.40, 32.34, 22.46, 17.41, 14.32, 12.21], strict=False))
    m = BoundedGaussian.calibrate(GRAPH, sensitivity=20**0.5, epsilon=epsilon)
    assert m.scale**2 == pytest.approx(wanted[epsilon], abs=0.006)
    brute = brute_box_loss([10, 8], [m.scale] * 2, 20**0.5, 121)
    assert brute <= epsilon
    assert brute >= epsilon * (1 - 1e-4)
    closer = m.scale * (1 - 1e-4)
    assert brute_box_loss([10, 8], [closer] * 2, 20**0.5, 121) > epsilon


@pytest.mark.parametrize(
    ("widths", "ratios", "radius"),
    [([1.0, 1.0], [1, 1], 0.5), ([1.0, 3.0], [1, 2], 1.5), ([2.0, 1.0, 4.0], [1, 1, 3], 2.0)],
)
def test_anisotropic_boxes_match_brute_force(
    widths: list[float], ratios: list[float], radius: float
) -> None:
    box = Box([(0, w) for w in widths])
    m = BoundedGaussian.calibrate(box, sensitivity=radius, epsilon=0.8, scale_ratios=ratios)
    count = 161 if len(widths) == 2 else 15
    brute = brute_box_loss(widths, list(m.scales), radius, count)
    assert brute <= 0.8
    assert brute >= 0.8 * (1 - (1e-3 if count == 161 else 2e-2))
    assert np.allclose(np.array(m.scales) / m.scales[0], np.array(ratios) / ratios[0])


@pytest.mark.parametrize("caps", some([[4, 3], [2, 4.4], [2, 5], [8, 2], [0, 8]], 2))
def test_an_l2_and_a_per_coordinate_sensitivity_need_less_than_either(caps: list[float]) -> None:
    radius = 20**0.5
    both = BoundedGaussian.calibrate(
        GRAPH, sensitivity={"l2": radius, "per_coordinate": caps}, epsilon=1
    )
    alone = [
        BoundedGaussian.calibrate(GRAPH, sensitivity=s, epsilon=1).scale ** 2
        for s in (radius, caps)
    ]
    assert both.scale**2 <= min(alone) * (1 + 1e-9)
    # brute force: directions on the arc and where it meets a cap, each coordinate at most its cap
    met = [math.acos(min(1, caps[0] / radius)), math.asin(min(1, caps[1] / radius))]
    best = 0.0
    for angle in [*np.linspace(0, math.pi / 2, 501).tolist(), *met]:
        c = min(radius * math.cos(angle), caps[0]), min(radius * math.sin(angle), caps[1])
        best = max(best, sum(s.upward(d, both.scale) for s, d in zip(SIDES, c, strict=True) if d))
    assert 1 - 1e-4 <= best <= 1 + 1e-12
    if caps == [4, 3]:
        assert alone[1] == pytest.approx(35.57, abs=0.005)
        assert both.scale**2 == pytest.approx(32.34, abs=0.005)
    if caps == [2, 5]:
        assert both.scale**2 < 0.91 * min(alone)


def test_delta_and_zcdp_of_a_radius_with_caps() -> None:
    m = BoundedGaussian(GRAPH, scale=[2, 4])  # a ball would spend itself on the first side
    both = {"l2": 3, "per_coordinate": [1, 5]}
    corner = {
        "l2": 30,
        "per_coordinate": [1, 5],
    }  # an l2 sensitivity that the two others do not let it meet
    for cost in (m.zcdp, m.gdp, lambda s: m.delta(epsilon=1, sensitivity=s)):
        assert cost(both) < min(cost(3), cost([1, 5]))
        assert cost(corner) == cost([1, 5])
    assert m.gdp(both) == pytest.approx(math.sqrt(1 / 4 + 8 / 16))
    for wrong in ({"l2": 1}, {"l2": 1, "per_coordinate": [1]}, {"l2": 0, "per_coordinate": [1, 1]}):
        with pytest.raises(ArgumentError):
            BoundedGaussian.calibrate(GRAPH, sensitivity=wrong, epsilon=1)


def test_per_coordinate_sensitivities_add_up() -> None:
    box = Box([(0, 1), Domain(0, 5, forbidden=[(1, 2)])])
    m = BoundedGaussian.calibrate(box, sensitivity=[0.2, 7], epsilon=2, scale_ratios=[1, 4])
    parts = [
        BoundedGaussian(side, scale=s).loss(sensitivity=c)
        for side, s, c in zip(box.sides, m.scales, (0.2, 7), strict=False)
    ]
    assert m.loss(sensitivity=[0.2, 7]) == pytest.approx(sum(parts), rel=1e-12)
    assert sum(parts) <= 2
    zero = BoundedGaussian.calibrate(box, sensitivity=[0.2, 0], epsilon=2)
    assert zero.scales[0] == pytest.approx(
        float(BoundedGaussian.calibrate(Domain(0, 1), sensitivity=0.2, epsilon=2).scale)
    )


def test_a_ball_that_covers_the_box_moves_every_side_fully() -> None:
    box = Box([(0, 1), (0, 2)])
    m = BoundedGaussian.calibrate(box, sensitivity=50, epsilon=1)
    assert m.scale**2 == pytest.approx((1 + 4) / 2, rel=1e-10)  # (w1^2 + w2^2) / (2 epsilon)


def test_sides_with_gaps_are_tried_at_both_ends() -> None:
    near_top = Domain.from_pieces([(0, "0.01"), ("0.9", 1)])
    near_bottom = Domain.from_pieces([(0, "0.1"), ("0.99", 1)])
    box = Box([near_top, near_bottom])
    m = BoundedGaussian.calibrate(box, sensitivity=0.4, epsilon=1)
    sides = tuple(Side.from_domain(d) for d in box.sides)
    one_way = SensitivitySet(l2=0.4).loss(sides, m.scales)
    for turn in itertools.product((0, 1), repeat=2):
        turned = tuple(s.mirror if t else s for s, t in zip(sides, turn, strict=False))
        assert SensitivitySet(l2=0.4).loss(turned, m.scales) == pytest.approx(one_way, rel=1e-9)
    parts = [side.upward(0.4 / math.sqrt(2), m.scales[0]) for side in sides]
    mirrored = [side.mirror.upward(0.4 / math.sqrt(2), m.scales[0]) for side in sides]
    # the twin that looks at one end only understates the loss
    assert sum(map(max, parts, mirrored)) > 1.02 * min(sum(parts), sum(mirrored))
    assert sum(map(max, parts, mirrored)) <= 1


class TestErrata:
    """Each printed form, shown failing beside the corrected one."""

    def test_theorem_2_4_accepts_a_negative_denominator(self) -> None:
        side, sensitivity, epsilon, scale = Side.from_domain(Domain(0, 1)), 0.5, 0.1, 0.05
        room = epsilon - log_ratio((side,), scale, sensitivity)
        assert room < 0  # so scale^2 >= (w + D / 2) D / room holds for every scale
        assert scale**2 >= (1 + sensitivity / 2) * sensitivity / room
        assert side.worst(sensitivity, scale) > 149
        ours = chen_hale_scale((side,), sensitivity, epsilon)
        assert side.worst(sensitivity, ours) <= epsilon
        assert ours**2 >= (1 + sensitivity / 2) * sensitivity / (
            epsilon - log_ratio((side,), ours, sensitivity)
        )

    def test_the_normaliser_is_subtracted_not_added(self) -> None:
        side, sensitivity, scale = Side.from_domain(Domain(0, 1)), 0.3, 0.5
        lead = (2 * 0.3 - 0.09) / (2 * scale**2)
        ratio = log_ratio((side,), scale, sensitivity)
        with mp.workdps(40):
            brute = float(reference.hull_loss([(0, 1)], sensitivity, scale, 41))
        assert brute == pytest.approx(lead - ratio, rel=1e-12)
        assert lead + ratio > 1.2 * brute

    def test_the_normaliser_ratio_is_not_concave_but_its_logarithm_is(self) -> None:
        """On a square, along its diagonal: DC_m is the product of the two sides' ratios."""

        def ratio(c: float) -> mp.mpf:
            return (reference.mass([(0, 1)], c, 0.1) / reference.mass([(0, 1)], 0, 0.1)) ** 2

        with mp.workdps(40):
            points = [ratio(0.01 * i) for i in range(101)]
            bends = [a + b - 2 * m for a, m, b in zip(points, points[1:], points[2:], strict=False)]
            logs = [mp.log(p) for p in points]
            log_bends = [a + b - 2 * m for a, m, b in zip(logs, logs[1:], logs[2:], strict=False)]
        assert max(bends) > 1e-6
        assert max(log_bends) < 0

    def test_unclamped_answers_cost_more_than_the_interval_formula(self) -> None:
        m = BoundedGaussian(Domain(0, 1), scale=0.5)
        assert m.loss(sensitivity=0.3) == pytest.approx(0.719, abs=5e-4)
        with mp.workdps(40):
            assert float(reference.pair_loss([(0, 1)], -3, -2.7, 0.5)) > 1.09

    def test_the_gaussian_zcdp_value_is_false_on_unions(self) -> None:
        """Two islands: Renyi divergence over alpha, by integration, against both bounds."""
        islands = Domain.from_pieces([(0, "0.001"), (1, "1.001")])
        pieces, s, c = islands.pieces, 0.1, 0.05
        with mp.workdps(30):
            found = {}
            pairs = [(q, q + step) for q in (0.4, 0.4755, 0.5, 0.515) for step in (c, -c)]
            for (q, other), alpha in itertools.product(pairs, (1.00001, 1.1, 2.0)):
                # D_alpha in closed form: the family is exponential in q / s^2
                shifted = alpha * q + (1 - alpha) * other
                lead = alpha * c * c / (2 * s * s)
                terms = (
                    mp.log(reference.mass(pieces, shifted, s))
                    - alpha * mp.log(reference.mass(pieces, q, s))
                    - (1 - alpha) * mp.log(reference.mass(pieces, other, s))
                ) / (alpha - 1)
                found[q, other, alpha] = float((lead + terms) / alpha)
        best = max(found.values())
        m = BoundedGaussian(islands, scale=s)
        assert best == found[0.515, 0.515 - c, 1.00001] == pytest.approx(2.4176, abs=1e-4)
        assert m.zcdp(c) == pytest.approx(3.1313, abs=1e-4)
        assert c**2 / (2 * s**2) == pytest.approx(0.125)  # the interval's value: false here
        assert best <= m.zcdp(c)
        assert m.zcdp(c) == pytest.approx(c**2 * 1.001**2 / (8 * s**4), rel=1e-12)


def test_a_maximum_finds_interior_maxima() -> None:
    found, _ = maximum(lambda x: np.sin(7 * x) * np.exp(-x), np.array([0.0, 0.5, 2.0]))
    grid = np.linspace(0, 2, 500_001)
    assert found == pytest.approx(float((np.sin(7 * grid) * np.exp(-grid)).max()), abs=1e-10)
