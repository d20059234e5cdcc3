"""Lists of keys between neighbours: every small database of up to three keys of a person, enumerated."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dprelease.core.errors import InternalError
from dprelease.measurements.found import FoundLaw, each_of
from dprelease.mechanisms.kernels.selecting import SelectingNoise
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall.ending_noise import of_keys
from tests.mechanisms.kernels.test_selecting import decimal, outputs

EPSILON, DELTA = Fraction(3), Fraction(1, 5)


def law_of(keys: int) -> FoundLaw:
    noise = SelectingNoise.calibrate(EPSILON / keys, each_of(DELTA, keys))
    return FoundLaw(noise, keys, 2**48)


def moved(keys: int, most: int = 1) -> Sensitivity:
    return Sensitivity(most, keys, keys, keys, in_a_cell=most)


def lost(law: FoundLaw, before: tuple[int, ...], after: tuple[int, ...]) -> Decimal:
    """Return the sum of P - e^epsilon P', where positive, over everything that may be published of these keys."""
    one = [outputs(law.noise, n) for n in before]
    other = [outputs(law.noise, n) for n in after]
    grown, out = decimal(EPSILON).exp(), Decimal(0)
    for published in itertools.product(*one):
        here = there = Decimal(1)
        for y, p, q in zip(published, one, other, strict=True):
            here, there = here * p[y], there * q.get(y, Decimal(0))
        out += max(Decimal(0), here - grown * there)
    return out


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_no_neighbours_lose_more_than_is_charged_and_some_lose_it_all(keys: int) -> None:
    law = law_of(keys)
    proof = law.proof(moved(keys))
    assert proof.pure == (EPSILON,)
    assert proof.delta <= DELTA
    last = len(law.noise.weights)
    with localcontext(prec=80):
        worst = Decimal(0)
        for rest in itertools.combinations_with_replacement(range(last + 1), keys):
            more = tuple(n + 1 for n in rest)
            worst = max(worst, lost(law, rest, more), lost(law, more, rest))
        assert worst <= decimal(proof.delta)
        assert decimal(DELTA) - worst < Decimal(10) ** -12


@pytest.mark.parametrize("keys", [1, 2])
def test_a_replaced_person_leaves_keys_and_comes_to_others(keys: int) -> None:
    law = law_of(2 * keys)
    with localcontext(prec=80):
        worst = Decimal(0)
        few = range(min(len(law.noise.weights), 5) + 1)
        for rest in itertools.combinations_with_replacement(few, 2 * keys):
            left = (*rest[:keys], *(n + 1 for n in rest[keys:]))
            came = (*(n + 1 for n in rest[:keys]), *rest[keys:])
            worst = max(worst, lost(law, left, came), lost(law, came, left))
        assert Decimal(0) < worst <= decimal(law.proof(moved(2 * keys)).delta) <= decimal(DELTA)


def test_the_wall_proves_no_less_and_believes_no_claim() -> None:
    law = law_of(2)
    proof = law.proof(moved(2))
    counted = of_keys(proof, law.to_json(), moved(2))
    assert counted.pure == proof.pure
    assert 0 <= counted.delta - proof.delta < Fraction(1, 10**20)
    more = of_keys(proof, law.to_json(), moved(5))
    assert more.pure == (EPSILON / 2 * 5,)
    assert more.delta > proof.delta


@pytest.mark.parametrize("claimed", [moved(3), moved(2, 2)])
def test_a_law_for_smaller_moves_is_refused(claimed: Sensitivity) -> None:
    with pytest.raises(InternalError, match="smaller sensitivity"):
        law_of(2).proof(claimed)


def test_weights_that_are_no_law_are_refused() -> None:
    law = law_of(1)
    noise = SelectingNoise(law.noise.epsilon, law.noise.bound, law.noise.weights[:-1])
    with pytest.raises(InternalError):
        FoundLaw(noise, 1, 9).proof(moved(1))


@pytest.mark.parametrize("keys", [1, 2, 7, 100])
def test_a_key_has_as_much_delta_as_all_together_allow(keys: int) -> None:
    each = each_of(Fraction(1, 10**6), keys)
    with localcontext(prec=80):
        exact = 1 - (1 - Decimal(10) ** -6) ** (Decimal(1) / keys)
        assert 0 <= exact - decimal(each) < Decimal(10) ** -37
