"""Scales against brute force: never below the smallest valid one, and within 1e-9 of it.

Judges: the antiderivative in 50 digits (`tests/reference/laplace.py`) for the returned scale, and
dense scans in extended precision (`numpy.longdouble`) for every smaller one.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise, product
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprelease.mechanisms import BoundedLaplace, bounded_laplace_scale
from dprelease.mechanisms.calibration import laplace_loss
from dprelease.mechanisms.calibration.laplace_pairs import AnswerPairs, Ends, log_ratio
from dprelease.schema.domain import Domain
from tests.reference import laplace as reference
from tests.sizes import some, whole

INF = math.inf


def interval_loss(width: mp.mpf, z: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Return the loss of the pair (0, z) on [0, width] in the current precision."""
    pieces = [(mp.mpf(0), width)]
    change = reference.exact_mass(pieces, z, b) / reference.exact_mass(pieces, mp.mpf(0), b)
    return z / b + mp.log(change)


def random_union(pick: random.Random) -> Domain:
    count, factor = pick.choice((2, 2, 3, 4)), 10 ** pick.uniform(-3, 3)
    ends = sorted(factor * pick.random() ** pick.choice((1, 4)) for _ in range(2 * count))
    if pick.random() < 0.2:  # an island without width
        ends[2] = ends[3] = (ends[2] + ends[3]) / 2
    return Domain.from_pieces(list(zip(ends[::2], ends[1::2], strict=True)))


def judge(domain: Domain, sensitivity: float, b: float, answers: str) -> mp.mpf:
    """Return the largest loss in the current precision; islands without width have no mass."""
    if answers == "hull":
        return reference.hull_loss(domain.pieces, sensitivity, b)
    pairs = reference.domain_pairs(domain.pieces, sensitivity)
    return max(reference.exact_pair_loss(domain.pieces, q, z, b) for q, z in pairs)


def dense_losses(domain: Domain, sensitivity: float, scales: Any, answers: str) -> Any:
    """Return the largest pair loss per scale, in extended precision, from a dense list of pairs."""
    real = np.longdouble
    pieces, z = domain.pieces, real(sensitivity)
    low, high = real(domain.hull[0]), real(domain.hull[1])
    ends = np.array([e for piece in pieces for e in piece], dtype=real)
    if answers == "hull":
        z = min(z, high - low)
        marks = np.concatenate([ends, ends - z])
        marks = np.unique(marks[(marks >= low) & (marks + z <= high * (1 + real(1e-18)))])
        between = [np.linspace(u, v, 17, dtype=real) for u, v in pairwise(marks)]
        q = np.concatenate([marks, *between])
        r = q + z
    else:
        points = np.concatenate([ends, ends - z, ends + z])
        inside = [any(a <= x <= c for a, c in pieces) for x in points]
        points = points[inside]
        q, r = (side.ravel() for side in np.meshgrid(points, points))
        near = (r > q) & (r - q <= z * (1 + real(1e-14)))  # the sums were rounded
        q, r = q[near], r[near]
    b = np.array(scales, dtype=real)[:, None]

    def log_mass(at: Any) -> Any:
        solid = [(real(a), real(c)) for a, c in pieces if a < c]
        gap = [np.maximum(np.maximum(a - at, at - c), real(0)) for a, c in solid]
        near, total = np.min(gap, axis=0), real(0)
        for a, c in solid:
            below, above = np.minimum(at, c), np.maximum(at, a)
            # A side without a part of this interval has width 0, whatever its distance.
            left = np.exp(np.minimum(near - (at - below), 0) / b) * -np.expm1(
                -np.maximum(below - a, 0) / b
            )
            right = np.exp(np.minimum(near - (above - at), 0) / b) * -np.expm1(
                -np.maximum(c - above, 0) / b
            )
            total = total + left + right
        return np.log(total) - near / b

    return ((r - q) / b + np.abs(log_mass(r) - log_mass(q))).max(axis=1)


