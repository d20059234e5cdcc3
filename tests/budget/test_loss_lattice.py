"""Loss lattices: against the definition by enumeration, against an oracle, and broken twins."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.loss_lattice import BITS, LossLattice
from dprelease.budget.normal import normal_epsilon
from tests.reference.accounting import TABLE

ORACLE = json.loads(TABLE.read_text())


def by_definition(epsilons: list[Fraction], epsilon: Fraction) -> float:
    """Return max over events of P - e^epsilon Q for the product of randomised responses."""
    total = mp.mpf(0)
    with mp.workdps(50):
        for signs in itertools.product((1, -1), repeat=len(epsilons)):
            p = q = mp.mpf(1)
            for sign, e in zip(signs, epsilons, strict=True):
                up = 1 / (1 + mp.exp(-mp.mpf(e.numerator) / e.denominator))
                p, q = p * (up if sign > 0 else 1 - up), q * (1 - up if sign > 0 else up)
            total += max(mp.mpf(0), p - mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator) * q)
    return float(total)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.sampled_from([Fraction(1, 10), Fraction(1, 7)]),
    st.integers(0, 30),
)
def test_products_of_responses_are_the_definition(
    cells: list[int], half: Fraction, at: int
) -> None:
    lattice = LossLattice.nothing(2 * half)
    for m in cells:
        lattice = lattice.compose(LossLattice.two_points(m * half, half))
    epsilon = Fraction(at, 10)
    exact = by_definition([m * half for m in cells], epsilon)
    found = float(lattice.delta(epsilon))
    assert exact * (1 - 1e-12) - 1e-28 <= found <= exact + 1e-25


@pytest.mark.parametrize("row", ORACLE, ids=[str(i) for i in range(len(ORACLE))])
def test_an_independent_accountant_agrees(row: dict[str, object]) -> None:
    from dprelease.budget.composition import pure_epsilon

    delta = Fraction(str(row["delta"]))
    if "pure" in row:
        found = pure_epsilon([Fraction(str(e)) for e in row["pure"]], delta)  # type: ignore[attr-defined]
    else:
        shift, square, count = row["gaussian"]  # type: ignore[misc]
        found = normal_epsilon(Fraction(shift**2 * count, 2 * square), Fraction(0), delta)
    assert float(found) == pytest.approx(row["epsilon"], rel=2e-3)


def test_times_is_repeated_composition_up_to_rounding() -> None:
    one = LossLattice.two_points(Fraction(1, 7), Fraction(1, 70))
    slow = one
    for _ in range(6):
        slow = slow.compose(one)
    for epsilon in (Fraction(1), Fraction(2)):
        assert float(one.times(7).delta(epsilon)) == pytest.approx(
            float(slow.delta(epsilon)), rel=1e-9
        )


def test_joining_cells_only_raises_delta() -> None:
    half = Fraction(1, 70)
    one = LossLattice.two_points(3 * half, half).compose(LossLattice.two_points(8 * half, half))
    for factor in (2, 4):
        joined = one.coarser(factor * one.step)
        assert len(joined.weights) < len(one.weights)
        for at in range(6):
            assert joined.delta(Fraction(at, 40)) >= one.delta(Fraction(at, 40))


def test_mass_is_never_lost() -> None:
    for lattice in (
        LossLattice.two_points(Fraction(1, 3), Fraction(1, 30)),
        LossLattice.two_points(Fraction(1, 7), Fraction(1, 70)).times(20),
    ):
        assert sum(lattice.weights) + lattice.infinite >= 1 << BITS


def test_twin_weights_rounded_to_the_nearest_understate() -> None:
    """The control of the rounding: without it the curve falls below the definition."""
    epsilon = Fraction(1, 10)
    lattice = LossLattice.two_points(epsilon, epsilon)
    low = LossLattice(lattice.start, lattice.step, tuple(w - (1 << 120) for w in lattice.weights))
    exact = by_definition([epsilon] * 8, Fraction(1, 2))
    assert float(lattice.times(8).delta(Fraction(1, 2))) >= exact * (1 - 1e-12)
    assert float(low.times(8).delta(Fraction(1, 2))) < exact


def test_a_delta_below_the_tails_has_no_epsilon() -> None:
    lattice = LossLattice.two_points(Fraction(1, 7), Fraction(1, 7)).times(2000)
    assert lattice.infinite
    assert lattice.epsilon(Fraction(1, 10**40)) is None
