"""What a winsorised statistic's plan says it errs, beside the law of its limits for whole tables."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.measurements.winsorised_price import LimitLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import Floats
from dprelease.statistics.clipped import limit_scores
from dprelease.statistics.joint_ranks import positions
from tests.planning.requests import planned

TOP = 1_000_000


def plan_of(size: int, sd: int) -> ReleasePlan:
    return planned(
        [{"statistic": "mean(x)", "winsorize": 0.01}],
        x={"kind": "integer", "range": [0, TOP], "expected": {"sd": sd}},
        rows={"max": size, "expected": size},
        adjacency="substitution",
    )


def seen(plan: ReleasePlan, rows: Floats, *, inside: bool = False) -> float:
    """Return E|error| of the mean between its limits, summed over all pairs of limits by their law.

    Noise of scale s on both cells moves it by w E|(1 - m) X - m Y| = w s (1 - m + m^2), m its place between them.

    Args:
        inside: only pairs whose upper limit is not beyond the rows.
    """
    draw = plan.blocks[0].law
    measured = plan.blocks[0].measurement
    assert isinstance(draw, WinsorisedLaw)
    codes, held = np.unique(rows.astype(np.int64), return_counts=True)
    upto = np.cumsum(held)
    tally = np.stack([0 * codes, codes, upto - held, upto, 0 * codes + rows.size], axis=1)
    found = positions(tally, 1, measured.weights)[0, 0]
    chances = []
    for scores in limit_scores(found, draw.codes):
        weights = np.exp(-draw.choice.rate * (scores - scores.min()).astype(float))
        chances.append(weights / weights.sum())
    c = draw.codes.astype(float)
    if inside:
        chances[1] = np.where(c <= rows.max(), chances[1], 0.0)
    below = np.array([np.minimum(rows, each).mean() for each in c])  # the mean clamped to at most c
    width = np.abs(c[:, None] - c[None, :])
    place = np.divide(
        np.abs(below[:, None] - below[None, :]), width, where=width > 0, out=0 * width
    )
    moved = width * (1 - place + place**2)
    scale = float(draw.noise.scale) / rows.size
    return float(chances[0] @ moved @ chances[1]) * scale


@pytest.mark.parametrize(("size", "rare"), [(10_000, 0.85), (50_000, 1.05)])
def test_a_plan_says_what_is_seen_rare_limits_beyond_the_rows_too(size: int, rare: float) -> None:
    """Amounts in a range a hundred times as wide. With 10,000 rows one limit in some hundred lands anywhere."""
    rows = np.round(np.exp(np.random.default_rng(3).normal(8, 0.5, size)))
    plan = plan_of(size, 2_000)
    said = plan.statistics[0].chosen[0].expected_error
    assert said is not None
    assert 0.9 < seen(plan, rows) / said < 1.02
    assert 0.6 < seen(plan, rows, inside=True) / said < rare  # what a price without them would say
    worst = plan.statistics[0].chosen[0].worst_error
    assert worst is not None
    filled = np.where(np.arange(size) % 2, 0.0, TOP)
    assert (
        seen(plan, filled) <= worst * 1.35
    )  # at either end the noise of one cell counts, not of both
    assert seen(plan, filled) > 10 * said


def test_widths_are_those_of_all_pairs_of_candidates() -> None:
    places, spread, size = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.4, 1.0]), 0.03, 200
    limits = LimitLaw(places, 0.0, 0.2, 0.05)
    below = size * (1 - np.exp(-places / spread))
    below[below > size - 0.5] = size
    low, high = (np.exp(-0.2 * np.abs(below - t)) for t in (10, 190))
    both = np.outer(low / low.sum(), high / high.sum())
    for power in (1, 2, 4):
        exact = (both * np.abs(places[:, None] - places[None, :]) ** power).sum() ** (1 / power)
        assert limits.width(spread, size, power) == pytest.approx(exact, rel=1e-9)
    mirrored = LimitLaw(1 - places[::-1], 1.0, 0.2, 0.05)
    assert mirrored.width(spread, size) == pytest.approx(limits.width(spread, size))


@pytest.mark.parametrize(
    ("between", "words"),
    [
        ((0, 1_000), "for rows from 0 on that get rarer"),
        ((18, 1_000), "for rows from 18 on that get rarer"),
        ((-1_000, -5), "for rows from -5 down that get rarer"),
        ((-900, 100), "for rows from 0 down that get rarer"),
    ],
)
def test_a_plan_names_the_rows_that_its_error_supposes(
    between: tuple[int, int], words: str
) -> None:
    plan = planned(
        [{"statistic": "mean(x)", "winsorize": 0.01}],
        x={"kind": "integer", "range": list(between), "expected": {"sd": 30}},
        rows={"max": 10_000, "expected": 10_000},
    )
    assert words in plan.statistics[0].error_text
