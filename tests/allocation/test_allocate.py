"""The split of a budget: fixed shares, the closed forms, and never more than was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.allocation.allocate import allocate
from dprelease.errors import PlanError
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import layout
from tests.planning.requests import PUBLIC_X, asked, planned

NANO = Fraction(1, 10**9)


def blocks(count: int, **options: Sequence[object]) -> tuple[BlockLayout, ...]:
    """Return one block per sum, with the i-th of every option's values."""
    statistics: list[dict[str, Any]] = []
    for i in range(count):
        given_ = {k: v[i] for k, v in options.items() if v[i] is not None}
        statistics.append({"statistic": "sum(x)", "as": f"s{i}", **given_})
    return layout(asked(statistics))


def split(
    laid: Sequence[BlockLayout],
    errors: Sequence[float],
    epsilon: Fraction = Fraction(1),
    loss: Literal["absolute", "squared"] = "absolute",
) -> list[Fraction]:
    by_name = dict(zip([b.name for b in laid], errors, strict=True))
    return list(allocate(laid, epsilon, loss, lambda b, _: by_name[b.name]))


def test_absolute_error_follows_the_square_root() -> None:
    one, two = split(blocks(2), [0.01, 0.09])
    assert float(two / one) == pytest.approx(3, rel=1e-6)


def test_squared_error_follows_two_thirds_of_the_power() -> None:
    """The c of the closed form is a scale: eps ~ (w c^2)^(1/3), not c^(1/3)."""
    one, two = split(blocks(2), [0.01, 0.08], loss="squared")
    assert float(two / one) == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize(("loss", "power"), [("absolute", 1), ("squared", 2)])
def test_the_closed_form_is_a_minimum(loss: Literal["absolute", "squared"], power: int) -> None:
    c, w = [0.02, 0.11, 0.3], [1.0, 2.0, 5.0]
    got = [float(e) for e in split(blocks(3, weight=w), c, loss=loss)]

    def total(epsilons: Sequence[float]) -> float:
        return sum(wi * ci**power / e**power for wi, ci, e in zip(w, c, epsilons, strict=True))

    best = total(got)
    for i in range(3):
        for j in range(3):
            moved = list(got)
            moved[i], moved[j] = moved[i] + 0.02, moved[j] - 0.02
            if i != j:
                assert total(moved) > best


def test_weights_steer_and_shares_fix() -> None:
    one, two = split(blocks(2, weight=[1, 4]), [0.1, 0.1])
    assert float(two / one) == pytest.approx(2, rel=1e-6)
    fixed, rest = split(blocks(2, share=["0.35", None]), [0.1, 0.1])
    assert (fixed, rest) == (Fraction(35, 100), Fraction(65, 100))


@given(
    st.fractions("1/1000000", 10, max_denominator=10**12),
    st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=7),
    st.sampled_from(["absolute", "squared"]),
)
def test_never_more_than_asked_and_whole_nano_units(
    epsilon: Fraction, errors: list[float], loss: Literal["absolute", "squared"]
) -> None:
    try:
        got = split(blocks(len(errors)), errors, epsilon, loss)
    except PlanError as problem:
        if problem.code != "DPR221":
            raise
        return
    assert sum(got, Fraction(0)) <= epsilon
    assert epsilon - sum(got, Fraction(0)) < (len(errors) + 1) * NANO
    assert all(e > 0 and (e / NANO).denominator == 1 for e in got)


def test_a_public_constant_costs_nothing_even_with_a_share() -> None:
    query = asked(
        [{"statistic": "count", "share": 0.5}, "mean(x)"],
        adjacency="substitution",
        rows={"exact": 900},
        x=PUBLIC_X,
    )
    laid = layout(query)
    constant, mean = split(laid, [0.0, 0.1])
    assert constant == 0 < mean <= 1


class TestRefusals:
    def test_shares_that_leave_nothing(self) -> None:
        with pytest.raises(PlanError, match="add up to 1 of the budget") as caught:
            split(blocks(2, share=[1, None]), [0.1, 0.1])
        assert caught.value.code == "DPR220"
        assert "nothing is left for s1" in (caught.value.why or "")
        assert "item 2" in (caught.value.where or "")
        assert "lower a `share`" in (caught.value.fix or "")

    def test_shares_of_exactly_one_between_all(self) -> None:
        assert split(blocks(2, share=["0.25", "0.75"]), [0.1, 0.1]) == [
            Fraction(1, 4),
            Fraction(3, 4),
        ]

    @pytest.mark.parametrize("epsilon", ["0.000000001", "0.0000000005"])
    def test_less_than_one_nano_unit(self, epsilon: str) -> None:
        with pytest.raises(PlanError, match="less than one nano-unit") as caught:
            split(blocks(2), [0.1, 0.1], Fraction(epsilon))
        assert caught.value.code == "DPR221"
        assert "raise epsilon" in (caught.value.fix or "")


def test_one_block_of_three_statistics_has_one_budget() -> None:
    plan = planned(["mean(x)", "variance(x)", "std(x)", "count"], epsilon=2)
    assert [b.name for b in plan.blocks] == ["mean_x+variance_x+std_x", "count"]
    assert sum(b.epsilon for b in plan.blocks) == 2
    assert {s.block for s in plan.statistics} == {b.name for b in plan.blocks}
    assert math.isclose(float(plan.epsilon), 2)


# --- large budgets ----------------------------------------------------------------------------


def exponential(rates: Sequence[float]) -> Any:
    """Return prices of errors e^(-rate epsilon), as laws of whole numbers have them."""

    def price(laid: Sequence[BlockLayout]) -> Any:
        places = {b.name: i for i, b in enumerate(laid)}
        return lambda block, e: math.exp(-rates[places[block.name]] * float(e)) + 1e-28

    return price


@pytest.mark.parametrize("loss", ["absolute", "squared"])
@pytest.mark.parametrize("epsilon", [60, 300, 1000])
@pytest.mark.parametrize("rates", [(1.0, 0.1), (0.02, 1.0), (1.0, 0.3, 0.05)])
def test_no_block_is_left_without_a_budget_for_another_one(
    epsilon: int, rates: tuple[float, ...], loss: Literal["absolute", "squared"]
) -> None:
    """The closed form gave 99.9 % to the block with the largest error left, and the others had none."""
    laid = blocks(len(rates))
    price = exponential(rates)(laid)
    found = allocate(laid, Fraction(epsilon), loss, price)
    power = 1 if loss == "absolute" else 2
    even = Fraction(epsilon, len(rates))
    total = sum(price(b, e) ** power for b, e in zip(laid, found, strict=True))
    assert total <= sum(price(b, even) ** power for b in laid) * (1 + 1e-9)
    assert sum(found) == epsilon


@pytest.mark.parametrize("loss", ["absolute", "squared"])
@pytest.mark.parametrize("epsilon", [100, 300, 1000])
@pytest.mark.parametrize(
    "statistics", [["count", "median(x)"], ["sum(x)", "sum(y)"], ["count", "mean(x)"]]
)
def test_a_large_budget_is_shared(epsilon: int, statistics: list[str], loss: str) -> None:
    y = {"kind": "number", "range": [0, 500_000], "step": 0.01}
    rows = {"max": 1000, "expected": 300}
    plan = planned(statistics, epsilon=epsilon, rows=rows, columns={"y": y}, loss=loss)
    assert min(b.epsilon for b in plan.blocks) >= plan.epsilon / 20
