"""Losses in passes over the ends against those of every interval, and the scales found with them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.mechanisms.calibration import laplace_hull
from dprelease.mechanisms.calibration.laplace_hull import hull_scale, pair_losses, worst_pair
from dprelease.mechanisms.calibration.laplace_pairs import AnswerPairs, Ends
from dprelease.mechanisms.calibration.laplace_passes import Passes
from dprelease.schema.domain import Domain


def union(pick: random.Random) -> Domain:
    """Return a domain of two to five intervals, some of them short, one or none of them endless."""
    cuts = sorted(pick.sample(range(1, 400), 2 * pick.randint(1, 4)))
    low = pick.choice([Fraction(0), Fraction(0), -math.inf])
    gaps = [(Fraction(a, 40), Fraction(b, 40)) for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    return Domain(low, 10, forbidden=gaps)


def everywhere(ends: Ends, distance: Fraction, scale: float) -> AnswerPairs:
    return AnswerPairs.joined([nodes for nodes, _ in ends.stretches(distance, scale)])


def test_passes_agree_with_every_interval_by_itself() -> None:
    pick, looked = random.Random(1), 0
    for _ in range(60):
        ends, distance = Ends.from_domain(union(pick)), Fraction(pick.randint(1, 60), 10)
        hull = ends.hull
        distance = min(distance, hull[1] - hull[0]) if isinstance(hull[0], Fraction) else distance
        epsilon = pick.choice([0.03, 0.3, 1.0, 6.0])
        passes = Passes.for_answers(ends, float(distance), epsilon)
        if passes is None:
            continue
        scales = float(distance) / epsilon * np.array([1.0, 1.4, 2.0])
        pairs = everywhere(ends, distance, 2 * float(distance) / epsilon)
        at = passes.losses(ends, pairs)
        wanted = pair_losses(ends, pairs, scales)
        assert np.allclose(at(scales), wanted, rtol=1e-11, atol=0)
        assert np.array_equal(at(scales[1]), at(scales)[1])
        assert np.array_equal(at(scales[1:2]), at(scales)[1:2])
        looked += 1
    assert looked >= 30


@pytest.mark.parametrize(
    ("domain", "distance", "epsilon"),
    [
        (Domain(0, 10, forbidden=[(4, 6)]), 2.0, 1e-4),  # an absolute error would count
        (Domain(1_000_000, 1_000_010, forbidden=[(1_000_004, 1_000_006)]), 2.0, 1.0),
        (
            Domain(0, 1000, forbidden=[(1, 999)]),
            2.0,
            2.0,
        ),  # nothing is left in the middle of the gap
    ],
)
def test_where_passes_are_not_exact_enough_there_are_none(
    domain: Domain, distance: float, epsilon: float
) -> None:
    assert Passes.for_answers(Ends.from_domain(domain), distance, epsilon) is None
    assert (
        Passes.for_answers(Ends.from_domain(Domain(0, 10, forbidden=[(4, 6)])), 2.0, 1.0)
        is not None
    )


def test_scales_are_those_of_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(2)
    cases = [(Ends.from_domain(union(pick)), Fraction(pick.randint(1, 30), 10)) for _ in range(8)]
    quick = [hull_scale(ends, distance, 0.7) for ends, distance in cases]
    monkeypatch.setattr(Passes, "for_answers", lambda *_: None)
    slow = [hull_scale(ends, distance, 0.7) for ends, distance in cases]
    assert quick == pytest.approx(slow, rel=1e-10)


def test_what_passes_propose_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: passes that see nine tenths of every loss. The scale would be too small, and is widened."""
    ends, distance, epsilon = (
        Ends.from_domain(Domain(0, 10, forbidden=[(3, 4), (7, 8)])),
        Fraction(2),
        1.0,
    )
    honest = hull_scale(ends, distance, epsilon)
    found: Any = Passes.losses

    def less(self: Passes, at: Ends, pairs: AnswerPairs) -> Callable[[Any], Any]:
        inner = found(self, at, pairs)
        return lambda scale: 0.9 * inner(scale)

    monkeypatch.setattr(Passes, "losses", less)
    scale = hull_scale(ends, distance, epsilon)
    smooth = ends.stretches(distance, scale)
    assert worst_pair(ends, smooth, scale)[0] <= epsilon
    assert scale >= honest * (1 - 1e-9)
    monkeypatch.setattr(laplace_hull, "widen", lambda holds, scale: scale)
    believed = hull_scale(ends, distance, epsilon)
    assert worst_pair(ends, smooth, believed)[0] > epsilon  # the control: nobody judged
