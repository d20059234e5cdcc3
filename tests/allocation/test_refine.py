"""One step from the closed form: never worse by the planner's prices, the same total, exact."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dprelease.allocation.refine import MOST, refine

FRACTIONS = st.fractions(Fraction(1, 100), 4, max_denominator=1000)
BLOCKS = st.lists(
    st.tuples(FRACTIONS, st.floats(0.1, 10), st.floats(1e-4, 1), st.floats(0.2, 2.5)),
    min_size=1,
    max_size=MOST + 2,
)


def total(budgets, weights, price, power):
    return sum(
        w * price(i, e) ** power for i, (e, w) in enumerate(zip(budgets, weights, strict=True))
    )


@given(BLOCKS, st.sampled_from([1, 2]))
def test_the_total_is_kept_and_the_error_never_grows(blocks, power):
    start, weights, scales, slopes = (list(x) for x in zip(*blocks, strict=True))

    def price(i, e):
        return min(1.0, scales[i] * float(e) ** -slopes[i])

    found = refine(start, weights, price, power)
    assert sum(found) == sum(start)
    assert all(e > 0 for e in found)
    assert total(found, weights, price, power) <= total(start, weights, price, power) * (1 + 1e-12)


def test_power_laws_reach_the_optimum_in_one_step():
    weights, slopes = [1.0, 4.0], [1.0, 1.0]

    def price(i, e):
        return 0.01 * float(e) ** -slopes[i]

    first, second = refine([Fraction(1), Fraction(1)], weights, price, 1)
    assert abs(float(second / first) - 2) < 1e-4  # e_j goes with sqrt(w_j)
    control = refine([first, second], weights, price, 1)
    assert control == (first, second)  # no gain is left, so nothing moves


def test_a_saturated_error_gives_its_budget_away():
    """The closed form funds a hopeless statistic; its price does not fall, so the step does not."""

    def price(i, e):
        return 0.5 * float(e) ** -0.01 if i == 0 else 0.01 / float(e)

    start = [Fraction(9, 10), Fraction(1, 10)]
    first, second = refine(start, [1.0, 1.0], price, 1)
    assert first < start[0]
    assert second > start[1]


def test_what_cannot_be_priced_stays():
    start = [Fraction(1), Fraction(2)]
    assert refine(start, [1.0, 1.0], lambda i, e: float("inf"), 1) == tuple(start)
    assert refine(start, [1.0, 1.0], lambda i, e: 0.3, 1) == tuple(start)  # nothing moves
