"""Roots inside a bracket: what comes back was evaluated, and few evaluations were needed."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.mechanisms.calibration import roots
from dprelease.mechanisms.calibration.roots import inside_root, last_within
from dprelease.mechanisms.certifiers import closed_form_gaussian
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet

CURVES = {
    "line": lambda x: 3 * x - 1,
    "bent": lambda x: math.expm1(4 * x) - 1,
    "flat": lambda x: (x - 0.2) ** 3,
}


class Counted:
    """A function that remembers what it was asked."""

    def __init__(self, curve) -> None:
        self.curve = curve
        self.asked = []

    def __call__(self, x):
        self.asked.append(x)
        return self.curve(x)


@pytest.mark.parametrize("name", CURVES)
def test_a_root_is_approached_from_inside(name):
    curve = Counted(CURVES[name])
    found = inside_root(curve, 1.0, 0.0, 1e-9)
    assert -1e-9 <= CURVES[name](found) <= 0
    assert found in curve.asked
    assert len(curve.asked) <= (60 if name == "flat" else 15)


@pytest.mark.parametrize("root", [0, 1, 2, 17, 999_999, 2**34 - 2])
@pytest.mark.parametrize("bend", [1.0, 1.7])
def test_the_last_integer_within_is_found(root, bend):
    top = 2**34

    def excess(n: int) -> float:
        return (n / top) ** bend - ((root + 0.5) / top) ** bend

    curve = Counted(excess)
    assert last_within(curve, 0, top - 1) == root
    assert len(curve.asked) <= 40


def test_a_step_without_slope_still_ends():
    assert last_within(lambda n: -1.0 if n <= 12_345 else 1.0, 0, 10**6) == 12_345
    assert last_within(lambda n: 0.0 if n <= 7 else math.inf, 0, 100) == 7


def test_calibration_evaluates_few_certificates(monkeypatch):
    """Forty halvings would be forty certificates; the law is the same."""
    request = GridRequest(GridSet(((0, 2**40),)), 1000, Fraction(1))
    asked = []
    honest = closed_form_gaussian.worst_ratio

    def counted(*arguments):
        asked.append(arguments)
        return honest(*arguments)

    monkeypatch.setattr(closed_form_gaussian, "worst_ratio", counted)
    law = BoundedGaussianWideLaw.calibrate(request)
    few = len(asked)

    def halved(excess, good, bad):
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if excess(middle) <= 0 else (good, middle)
        return good

    monkeypatch.setattr(closed_form_gaussian, "last_within", halved)
    assert BoundedGaussianWideLaw.calibrate(request).noise == law.noise
    assert few <= 14 < len(asked) - few
    assert roots.last_within is not halved
