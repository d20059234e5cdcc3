"""Laws on domains with gaps, islands and far ends: exact coverage and exact errors against the stated ones.

Probabilities are made here from a law's stored integers and the definition of its weights.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.boundaries.truncate import MOST_OFF
from dprelease.mechanisms.bounded_gaussian import BoundedGaussian
from dprelease.mechanisms.bounded_laplace import BoundedLaplace
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw
from dprelease.mechanisms.certifiers.table_gaussian import BoundedGaussianLaw
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.law import GridLaw, GridRequest, grid_laws
from dprelease.schema.domain import GridSet
from tests.sizes import FULL

Runs = tuple[tuple[int, int], ...]

DOMAINS: dict[str, Runs] = {
    "one run": ((0, 300),),
    "one point": ((4, 4),),
    "a small gap": ((0, 0), (10, 60)),
    "a gap at the lower end": ((0, 0), (100, 600)),
    "a gap at the upper end": ((0, 500), (900, 900)),
    "an island before a far run": ((0, 0), (300, 800)),
    "a deep gap between short runs": ((0, 20), (420, 440)),
    "two points": ((0, 0), (50, 50)),
    "two far points": ((-450, -450), (450, 450)),
    "islands": ((0, 0), (7, 7), (50, 51), (120, 120)),
    "a comb": tuple((i, i) for i in range(0, 200, 10)),
    "a wide comb": tuple((i, i) for i in range(0, 1000, 100)),
    "a thin cut": ((0, 200), (202, 400)),
    "three runs": ((0, 10), (200, 210), (600, 700)),
    "many gaps": ((0, 100), (150, 160), (161, 161), (400, 401), (700, 1000)),
}
EPSILONS = (0.01, 0.1, 0.5, 1.2, 3, 10, 50)
FEW = ("a gap at the lower end", "a deep gap between short runs", "islands", "a wide comb")
CASES = [
    (name, epsilon, sensitivity)
    for name in DOMAINS
    for epsilon in EPSILONS
    for sensitivity in (1, 3)
    if FULL or (name in FEW and epsilon in (0.1, 1.2, 50) and sensitivity == 1)
]


def requested(runs: Runs, epsilon: float, sensitivity: int, **how: object) -> GridRequest:
    return GridRequest(GridSet(runs), sensitivity, Fraction(str(epsilon)), **how)  # type: ignore[arg-type]


def chances(law: GridLaw) -> np.ndarray:
    """P(y | q), `(hull answers, allowed points)`, from the integers that are stored."""
    allowed, stored = law.allowed, law.to_json()
    points = np.arange(allowed.lower, allowed.upper + 1)
    points = points[[y in allowed for y in points.tolist()]]
    hull = np.arange(allowed.lower, allowed.upper + 1)
    away = np.abs(hull[:, None] - points[None, :])
    if isinstance(law, RowLaw):
        rows = np.array(law.rows, dtype=float)
        full = np.zeros((len(rows), points.size))
        full[:, np.searchsorted(points, law.outputs)] = rows / rows.sum(axis=1, keepdims=True)
        return full[np.searchsorted(law.starts, hull, side="right") - 1]
    if stored.get("form") == "wide":
        log = -float(Fraction(str(stored["rate"]))) * away
    else:
        log = np.log(np.array(weights(law.family, int(stored["p"]), hull.size), float))[away]
    chance = np.exp(log - log.max(axis=1, keepdims=True))
    return chance / chance.sum(axis=1, keepdims=True)


def weights(family: str, p: int, size: int) -> list[int]:
    """W by the recurrences of `docs/theory/certificates.md`, never below 1."""
    w = 1 << (61 - size.bit_length())
    out, factor = [], min(math.isqrt(p << 120) + 1, 1 << 120)
    for _ in range(size):
        out.append(max(w, 1))
        if family == "bounded_laplace":
            w = -(-w * p // 2**60)
        else:
            w, factor = -(-w * factor // 2**120), -(-factor * p // 2**120)
    return out


def coverage(law: GridLaw, chance: np.ndarray, **how: float) -> float:
    """The least coverage of any answer of the hull, in gaps too."""
    points = law.allowed.points()
    table = law.table if how else law  # type: ignore[attr-defined]
    low, high = table.interval(points, 0.95, **how)
    hull = np.arange(law.allowed.lower, law.allowed.upper + 1)[:, None]
    return float((chance * ((low <= hull) & (hull <= high))).sum(axis=1).min())


def errors(law: GridLaw, chance: np.ndarray) -> tuple[float, float]:
    """The expected |error| over all answers, and of the worst."""
    hull = np.arange(law.allowed.lower, law.allowed.upper + 1)[:, None]
    each = (chance * np.abs(hull - law.allowed.points())).sum(axis=1)
    return float(each.mean()), float(each.max())


@pytest.mark.parametrize(("name", "epsilon", "sensitivity"), CASES)
def test_intervals_cover_every_answer_and_errors_are_as_stated(name, epsilon, sensitivity):
    runs = DOMAINS[name]
    laws = grid_laws(requested(runs, epsilon, sensitivity, point_masses=False))
    if len(runs) == 1 or FULL:
        laws += [
            law
            for law in grid_laws(requested(runs, epsilon, sensitivity))
            if isinstance(law, RowLaw)
        ]
    for law in laws:
        if law.family == "reflected_laplace":  # no table; test_reflected.py covers it
            continue
        chance = chances(law)
        assert coverage(law, chance) >= 0.95 - 1e-9, law.family
        average, worst = errors(law, chance)
        stated = law.expected_error()
        assert stated.average == pytest.approx(average, rel=0.05, abs=1e-3), law.family
        assert stated.worst == pytest.approx(worst, rel=0.05, abs=1e-3), law.family
        # No answer is further off than its nearest allowed points and the noise about them.
        deepest = max([(b - a) // 2 for (_, a), (b, _) in pairwise(runs)] + [0])
        if epsilon >= 1 and law.family == "bounded_laplace":
            assert worst <= deepest + 8 * sensitivity / epsilon + 1


@pytest.mark.parametrize("name", ["a gap at the lower end", "a gap at the upper end"])
@pytest.mark.parametrize("kernel", [BoundedLaplaceLaw, BoundedGaussianLaw])
def test_a_table_whose_floor_outweighs_the_edges_of_a_gap_is_not_offered(name, kernel):
    """The control: its intervals, read as if its weights were the real ones, miss what lies in the gap."""
    request = requested(DOMAINS[name], 50, 1, point_masses=False)
    table = kernel.calibrate(request)
    chance = chances(table)
    assert table.off > MOST_OFF
    assert coverage(table, chance, off=0.0) < 0.3
    assert coverage(table, chance) >= 0.95  # by what its floor may have moved
    (_, left), (right, _) = DOMAINS[name]
    assert errors(table, chance)[1] > 2 * (right - left) / 2
    mechanism = BoundedLaplace if kernel is BoundedLaplaceLaw else BoundedGaussian
    if mechanism is BoundedLaplace:
        assert isinstance(mechanism.grid_laws(request)[0], BoundedLaplaceWideLaw)
    else:
        with pytest.raises(ArgumentError, match="bounded_laplace") as refused:
            mechanism.grid_laws(request)
        assert refused.value.code == "DPR627"
        assert mechanism.grid_laws(requested(DOMAINS[name], 50, 1)) == []


@pytest.mark.parametrize("kernel", [BoundedLaplaceLaw, BoundedGaussianLaw])
@pytest.mark.parametrize("epsilon", [0.02, 1, 20])
@pytest.mark.parametrize("name", ["one run", "a small gap", "many gaps"])
def test_what_rounding_moves_is_bounded(name, epsilon, kernel):
    """`off` against the real weights, in total variation; half of it would be passed somewhere."""
    table = kernel.calibrate(requested(DOMAINS[name], epsilon, 2, point_masses=False))
    hull = np.arange(table.allowed.lower, table.allowed.upper + 1)
    away = np.abs(hull[:, None] - table.allowed.points()[None, :]).astype(float)
    power = away / table.scale if kernel is BoundedLaplaceLaw else (away / table.scale) ** 2 / 2
    real = np.exp(power.min(axis=1, keepdims=True) - power)
    real /= real.sum(axis=1, keepdims=True)
    moved = np.abs(chances(table) - real).sum(axis=1).max() / 2
    assert moved <= table.off + 1e-12


def test_a_wide_gaussian_table_has_a_scale_at_any_epsilon():
    """Two points at epsilon 50: one decay is below the least double beside 1."""
    (law,) = BoundedGaussian.grid_laws(requested(((0, 1),), 50, 1, point_masses=False))
    assert law.scale**-2 == pytest.approx(math.log(2**120) - math.log(int(law.to_json()["p"])))
    assert "scale 0.1" in law.describe()
