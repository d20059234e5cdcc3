"""The closed form against the table, the proof against brute force, draws against the law."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms.bounded_laplace import BoundedLaplace
from dprelease.mechanisms.certifiers import closed_form_laplace
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw, worst_ratio
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.kernels.laplace_sums import LaplaceSums
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.schema.domain import Domain, GridSet
from tests.sizes import some, whole

PRECISE = 200  # decimal digits of the brute-force definition


def mass(runs, rate, q):
    """Z(q) by its definition, in mpmath."""
    import mpmath

    with mpmath.workdps(PRECISE):
        r = mpmath.mpf(rate.numerator) / rate.denominator
        return sum(mpmath.exp(-r * abs(y - q)) for a, b in runs for y in range(a, b + 1))


def brute_loss(runs, rate, distance):
    """The loss over every hull pair at every distance up to `distance`, by its definition."""
    import mpmath

    low, high = runs[0][0], runs[-1][1]
    with mpmath.workdps(PRECISE):
        r = mpmath.mpf(rate.numerator) / rate.denominator
        weight = [mpmath.exp(-r * d) for d in range(high - low + 1)]
        points = [y for a, b in runs for y in range(a, b + 1)]
        z = {q: mpmath.log(sum(weight[abs(y - q)] for y in points)) for q in range(low, high + 1)}
        return max(
            k * r + abs(z[q + k] - z[q])
            for k in range(1, distance + 1)
            for q in range(low, high - k + 1)
        )


gapped = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), min_size=1, max_size=4).map(
    lambda parts: tuple(
        (at, at + size)
        for at, size in zip(
            np.cumsum([0] + [s + g + 1 for s, g in parts])[: len(parts)].tolist(),
            [s for s, _ in parts],
            strict=True,
        )
    )
)


@settings(max_examples=whole(40, 60))
@given(gapped, st.integers(1, 12), st.fractions("1/20", 4, max_denominator=40))
def test_loss_by_enumeration_is_never_more_than_certified(runs, sensitivity, epsilon):
    allowed = GridSet.from_runs(runs)
    if allowed.hull_steps == 0:
        return
    request = GridRequest(allowed, sensitivity, epsilon, point_masses=False)
    law = BoundedLaplaceWideLaw.calibrate(request)
    true = brute_loss(allowed.runs, law.rate, request.capped_sensitivity)
    assert law.certificate.epsilon_upper <= epsilon
    assert float(true) <= float(epsilon) * (1 + 1e-15)
    assert float(true) >= float(epsilon) * (1 - 1e-6), "noise above the minimum"


@pytest.mark.parametrize(
    ("runs", "sensitivity", "epsilon"),
    [
        (((0, 1000),), 20, Fraction(1)),
        (((0, 400), (460, 1000)), 30, Fraction(1, 2)),
        (((0, 0), (10, 3000)), 3, Fraction(4, 25)),
        (((-500, -100), (-60, -60), (0, 300)), 50, Fraction(2)),
    ],
)
def test_same_law_as_the_table(runs, sensitivity, epsilon):
    request = GridRequest(GridSet(runs), sensitivity, epsilon, point_masses=False)
    wide, table = BoundedLaplaceWideLaw.calibrate(request), BoundedLaplaceLaw.calibrate(request)
    assert float(1 / wide.rate) == pytest.approx(table.scale, rel=1e-8)
    y = np.array([runs[0][0], runs[-1][1], runs[0][1], runs[-1][0]])
    assert np.array_equal(wide.interval(y), table.interval(y))
    assert wide.expected_error().average == pytest.approx(table.expected_error().average, rel=0.01)
    assert wide.expected_error().worst == pytest.approx(table.expected_error().worst, rel=0.01)


def test_a_union_needs_more_than_its_first_pair():
    """The broken twin of branch and bound: the interval's end pair, used on a union."""
    runs, distance, rate = ((0, 0), (30, 60)), 10, Fraction(1, 6)
    masses = LaplaceSums(GridSet(runs), rate)
    first = closed_form_laplace._ratio(masses, 0, 0, distance)
    worst = worst_ratio(masses, distance, Fraction(0))
    true = brute_loss(runs, rate, distance)
    assert math.log(worst) + distance * rate >= float(true)
    assert math.log(worst) + distance * rate == pytest.approx(float(true), rel=1e-9)
    assert math.log(first) + distance * rate < 0.95 * float(true)


