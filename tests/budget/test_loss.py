"""The meanings are frozen."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.budget.loss import ApproxLoss, PureLoss
from dprelease.errors import ArgumentError


def test_names_are_the_published_ones():
    assert PureLoss.name == "pure/1"
    assert ApproxLoss.name == "approx/1"


def test_decimals_become_exact():
    assert PureLoss(0.1).epsilon == Fraction(1, 10)
    assert ApproxLoss("0.5", "1e-6").delta == Fraction(1, 10**6)


@pytest.mark.parametrize("epsilon", [-1, float("nan"), float("inf"), "x", True])
def test_what_is_not_a_finite_loss_is_refused(epsilon):
    with pytest.raises(ArgumentError):
        PureLoss(epsilon)
    with pytest.raises(ArgumentError):
        ApproxLoss(epsilon, 0)


@pytest.mark.parametrize("delta", [1, 2, -1])
def test_delta_is_a_small_probability(delta):
    with pytest.raises(ArgumentError):
        ApproxLoss(1, delta)