def test_intervals_and_half_lines_from_the_smallest_to_the_largest() -> None:
    """700 intervals in one call: w / b from 1e-9 to 1e9, epsilon from 1e-9 to 50."""
    pick = random.Random("intervals")
    cases = []
    for i in range(700):
        epsilon = 10 ** pick.uniform(-9, math.log10(50))
        ratio = 10 ** pick.uniform(-9, 0.1)  # sensitivity / width
        width = INF if i % 7 == 0 else 10 ** pick.uniform(-6, 6)
        cases.append((width, ratio * (1.0 if i % 7 == 0 else width), epsilon))
    width, sensitivity, epsilon = np.array(cases).T
    scales = bounded_laplace_scale(0, width, sensitivity, epsilon)
    finite = (width / scales)[np.isfinite(width)]
    assert finite.min() < 1e-8
    assert finite.max() > 1e9
    with mp.workdps(60):
        for w, d, e, b in zip(width, sensitivity, epsilon, scales, strict=True):
            wide = mp.mpf(float(w))
            z, at = min(mp.mpf(float(d)), wide), mp.mpf(float(b))
            assert interval_loss(wide, z, at) <= e
            assert interval_loss(wide, z, at * (1 - mp.mpf(10) ** -9)) > e


def test_random_unions_never_exceed_epsilon_and_waste_nothing() -> None:
    """400 unions (16 in every run), both kinds of answers: loss at most epsilon at every pair of the judge's list."""
    pick = random.Random("unions")
    with mp.workdps(50):
        for i in range(whole(16, 400)):
            domain, answers = random_union(pick), ("hull", "domain")[i % 2]
            sensitivity = float(domain.width) * 10 ** pick.uniform(-6, 0.1)
            epsilon = 10 ** pick.uniform(-6, 1)
            m = BoundedLaplace.calibrate(
                domain, sensitivity=sensitivity, epsilon=epsilon, answers=answers
            )
            worst = judge(domain, sensitivity, m.scale, answers)
            assert worst <= epsilon
            assert worst >= epsilon * (1 - mp.mpf(10) ** -9)
            # No smaller scale of a fine scan would have done.
            least = m.scale * (1 - 1e-3)
            distance = min(sensitivity, float(domain.width)) / epsilon
            lower = np.geomspace(min(distance, least) / 2, least, 40)
            assert (dense_losses(domain, sensitivity, lower, answers) > epsilon).all()


@pytest.mark.parametrize(
    ("epsilon", "answers"), some(product([1e-9, 1e-4, 1.0, 20.0, 50.0], ["hull", "domain"]), 3)
)
def test_unions_at_the_extremes_do_not_cancel(epsilon: float, answers: Any) -> None:
    """Sensitivity / width from 1e-9 to 1, so w / b from about 1e-9 to 5e10."""
    pieces = [(0.25, 1.0), (2.0, 2.000001), (7.0, 8.5)]
    domain = Domain.from_pieces(pieces)
    with mp.workdps(60):
        for ratio in (1e-9, 1e-5, 0.1, 1.0):
            sensitivity = ratio * 8.25
            m = BoundedLaplace.calibrate(
                domain, sensitivity=sensitivity, epsilon=epsilon, answers=answers
            )
            worst = judge(domain, sensitivity, m.scale, answers)
            assert epsilon * (1 - 1e-9) <= float(worst)
            assert worst <= epsilon


def test_the_difference_of_two_logarithms_would_have_cancelled() -> None:
    """The broken twin: at epsilon = 1e-9 it is wrong in the seventh digit, in both directions."""
    domain = Domain.from_pieces([(0.25, 1.0), (2.0, 2.5), (7.0, 8.5)])
    ends, sensitivity = Ends.from_domain(domain), 0.01
    pairs = AnswerPairs(np.array([0, 1, 2]), np.array([0.1, 0.2, 0.0]), np.full(3, sensitivity))
    b = 2e7
    ours, (q, r) = log_ratio(ends, pairs, b), ends.floats(pairs)
    view = laplace_loss.LossView(domain, "hull")
    twin = view._log_ratio(q, r, b)
    with mp.workdps(60):
        for at, z, mine, other in zip(q, pairs.distance, ours, twin, strict=True):
            masses = [
                reference.exact_mass(domain.pieces, mp.mpf(float(x)), mp.mpf(b))
                for x in (mp.mpf(float(at)), mp.mpf(float(at)) + mp.mpf(float(z)))
            ]
            truth = mp.log(masses[1] / masses[0])
            assert float(abs(mine - truth)) <= 1e-13 * sensitivity / b
            assert float(abs(other - truth)) > 1e-10 * sensitivity / b