def test_answers_in_gaps_count():
    """The broken twin that looks at pairs of allowed answers only understates the loss."""
    runs, distance, rate = ((0, 5), (40, 45)), 4, Fraction(1, 5)
    inside = max(
        float(abs(_log(mass(runs, rate, q + distance)) - _log(mass(runs, rate, q))))
        for q in (0, 1, 40, 41)
    )
    worst = math.log(worst_ratio(LaplaceSums(GridSet(runs), rate), distance, Fraction(0)))
    assert worst > inside + 0.1


CHANGES = [  # runs, distance, (first, last): left of, around and right of runs, and mixed
    (((0, 5), (20, 45)), 3, (6, 16)),
    (((0, 5), (20, 45)), 4, (20, 41)),
    (((0, 15), (40, 45)), 9, (0, 6)),
    (((0, 5), (20, 30), (50, 60)), 6, (31, 43)),
    (((0, 60),), 20, (0, 40)),
]


@pytest.mark.parametrize(("runs", "distance", "stretch"), CHANGES)
@pytest.mark.parametrize("rate", [Fraction(1, 90), Fraction(1, 3)])
def test_the_change_over_a_stretch_is_bounded_from_both_sides(runs, distance, stretch, rate):
    import mpmath

    masses = LaplaceSums(GridSet(runs), rate)
    first, last = stretch
    low, high = masses.change(first, last, distance)
    with mpmath.workdps(PRECISE):
        part = 1 - mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        true = [
            part * (mass(runs, rate, q + distance) - mass(runs, rate, q))
            for q in range(first, last + 1)
        ]
        assert mpmath.mpf(low.numerator) / low.denominator <= min(true) + mpmath.mpf(10) ** -60
        assert mpmath.mpf(high.numerator) / high.denominator >= max(true) - mpmath.mpf(10) ** -60
    for q, change in zip(range(first, last + 1), true, strict=True):
        one = masses.change(q, q, distance)
        assert float(one[0]) == pytest.approx(float(change), rel=1e-12, abs=1e-15)


def of_the_theorem(runs, r, q, k):
    """Y(q), and Y(q + k) - Y(q) as the theorem says; the latter only where it says so."""
    mass = change = Fraction(0)
    told = True
    for a, b in runs:
        size = 1 - r ** (b - a + 1)
        if q < a:
            mass += r ** (a - q) * size
        elif q > b:
            mass += r ** (q - b) * size
        else:
            mass += 1 + r - r ** (q - a + 1) - r ** (b - q + 1)
        if q + k < a:
            change += r ** (a - q - k) * (1 - r**k) * size
        elif q > b:
            change -= r ** (q - b) * (1 - r**k) * size
        elif a <= q and q + k <= b:
            change += (1 - r**k) * (r ** (q - a + 1) - r ** (b - q - k + 1))
        else:
            told = False
    return mass, change, told


def test_the_masses_are_those_of_the_theorem_and_their_change_where_it_says():
    r, seen = Fraction(3, 5), set()
    for runs in (((0, 4), (9, 12)), ((0, 0), (3, 3), (8, 14)), ((0, 9),)):
        top = runs[-1][1]
        y = {
            q: (1 - r) * sum(r ** abs(y - q) for a, b in runs for y in range(a, b + 1))
            for q in range(top + 1)
        }
        for q in range(top + 1):
            for k in range(1, top - q + 1):
                mass, change, told = of_the_theorem(runs, r, q, k)
                assert mass == y[q]
                assert change == y[q + k] - y[q] or not told
                asked = LaplaceSums(GridSet(runs), Fraction(1, 2)).change(q, q, k)
                assert (asked is not None) == told
                seen.add(told)
    assert seen == {True, False}
    # The broken twin: the sum without the run that holds 3 and not 7 has the wrong sign.
    runs = ((0, 4), (9, 12))
    assert of_the_theorem(runs, r, 3, 4)[1] > 0
    assert of_the_theorem(runs, r, 7, 1)[0] < of_the_theorem(runs, r, 3, 1)[0]


