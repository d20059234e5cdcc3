"""For how many more periods a budget lasts: as many as the ledger then takes."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dprelease.budget import lasting
from dprelease.budget.accountant import Cost
from dprelease.budget.ledger import Ledger
from dprelease.budget.record import Entry, Key
from dprelease.core.errors import BudgetError
from dprelease.core.periods import every_of, following_period, instant_text, parse_period
from tests.budget import populations
from tests.budget.timed import WEEKLY, entry, time, timed_ledger

MONTHLY = json.dumps({"user": "who", "per": "month", "max_groups": 1, "max_rows_per_group": 1})


def following(one: Entry) -> Entry:
    every = every_of(one.key.period)
    name = following_period(one.key.period, every)
    ends = tuple(map(instant_text, parse_period(name, every)))
    key = replace(one.key, period=name)
    return replace(one, key=key, window=ends if one.window[0] else one.window)


def taken(book: Ledger, one: Entry, most: int) -> int:
    """Return how many more periods the ledger takes, charged one after the other."""
    for count in range(most):
        one = following(one)
        try:
            book.charge(one)
        except BudgetError:
            return count
    return most


PERSON: dict[str, Any] = {"time": None, "unit": '{"user": "who"}'}
CASES: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({"epsilon": 4, **PERSON}, {**PERSON, "open_window": True}, 3),
    ({"epsilon": Fraction(7, 2), **PERSON}, {**PERSON, "open_window": True}, 2),
    ({"epsilon": 1, "delta": Fraction(1, 10), **PERSON},
     {**PERSON, "open_window": True, "epsilon": Fraction(1, 9), "delta": Fraction(1, 40)}, 3),
    ({"epsilon": 1}, {}, 100),  # rows of one week each: every week has the whole budget
    ({"epsilon": 2, "adjacency": "substitution"}, {"adjacency": "substitution"}, 100),
    ({"epsilon": Fraction(3, 2), "adjacency": "substitution"}, {"adjacency": "substitution"}, 0),
    ({"epsilon": 1, "unit": WEEKLY}, {"unit": WEEKLY}, 100),
    ({"epsilon": 4, "unit": MONTHLY}, {"unit": MONTHLY}, 6),  # February meets five weeks
    ({"epsilon": 6, "unit": MONTHLY}, {"unit": MONTHLY}, 100),
    ({"epsilon": 1, "delta": Fraction(1, 10**6), "composition": "zcdp", **PERSON},
     {**PERSON, "open_window": True, "epsilon": Fraction(1, 10)}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("budget", "debit", "count"), CASES)
def test_the_ledger_takes_as_many_more_and_no_other(tmp_path, budget, debit, count):
    book = timed_ledger(tmp_path / "l.db", **budget)
    first = entry("2013-W02", **debit)
    book.charge(first)
    said = lasting.lasting(book, first)
    assert said == taken(book, first, 12) or (said == lasting.MOST and taken(book, first, 12) == 12)
    if "composition" not in budget:
        assert said == count
    words = list(lasting.lasting_words(book, "visits"))
    assert len(words) == 1
    assert words[0].startswith("weekly: after 2013-W")
    assert ("a later month may fit again" in words[0]) == (count == 6)


def test_a_population_s_budget_ends_it_too(tmp_path):
    book = populations.joined(tmp_path / "l.db", "a", populations.terms(3))
    populations.joined(tmp_path / "l.db", "b", populations.terms(3))
    book.charge(populations.entry("b", "2013-W02"))
    first = populations.entry("a", "2013-W02")
    book.charge(first)
    assert lasting.lasting(book, first) == 1
    assert taken(book, first, 5) == 1
    [words] = lasting.lasting_words(book, "b")
    assert words.endswith("the budget lasts for 0 more such periods")


def test_what_lasts_is_said_after_the_newest_period_and_of_each_pipeline_alone(tmp_path):
    book = timed_ledger(tmp_path / "l.db", epsilon=9, **PERSON)
    weeks = [entry(week, **PERSON, open_window=True) for week in ("2013-W03", "2013-W02")]
    named = [replace(weeks[0], key=Key("visits", "other", name)) for name in ("v9", "v10")]
    for one in (*weeks, *named):
        book.charge(one)
    assert set(lasting.lasting_words(book, "visits")) == {
        "weekly: after 2013-W03, the budget lasts for 5 more such periods of it alone",
        "other: after v10, the budget lasts for 5 more such periods of it alone",
    }


def test_a_name_that_is_no_period_is_charged_again_and_again(tmp_path):
    book = timed_ledger(tmp_path / "l.db", epsilon=5)
    first = replace(entry("2013-W02"), key=Key("visits", "weekly", "final"))
    book.charge(first)
    assert lasting.lasting(book, first) == 4


@pytest.mark.parametrize(
    ("per", "interval", "epsilon", "count"),
    [
        (None, None, 5, 5),
        ("week", None, 5, 5),
        ("day", None, 15, 2),
        ("day", "week", 7, 100),
        ("day", "week", 6, 0),
    ],
)
def test_a_population_s_whole_budget_pays_for_what_an_empty_ledger_takes(
    tmp_path, per, interval, epsilon, count
):
    shared = populations.terms(epsilon, interval=interval)
    book = populations.joined(tmp_path / "l.db", "a", shared, per=per)
    declared = ("add_remove", populations.unit(per), populations.time(per))
    first = populations.entry("a", "2013-W01", per=per, period="2013-W01")
    assert (
        lasting.whole_of_members(shared, declared, first.epsilon, Fraction(0), "2013-W01") == count
    )
    assert taken(book, first, 12) == min(count, 12)
    always = lasting.whole_of_members(shared, declared, first.epsilon, Fraction(0), "")
    assert always == (count if per is None else 0 if interval is None else epsilon // 7)


def test_a_whole_budget_without_a_debit():
    from dprelease.budget.timeline import timeline

    for adjacency, budget, count in (
        ("add_remove", 1, 100),
        ("substitution", 1, 1),
        ("substitution", 2, 100),
        ("add_remove", Fraction(1, 2), 0),
    ):
        line = timeline(adjacency, '"row"', time())
        assert lasting.whole(Cost.stated(budget, 0), Cost.stated(1, 0), line, "2013-01") == count
