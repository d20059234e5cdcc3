"""Joint certificates of boxes: exact enumeration over all splits, rounding included."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import floor_half_up
from dprelease.mechanisms import BoundedGaussian
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.mechanisms.certifiers.table_gaussian import decay_of
from dprelease.schema.domain import Box, Domain
from tests.mechanisms.plans import enumerate_law

BOXES = [
    (Box([(0, 4), (0, 6)]), 3, 1, 1),
    (Box([(0, 10), (1, 9)]), Fraction(9, 2), Fraction(1, 2), 1),
    (Box([Domain(0, 8, forbidden=[(2, 5)]), (0, 5)]), 2, Fraction(3, 10), 1),
    (Box([(0, 3), (0, 3), (0, 3)]), Fraction(5, 2), 2, Fraction(1, 2)),
]


def exact_losses(law: BoundedGaussianBoxLaw) -> list[list[float]]:
    """Return per side the exact loss at distances up to 0, 1, ... steps, by enumeration."""
    out = []
    for side, moved in zip(law.laws, law.moved, strict=False):
        pmfs = enumerate_law(side)
        losses = [0.0]
        for k in range(1, moved + 1):
            worst = max(
                p[y] / pmfs[q + s * k][y]
                for q, p in pmfs.items()
                for s in (1, -1)
                if q + s * k in pmfs
                for y in p
            )
            losses.append(max(losses[-1], math.log(worst)))
        out.append(losses)
    return out


def feasible(law: BoundedGaussianBoxLaw, split: tuple[int, ...]) -> bool:
    assert law.l2 is not None
    need = sum((max(k - 1, 0) * g) ** 2 for k, g in zip(split, law.steps, strict=False))
    return need < law.l2**2


@pytest.mark.parametrize(("box", "radius", "epsilon", "step"), BOXES, ids=str)
def test_every_split_is_within_epsilon(
    box: Box, radius: Fraction, epsilon: Fraction, step: Fraction
) -> None:
    m = BoundedGaussian.calibrate(box, sensitivity=radius, epsilon=epsilon)
    law = m.on_grid(step)
    assert isinstance(law, BoundedGaussianBoxLaw)
    losses = exact_losses(law)
    splits = itertools.product(*(range(len(curve)) for curve in losses))
    worst = max(
        sum(e[k] for e, k in zip(losses, s, strict=False)) for s in splits if feasible(law, s)
    )
    proved = law.certificate.epsilon_upper
    assert worst <= proved <= epsilon
    assert proved >= Fraction(999, 1000) * epsilon  # nothing is given away to the search
    assert worst >= 0.9 * float(epsilon)
    assert law.certify() == law.certificate
    # the broken twin: noise at 0.8 of the scale
    twin_laws = tuple(dataclasses.replace(side, p=decay_of(0.8 * side.scale)) for side in law.laws)
    twin = dataclasses.replace(law, laws=twin_laws)
    losses = exact_losses(twin)
    splits = itertools.product(*(range(len(curve)) for curve in losses))
    worst = max(
        sum(e[k] for e, k in zip(losses, s, strict=False)) for s in splits if feasible(twin, s)
    )
    assert worst > epsilon
    assert twin.certificate.epsilon_upper >= worst


def test_rounding_every_cell_moves_more_than_the_sensitivity() -> None:
    """The twin that forgets the extra step: an l2 distance of 1.5 can move both cells two steps."""
    a = [Fraction(49, 100), Fraction(49, 100)]
    b = [x + Fraction(102, 100) for x in a]
    assert math.dist(a, b) < 1.5
    moved = [floor_half_up(y) - floor_half_up(x) for x, y in zip(a, b, strict=False)]
    assert moved == [2, 2]  # sqrt(8) steps, although the answers moved 1.44
    law = BoundedGaussian.calibrate(Box([(0, 9), (0, 9)]), sensitivity=1.5, epsilon=1).on_grid(1)
    assert isinstance(law, BoundedGaussianBoxLaw)
    assert law.moved == (2, 2)
    losses = exact_losses(law)
    assert losses[0][2] + losses[1][2] <= 1


def test_per_coordinate_sensitivities() -> None:
    box = Box([(0, 10), (1, 9)])
    m = BoundedGaussian.calibrate(box, sensitivity=[4, 2], epsilon=1, scale_ratios=[2, 1])
    law = m.on_grid([Fraction(1, 2), Fraction(1, 4)])
    assert isinstance(law, BoundedGaussianBoxLaw)
    assert law.moved == (8, 8)
    losses = exact_losses(law)
    assert losses[0][-1] + losses[1][-1] <= law.certificate.epsilon_upper <= 1
    assert law.scales[0] / law.scales[1] == pytest.approx(2, rel=1e-9)
    still = BoundedGaussian.calibrate(box, sensitivity=[4, 0], epsilon=1).on_grid(1)
    assert isinstance(still, BoundedGaussianBoxLaw)
    assert still.moved == (4, 0)
    assert still.certificate.epsilon_upper <= 1


def worst_of_answers(law: BoundedGaussianBoxLaw, radius: float, caps: list[float]) -> float:
    """Return the largest loss of two answers within both limits: every pair of a fine lattice."""
    pmfs = [enumerate_law(side) for side in law.laws]
    places, losses = [], []
    for side, pmf, step in zip(law.laws, pmfs, law.steps, strict=True):
        fine = [side.allowed.lower + Fraction(i, 8) for i in range(8 * side.allowed.hull_steps + 1)]
        top = side.allowed.upper
        rounded = [min(floor_half_up(x), top) for x in fine]
        places.append((np.array([float(x * step) for x in fine]), np.array(rounded)))
        loss = {(q, r): math.log(max(pmf[q][y] / pmf[r][y] for y in pmf[q]))
                for q in pmf for r in pmf}  # fmt: skip
        losses.append(loss)
    most = []
    for (x, rounded), loss, cap in zip(places, losses, caps, strict=True):
        found: dict[float, float] = {}  # distance -> the worst loss of answers that far apart
        for i, a in enumerate(x):
            for j, b in enumerate(x):
                if (far := round(abs(a - b), 6)) <= cap:
                    found[far] = max(found.get(far, 0.0), loss[int(rounded[i]), int(rounded[j])])
        most.append(found)
    return max(
        one + two
        for (a, one), (b, two) in itertools.product(*(m.items() for m in most))
        if a * a + b * b <= radius * radius + 1e-9
    )


@pytest.mark.parametrize("caps", [[1, 2], ["0.75", "1.5"], [2, "0.25"]])
def test_an_l2_and_a_per_coordinate_sensitivity_hold_together(caps: list[Any]) -> None:
    """Every pair of answers of a lattice finer than the grid, rounded, within both limits."""
    box, radius = Box([(0, 3), (0, 4)]), Fraction(2)
    both = {"l2": radius, "per_coordinate": caps}
    m = BoundedGaussian.calibrate(box, sensitivity=both, epsilon=1)
    law = m.on_grid(Fraction(1, 2))
    assert isinstance(law, BoundedGaussianBoxLaw)
    assert law.per_coordinate == tuple(Fraction(c) for c in caps)
    each = [float(c) for c in caps]
    worst = worst_of_answers(law, 2.0, each)
    assert worst <= law.certificate.epsilon_upper <= 1
    assert worst >= 0.8  # most of what is paid for is used
    wider = [min(2.0, c + 0.5) for c in each]  # beyond a cap the same law promises too little
    assert worst_of_answers(law, 2.0, wider) > 1
    assert BoundedGaussianBoxLaw.from_json(law.to_json()) == law
    for change in ({"per_coordinate": ["1/4", "1/4"]}, {"per_coordinate": ["1"]}, {"l2": None}):
        with pytest.raises(ConfigError):
            BoundedGaussianBoxLaw.from_json(law.to_json() | change)


def test_without_a_step_the_grid_costs_at_most_a_percent() -> None:
    gapped = Domain(0, 8, forbidden=[(2, 5)])
    for box, sensitivity in (
        (Box([(0, 10), (1, 9)]), 2),
        (Box([gapped, (0, "0.5")]), ["0.5", "0.3"]),
        (Box([(0, 10), (1, 9)]), {"l2": 1, "per_coordinate": ["0.2", 1]}),
    ):
        m = BoundedGaussian.calibrate(box, sensitivity=sensitivity, epsilon=1)
        law = m.on_grid()
        assert isinstance(law, BoundedGaussianBoxLaw)
        assert law.certificate.epsilon_upper <= 1
        for share in (0.0, 0.3, 0.8):  # answers that the search did not look at
            at = [a + share * (b - a) for a, b in (s.hull for s in box.sides)]
            assert (law.variance(at) <= 1.0105 * m.variance(at)).all()
    coarse = BoundedGaussian.calibrate(Box([(0, 10), (1, 9)]), sensitivity=2, epsilon=1)
    ratio = coarse.on_grid(1).variance([5, 5]) / coarse.variance([5, 5])  # type: ignore[union-attr]
    assert (ratio > 1.05).all()  # the control: a step of 1 costs more


def test_a_box_for_which_no_step_is_fine_enough_is_refused() -> None:
    """A thousand times as wide as its noise: a proof over all splits would need too many steps."""
    m = BoundedGaussian(
        Box([(0, 10_000), (0, 10_000)]), scale=1, sensitivity=["0.011", "0.011"], epsilon=3000
    )
    with pytest.raises(ArgumentError, match="times that variance") as caught:
        m.on_grid()
    assert caught.value.code == "DPR622"


def test_draws_are_allowed_and_shaped() -> None:
    box = Box([Domain(0, 8, forbidden=[(2, 5)]), (0, 5)])
    law = BoundedGaussian.calibrate(box, sensitivity=2, epsilon=1).on_grid(Fraction(1, 10))
    assert isinstance(law, BoundedGaussianBoxLaw)
    drawn = law.draw(np.array([[[0.0, 9.0], [3.3, -1.0]], [[math.inf, 2.0], [8.0, 5.0]]]))
    assert drawn.shape == (2, 2, 2)
    assert box.sides[0].contains(drawn[..., 0]).all()
    assert box.sides[1].contains(drawn[..., 1]).all()
    drawn = law.draw_with([[1.0, 1.0]] * 4000, ReplayBits("box"))
    for i, side in enumerate(law.laws):
        pmf = side.pmf(10)
        mean = sum(float(y * p) for y, p in pmf.items()) / 10
        spread = sum(float(p) * (y / 10 - mean) ** 2 for y, p in pmf.items())
        assert abs(drawn[:, i].mean() - mean) < 6 * math.sqrt(spread / 4000)
        assert abs(drawn[:, i].mean() - 1.0) > 6 * math.sqrt(spread / 4000)  # not the answer
    for bad in (1.0, [1.0, 2.0, 3.0]):
        with pytest.raises(ArgumentError) as caught:
            law.draw(bad)
        assert caught.value.code == "DPR637"
    with pytest.raises(ArgumentError):
        law.draw([math.nan, 1.0])
    stored = json.loads(json.dumps(law.to_json()))
    assert stored["kind"] == "box"
    again = BoundedGaussianBoxLaw.from_json(stored)
    assert again == law
    assert again.certify() == law.certificate
    for change in ({"multiplier": "-1"}, {"moved": [1]}, {"moved": [1, 1]}, {"steps": ["x", "1"]}):
        with pytest.raises(ConfigError):
            BoundedGaussianBoxLaw.from_json(stored | change)


def test_too_fine_a_grid_is_refused() -> None:
    m = BoundedGaussian.calibrate(Box([(0, 10), (1, 9)]), sensitivity=4, epsilon=1)
    for step in ("0.0005", "0.00001"):
        with pytest.raises(ArgumentError) as caught:
            m.on_grid(step)
        assert caught.value.code == "DPR622"