@pytest.mark.parametrize(("first", "last"), [(4, 4), (3, 6), (17, 18)])
def test_a_change_across_a_run_edge_is_not_bounded_term_by_term(first, last):
    """The terms change their form at an edge: there only the masses themselves are bounded."""
    assert LaplaceSums(GridSet(((0, 5), (20, 45))), Fraction(1, 9)).change(first, last, 3) is None


def test_a_change_that_is_not_bounded_would_understate_the_loss(monkeypatch):
    """The broken twin: a change of nothing, claimed for every stretch."""
    runs, distance, rate = ((0, 30), (36, 60)), 10, Fraction(1, 6)
    honest = worst_ratio(LaplaceSums(GridSet(runs), rate), distance, Fraction(0))

    def careless(self, first, last, distance):
        return Fraction(0), Fraction(0)

    monkeypatch.setattr(LaplaceSums, "change", careless)
    broken = worst_ratio(LaplaceSums(GridSet(runs), rate), distance, Fraction(0))
    assert math.log(broken) + distance * rate < float(brute_loss(runs, rate, distance)) - 0.1
    assert math.log(honest) + distance * rate >= float(brute_loss(runs, rate, distance))


def test_few_stretches_settle_a_wide_union(monkeypatch):
    """A million points with a gap: tens of stretches; by the masses alone it takes thousands."""
    allowed = GridSet(((0, 400_000), (410_000, 1_000_000)))
    request = GridRequest(allowed, 1_000, Fraction(1, 100), point_masses=False)
    looked = []
    honest = closed_form_laplace._ratio

    def counted(sums, *stretch):
        looked.append(stretch)
        return honest(sums, *stretch)

    monkeypatch.setattr(closed_form_laplace, "_ratio", counted)
    law = BoundedLaplaceWideLaw.calibrate(request)
    assert law.certificate.epsilon_upper == request.epsilon
    assert len(looked) < 200
    few, looked[:] = len(looked), []
    monkeypatch.setattr(LaplaceSums, "change", lambda *_: None)

    class MoreThanTenTimesAsMany(Exception):
        """Ends what would take thousands."""

    def limited(sums, *stretch):
        if len(looked) > 10 * few:
            raise MoreThanTenTimesAsMany
        return counted(sums, *stretch)

    monkeypatch.setattr(closed_form_laplace, "_ratio", limited)
    with pytest.raises(MoreThanTenTimesAsMany):
        law.certify()


def _log(x):
    import mpmath

    with mpmath.workdps(PRECISE):
        return mpmath.log(x)


def test_a_bound_that_takes_all_its_splits_is_not_asked_for_again_and_again(monkeypatch):
    """Each such bound of a plan costs seconds; the rate goes down by what the first one is above."""
    asked = []

    def counted(sums, distance, enough):
        asked.append(distance)
        return worst_ratio(sums, distance, enough)

    monkeypatch.setattr(closed_form_laplace, "worst_ratio", counted)
    monkeypatch.setattr(closed_form_laplace, "_MOST_SPLITS", 200)
    allowed = GridSet.from_runs([(0, 400_000), (600_000, 1_000_000)])
    request = GridRequest(allowed, sensitivity=262_144, epsilon=Fraction(292, 100))
    law = BoundedLaplaceWideLaw.calibrate(request)
    assert 2 <= len(asked) <= 3  # a step of 2^-32 that doubles would ask ten times
    assert law.certify().epsilon_upper <= request.epsilon


@pytest.mark.parametrize(
    "runs", [((0, 10**9),), ((0, 4 * 10**8), (4 * 10**8 + 2000, 10**9))], ids=["interval", "gap"]
)
def test_a_thousand_million_points(runs):
    request = GridRequest(GridSet(runs), 1000, Fraction(1, 2), point_masses=False)
    [law] = BoundedLaplace.grid_laws(request)
    assert law.certificate.ratio <= exp_lower(request.epsilon)
    answers = np.array([0, 10**9, 4 * 10**8 + 999, -(10**12), 10**12] * 2000)
    out = law.draw_raw(answers, ReplayBits("wide"))
    assert law.allowed.contains(out).all()
    again = law_from_json(law.to_json())
    assert again.certify() == law.certificate
    low, high = law.interval(out[:50])
    assert (low <= high).all()


