"""The corpus of natural requests: what it covers, exact errors of its laws, and fixed requests that keep the law of the field."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.benchmarks.test_scripts import load

load("field")  # puts the folder of its modules on the path
FOLDER = Path(__file__).parents[2] / "benchmarks"


def request_of(**levels: Any) -> Any:
    """Return a request of the corpus's kind: 1,000 ages, one count, and what is said."""
    usual = {
        "number": 0, "column": "age", "nulls": 0, "size": 1000, "cap": 100, "expected": "right", "epsilon": 1,
        "delta": 0, "unit": "row", "adjacency": "add_remove", "statistics": 3, "groups": 1,
    }  # fmt: skip
    return load("field_corpus").Request(**(usual | levels))


def asked(request: Any, *texts: str) -> Any:
    """Return the request with statistics of its first column, as the menu of that column writes them."""
    corpus = load("field_corpus")
    menu = {a.text: a for a in corpus._menu(request.columns[0])}
    chosen = tuple(corpus.Asked("count") if t == "count" else menu[t] for t in texts)
    kind = type("Fixed", (type(request),), {"asked": chosen})
    return kind(**{f: getattr(request, f) for f in type(request).__dataclass_fields__})


def bits() -> Any:
    """Return a repeatable source: `ReplayBits` hashes each 32 bytes, a quarter of the time here."""
    return SimpleNamespace(read=np.random.default_rng(11).bytes, system=False)


def measured(request: Any) -> Any:
    return load("field").measured(request, bits())


def test_the_first_hundred_requests_hold_every_pair_of_levels() -> None:
    corpus = load("field_corpus")
    factors = corpus.FACTORS
    wanted = {
        (a, x, b, y)
        for a, b in itertools.combinations(factors, 2)
        for x in factors[a]
        for y in factors[b]
    }
    first = corpus.requests(100)
    assert wanted == {
        (a, getattr(r, a), b, getattr(r, b))
        for r in first
        for a, b in itertools.combinations(factors, 2)
    }
    assert corpus.requests(120)[:100] == first  # more of them change none
    assert all(len({a.text for a in r.asked}) == r.statistics for r in first if r.possible)


def test_the_error_of_a_count_is_that_of_its_noise() -> None:
    (row,) = measured(asked(request_of(), "count"))["statistics"]
    assert row["error"] == pytest.approx(1 / math.sinh(1), rel=1e-6)
    assert (row["sd"], row["mechanism"]) == (0, "discrete_laplace")


def test_the_error_of_a_median_is_the_sum_over_all_ages() -> None:
    """Coins e^(-2k), k a value's score in rows above the least one; of those that fall right one is taken."""
    request = asked(request_of(epsilon=2), "median(age)")
    found = measured(request)["statistics"][0]
    ages = np.sort(load("field_corpus").table_of(request).columns["age"])
    values = np.arange(121)
    below, upto = (np.searchsorted(ages, values, side) for side in ("left", "right"))
    score = np.maximum(below - 500, 500 - upto)
    off = np.maximum(0, score)
    weight = np.exp(
        -2.0 * (score - score.min())
    )  # a row moves n / 2 - rank by half a row either way
    nodes, shares = np.polynomial.legendre.leggauss(500)
    t = (nodes[:, None] + 1) / 2
    others = np.log1p(-t * weight).sum(axis=1, keepdims=True) - np.log1p(-t * weight)
    chance = weight * (shares[:, None] / 2 * np.exp(others)).sum(axis=0)
    assert chance.sum() == pytest.approx(1)
    assert found["error"] == pytest.approx(float(chance @ off), abs=1e-4)


