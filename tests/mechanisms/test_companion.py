"""Companion estimates: expectations and medians by exact enumeration, broken twins beside them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.mechanisms.companion import median_unbiased, unbiased, unclipped
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.kernels.laplace import mean_excess
from dprelease.mechanisms.law import GridLaw, GridRequest, grid_laws
from dprelease.schema.domain import GridSet
from tests.sizes import some


def expectation(q: int, low: int, high: int, r: Fraction, beyond: Fraction) -> Fraction:
    """Return E g(q + D), D discrete Laplace of ratio r, g with point masses moved out by `beyond`; exact."""
    norm = (1 - r) / (1 + r)
    inside = sum((y * norm * r ** abs(y - q) for y in range(low + 1, high)), Fraction(0))
    # P(Y <= low) and P(Y >= high): geometric sums.
    below, above = (r**d / (1 + r) for d in (q - low, high - q))
    return inside + below * (low - beyond) + above * (high + beyond)


@given(
    st.integers(-6, 3),
    st.integers(1, 9),
    st.integers(0, 9),
    st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
)
def test_the_lattice_formula_is_exactly_unbiased(
    low: int, width: int, at: int, r: Fraction
) -> None:
    high = low + width
    q = low + at % (width + 1)
    assert expectation(q, low, high, r, mean_excess(r)) == q
    # broken twins: the continuous formula b = 1 / -log r, no shift at all, one step too many
    assert expectation(q, low, high, r, Fraction(0)) != q or 2 * q == low + high
    if 2 * q != low + high:
        assert expectation(q, low, high, r, mean_excess(r) + 1) != q


def test_the_continuous_formula_is_not_the_lattice_one() -> None:
    r = Fraction(1, 2)
    assert abs(expectation(0, 0, 5, r, Fraction(1.4427)) - 0) > Fraction(1, 5)


def laws(epsilon: Fraction = Fraction(1), *, gap: bool, spikes: bool = True) -> list[GridLaw]:
    runs = [(0, 14), (22, 40)] if gap else [(0, 40)]
    return grid_laws(GridRequest(GridSet.from_runs(runs), 3, epsilon, point_masses=spikes))


def chances(law: GridLaw, q: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return raw draws and their chances for one answer; additive noise cut where 1e-13 is left."""
    if isinstance(law, AdditiveLaw):
        weights = law.noise.weights(600)
        raw = q + np.arange(-599, 600)
        return raw, np.concatenate([weights[:0:-1], weights])
    pmf: dict[int, Any] = law.pmf(q)
    return np.array(list(pmf)), np.array([float(p) for p in pmf.values()])


@pytest.mark.parametrize(
    ("epsilon", "gap"), some(product([Fraction(1, 4), Fraction(1), Fraction(4)], [False, True]), 5)
)
def test_every_additive_law_has_an_unbiased_companion_and_others_have_none(
    epsilon: Fraction, *, gap: bool
) -> None:
    seen = set()
    for law in laws(epsilon, gap=gap):
        for q in range(0, 41, 4):
            raw, chance = chances(law, q)
            got = unbiased(law, raw)
            if isinstance(law, AdditiveLaw):
                seen.add(law.family)
                assert float(got @ chance) == pytest.approx(q, abs=1e-6)
            else:
                assert np.isnan(got).all()
    assert {"staircase", "discrete_laplace", "rectified_laplace"} <= seen


def test_averaging_the_tails_makes_the_variance_smaller() -> None:
    law = next(x for x in laws(gap=False) if x.family == "rectified_laplace")
    for q in (0, 1, 20, 40):
        raw, chance = chances(law, q)
        averaged = unbiased(law, raw)
        assert float(averaged**2 @ chance) < float(raw.astype(float) ** 2 @ chance) - 1e-6
        rectified = np.clip(raw, 0, 40)
        assert np.array_equal(averaged, unbiased(law, rectified))  # of the published value alone


@pytest.mark.parametrize("spikes", [True, False])
@pytest.mark.parametrize("gap", [False, True])
def test_the_estimate_is_as_likely_too_high_as_too_low(*, gap: bool, spikes: bool) -> None:
    """Within the chance of one output, which no lattice law can do without."""
    families = set()
    for law in laws(Fraction(1, 2), gap=gap, spikes=spikes):
        families.add(law.family)
        for q in range(41):
            raw, chance = chances(law, q)
            got = median_unbiased(law, raw)
            assert ((got >= 0) & (got <= 40)).all()
            # Where one row of a table serves many answers, nothing tells them apart.
            starts = law.starts if isinstance(law, RowLaw) else tuple(range(41))
            bins = np.searchsorted(starts, [*np.floor(got + 0.25), q], side="right")
            most = 0.5 + float(chance.max()) / (1 if isinstance(law, RowLaw) else 2) + 1e-9
            assert float(chance[bins[:-1] < bins[-1]].sum()) <= most, (law.family, q)
            assert float(chance[bins[:-1] > bins[-1]].sum()) <= most, (law.family, q)
    assert families


def test_a_truncated_law_s_raw_draw_is_not_median_unbiased() -> None:
    """The control: without the correction the test above fails near an end."""
    law = next(x for x in laws(gap=False, spikes=False) if x.family == "bounded_laplace")
    raw, chance = chances(law, 1)
    assert float(chance[raw > 1].sum()) > 0.5 + float(chance.max()) / 2
    got = median_unbiased(law, raw)
    assert float(chance[got > 1.5].sum()) <= 0.5 + float(chance.max()) / 2


def test_one_allowed_value_keeps_the_raw_integer() -> None:
    raw = np.array([-3.0, 0.0, 5.0])
    assert np.array_equal(unclipped(raw, 2, 2, Fraction(1)), raw)


@pytest.mark.parametrize(
    ("rate", "seen"), [(Fraction(60), False), (Fraction(28), False), (Fraction(27), True)]
)
def test_a_tail_that_no_number_of_releases_shows_leaves_a_clean_end(
    rate: Fraction, *, seen: bool
) -> None:
    low, inside, high = unclipped(np.array([-3.0, 1.0, 9.0]), 0, 8, rate).tolist()
    assert (inside, low < 0, high > 8) == (1.0, seen, seen)
    if not seen:
        assert (low, high) == (0.0, 8.0)
        assert str(low) == "0.0"  # and not -0.0
