"""The split of a budget: fixed shares, the closed forms, and never more than was asked for."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.allocation.allocate import allocate, widened
from dprelease.core.errors import PlanError
from dprelease.measurements.members import BlockLayout, Loss
from dprelease.planning.layout import layout
from tests.planning.requests import PUBLIC_X, asked, planned

NANO = Fraction(1, 10**9)
LOSSES: tuple[Loss, ...] = ("absolute", "squared")


def blocks(count: int, **options: Sequence[object]) -> tuple[BlockLayout, ...]:
    """Return one block per sum, with the i-th of every option's values."""
    statistics: list[dict[str, Any]] = []
    for i in range(count):
        given_ = {k: v[i] for k, v in options.items() if v[i] is not None}
        statistics.append({"statistic": "sum(x)", "as": f"s{i}", **given_})
    return layout(asked(statistics))


def split(
    laid: Sequence[BlockLayout],
    epsilon: Fraction = Fraction(1),
    loss: Loss = "absolute",
    *,
    concentrated: bool = False,
) -> list[Fraction]:
    return list(allocate(laid, epsilon, loss, concentrated=concentrated))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("concentrated", [False, True])
def test_each_statistic_has_an_equal_part(loss: Loss, concentrated: bool) -> None:
    laid = layout(asked(["mean(x)", "variance(x)", "std(x)", "count"]))
    assert [len(b.members) for b in laid] == [3, 1]
    assert split(laid, loss=loss, concentrated=concentrated) == [Fraction(3, 4), Fraction(1, 4)]


def test_what_is_published_beside_a_statistic_asks_for_no_part() -> None:
    """The limits of a winsorised mean come with it."""
    laid = layout(asked([{"statistic": "mean(x)", "winsorize": 0.1}, "count"]))
    assert [len(b.members) for b in laid] == [3, 1]
    assert split(laid) == [Fraction(1, 2)] * 2


@pytest.mark.parametrize(("loss", "power"), [("absolute", 1), ("squared", 2)])
@pytest.mark.parametrize(("concentrated", "falls"), [(False, 1.0), (True, 0.5)])
def test_the_closed_form_is_a_minimum(
    loss: Loss, power: int, concentrated: bool, falls: float
) -> None:
    """Of one statistic, of three in one block that are drawn as well as three alone, and of a heavy one."""
    statistics = ["mean(x)", "variance(x)", "std(x)", {"statistic": "count", "weight": 5}, "sum(x)"]
    laid = layout(asked(statistics))
    w, s = [3.0, 5.0, 1.0], [3, 1, 1]
    got = [float(e) for e in split(laid, loss=loss, concentrated=concentrated)]

    def total(amounts: Sequence[float]) -> float:
        each = zip(w, s, amounts, strict=True)
        return float(sum(wi * (si / 5 / e) ** (falls * power) for wi, si, e in each))

    best = total(got)
    for i in range(3):
        for j in range(3):
            moved = list(got)
            moved[i], moved[j] = moved[i] + 0.02, moved[j] - 0.02
            if i != j:
                assert total(moved) > best


def test_weights_steer_and_shares_fix() -> None:
    one, two = split(blocks(2, weight=[1, 4]))
    assert float(two / one) == pytest.approx(2, rel=1e-6)
    one, two = split(blocks(2, weight=[1, 8]), loss="squared")
    assert float(two / one) == pytest.approx(2, rel=1e-6)
    fixed, rest = split(blocks(2, share=["0.35", None]))
    assert (fixed, rest) == (Fraction(35, 100), Fraction(65, 100))


@given(
    st.fractions("1/1000000", 10, max_denominator=10**12),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=7),
    st.sampled_from(LOSSES),
)
def test_never_more_than_asked_and_whole_nano_units(
    epsilon: Fraction, weights: list[int], loss: Loss
) -> None:
    try:
        got = split(blocks(len(weights), weight=[w / 1000 for w in weights]), epsilon, loss)
    except PlanError as problem:
        if problem.code != "DPR221":
            raise
        return
    assert sum(got, Fraction(0)) <= epsilon
    assert epsilon - sum(got, Fraction(0)) < (len(weights) + 1) * NANO
    assert all(e > 0 and (e / NANO).denominator == 1 for e in got)


def test_a_public_constant_costs_nothing_even_with_a_share() -> None:
    query = asked(
        [{"statistic": "count", "share": 0.5}, "mean(x)"],
        adjacency="substitution",
        rows={"exact": 900},
        x=PUBLIC_X,
    )
    laid = layout(query)
    constant, mean = split(laid)
    assert constant == 0 < mean <= 1