SQL = {
    "mean(age)": "avg(age)",
    "sum(age)": "sum(age)",
    "std(age)": "stddev_pop(age)",
    "variance(age)": "var_pop(age)",
    "median(age)": "quantile_disc(age, 0.5)",
    "quantile(age, 0.9)": "quantile_disc(age, 0.9)",
    "min(age)": "min(age)",
    "count_distinct(age)": "count(DISTINCT age)",
    "proportion(age >= 65)": "avg((age >= 65)::INT)",
    "proportion(day >= '2022-01-01')": "avg((day >= DATE '2022-01-01')::INT)",
    "proportion(year(day) = 2021)": "avg((year(day) = 2021)::INT)",
    "proportion(weekday(day) >= 6)": "avg((isodow(day) >= 6)::INT)",
    "proportion(quarter(day) = 1)": "avg((quarter(day) = 1)::INT)",
    "proportion(yes)": "avg(yes::INT)",
    "proportion(few = 'c2')": "avg((few = 'c2')::INT)",
    "count_distinct(few)": "count(DISTINCT few)",
}


@pytest.mark.parametrize("column", ["age", "day", "yes", "few"])
def test_exact_statistics_are_those_of_sql(column: str) -> None:
    corpus, laws = load("field_corpus"), load("field_laws")
    table = corpus.table_of(request_of(column=column, nulls=0.05))
    stored, rows, seen = table.arrow(), laws.Rows(table, 0), 0
    for asked_for in corpus._menu(column):
        if asked_for.text in SQL:
            ((wanted,),) = duckdb.sql(f"SELECT {SQL[asked_for.text]} FROM stored").fetchall()
            assert rows.exact(asked_for)[0] == pytest.approx(float(wanted)), asked_for.text
            seen += 1
    assert stored.num_rows == 1000
    assert seen == sum(column in text for text in SQL)


AGES = ("count", "median(age)", "mean(age)")
BINS = "histogram(age, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])"
KEPT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "ages": ({}, AGES),
    "ages by group": ({"groups": 3}, ("count", "proportion(age >= 65)", "mean(age)")),
    "ratings of persons": (
        {"column": "rating", "adjacency": "substitution", "unit": "person"},
        ("count", "mean(rating)", "proportion(rating >= 4)"),
    ),
    "a median of incomes": ({"column": "income", "epsilon": 10}, ("count", "median(income)")),
    "yes or no, with a delta": ({"column": "yes", "delta": 1e-6}, ("count", "proportion(yes)")),
    "a histogram beside a mean": ({}, ("count", "mean(age)", BINS)),
    "a sum under a generous cap": ({"cap": 10_000}, ("count", "sum(age)", "mean(age)")),
}


@pytest.mark.parametrize("name", KEPT)
def test_fixed_requests_keep_the_law_of_the_field(name: str) -> None:
    levels, texts = KEPT[name]
    assert load("field_page").exceptions(measured(asked(request_of(**levels), *texts))) == []


