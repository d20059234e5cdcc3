"""The mechanism contract takes the built-in laws, and every lie is found by enumeration."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core import registry
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.mechanisms.staircase import Staircase
from dprelease.schema.domain import GridSet
from dprelease.testing import REQUESTS, check_mechanism
from dprelease.testing.mechanisms import check_law
from tests.sizes import some

REQUEST = GridRequest(GridSet.from_runs([(0, 3), (8, 11)]), 3, Fraction(1))
GRID = [
    n
    for n in registry.names("mechanisms")
    if n not in ("exponential", "permute_and_flip", "rectified_gaussian", "stochastic_sign")
]
"""Those with a pure law of one integer; the others are not grid laws."""


@pytest.mark.parametrize("name", GRID)
def test_the_built_in_laws_keep_it(name):
    assert check_mechanism(name, some(REQUESTS[::5], 2)) > 0


class Lie:
    """A law that behaves like `law`, but for some attributes."""

    def __init__(self, law, **lies) -> None:
        self._law, self._lies = law, lies

    def __getattr__(self, name):
        return self._lies[name] if name in self._lies else getattr(self._law, name)


def good():
    return BoundedLaplaceLaw.calibrate(REQUEST)


def test_twin_too_little_noise_behind_a_good_certificate():
    law = good()
    narrow = BoundedLaplaceLaw.calibrate(replace(REQUEST, epsilon=Fraction(2)))
    with pytest.raises(AssertionError, match="more than e"):
        check_law(Lie(law, pmf=narrow.pmf), REQUEST)


def test_twin_snapping_the_answer_across_the_gap_first():
    """The nearest allowed point jumps by five: the pmf says so, whatever the certificate says."""
    law, allowed = good(), REQUEST.allowed

    def snapped(answer):
        return law.pmf(int(allowed.nearest(np.array([answer]))[0]))

    with pytest.raises(AssertionError, match="more than e"):
        check_law(Lie(law, pmf=snapped), REQUEST)


def test_twin_a_certificate_that_proves_another_loss():
    law = good()
    double = replace(REQUEST, epsilon=Fraction(2))
    with pytest.raises(AssertionError, match="more than was asked"):
        check_law(BoundedLaplaceLaw.calibrate(double), REQUEST)
    told = replace(law.certificate, epsilon_upper=Fraction(1, 2))
    with pytest.raises(AssertionError, match="not the recomputed one"):
        check_law(Lie(law, certificate=told), REQUEST)


def test_a_law_for_several_coordinates_keeps_it():
    request = replace(REQUEST, splits=True)
    laws = grid_laws(request)
    assert {law.family for law in laws} == {"discrete_laplace", "rectified_laplace"}
    for law in laws:
        check_law(law, request)


@pytest.mark.parametrize("family", [BoundedLaplaceLaw, Staircase])
def test_twin_a_law_of_one_coordinate_that_claims_several(family):
    """Three coordinates a step apart each cost more than one that is three steps apart."""
    law = good() if family is BoundedLaplaceLaw else family.grid_laws(REQUEST)[0]
    check_law(law, REQUEST)
    with pytest.raises(AssertionError, match="over several coordinates"):
        check_law(Lie(law, splits=True), REQUEST)


def test_a_staircase_for_several_coordinates_pays_for_each_step():
    """Its kernel proves it, so the claim is enough: no list of names decides who covers several groups."""
    for sensitivity in (1, 2, 3):
        asked = replace(REQUEST, sensitivity=sensitivity, splits=True)
        noise = StaircaseNoise.calibrate(3, asked.epsilon / sensitivity, 2)
        check_law(AdditiveLaw.build("staircase", asked, noise), asked)


def test_twin_draws_of_another_law_than_the_pmf():
    law = good()
    wide = BoundedLaplaceLaw.calibrate(replace(REQUEST, epsilon=Fraction(1, 2)))
    with pytest.raises(AssertionError, match="do not follow"):
        check_law(Lie(law, draw_raw=wide.draw_raw), REQUEST)


def test_twin_an_interval_that_is_too_short():
    law = good()
    with pytest.raises(AssertionError, match="intervals hold"):
        check_law(Lie(law, interval=lambda raw, level=0.95: (raw, raw)), REQUEST)


def test_a_law_under_another_name_is_found(monkeypatch):
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda k, n: Staircase if n == "mine" else load(k, n))
    with pytest.raises(AssertionError, match="another name"):
        check_mechanism("mine")