class TestRefusals:
    def test_shares_that_leave_nothing(self) -> None:
        with pytest.raises(PlanError, match="add up to 1 of the budget") as caught:
            split(blocks(2, share=[1, None]))
        assert caught.value.code == "DPR220"
        assert "nothing is left for s1" in (caught.value.why or "")
        assert "item 2" in (caught.value.where or "")
        assert "lower a `share`" in (caught.value.fix or "")

    def test_shares_of_exactly_one_between_all(self) -> None:
        assert split(blocks(2, share=["0.25", "0.75"])) == [
            Fraction(1, 4),
            Fraction(3, 4),
        ]

    @pytest.mark.parametrize("epsilon", ["0.000000001", "0.0000000005"])
    def test_less_than_one_nano_unit(self, epsilon: str) -> None:
        with pytest.raises(PlanError, match="less than one nano-unit") as caught:
            split(blocks(2), epsilon=Fraction(epsilon))
        assert caught.value.code == "DPR221"
        assert "raise epsilon" in (caught.value.fix or "")


def test_one_block_of_three_statistics_has_one_budget() -> None:
    plan = planned(["mean(x)", "variance(x)", "std(x)", "count"], epsilon=2)
    assert [b.name for b in plan.blocks] == ["mean_x+variance_x+std_x", "count"]
    assert sum(b.epsilon for b in plan.blocks) == 2
    assert {s.block for s in plan.statistics} == {b.name for b in plan.blocks}
    assert math.isclose(float(plan.epsilon), 2)


@pytest.mark.parametrize("loss", ["absolute", "squared"])
@pytest.mark.parametrize("epsilon", [100, 300, 1000])
@pytest.mark.parametrize(
    "statistics", [["count", "median(x)"], ["sum(x)", "sum(y)"], ["count", "mean(x)"]]
)
def test_a_large_budget_is_shared(epsilon: int, statistics: list[str], loss: Loss) -> None:
    y = {"kind": "number", "range": [0, 500_000], "step": 0.01}
    rows = {"max": 1000, "expected": 300}
    plan = planned(statistics, epsilon=epsilon, rows=rows, columns={"y": y}, loss=loss)
    assert min(b.epsilon for b in plan.blocks) >= plan.epsilon / 20


@given(st.integers(0, 2**32))
def test_shares_are_raised_as_far_as_their_types_allow(seed: int) -> None:
    """One type attains 1, none passes it, nothing falls, and no other shares within the types are worth more."""
    draw = random.Random(seed)
    count = draw.randint(2, 5)
    types = [[1.0] * count if draw.random() < 0.2 else _parts_of(draw, count) for _ in range(6)]
    worth = [draw.uniform(0.1, 1) for _ in range(count)]
    shares = [w / sum(worth) for w in worth]
    types.append([draw.choice([0.5, 1.0]) for _ in shares])  # each costs something

    def most(wider: Sequence[float]) -> float:
        return max(sum(map(math.prod, zip(wider, parts, strict=True))) for parts in types)

    def value(wider: Sequence[float]) -> float:
        return sum(s * math.log(w) for s, w in zip(shares, wider, strict=True))

    wider = widened(shares, types)
    assert 1 - 1e-8 < most(wider) <= 1
    assert all(w >= 0.98 * s for s, w in zip(shares, wider, strict=True))
    for _ in range(20):
        other = [w * draw.uniform(0.5, 2) for w in wider]
        assert value([w / most(other) for w in other]) <= value(wider) + 2e-3


def _parts_of(draw: random.Random, count: int) -> list[float]:
    return [draw.choice([0, 0.5, 1.0]) for _ in range(count)]


def test_the_nation_and_its_districts_have_equal_rates() -> None:
    """A row that leaves costs the nation's whole and half of the fine table's; one that moves the fine table's alone."""
    assert widened([0.5, 0.5], [[1, 0.5], [0, 1]]) == pytest.approx((0.5, 1), abs=5e-3)


def test_parts_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every block again, 400 counts took a second more of each verification."""
    added = []

    class Part(Fraction):
        def __radd__(self, other: Any) -> Fraction:
            added.append(other)
            return Fraction(other) + Fraction(self)

    monkeypatch.setattr("dprelease.allocation.allocate._parts", lambda *_: Part(1))
    assert split(blocks(7)) == [Fraction(142857142, 10**9)] * 6 + [Fraction(142857148, 10**9)]
    assert len(added) == 7