@pytest.mark.statistical
@pytest.mark.parametrize("q", [0, 30, 47, 100], ids=["end", "inside", "in the gap", "other end"])
def test_draws_fit_the_law_and_a_wrong_rate_is_caught(q):
    law = BoundedLaplaceWideLaw.calibrate(
        GridRequest(GridSet(((0, 40), (50, 100))), 8, Fraction(1), point_masses=False)
    )
    draws = law.draw_raw(np.full(20_000, q), ReplayBits(f"fit {q}"))

    def p_value(rate):
        points = law.allowed.points()
        weight = np.exp(-float(rate) * np.abs(points - q))
        expected = 20_000 * weight / weight.sum()
        seen = np.array([np.count_nonzero(draws == y) for y in points])
        order = np.argsort(expected)
        bins = np.add.reduceat(np.stack([seen, expected])[:, order], range(0, 91, 7), axis=1)
        return stats.chisquare(bins[0], bins[1]).pvalue

    assert p_value(law.rate) > 1e-6
    assert p_value(law.rate * Fraction(7, 10)) < 1e-6
    assert p_value(law.rate * Fraction(13, 10)) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("q", some([0, 30, 47, 100], 2))
def test_draws_wider_than_the_hull_and_draws_by_inversion_fit_the_same_law(q, monkeypatch):
    allowed = GridSet(((0, 40), (50, 100)))
    for rate, few in ((Fraction(1, 120), 32), (Fraction(1, 120), 0), (Fraction(1, 30), 1)):
        monkeypatch.setattr("dprelease.core.entropy.FEW_ROUNDS", few)
        law = BoundedLaplaceWideLaw(allowed, 8, Fraction(1), "absolute", rate)
        count = 20_000 if few == 32 else 800
        draws = law.draw_raw(np.full(count, q), ReplayBits(f"flat {q} {few}"))
        points = allowed.points()

        def p_value(rate, draws=draws, points=points):
            weight = np.exp(-float(rate) * np.abs(points - q))
            expected = draws.size * weight / weight.sum()
            seen = np.array([np.count_nonzero(draws == y) for y in points])
            bins = np.add.reduceat(
                np.stack([seen, expected])[:, np.argsort(expected)], range(0, 91, 7), axis=1
            )
            return stats.chisquare(bins[0], bins[1]).pvalue

        assert p_value(rate) > 1e-6
        assert p_value(rate + Fraction(1, 30)) < 1e-6


@pytest.mark.parametrize(
    ("runs", "rate", "q"),
    [
        (
            ((0, 0), (10**9, 10**9)),
            Fraction(1, 10),
            5 * 10**8,
        ),  # noise lands in D once in e**(5 * 10**7)
        (((0, 10**6),), Fraction(1, 10**14), 0),  # a domain narrower than the noise by eight orders
        (((-(2**60), 2**60),), Fraction(1, 2**62), 2**60),
    ],
)
def test_no_answer_is_given_up_however_unlikely_noise_is_to_land_in_the_domain(runs, rate, q):
    law = BoundedLaplaceWideLaw(GridSet(runs), 1, Fraction(1), "absolute", rate)
    drawn = law.draw_raw(np.full(40, q), ReplayBits("never given up"))
    assert law.allowed.contains(drawn).all()
    assert np.unique(drawn).size >= 2


def test_a_million_points_at_a_small_epsilon_are_drawn():
    """The domain is narrower than the noise by five orders: rejection hardly ever ended."""
    unit = BoundedLaplace.calibrate(Domain(0, 10**6), sensitivity=10**6, epsilon="1e-5").on_grid(1)
    drawn = unit.draw(np.zeros(200))
    assert 3 * 10**5 < drawn.mean() < 7 * 10**5


