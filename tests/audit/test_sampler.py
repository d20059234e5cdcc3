"""Layer B: draws against the law's own table: 20,000 per answer, a million at night.

20,000 draws tell a Laplace scale that is a tenth too small or too large (the control below does it),
a million one that is 1.5 % off; what is smaller is for `audit.laws`, which needs no draws.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.audit.sampler import chances_of, draws_fit, exponential_fit, fit, g_test, noise_fit
from dprelease.core.entropy import ReplayBits, SystemBits
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.schema.domain import GridSet
from tests.sizes import NIGHTLY, sized

DRAWS = sized(20_000, 1_000_000)
UNLIKELY = 1e-6
REQUESTS = [
    GridRequest(GridSet.from_runs([(0, 60)]), 5, Fraction(1)),
    GridRequest(GridSet.from_runs([(-9, 2), (20, 20), (31, 40)]), 3, Fraction(1, 2)),
]
LAWS = [law for request in REQUESTS for law in grid_laws(request)]
NAMES = [f"{law.family}, {len(law.allowed.runs)} runs" for law in LAWS]


def bits_of(label):
    """Return one stream per test, and the system's at night."""
    return SystemBits() if NIGHTLY else ReplayBits(label)


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_draws_fit_their_table_and_no_other(law, evidence):
    low, high = law.allowed.lower, law.allowed.upper
    answers, tests = (low, (low + high) // 2, high), 3 * len(LAWS)
    found = [draws_fit(law, a, DRAWS, bits_of(f"{law.family} {a}")) for a in answers]
    assert min(found) > UNLIKELY / tests
    # controls on both sides: draws for other answers do not fit
    middle, far = (low + high) // 2, max(1, law.allowed.hull_steps // 4)
    outputs, chance = chances_of(law, middle)
    caught = []
    for by in (-far, far):
        drawn = law.draw_raw(np.full(DRAWS, middle + by), bits_of(f"moved {by}"))
        caught.append(fit(drawn, outputs, chance) < UNLIKELY)
    assert all(caught)
    evidence(
        f"draws against their table: {law.family}, {len(law.allowed.runs)} runs",
        f"3 answers, {DRAWS:,} draws each",
        f"smallest p {min(found):.2g}; {sum(caught)} of 2 moved answers told apart",
    )


@pytest.mark.statistical
@pytest.mark.parametrize("square", [4, 900, 10**9], ids=["narrow", "middle", "wide"])
def test_normal_noise_fits(square):
    noise = GaussianCells(1, square)
    few = DRAWS // (4 if square < 10**7 else 20)
    assert noise_fit(noise, few, bits_of("cells")) > UNLIKELY

    class Other(GaussianCells):
        factor = 1.0

        def sample(self, count, bits):
            return np.rint(self.factor * noise.sample(count, bits)).astype(np.int64)

    for factor in (0.8, 1.3):
        other = type("Scaled", (Other,), {"factor": factor})(1, square)
        assert noise_fit(other, few, bits_of("cells")) < UNLIKELY


@pytest.mark.statistical
def test_noise_of_cells_fits_its_rate_and_no_other():
    noise = CellNoise.calibrate(7, Fraction(1))
    assert noise_fit(noise, DRAWS, bits_of("cells")) > UNLIKELY
    for factor in (Fraction(9, 10), Fraction(11, 10)):

        class Other(DiscreteLaplaceNoise):
            def draws(self, count, bits, factor=factor):
                return DiscreteLaplaceNoise(self.rate * factor).draws(count, bits)

        other = replace(noise, noise=Other(noise.noise.rate))
        assert noise_fit(other, DRAWS, bits_of("cells")) < UNLIKELY


@pytest.mark.statistical
def test_a_choice_fits():
    law = ScoreLaw.calibrate(12, spread=2, epsilon=1)
    scores = np.array([5, 4, 3, 2, 1, 0, 1, 2, 3, 9, 0, 7])
    counts = np.array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0])
    few = DRAWS // 4
    assert exponential_fit(law, counts, scores, few, bits_of("choice")) > UNLIKELY

    class Other(ScoreLaw):
        def draw_runs(self, counts, scores, bits):
            return ScoreLaw.draw_runs(self, counts, np.roll(scores, 1), bits)

    other = Other(law.candidates, law.spread, law.epsilon, law.p, law.last)
    assert exponential_fit(other, counts, scores, few, bits_of("choice")) < UNLIKELY


def test_a_draw_that_cannot_be_has_no_chance():
    assert g_test(np.array([90.0, 9.0, 1.0]), np.array([90.0, 10.0, 0.0])) == 0.0
    assert g_test(np.array([90.0, 10.0, 0.0]), np.array([90.0, 10.0, 0.0])) == 1.0
