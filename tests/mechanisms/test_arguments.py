"""What every mechanism refuses: the specified error, with code and fix, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms import (
    BoundedGaussian,
    BoundedLaplace,
    DiscreteLaplace,
    Exponential,
    OptimalGrid,
    RectifiedGaussian,
    RectifiedLaplace,
    ReflectedLaplace,
    Staircase,
    StochasticSign,
)
from dprelease.schema.domain import Box, Domain

CALIBRATED: list[Any] = [
    BoundedGaussian,
    BoundedLaplace,
    DiscreteLaplace,
    Exponential,
    OptimalGrid,
    RectifiedLaplace,
    ReflectedLaplace,
    Staircase,
]
BY_SCALE: list[Any] = [
    BoundedGaussian,
    BoundedLaplace,
    DiscreteLaplace,
    Exponential,
    RectifiedGaussian,
    RectifiedLaplace,
    ReflectedLaplace,
]
DOMAIN = Domain(0, 10)


def name_of(kind: Any) -> str:
    return str(kind.__name__)


def refusal(call: Callable[[], object]) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("kind", CALIBRATED, ids=name_of)
@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "DPR606"),
        (-1, "DPR606"),
        (-0.0, "DPR606"),
        (math.inf, "DPR606"),
        (math.nan, "DPR605"),
        ("many", "DPR605"),
        (True, "DPR605"),
    ],
)
def test_numbers_that_are_not_above_zero(kind: Any, name: str, value: object, code: str) -> None:
    numbers: dict[str, Any] = {"sensitivity": 1, "epsilon": 1} | {name: value}
    error = refusal(lambda: kind.calibrate(DOMAIN, **numbers))
    assert error.code == code
    assert name in str(error)


@pytest.mark.parametrize("kind", CALIBRATED, ids=name_of)
@pytest.mark.parametrize("domain", [None, (0, 10), 10, [0, 10]], ids=str)
def test_what_is_not_a_domain(kind: Any, domain: object) -> None:
    error = refusal(lambda: kind.calibrate(domain, sensitivity=1, epsilon=1))
    assert error.code == "DPR629"
    assert error.fix


@pytest.mark.parametrize("kind", BY_SCALE, ids=name_of)
@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1e-350", "wide"], ids=str)
def test_scales_that_are_not_above_zero(kind: Any, scale: object) -> None:
    error = refusal(lambda: kind(DOMAIN, scale=scale))
    assert error.code in ("DPR605", "DPR606")


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf])
def test_the_scale_of_a_sign(scale: float) -> None:
    assert refusal(lambda: StochasticSign(scale=scale)).code in ("DPR605", "DPR606")


@pytest.mark.parametrize(
    "build",
    [
        lambda: Domain(1, 0),
        lambda: Domain(math.nan, 1),
        lambda: Domain(0, 1, forbidden=[(-1, 2)]),
        lambda: Domain.from_pieces([]),
        lambda: Box([]),
    ],
    ids=["swapped", "NaN", "all forbidden", "no pieces", "no sides"],
)
def test_there_is_no_empty_domain(build: Callable[[], object]) -> None:
    """An empty domain cannot be written down, so no mechanism ever sees one."""
    assert refusal(build).code in ("DPR601", "DPR602", "DPR605")


@pytest.mark.parametrize("kind", CALIBRATED, ids=name_of)
def test_a_sensitivity_beyond_the_width_counts_as_the_width(kind: Any) -> None:
    """Clamped answers are at most the width apart, so this is not an error and costs no more."""
    wide, whole = (kind.calibrate(DOMAIN, sensitivity=s, epsilon=1) for s in (1000, 10))
    assert wide.loss(sensitivity=1000) <= 1 + 1e-12
    # DiscreteLaplace also serves cells, which are not clamped; OptimalGrid's scale is nominal.
    if kind not in (DiscreteLaplace, OptimalGrid):
        assert wide.scale == pytest.approx(whole.scale, rel=1e-12)
    if hasattr(wide, "on_grid"):
        law = wide.on_grid() if kind is OptimalGrid else wide.on_grid(step=1)
        assert law.certificate.epsilon_upper <= 1


@pytest.mark.parametrize("kind", CALIBRATED, ids=name_of)
@pytest.mark.parametrize("answer", [-0.5, 10.5, math.nan, math.inf, [0, 99]], ids=str)
def test_an_answer_outside_the_hull_has_no_curve(kind: Any, answer: Any) -> None:
    m = kind.calibrate(DOMAIN, sensitivity=1, epsilon=1)
    for curve in (lambda: m.cdf(1.0, np.array(answer)), lambda: m.mean(np.array(answer))):
        error = refusal(curve)
        assert error.code == "DPR630"
        assert "clip" in (error.fix or "")


@pytest.mark.parametrize("kind", CALIBRATED, ids=name_of)
def test_an_answer_outside_the_hull_is_clamped_in_a_draw(kind: Any) -> None:
    """No failure depends on data: what is drawn is clamped, and only NaN is refused."""
    m = kind.calibrate(DOMAIN, sensitivity=1, epsilon=1)
    law = m.on_grid() if kind is OptimalGrid else m.on_grid(step=1)
    assert DOMAIN.contains(law.draw(np.array([-1e9, 0.0, 5.0, 10.0, 1e9]))).all()
    assert law.pmf(99.0) == law.pmf(10.0)
    error = refusal(lambda: law.draw(math.nan))
    assert error.fix


@pytest.mark.parametrize("kind", [DiscreteLaplace, Staircase], ids=name_of)
def test_an_unknown_loss_is_refused_and_not_taken_for_another(kind: Any) -> None:
    m = kind.calibrate(DOMAIN, sensitivity=1, epsilon=1)
    assert m.on_grid(step=1, loss="squared").certificate.epsilon_upper <= 1
    error = refusal(lambda: m.on_grid(step=1, loss="cubic"))
    assert (error.code, error.fix) == ("DPR682", 'write loss="absolute"')