@pytest.mark.parametrize(
    ("runs", "distance", "rate"),
    [
        (((0, 0), (30, 60)), 10, Fraction(1, 6)),
        (((0, 5), (25, 25), (140, 150)), 9, Fraction(1, 4)),
        (((0, 0), (300, 400)), 3, Fraction(20)),  # e**-3000 in the midst: no power of it may vanish
    ],
)
def test_a_stretch_inside_a_gap_is_bounded_by_its_two_ends(runs, distance, rate):
    masses = LaplaceSums(GridSet(runs), rate)
    for (_, left), (right, _) in pairwise(runs):
        for q in range(left, right - distance + 1, 7):
            apart = abs(_log(mass(runs, rate, q + distance)) - _log(mass(runs, rate, q)))
            bound = math.log(masses.across(left, right, q, distance))
            assert float(apart) == pytest.approx(bound, rel=1e-12, abs=1e-12)
    true = float(brute_loss(runs, rate, distance))
    worst = math.log(worst_ratio(masses, distance, Fraction(0))) + distance * rate
    assert true * (1 - 1e-12) <= worst <= true * (1 + 1e-9)


def test_without_the_pairs_inside_a_gap_the_loss_would_be_understated(monkeypatch):
    """The broken twin: nothing changes inside a gap."""
    runs, distance, rate = ((0, 0), (30, 60)), 10, Fraction(1, 6)
    monkeypatch.setattr(LaplaceSums, "across", lambda *_: Fraction(1))
    broken = math.log(worst_ratio(LaplaceSums(GridSet(runs), rate), distance, Fraction(0)))
    assert broken + distance * rate < float(brute_loss(runs, rate, distance)) - 0.03


def test_gaps_of_any_width_have_a_law_of_about_half_the_rate():
    """One step changes Z by a factor of e**rate at most, which the midst of a wide gap attains."""
    runs = ((0, 10), (10**9, 2 * 10**9))
    (law,) = BoundedLaplace.grid_laws(
        GridRequest(GridSet(runs), 10, Fraction(1), point_masses=False)
    )
    assert law.certificate.epsilon_upper == 20 * law.rate <= 1
    assert law.rate == pytest.approx(Fraction(1, 20), rel=1e-8)
    drawn = law.draw_raw(np.array([5, 5 * 10**8, 15 * 10**8]), ReplayBits("a wide gap"))
    assert law.allowed.contains(drawn).all()
    error = law.expected_error()
    assert error.worst == pytest.approx(5 * 10**8, rel=1e-3)
    # The control: at more than half of the rate the proof states a loss above what was asked for.
    loud = BoundedLaplaceWideLaw(law.allowed, 10, Fraction(1), "absolute", Fraction(21, 400))
    assert loud.certify().epsilon_upper > Fraction(104, 100)


def test_a_claim_below_the_loss_shows():
    law = BoundedLaplaceWideLaw.calibrate(
        GridRequest(GridSet(((0, 10**7),)), 10, Fraction(1), point_masses=False)
    )
    stored = {**law.to_json(), "sensitivity": "11"}
    assert law_from_json(stored).certify().epsilon_upper > 1


@pytest.mark.parametrize("loss", ["absolute", "squared"])
@pytest.mark.parametrize("rate", ["5", "1", "1/3", "1/100", "1/300000"])
@pytest.mark.parametrize(
    "runs", [((0, 300),), ((-7, -7), (0, 0), (2, 40)), ((-500, -100), (-60, -60), (0, 300))]
)
def test_stated_errors_are_those_of_the_law(runs, rate, loss):
    """A trapezium over distances left out the change by one step: a hundredth of the squared error at ε = 5."""
    law = BoundedLaplaceWideLaw(GridSet(runs), 8, Fraction(1), loss, Fraction(rate))
    q = np.arange(runs[0][0], runs[-1][1] + 1, 37)
    power = 1 if loss == "absolute" else 2
    exact = [sum(p * abs(y - a) ** power for y, p in law.pmf(int(a)).items()) for a in q]
    assert law.errors(q) == pytest.approx(exact, rel=1e-6)
    for error, direct in zip(law.errors(q), exact, strict=True):
        assert error > 0.99 * direct > 0