def figures(error: float, *, sd: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return what is measured of one statistic, for made-up figures: alone it errs 10, and 8 are stated to 12."""
    usual = {
        "name": "s0", "text": "mean(x)", "block": "s0", "family": "two_sums", "mechanism": "m", "epsilon": 0.2,
        "rho": None, "error": error, "sd": sd, "step": 1.0, "width": 1e3, "stated": [8.0, 12.0],
        "sized": [8.0, 12.0], "by_rank": False,
    }  # fmt: skip
    alone = {**usual, "error": 10.0, "sd": 0.0, "epsilon": 0.5}
    return {**usual, "alone": alone, "pins": {}, **more}


@pytest.mark.parametrize(
    ("row", "bounds"),
    [
        (figures(11), []),
        (figures(11.1), ["mean"]),
        (figures(14.9), ["mean"]),
        (figures(15.2), ["worst", "mean", "stated"]),
        (figures(30, sd=5), []),  # within four standard errors of each bound
        (figures(30, sd=3), ["worst", "mean", "stated"]),
        (figures(6.5), []),
        (figures(6.3), ["stated"]),
        (figures(6.3, sized=[7.0, 7.0]), ["declared"]),
        (figures(9, sized=[7.0, 7.0]), ["stated"]),
        (figures(10, pins={"other": figures(9.2)}), []),
        (figures(10, pins={"other": figures(9.0)}), ["pin"]),
        (figures(0, sized=[1e-5, 1e-5], stated=[1e-5, 1e-5]), []),  # too rare
        (figures(0, sized=[0.1, 0.1]), ["stated"]),
        (figures(0.9, stated=None, alone=figures(0.01)), []),  # at least a step counts
        (figures(40, by_rank=True, stated=None, alone=figures(2)), ["worst", "mean"]),
    ],
)
def test_a_bound_is_passed_where_it_is_passed(row: dict[str, Any], bounds: list[str]) -> None:
    found = load("field_page").exceptions({"request": vars(request_of()), "statistics": [row]})
    assert [e.bound for e in found] == bounds


def test_an_error_is_stated_for_the_rows_that_a_group_has_and_for_those_that_were_declared() -> (
    None
):
    """A tenth of the rows is declared, and six of ten are null: the plan's figure is 4 times the one for rows that are known."""
    request = request_of(expected="a tenth", nulls=0.6)
    (row,) = measured(asked(request, "proportion(age >= 65)"))["statistics"]
    assert row["stated"][0] == pytest.approx(4 * row["sized"][0], rel=0.1)
    (found,) = load("field_page").exceptions({"request": vars(request), "statistics": [row]})
    assert (found.bound, found.cause) == ("declared", "size")


def test_one_request_of_four_is_judged_by_all_bounds() -> None:
    field, corpus = load("field"), load("field_corpus")
    parts = [field.in_part(r) for r in corpus.requests(400)]
    assert 80 <= sum(parts) <= 120  # of fixed seeds
    request = asked(request_of(), *AGES)
    found = field.measured(request, bits(), by_all=False)
    assert not found["by_all"]
    assert all(s["pins"] == {} and s["sized"] is None for s in found["statistics"])
    assert all(s["alone"]["error"] > 0 for s in found["statistics"])
    page = load("field_page").page([{**found, "seconds": 1.0}])
    assert "0 of them, by chance, were also judged" in page
    assert "| no pin better by more than a tenth | 0 | 0 | 0 |" in page
    assert "| no ratio above 1.5 | 3 | 3 | 0 |" in page


def test_values_that_are_chosen_together_are_drawn_less_often_unless_a_bound_is_open() -> None:
    laws, page = load("field_laws"), load("field_page")
    texts = ("quantile(age, 0.25)", "median(age)", "quantile(age, 0.75)")
    query = load("field").query_of(asked(request_of(), *texts))
    (block,) = load("field").layouts(query)[0]
    assert block.options[0].family in laws.SLOW
    assert 500 * laws.FEWER == laws.DRAWS
    for error, sd, more in (
        (10.0, 1.0, True),
        (10.0, 0.1, False),
        (14.0, 0.3, True),
        (40, 1, False),
    ):
        assert page.open_to_more_of({"s0": figures(error, sd=sd)}, {"s0": figures(10.0)}) is more


def test_the_page_counts_and_lists_every_exception() -> None:
    page = load("field_page")
    many = [
        {"request": vars(request_of(number=i)), "statistics": [figures(e)], "seconds": 1.0}
        for i, e in enumerate((10, 12, 40))
    ]
    text = page.page([*many, {"request": vars(request_of(number=3)), "refused": "late", "seconds": 60.0}], of=4)  # fmt: skip
    assert "3 of the corpus's 4 requests" in text
    assert "| no ratio above 1.5 | 3 | 2 | 1 |" in text
    assert "| mean of a request's ratios at most 1.1 | 3 | 1 | 2 |" in text
    assert text.count("* 2, age, 1,000 rows") == 3  # worst, mean, stated
    assert "* 1 × late" in text
    assert all(
        cause in page.WHY for cause in ("split", "form", "rows", "size", "nulls", "groups", "pin")
    )
