"""Layer A, laws: exact ratios of generated laws of every family, and of laws that lie."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dprelease.audit.laws import (
    capped_sensitivity,
    law_rows,
    staircase_worst,
    worst_between,
    worst_ratio,
)
from dprelease.audit.powers import exp_above, exp_below, powers
from dprelease.core import registry
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.law import GridRequest, grid_laws, rho_upper
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import corpus
from tests.sizes import whole

FAMILIES = {
    "bounded_gaussian", "bounded_laplace", "discrete_laplace", "optimal_grid",
    "rectified_laplace", "reflected_laplace", "staircase",
}  # fmt: skip
REQUESTS = whole(33, 66)


@cache
def laws():
    """Every admissible law of generated requests: 1 to 4 runs, runs of one point, sensitivities up to the hull."""
    return tuple(law for request in corpus(REQUESTS) for law in grid_laws(request))


def thin():
    """Requests of which the sensitivity is a small part of the width: few allowed points on a long hull.

    A ten-thousandth; where no table is offered a three-hundredth, as every distance costs an exact exponential there
    (`make evidence`: a ten-thousandth for all).
    """
    pick = random.Random("thin")
    for i, epsilon in enumerate(("0.01", "0.3", "1", "10")):
        width = whole(10_000 if i == 0 else 300, 10_000)
        runs = [
            (0, 3),
            *((a, a + (i % 2)) for a in (width * 2 // 5, width * 73 // 100)),
            (width - 10 + pick.randint(0, 5), width),
        ]
        yield GridRequest(GridSet.from_runs(runs), 1, Fraction(epsilon))
    yield GridRequest(GridSet.from_runs([(0, 1_000)]), 1, Fraction(1))


@cache
def thin_laws():
    families = [registry.load("mechanisms", n) for n in ("bounded_laplace", "bounded_gaussian")]
    return tuple(law for request in thin() for kind in families for law in kind.grid_laws(request))


def test_every_law_of_the_corpus_keeps_its_epsilon_in_exact_rationals(evidence):
    seen, count, largest = set(), 0, 0.0
    for law in (*laws(), *thin_laws()):
        worst = worst_ratio(law)
        assert worst.within(law.epsilon), law.to_json()
        assert worst.complete
        assert (
            worst.nats <= float(law.certificate.epsilon_upper) + 1e-9
        )  # the certificate is not a lie
        seen.add(law.family)
        count += 1
        largest = max(largest, worst.nats / float(law.epsilon))
    assert seen == FAMILIES
    assert count >= whole(150, 300)
    evidence(
        "exact probabilities of every law",
        f"{count} plans of {len(seen)} families, all answers, all outputs",
        f"largest loss is {largest:.9g} of its epsilon, none above",
    )


def test_the_corpus_covers_what_it_should():
    """Epsilon from 0.01 to 10, sensitivities from a ten-thousandth of the hull to all of it, 1 to 4 runs."""
    made = [*laws(), *thin_laws()]
    epsilons = {float(law.epsilon) for law in made}
    assert (min(epsilons), max(epsilons)) == (0.01, 10)
    shares = [law.sensitivity / max(1, law.allowed.hull_steps) for law in made]
    assert min(shares) <= 1e-4
    assert max(shares) >= 1
    assert {len(law.allowed.runs) for law in made} == {1, 2, 3, 4}
    assert any(low == high for law in made for low, high in law.allowed.runs)


def largest_renyi(law):
    """Return max D_alpha / alpha over neighbouring answers and a list of alphas."""
    rows = law_rows(law)
    logs = rows.logs - np.logaddexp.reduce(rows.logs, axis=1, keepdims=True)
    found = 0.0
    for lag in range(1, min(capped_sensitivity(law), logs.shape[0] - 1) + 1):
        for p, r in ((logs[:-lag], logs[lag:]), (logs[lag:], logs[:-lag])):
            for alpha in ALPHAS:
                total = np.logaddexp.reduce(alpha * p + (1 - alpha) * r, axis=1)
                found = max(found, float(total.max()) / (alpha - 1) / alpha)
    return found


ALPHAS = (1.001, 1.1, 1.5, 2.0, 4.0, 16.0, 64.0)
INFINITE = ("staircase", "discrete_laplace", "rectified_laplace")


def test_every_finite_law_keeps_its_renyi_divergence(evidence):
    """What zCDP composition is told: D_alpha <= alpha rho for all alpha, here for a list."""
    count = 0
    for law in laws():
        if law.family not in INFINITE:
            assert largest_renyi(law) <= float(rho_upper(law)) * (1 + 1e-9) + 1e-12, law.to_json()
            count += 1
    assert count >= whole(100, 200)
    assert largest_renyi(narrow := BoundedLaplaceLaw.calibrate(WIDE)) > 0.75 * float(
        rho_upper(narrow)
    )
    evidence(
        "exact Renyi divergence of every finite law",
        f"{count} plans, all answers, {len(ALPHAS)} orders",
        "none above its order times its rho",
    )


@pytest.mark.parametrize("kind", [BoundedLaplaceWideLaw, BoundedGaussianWideLaw])
def test_laws_without_a_table(kind):
    """Their masses are never stored; on small hulls they can be summed in full."""
    count = 0
    for request in corpus(24):
        if request.allowed.hull_steps < 8 or request.epsilon > 1:
            continue  # the scale of normal noise without a table is at least 6 steps
        try:
            law = kind.calibrate(request)
        except ArgumentError:
            continue
        assert worst_ratio(law).within(request.epsilon)
        count += 1
    assert count >= 4


def test_the_support_is_the_same_for_all_answers():
    for law in laws():
        rows = law_rows(law)
        if not isinstance(rows, Fraction):
            assert rows.sound
            assert (rows.logs > -1e5).all()


WIDE = GridRequest(GridSet.from_runs([(0, 40)]), 8, Fraction(1))
GAPPED = GridRequest(GridSet.from_runs([(0, 10), (30, 40)]), 8, Fraction(1))


def test_half_the_sensitivity_is_caught():
    """A law for 8 steps, looked at over 16."""
    found = {law.family: worst_ratio(law, 16).within(law.epsilon) for law in grid_laws(WIDE)}
    found.pop("optimal_grid", None)  # few rows: its worst pair may lie within 8 steps already
    assert len(found) >= 5
    assert not any(found.values())


@pytest.mark.parametrize("request_", [WIDE, GAPPED], ids=["interval", "union"])
def test_the_scale_of_the_unbounded_law_is_caught(request_):
    honest = BoundedLaplaceLaw.calibrate(request_)
    assert worst_ratio(honest).within(Fraction(1))
    unscaled = replace(honest, p=round(2**60 * math.exp(-1 / 8)))
    assert worst_ratio(unscaled).nats > 1.2


def test_one_wrong_weight_is_caught():
    small = GridRequest(GridSet.from_runs([(0, 10)]), 8, Fraction(1))
    good = next(law for law in grid_laws(small) if law.family == "optimal_grid")
    rows = [list(row) for row in good.rows]
    rows[0][rows[0].index(max(rows[0]))] *= 2
    assert worst_ratio(good).within(Fraction(1))
    assert not worst_ratio(replace(good, rows=tuple(map(tuple, rows)))).within(Fraction(1))


def test_a_wrong_normaliser_is_caught():
    law = BoundedLaplaceLaw.calibrate(GridRequest(GridSet.from_runs([(0, 40)]), 8, Fraction(1)))
    mass = law.table.mass.copy()
    mass[5] += 1
    table = type(law.table)(law.allowed, law.table.weights, law.table.head, mass)

    class Lying:
        allowed, sensitivity, epsilon, family = (
            law.allowed,
            law.sensitivity,
            law.epsilon,
            law.family,
        )

    Lying.table = table
    assert worst_ratio(law).sound
    assert not worst_ratio(Lying()).sound


def test_powers_of_e_are_bounds():
    for x in (Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(7, 3), Fraction(300)):
        low, high = exp_below(x), exp_above(x)
        assert low <= high <= low * (1 + Fraction(1, 2**200))
        half = exp_below(x / 2), exp_above(x / 2)
        assert half[0] ** 2 <= high
        assert low <= half[1] ** 2
    assert exp_below(Fraction(1)) <= Fraction(
        271828182845904523536028747135266249775724709369995, 10**50
    ) * (1 + Fraction(1, 10**49))
    low, high = powers(Fraction(1, 3), 10)[9]
    assert low <= 1 / exp_below(Fraction(3))
    assert 1 / exp_above(Fraction(3)) <= high


def test_long_staircases_cost_what_their_outputs_say():
    """The few outputs that decide, against all outputs of both answers, at every distance."""
    count = 0
    for law in laws():
        if law.family != "staircase" or law.allowed.hull_steps < 2:
            continue
        low = law.allowed.lower
        for apart in range(1, law.allowed.hull_steps + 1):
            rows = law_rows(law, [low, low + apart])
            assert staircase_worst(law.noise, apart).ratio == worst_between(rows, 0, 1).ratio
            count += 1
    assert count >= 100
