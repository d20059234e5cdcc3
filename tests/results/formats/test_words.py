from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import dprelease as dp
from dprelease.core import registry
from dprelease.results.formats.public_words import planned_words
from dprelease.results.formats.words import (
    heading,
    mechanism_words,
    name_words,
    odds,
    period_words,
    short,
)
from dprelease.statistics.base import kind_named


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        ("count", "count", "Number of rows"),
        ("mean(age)", "mean", "Mean of age"),
        ("proportion(a > (1 + 2))", "proportion", "Share of rows with a > (1 + 2)"),
        ("histogram(hour, [5, 9])", "histogram", "Distribution of hour"),
        ("quantile(age, 0.9)", "quantile", "Quantile 0.9 of age"),
        ("correlation(a, b)", "correlation", "Correlation of a and b"),
        ("entropy(a)", "entropy", "entropy(a)"),
        ("algebraic_connectivity", "algebraic_connectivity", "Algebraic connectivity"),
    ],
)
def test_a_heading_names_the_statistic_in_words(text, function, words):
    assert heading(text, function) == words


def test_a_column_in_quotes_has_its_title():
    assert heading('mean("Body (g)")', "mean", {"Body (g)": "Body mass"}) == "Mean of body mass"
    assert heading('mean("Body (g)")', "mean") == "Mean of Body (g)"


def test_periods_and_names():
    assert period_words("2013-W05") == "week 5 of 2013"
    assert period_words("2013-02") == "February 2013"
    assert period_words("2013-02-01") == "1 February 2013"
    assert period_words("2013-13") == "2013-13"
    assert period_words("once") == ""
    assert name_words("clinic_weekly") == "Clinic weekly"
    assert mechanism_words("bounded_laplace") == "bounded Laplace"


def test_losses_are_never_rounded_down():
    assert short(Fraction(1, 2)) == "0.5"
    assert float(short(Fraction(1, 3))) >= 1 / 3
    assert Fraction(short(Fraction(10**12 - 1, 10**12))) >= Fraction(10**12 - 1, 10**12)
    assert odds(Fraction(1)) == ("2.72", "74")
    assert odds(Fraction(9))[1] == "99.99"
    assert odds(Fraction(10))[1] == odds(Fraction(1000))[1] == ""  # at most 100 % sure says nothing
    assert odds(Fraction(1000))[0] == "e^1000"


def test_a_heading_that_names_what_is_counted_is_of_a_statistic_that_says_so():
    for name in registry.names("aggregates"):
        statistic_kind = kind_named(name)
        title = statistic_kind.title(("x",)) or statistic_kind.title(())
        assert statistic_kind.counting == title.startswith("Number of"), name


def test_a_count_of_kept_rows_says_so_in_its_heading_and_in_its_plan():
    columns = {
        "who": {"kind": "identifier"},
        "place": {"kind": "category", "values": ["a", "b", "c"]},
    }
    asked = {
        "epsilon": 1,
        "by": ["place"],
        "statistics": [
            "count",
            "count(persons)",
            {"statistic": "count", "as": "n", "max_rows_per_group": 4},
        ],
    }
    schema = {
        "dprelease": "schema/1", "name": "t", "adjacency": "add_remove", "rows": {"max": 100}, "columns": columns,
        "unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 1}, "release": asked,
    }  # fmt: skip

    def headings(**changes):
        plan = dp.plan({**schema, **changes})
        words = planned_words(plan)
        return plan, [words.heading(s) for s in plan.statistics]

    plan, found = headings()
    assert found[0] == "Number of rows kept, at most 1 per who in each of 2 groups"
    assert found[2] == "Number of rows kept, at most 4 per who in each of 2 groups"
    assert found[1] == "Number of distinct who, each in at most 2 groups"
    assert "n: the number of rows kept, at most 4 per who" in " ".join(str(plan).split())
    assert "`count(persons)` counts persons" not in " ".join(str(plan).split())
    name = {"one": "patient", "many": "patients", "rows": "visits"}
    one = schema["unit"] | {"max_groups": 1}
    assert headings(unit_name=name, unit=one)[1][1] == "Number of patients, each in at most 1 group"
    assert headings(unit=one | {"max_groups": 3})[1][1] == "Number of distinct who"
    titled = columns | {"who": {"kind": "identifier", "title": "Card number"}}
    assert (
        headings(columns=titled, unit=one | {"max_groups": 3})[1][1]
        == "Number of distinct card number"
    )
    assert planned_words(plan).error(plan.statistics[1]).endswith(" who")  # of what is counted
    assert planned_words(plan).measure(plan.statistics[1]) == "who"
    of_old = replace(planned_words(plan), today=False)  # kept folders are verified by their bytes
    assert of_old.heading(plan.statistics[1]) == "Number of units"
    assert of_old.error(plan.statistics[1]).endswith(" units")
    plan, found = headings(release={**asked, "by": [], "statistics": ["count"]}, unit_name=name)
    assert found == ["Number of visits kept, at most 1 per patient"]
    assert "`count(persons)` counts persons" in " ".join(str(plan).split())
    some = {"epsilon": 1, "statistics": ["count where place = 'a'"]}
    _, found = headings(release=some, unit_name=name)
    assert found == ["Number of visits kept, at most 1 per patient, where place = 'a'"]
    _, found = headings(unit="row", release=some)
    assert found == ["Number of rows, where place = 'a'"]
    _, found = headings(unit="row", release={**asked, "statistics": ["count"]})
    assert found == ["Number of rows"]


def test_a_heading_of_tables_of_which_none_is_the_finest_says_all_rows_of_a_person():
    """They may all lie in one cell."""
    pairs = {"epsilon": 1, "tables": [{"all_pairs": ["a", "b", "c"], "statistics": ["count"]}]}
    schema = {
        "dprelease": "schema/1", "name": "t", "adjacency": "add_remove", "rows": {"max": 100}, "release": pairs,
        "columns": {
            "who": {"kind": "identifier"},
            "at": {"kind": "timestamp"},
            **{name: {"kind": "category", "values": ["x", "y"]} for name in ("a", "b", "c")},
        },
        "time": {"column": "at", "timezone": "UTC"},
        "unit_name": {"one": "patient", "many": "patients", "rows": "visits"},
    }  # fmt: skip
    unit = {"user": "who", "max_groups": 3, "max_rows_per_group": 2}

    def headings(**more):
        plan = dp.plan({**schema, "unit": unit | more}, during="2024-Q2")
        words = planned_words(plan)
        return plan, words, {words.heading(s) for s in plan.statistics}

    plan, words, found = headings(per="month")
    assert found == {"Number of visits kept, at most 6 per patient and month"}
    assert words.protected == "one patient's visits of one month (at most 6 per month)"
    assert plan.statistics[0].notes == ("over rows kept, at most 6 per who and month",)
    assert headings(max_rows=3)[2] == {"Number of visits kept, at most 3 per patient"}
