"""The budget's two pictures: heights and places from exact numbers, nothing invented."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dprelease.measurements.candidate import Option
from dprelease.results.formats.budget_figures import HEIGHT, budget_figure, price_list
from dprelease.results.formats.public_words import PublicWords
from dprelease.schema.domain import Domain
from tests.results.formats import releases


def figure(history, total, epsilon):
    return budget_figure(
        {"spent": history[-1], "total": total, "history": history}, Fraction(epsilon)
    )


def test_what_is_left_falls_debit_by_debit_and_then_as_this_one_would():
    found = figure(["1", "3/2", "2"], "4", "1/2")
    burn = found["burn"]
    assert [b.kind for b in burn.bars] == ["past", "past", "this", *["next"] * 4]
    assert [b.left for b in burn.bars] == ["3", "2.5", "2", "1.5", "1", "0.5", "0"]
    assert [b.height for b in burn.bars][:3] == [HEIGHT * 0.75, HEIGHT * 0.625, HEIGHT * 0.5]
    assert burn.more == 4
    assert (found["before_share"], found["this_share"]) == (37.5, 12.5)
    assert [b.name for b in burn.bars][1:4] == ["1 before", "this release", "1 more"]


def test_losses_that_do_not_add_up_promise_no_further_release():
    burn = figure(["1", "6/5"], "4", "1/2")["burn"]
    assert burn.more is None
    assert {b.kind for b in burn.bars} == {"past", "this"}


def test_a_spent_budget_fits_nothing_more():
    assert figure(["1", "2"], "2", "1")["burn"].more == 0


def test_an_older_manifest_has_the_bar_alone():
    found = budget_figure({"spent": "1", "total": "4"}, Fraction(1, 2))
    assert found["burn"] is None
    assert (found["before_share"], found["this_share"]) == (12.5, 12.5)
    assert budget_figure(None, Fraction(1)) is None
    assert budget_figure({"spent": "0", "total": "0"}, Fraction(1)) is None


@given(st.lists(st.fractions("1/10", 3, max_denominator=20), min_size=1, max_size=24))
def test_bars_stay_inside_the_picture(debits):
    history = [sum(debits[: i + 1], Fraction(0)) for i in range(len(debits))]
    total = history[-1] * 2
    burn = figure([str(h) for h in history], str(total), str(debits[-1]))["burn"]
    for bar in burn.bars:
        assert bar.at >= 0 and bar.at + bar.width <= 100.01
        assert burn.top <= bar.y <= burn.base
        assert abs(bar.y + bar.height - burn.base) < 0.02
    heights = [b.height for b in burn.bars]
    assert heights == sorted(heights, reverse=True)


def statistics():
    options = (Option("staircase", 2.0),)
    return [
        releases.statistic("count", "count", Domain(0, 9), "1", block="b", options=options),
        releases.statistic("m", "median(x)", Domain(0, 9), "1", block="b"),
    ]


def manifest(*what_if, loss="absolute"):
    points = [{"epsilon": e, "errors": errors} for e, errors in what_if]
    return {"guarantee": {"epsilon": "1"}, "plan": {"loss": loss}, "what_if": points}


def test_a_curve_holds_the_plan_s_own_figure_and_the_manifest_s():
    found = price_list(
        manifest(("1/2", {"count": 4.0}), ("2", {"count": 1.0})),
        statistics(),
        PublicWords("clinic").titled,
    )
    (curve,) = found["curves"]  # a median has no expected error
    assert [(s.epsilon, s.error, s.now) for s in curve.steps] == [
        ("0.5", "±4", False), ("1", "±2", True), ("2", "±1", False),
    ]  # fmt: skip
    heights = [curve.base - s.y for s in curve.steps]
    assert [round(h / heights[0], 2) for h in heights] == [1, 0.5, 0.25]  # from 0, in proportion
    assert [e["now"] for e in found["epsilons"]] == [False, True, False]


def test_squared_loss_is_shown_as_its_root():
    found = price_list(
        manifest(("2", {"count": 1.0}), loss="squared"), statistics(), PublicWords("clinic").titled
    )
    assert found["curves"][0].steps[0].error == "±1.41"


def test_nothing_to_compare_is_not_a_picture():
    assert price_list(manifest(), statistics(), PublicWords("clinic").titled) is None
    assert price_list(manifest(("2", {})), statistics(), PublicWords("clinic").titled) is None
    assert (
        price_list(
            {"guarantee": {"epsilon": "1"}, "plan": {"loss": "absolute"}},
            statistics(),
            PublicWords("clinic").titled,
        )
        is None
    )