def test_the_ratio_far_beyond_the_range_of_floats() -> None:
    """A sensitivity of thousands of scales: the integrals underflow, their ratio does not."""
    domain = Domain.from_pieces([(0, 1), (9, 10), (30, 31)])
    ends = Ends.from_domain(domain)
    pairs = AnswerPairs(
        np.array([0, 1, 2]), np.array([0.5, 2.0, -3.0]), np.array([14.0, 12.0, 20.0])
    )
    found = log_ratio(ends, pairs, np.array([0.01, 0.001]))
    q, _ = ends.floats(pairs)
    with mp.workdps(60):
        for row, b in zip(found, (0.01, 0.001), strict=True):
            for at, z, value in zip(q, pairs.distance, row, strict=True):
                masses = [
                    reference.exact_mass(domain.pieces, mp.mpf(float(x)), mp.mpf(b))
                    for x in (at, at + z)
                ]
                truth = float(mp.log(masses[1] / masses[0]))
                assert value == pytest.approx(truth, rel=1e-12, abs=1e-12)


def test_narrow_islands_far_from_zero_keep_their_width() -> None:
    """Ends are exact decimals; their floats would change this width by 6e-7."""
    domain = Domain("1000000000.1", "1000000000.2")
    m = BoundedLaplace.calibrate(domain, sensitivity="0.05", epsilon=1)
    assert m.scale == pytest.approx(float(reference.interval_scale(0.1, 0.05, 1.0)), rel=1e-9)
    union = Domain.from_pieces([("1000000000.1", "1000000000.2"), ("1000000000.4", "1000000000.5")])
    same = Domain.from_pieces([("0.1", "0.2"), ("0.4", "0.5")])
    scales = [
        BoundedLaplace.calibrate(d, sensitivity="0.03", epsilon=1).scale for d in (union, same)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-9)


@pytest.mark.parametrize(
    "domain",
    [Domain(0, INF), Domain(-INF, 3), Domain(0, INF, forbidden=[(1, 3)]),
     Domain(-INF, INF, forbidden=[(0, 2), (3, 7)])],
    ids=str,
)  # fmt: skip
def test_half_lines_and_lines_up_to_epsilon_50(domain: Domain) -> None:
    with mp.workdps(60):
        for epsilon, sensitivity in some(product((1e-9, 0.1, 5.0, 50.0), (1e-6, 0.5, 40.0)), 2):
            m = BoundedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon)
            worst = judge(domain, sensitivity, m.scale, "hull")
            assert worst <= epsilon
            assert m.loss(sensitivity=sensitivity) <= epsilon
            assert float(worst) >= epsilon * (1 - 1e-9)


def test_a_scale_that_is_not_monotone_is_the_first_valid_one() -> None:
    """Valid scales of these islands are [.31436, .357) and [.55090, infinity)."""
    pieces = [(0.0, 1e-6), (1.0, 1.000000001), (4.0, 4.01)]
    domain = Domain.from_pieces([(0, "0.000001"), (1, "1.000000001"), (4, "4.01")])
    m = BoundedLaplace.calibrate(domain, sensitivity="1.2", epsilon=3.5, answers="domain")
    assert m.scale == pytest.approx(0.31436, abs=5e-6)
    with mp.workdps(50):

        def worst(b: float) -> mp.mpf:
            pairs = reference.domain_pairs(pieces, 1.2)
            return max(reference.exact_pair_loss(pieces, q, z, b) for q, z in pairs)

        assert worst(m.scale) <= 3.5
        assert worst(m.scale * (1 - 1e-9)) > 3.5
        for b, valid in ((0.33, True), (0.358, False), (0.55, False), (0.5510, True)):
            assert (worst(b) <= 3.5) is valid
    hull = BoundedLaplace.calibrate(domain, sensitivity="1.2", epsilon=3.5)
    with mp.workdps(50):
        assert judge(domain, 1.2, hull.scale, "hull") <= 3.5


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 5.0, 50.0])
def test_answers_inside_an_infinite_domain(epsilon: float) -> None:
    """Far out, where nothing is truncated, a pair still costs sensitivity / scale."""
    domain = Domain(-INF, INF, forbidden=[(0, 2), (3, 7)])
    with mp.workdps(60):
        for sensitivity in (0.5, 2.0, 40.0):
            m = BoundedLaplace.calibrate(
                domain, sensitivity=sensitivity, epsilon=epsilon, answers="domain"
            )
            worst = max(
                judge(domain, sensitivity, m.scale, "domain"), mp.mpf(sensitivity) / m.scale
            )
            assert worst <= epsilon
            assert worst >= epsilon * (1 - mp.mpf(10) ** -9)
