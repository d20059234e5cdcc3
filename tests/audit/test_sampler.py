"""Layer B: draws against the law's own table, stuck and repeating sources, forks.

DRAWS is 10**5 per law; `DPRELEASE_AUDIT_DRAWS=1000000` makes a nightly run of it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.audit.sampler import chances_of, choice_fit, draws_fit, fit, g_test, noise_fit
from dprelease.entropy import ReplayBits, SystemBits
from dprelease.errors import InternalError
from dprelease.mechanisms.discrete_laplace_noise import CellNoise, DiscreteLaplaceNoise
from dprelease.mechanisms.exponential_scores import ScoreLaw
from dprelease.mechanisms.gaussian_cells import GaussianCells
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.schema.domain import GridSet

DRAWS = int(os.environ.get("DPRELEASE_AUDIT_DRAWS", "100000"))
UNLIKELY = 1e-6
REQUESTS = [
    GridRequest(GridSet.from_runs([(0, 60)]), 5, Fraction(1)),
    GridRequest(GridSet.from_runs([(-9, 2), (20, 20), (31, 40)]), 3, Fraction(1, 2)),
]
LAWS = [law for request in REQUESTS for law in grid_laws(request)]
NAMES = [f"{law.family}, {len(law.allowed.runs)} runs" for law in LAWS]


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_draws_fit_their_table_and_no_other(law):
    low, high = law.allowed.lower, law.allowed.upper
    tests = 3 * len(LAWS)
    for answer in (low, (low + high) // 2, high):
        bits = ReplayBits(f"{law.family} {answer}")
        assert draws_fit(law, answer, DRAWS, bits) > UNLIKELY / tests
    # controls on both sides: draws for other answers do not fit
    middle, far = (low + high) // 2, max(1, law.allowed.hull_steps // 4)
    outputs, chance = chances_of(law, middle)
    caught = []
    for by in (-far, far):
        drawn = law.draw_raw(np.full(DRAWS, middle + by), ReplayBits(f"moved {by}"))
        caught.append(fit(drawn, outputs, chance) < UNLIKELY)
    # randomised response has one row for a whole bin of answers
    assert all(caught) or (law.family == "randomized_response" and any(caught))


@pytest.mark.statistical
@pytest.mark.parametrize("square", [4, 900, 10**9], ids=["narrow", "middle", "wide"])
def test_normal_noise_fits(square):
    noise = GaussianCells(1, square)
    few = DRAWS // (4 if square < 10**7 else 20)
    assert noise_fit(noise, few, ReplayBits("cells")) > UNLIKELY

    class Other(GaussianCells):
        factor = 1.0

        def sample(self, count, bits):
            return np.rint(self.factor * noise.sample(count, bits)).astype(np.int64)

    for factor in (0.8, 1.3):
        other = type("Scaled", (Other,), {"factor": factor})(1, square)
        assert noise_fit(other, few, ReplayBits("cells")) < UNLIKELY


@pytest.mark.statistical
def test_noise_of_cells_fits_its_rate_and_no_other():
    noise = CellNoise.calibrate(7, Fraction(1))
    assert noise_fit(noise, DRAWS, ReplayBits("cells")) > UNLIKELY
    for factor in (Fraction(9, 10), Fraction(11, 10)):

        class Other(DiscreteLaplaceNoise):
            def sample(self, count, bits, factor=factor):
                return DiscreteLaplaceNoise(self.rate * factor).sample(count, bits)

        other = replace(noise, noise=Other(noise.noise.rate))
        assert noise_fit(other, DRAWS, ReplayBits("cells")) < UNLIKELY


@pytest.mark.statistical
def test_a_choice_fits():
    law = ScoreLaw.calibrate(12, spread=2, epsilon=1)
    scores = np.array([5, 4, 3, 2, 1, 0, 1, 2, 3, 9, 0, 7])
    assert choice_fit(law, scores, DRAWS, ReplayBits("choice")) > UNLIKELY
    honest = law.pmf(scores)

    class Other(ScoreLaw):
        def pmf(self, scores):
            return [*honest[1:], honest[0]]

    other = Other(law.candidates, law.spread, law.epsilon, law.p)
    assert choice_fit(other, scores, DRAWS, ReplayBits("choice")) < UNLIKELY


def test_a_draw_that_cannot_be_has_no_chance():
    assert g_test(np.array([90.0, 9.0, 1.0]), np.array([90.0, 10.0, 0.0])) == 0.0
    assert g_test(np.array([90.0, 10.0, 0.0]), np.array([90.0, 10.0, 0.0])) == 1.0


STREAMS = {
    "all zero": lambda n: bytes(n),
    "all one": lambda n: b"\xff" * n,
    "repeating": lambda n: (b"\x00\xff\x5a" * (n // 3 + 1))[:n],
    "counting": lambda n: bytes(i % 256 for i in range(n)),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_broken_system_bits_end_and_stay_in_the_domain(stream, monkeypatch):
    """A value of the domain, or a refusal; never a loop and never a value outside.

    Bits that are all one never pass a rejection step, so every law refuses them: a source without
    randomness must not release anything.
    """
    monkeypatch.setattr(os, "urandom", STREAMS[stream])
    refusals = []
    for law in LAWS:
        for answer in (law.allowed.lower, law.allowed.upper):
            try:
                drawn = law.finish(law.draw_raw(np.full(3, answer), SystemBits()))
            except InternalError as error:
                refusals.append(error.code)
            else:
                assert law.allowed.contains(drawn).all()
    refused = len(refusals)
    assert set(refusals) <= {"DPR901"}
    assert (refused == 2 * len(LAWS)) == (stream == "all one")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_draw_differently():
    law = LAWS[0]

    def drawn():
        return law.draw_raw(np.full(40, law.allowed.lower), SystemBits()).tobytes()

    drawn()  # whatever state there could be exists before the fork
    seen = [drawn()]
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            os.write(write, drawn())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            seen.append(pipe.read())
        os.waitpid(child, 0)
    assert len(set(seen)) == 3
    assert all(len(s) == 320 for s in seen)
