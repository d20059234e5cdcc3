"""Composition: known figures, never above the sum, and every named way."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.accountant import Cost
from dprelease.budget.composition import (
    METHODS,
    Proof,
    basic,
    compose,
    pure_delta,
    pure_epsilon,
    total_rho,
)
from dprelease.budget.concentrated import zcdp_epsilon
from dprelease.budget.exact_rho import rho_of_pure
from dprelease.budget.normal import normal_epsilon
from dprelease.core.errors import ArgumentError

DELTA = Fraction(1, 10**6)
TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("epsilon", "k", "expected"),
    [("0.1", 10, 1.0), ("0.1", 50, 3.17), ("0.1", 365, 10.3), ("0.02", 365, 1.67)],
)
def test_known_figures(epsilon: str, k: int, expected: float) -> None:
    assert float(pure_epsilon([Fraction(epsilon)] * k, DELTA)) == pytest.approx(expected, rel=5e-3)


losses = st.lists(st.fractions("1/1000", 2, max_denominator=10**9), min_size=1, max_size=12)


@settings(max_examples=40)
@given(losses, st.sampled_from([0, 3, 6, 12]))
def test_never_above_the_sum_and_confirmed_by_the_curve(found: list[Fraction], digits: int) -> None:
    delta = Fraction(1, 10**digits) if digits else Fraction(0)
    epsilon = pure_epsilon(found, delta)
    assert epsilon <= basic(found)
    assert pure_delta(found, epsilon) <= delta
    assert pure_delta(found, basic(found)) == 0


@settings(max_examples=25)
@given(losses)
def test_more_delta_never_costs_more_epsilon(found: list[Fraction]) -> None:
    at = [pure_epsilon(found, Fraction(1, 10**d)) for d in (9, 6, 3)]
    slack = Fraction(1, 10**6)  # the guess starts from above by a few nano-units
    assert at[0] + slack >= at[1]
    assert at[1] + slack >= at[2]


def exact_delta(found: list[Fraction], epsilon: Fraction) -> mp.mpf:
    """Return the optimal delta of pure losses at `epsilon`, over all subsets (Murtagh & Vadhan)."""
    with mp.workdps(60):
        losses_ = [mp.mpf(e.numerator) / e.denominator for e in found]
        at = mp.mpf(epsilon.numerator) / epsilon.denominator
        whole, total = mp.fsum(losses_), mp.mpf(0)
        for chosen in itertools.product((0, 1), repeat=len(found)):
            inside = mp.fsum(e for e, c in zip(losses_, chosen, strict=True) if c)
            total += max(mp.mpf(0), mp.exp(inside) - mp.exp(at + whole - inside))
        return total / mp.fprod(1 + mp.exp(e) for e in losses_)


@pytest.mark.parametrize(
    "found",
    [
        ["0.123456789", "0.987654321", "0.5", "0.333333333", "0.777777777"],
        ["1.000000007", "0.000000011", "0.25", "0.700000001"],
        ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"],
        ["0.314159265", "0.314159265", "0.314159265", "0.271828183"],
    ],
)
def test_never_below_the_sum_over_all_subsets_and_close_to_it(found: list[str]) -> None:
    losses_ = [Fraction(e) for e in found]
    for share in ("0.1", "0.3", "0.5", "0.7", "0.9"):
        epsilon = basic(losses_) * Fraction(share)
        stated, exact = pure_delta(losses_, epsilon), exact_delta(losses_, epsilon)
        with mp.workdps(60):
            # the margin is of the reference's own rounding; a lattice cell is 1e-10 and more
            assert mp.mpf(stated.numerator) / stated.denominator >= exact - mp.mpf(10) ** -50
        assert float(stated) <= float(exact) * 1.02 + 1e-9


def test_different_losses_are_priced_close_to_equal_ones() -> None:
    """The lattice costs little: 40 losses around 0.1 against 40 of exactly 0.1."""
    mixed = [TENTH + Fraction(i - 20, 10**5) for i in range(41)]
    assert float(pure_epsilon(mixed, DELTA)) == pytest.approx(
        float(pure_epsilon([TENTH] * 41, DELTA)), rel=0.02
    )


def test_ten_tenths_are_one() -> None:
    assert basic([TENTH] * 10) == compose("basic/1", [Proof((TENTH,))] * 10, Fraction(0)) == 1
    one = Cost.budget(Fraction(1))
    assert sum([Cost.rounded_up(TENTH)] * 10, Cost(0)).within(one)


def test_rho_adds_up_and_pure_losses_count_what_they_cost() -> None:
    proofs = [Proof(rho=Fraction(1, 100)), Proof(pure=(TENTH, TENTH))]
    tenths = 2 * rho_of_pure(TENTH)
    assert total_rho(proofs) == Fraction(1, 100) + tenths < Fraction(1, 50)
    assert compose("zcdp/1", proofs, DELTA) == zcdp_epsilon(Fraction(1, 100) + tenths, DELTA)
    own = [*proofs, Proof(pure=(TENTH,), tight=Fraction(1, 1000))]
    assert total_rho(own) == total_rho(proofs) + Fraction(1, 1000)
    useless = Proof(pure=(TENTH,), tight=Fraction(1))  # a proof that says less than any loss does
    assert useless.concentrated == rho_of_pure(TENTH)


def test_mixed_ways_are_sums_of_two_parts() -> None:
    proofs = [Proof(rho=Fraction(1, 100)), *[Proof(pure=(TENTH,))] * 3]
    one = compose("basic+zcdp/1", proofs, DELTA)
    assert one == Fraction(3, 10) + zcdp_epsilon(Fraction(1, 100), DELTA)
    many = [Proof(rho=Fraction(1, 100)), *[Proof(pure=(TENTH,))] * 60]
    two = compose("kov+zcdp/1", many, DELTA)
    half = DELTA / 2
    assert two == pure_epsilon([TENTH] * 60, half) + zcdp_epsilon(Fraction(1, 100), half)
    assert two < compose("basic+zcdp/1", many, DELTA)


def test_normal_noise_by_types_costs_the_largest_sum_and_other_laws_their_whole() -> None:
    """Two blocks that no change moves both, and one that says nothing of types; never more than their sum."""
    rho = Fraction(1, 100)
    one, other = (Proof(rho=rho, normal=True, types=t) for t in ((rho, 0 * rho), (0 * rho, rho)))
    alone = Proof(rho=rho, normal=True)
    pure = Proof(pure=(TENTH,), types=(TENTH, 0 * TENTH))
    found = compose("types+normal/1", [one, other, alone, pure], DELTA)
    assert found == normal_epsilon(2 * rho, rho_of_pure(TENTH), DELTA, 3)
    assert found < compose("normal/1", [one, other, alone, pure], DELTA)
    both = (replace(p, types=(rho, rho)) for p in (one, other, alone))
    assert compose("types+normal/1", [*both], DELTA) == compose("normal/1", [alone] * 3, DELTA)
    assert compose("types+normal/1", [alone], DELTA) == compose("normal/1", [alone], DELTA)


@pytest.mark.parametrize(
    ("method", "proofs", "delta"),
    [
        ("advanced/1", [], DELTA),
        ("basic/1", [Proof(rho=TENTH)], DELTA),
        ("kov/1", [Proof(rho=TENTH)], DELTA),
        ("kov/1", [Proof((TENTH,))], Fraction(0)),
        ("zcdp/1", [Proof((TENTH,))], Fraction(0)),
        ("basic/1", [Proof((-TENTH,))], Fraction(0)),
        ("zcdp/1", [Proof((TENTH,))], Fraction(1)),
    ],
)
def test_what_does_not_compose_is_refused(
    method: str, proofs: list[Proof], delta: Fraction
) -> None:
    with pytest.raises(ArgumentError) as error:
        compose(method, proofs, delta)
    assert error.value.code == "DPR657"


def test_the_names_are_versions() -> None:
    """A plan of the past names one of these: none may disappear or change its meaning."""
    assert METHODS == (
        "basic/1",
        "types/1",
        "kov/1",
        "zcdp/1",
        "basic+zcdp/1",
        "kov+zcdp/1",
        "normal/1",
        "types+normal/1",
    )


def test_twin_advanced_composition_is_worse_everywhere() -> None:
    """Why it is not offered: epsilon sqrt(2 k log(1/delta)) + k epsilon (e^epsilon - 1)."""
    for e, k in ((0.1, 50), (0.1, 365), (0.02, 365)):
        old = e * math.sqrt(2 * k * math.log(1e6)) + k * e * math.expm1(e)
        assert float(pure_epsilon([Fraction(str(e))] * k, DELTA)) < old


class TestNoiseThatEnds:
    """Losses with a delta of their own add their epsilons, and leave the others the rest of delta."""

    ENDS = (
        Proof(pure=(TENTH,), delta=DELTA / 4),
        Proof(pure=(2 * TENTH,), delta=DELTA / 4),
    )
    OTHERS = (Proof(pure=(TENTH,)),) * 60

    @pytest.mark.parametrize("method", ["basic/1", "types/1", "kov/1", "zcdp/1"])
    def test_the_others_are_composed_with_what_is_left_of_delta(self, method: str) -> None:
        left = DELTA if method in ("basic/1", "types/1") else DELTA / 2
        expected = 3 * TENTH + compose(method, self.OTHERS, left)
        assert compose(method, [*self.ENDS, *self.OTHERS], DELTA) == expected

    def test_alone_they_add_up(self) -> None:
        for method in METHODS[:4]:
            assert compose(method, self.ENDS, DELTA / 2) == 3 * TENTH

    def test_more_than_delta_is_refused(self) -> None:
        with pytest.raises(ArgumentError, match="more than delta"):
            compose("basic/1", self.ENDS, DELTA / 2 - Fraction(1, 10**12))

    def test_they_have_no_rho(self) -> None:
        with pytest.raises(ArgumentError, match="has no rho"):
            total_rho([*self.OTHERS, *self.ENDS])
