"""Declared priors and the minimax map: against brute force, never worse, inside the contract."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ConfigError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms import DiscreteLaplace, Staircase
from dprelease.mechanisms.boundaries import remap, remap_prior
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import corpus, enumerate_law, hull, worst_ratio
from tests.sizes import whole

GAPPED = GridSet.from_runs([(0, 6), (12, 20)])


def additive(request: GridRequest) -> list[AdditiveLaw]:
    laws = [*Staircase.grid_laws(request), *DiscreteLaplace.grid_laws(request)]
    return [law for law in laws if isinstance(law, AdditiveLaw)]


@cache
def worst() -> list[tuple[GridRequest, AdditiveLaw]]:
    """Return requests with their laws; made when a test first asks, not while tests are collected."""
    return [
        (replace(r, criterion="worst"), law)
        for r in corpus(whole(36, 70))
        if r.epsilon <= 4
        for law in additive(replace(r, criterion="worst"))
    ]


def test_the_minimax_map_is_never_worse_for_the_worst_answer() -> None:
    assert len({r for r, _ in worst()}) >= whole(20, 40)
    gains = []
    for _, law in worst():
        uniform = replace(law, prior=None)
        gains.append(law.expected_error().worst / max(uniform.expected_error().worst, 1e-12))
        assert gains[-1] <= 1 + 1e-9
    assert min(gains) < 0.75  # and sometimes much better


def test_the_raw_draw_and_the_loss_are_those_of_the_noise() -> None:
    for request, law in worst():
        if law.family == "staircase":
            pmfs = enumerate_law(law)
            assert worst_ratio(pmfs, request.sensitivity) <= exp_lower(request.epsilon)
            assert all(y in law.allowed for p in pmfs.values() for y in p)
        assert law.certificate.epsilon_upper <= request.epsilon


def test_every_entry_has_the_smallest_cost_under_the_stated_prior() -> None:
    law = additive(GridRequest(GAPPED, 5, Fraction(1)))[0]
    prior = tuple(1 + (7 * q) % 11 for q in hull(GAPPED))
    for kind, power in (("median", 1), ("mean", 2)):
        margin = 2 * law.noise.period + 3
        raws = np.arange(GAPPED.lower - margin, GAPPED.upper + margin + 1)
        outputs = remap.apply(law.noise, GAPPED, kind, raws, prior)  # type: ignore[arg-type]
        answers, points = np.array(hull(GAPPED)), GAPPED.points()
        for raw, y in zip(raws.tolist(), outputs.tolist(), strict=True):
            distance = np.abs(raw - answers)
            weights = law.noise.weights(int(distance.max()) + 1)[distance] * np.array(prior)
            cost = [float((weights * np.abs(answers - p) ** power).sum()) for p in points]
            chosen = cost[int(np.flatnonzero(points == y)[0])]
            assert chosen <= min(cost) * (1 + 1e-9)


def test_the_uniform_prior_gives_the_uniform_table() -> None:
    for law in additive(GridRequest(GAPPED, 5, Fraction(1))):
        flat = replace(law, prior=(1,) * 21)
        assert flat.expected_error().average == pytest.approx(law.expected_error().average)


def test_a_prior_survives_json_and_a_malformed_one_does_not() -> None:
    law = additive(GridRequest(GAPPED, 5, Fraction(1), criterion="worst"))[0]
    assert law.prior is not None
    assert law_from_json(json.loads(json.dumps(law.to_json()))) == law
    assert "prior" in law.describe()
    for prior in ([1, 2], [0] * 21, "x"):
        with pytest.raises(ConfigError):
            law_from_json(law.to_json() | {"prior": prior})
    drawn = law.finish(law.draw_raw(np.arange(-9, 30), ReplayBits("prior")))
    assert GAPPED.contains(drawn).all()


def test_large_hulls_and_unknown_far_outputs_keep_the_uniform_prior() -> None:
    wide = GridSet.from_runs([(0, remap_prior.PRIOR_LIMIT + 1)])
    for law in additive(GridRequest(wide, 5, Fraction(1), criterion="worst")):
        assert law.prior is None
    for law in additive(GridRequest(GAPPED, 5, Fraction(1))):
        assert law.prior is None  # judged by the average, the uniform prior is the right one


def test_noise_without_mass_far_away_falls_back_to_the_nearest_point() -> None:
    """At a huge epsilon far likelihoods underflow; the table stays total."""
    law = next(
        law
        for law in additive(GridRequest(GAPPED, 1, Fraction(300), criterion="worst"))
        if law.family == "staircase"
    )
    raws = np.arange(-3, 25)
    assert GAPPED.contains(law.finish(raws)).all()


def test_a_broken_prior_costs_accuracy_only() -> None:
    law = additive(GridRequest(GAPPED, 5, Fraction(1)))[0]
    lopsided = replace(law, prior=(10**6,) + (1,) * 20)
    assert lopsided.expected_error().worst > law.expected_error().worst
    assert lopsided.certificate == law.certificate
    assert worst_ratio(enumerate_law(lopsided), 5) <= exp_lower(Fraction(1))
