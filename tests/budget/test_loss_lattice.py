"""Loss lattices: against the definition by enumeration, against an oracle, and broken twins."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.loss_lattice import BITS, LossLattice
from tests.reference.accounting import TABLE
from tests.sizes import FULL

ORACLE = [
    row
    for row in json.loads(TABLE.read_text())
    if FULL or row.get("gaussian", [0])[-1] < 100  # 365 of them take seconds
]


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


@pytest.mark.parametrize(("shift", "square"), [(1, 1), (1, 9), (3, 16), (5, 400)])
def test_one_gaussian_is_its_own_hockey_stick(shift: int, square: int) -> None:
    lattice = LossLattice.gaussian(shift, square)
    cutoff = 60 * (math.isqrt(square) + 1)
    with mp.workdps(40):
        weights = {
            d: mp.exp(-mp.mpf(d * d) / (2 * square)) for d in range(-cutoff, cutoff + shift + 1)
        }
        z = sum(weights.values())
        for epsilon in (Fraction(0), Fraction(1, 3), Fraction(2)):
            e = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
            exact = sum(
                max(mp.mpf(0), (weights[d] - e * weights[d - shift]) / z)
                for d in range(-cutoff + shift, cutoff)
            )
            found = lattice.delta(epsilon)
            assert float(exact) * (1 - 1e-12) <= float(found) <= float(exact) + 1e-25


@pytest.mark.parametrize("row", ORACLE, ids=[str(i) for i in range(len(ORACLE))])
def test_an_independent_accountant_agrees(row: dict[str, object]) -> None:
    from dprelease.budget.composition import pure_epsilon

    delta = Fraction(str(row["delta"]))
    if "pure" in row:
        found = pure_epsilon([Fraction(str(e)) for e in row["pure"]], delta)  # type: ignore[attr-defined]
    else:
        shift, square, count = row["gaussian"]  # type: ignore[misc]
        result = LossLattice.gaussian(shift, square).times(count).epsilon(delta)
        assert result is not None
        found = result
    assert float(found) == pytest.approx(row["epsilon"], rel=2e-3)


def test_times_is_repeated_composition_up_to_rounding() -> None:
    one = LossLattice.gaussian(2, 50)
    slow = one
    for _ in range(6):
        slow = slow.compose(one)
    for epsilon in (Fraction(1), Fraction(2)):
        assert float(one.times(7).delta(epsilon)) == pytest.approx(
            float(slow.delta(epsilon)), rel=1e-9
        )


def test_joining_cells_only_raises_delta() -> None:
    one = LossLattice.gaussian(1, 2000)
    for factor in (2, 4, 8):
        joined = one.coarser(factor * one.step)
        assert len(joined.weights) < len(one.weights)
        for at in range(6):
            assert joined.delta(Fraction(at, 40)) >= one.delta(Fraction(at, 40))


def test_mass_is_never_lost() -> None:
    for lattice in (
        LossLattice.two_points(Fraction(1, 3), Fraction(1, 30)),
        LossLattice.gaussian(1, 1),
        LossLattice.gaussian(4, 333).times(20),
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
    assert LossLattice.gaussian(1, 100).epsilon(Fraction(1, 10**40)) is None
