"""How fine a table is published, planned: what is refused before the charge, what is paid, what is said."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError, InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.one_fit import OneFit
from dprelease.statistics.exact import exact_cells, summed
from dprelease.wall import execute
from tests.several_tables import BOTH, USER, people, schema

COUNT = ["count"]
MEANS = ["count", "mean(income)", {"statistic": "mean(income)", "as": "again"}]
PERSONS = ["count", "count(persons)"]
RELATIVE = {"statistic": "count", "max_relative_error": 0.2}
NATION = {"name": "nation", "by": [], "statistics": COUNT}
REGIONS = {"name": "regions", "by": ["region"], "statistics": COUNT}
PLACES_ = {"name": "places", "by": ["district"], "statistics": COUNT}
SEXES = {"name": "sexes", "by": ["sex"], "statistics": COUNT}
FINE = {"name": "fine", "by": ["district", "sex"], "statistics": COUNT, "detail": RELATIVE}
ALL_FOUR = [NATION, REGIONS, PLACES_, FINE]


def with_detail(**changed: Any) -> dict[str, Any]:
    return {**FINE, "detail": {**RELATIVE, **changed}}


def planned(tables: list[dict[str, Any]], **changed: Any) -> ReleasePlan:
    return dp.plan(schema(tables, **changed))


HIERARCHY = {
    "place": {"levels": ["land", "district"], "keys": [["all", f"d{i}"] for i in range(6)]}
}
REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str, str]] = {
    "no goal": ([NATION, {**FINE, "detail": {"statistic": "count"}}], {}, "DPR154", "no goal"),
    "no statistic": ([NATION, with_detail(statistic="n")], {}, "DPR154", "publishes no `n`"),
    "a goal of nothing": ([NATION, with_detail(max_relative_error=0)], {}, "DPR119", "above 0"),
    "a share of nothing to pay": (
        [NATION, {**FINE, "detail": {"statistic": "count", "max_error": 5, "share": 0.1}}],
        {}, "DPR154", "needs none",
    ),
    "all of epsilon": ([NATION, with_detail(share=1)], {}, "DPR154", "less than 1"),
    "no level": ([NATION, with_detail(levels=[])], {}, "DPR154", "names no table"),
    "two details": ([{**PLACES_, "detail": RELATIVE}, FINE], {}, "DPR154", "two tables"),
    "not the finest": ([NATION, {**PLACES_, "detail": RELATIVE}, {**FINE, "detail": None}], {}, "DPR295", "give `detail` to `fine`"),
    "no coarser table": ([FINE], {}, "DPR295", "not one: none"),
    "two next coarser ones": ([SEXES, PLACES_, FINE], {}, "DPR295", "sexes, places"),
    "an unknown level": ([NATION, with_detail(levels=["towns"])], {}, "DPR295", "`towns` is not a coarser"),
    "itself": ([NATION, with_detail(levels=["fine"])], {}, "DPR295", "`fine` is not a coarser"),
    "levels that cross": ([SEXES, PLACES_, with_detail(levels=["sexes", "places"])], {}, "DPR295", "not coarser than"),
    "levels upside down": ([*ALL_FOUR[:3], with_detail(levels=["places", "regions"])], {}, "DPR295", "not coarser than"),
    "a level twice": ([*ALL_FOUR[:3], with_detail(levels=["places", "places"])], {}, "DPR295", "not coarser than"),
    "a level without its statistics": (
        [{**NATION, "statistics": BOTH}, PLACES_, {**with_detail(levels=["places"]), "statistics": BOTH}],
        {}, "DPR295", "add to the statistics of `places`: sum(income)",
    ),
    "no coarser table with its statistics": (
        [NATION, PLACES_, {**with_detail(), "statistics": BOTH}],
        {}, "DPR295", "add to the statistics of `places`: sum(income)",
    ),
    "a number that may be negative": (
        [{**NATION, "statistics": BOTH}, {**FINE, "statistics": BOTH, "detail": {**RELATIVE, "statistic": "sum_income"}}],
        {}, "DPR295", "never negative",
    ),
    "several bins": (
        [{**NATION, "statistics": ["histogram(age, [0, 50, 100])"]},
         {**FINE, "statistics": [{"statistic": "histogram(age, [0, 50, 100])", "as": "ages"}], "detail": {**RELATIVE, "statistic": "ages"}}],
        {}, "DPR295", "how large",
    ),
    "other allowed values": (
        [NATION, {**FINE, "statistics": [{"statistic": "count", "domain": {"range": [0, 900]}}]}],
        {}, "DPR295", "other allowed values",
    ),
    "a mean twice": (
        [{**NATION, "statistics": MEANS}, {**FINE, "statistics": MEANS}], {}, "DPR295", "twice",
    ),
    "sizes by a mean": (
        [{**NATION, "statistics": MEANS[:2]}, {**FINE, "statistics": MEANS[:2], "detail": {**RELATIVE, "statistic": "mean_income"}}],
        {}, "DPR295", "how large",
    ),
    "persons that are certain at one level alone": (
        [{**NATION, "statistics": PERSONS}, {**FINE, "statistics": ["count", {"statistic": "count(persons)", "certain": True}]}],
        {"unit": USER, "release": {"delta": "1e-6"}}, "DPR295", "certain in one of `nation` and `fine`",
    ),
    "a level without its persons": (
        [NATION, {**FINE, "statistics": PERSONS}], {"unit": USER}, "DPR295", "add to the statistics of `nation`: count(persons)",
    ),
    "a group called all": (
        [{**NATION, "name": "lands", "by": ["land"]}, {**FINE, "detail": {**RELATIVE, "levels": ["lands"]}}],
        {"hierarchies": HIERARCHY}, "DPR295", "called `all`",
    ),
    "a statistic called level": (
        [{**NATION, "statistics": [{"statistic": "count", "as": "level"}]},
         {**FINE, "statistics": [{"statistic": "count", "as": "level"}], "detail": {**RELATIVE, "statistic": "level"}}],
        {}, "DPR207", "`level`",
    ),
    "shares that leave nothing": (
        [{**NATION, "share": 0.5}, {**with_detail(share=0.2), "share": 0.5}], {}, "DPR220", "too little",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_published_in_detail_is_refused_before_the_charge(name: str) -> None:
    tables, changed, code, said = REFUSED[name]
    with pytest.raises(DpreleaseError) as caught:
        planned(tables, **changed)
    assert (caught.value.code, said in str(caught.value)) == (code, True), str(caught.value)


def test_the_draw_of_sizes_has_its_share_and_is_one_more_block() -> None:
    plain = planned([NATION, PLACES_, {**FINE, "detail": None}])
    plan = planned([NATION, PLACES_, with_detail(share=0.125)])
    assert plan.tables is not None
    assert plan.tables.detail is not None
    sizing = plan.block(plan.tables.detail.block or "")
    assert (sizing.name, sizing.table) == ("places.count-detail", "places")
    assert sizing.epsilon == Fraction(1, 8)
    assert [b.name for b in plan.blocks[:-1]] == [b.name for b in plain.blocks]
    assert sum(b.epsilon for b in plan.blocks) == 1
    assert execute.check(plan) <= 1
    assert all(b.name != sizing.name for b in plan.blocks[:-1])
    fits = [t.block for fit in plan.tables.fits for t in fit.tables]
    assert sizing.name not in fits  # nothing is fitted to it
    assert sizing.name not in [s.block for s in plan.statistics]
    assert planned([NATION, PLACES_, FINE]).block(sizing.name).epsilon == Fraction(1, 20)


@pytest.mark.parametrize("change", ["rate", "epsilon"])
def test_the_wall_refuses_sizes_that_cost_more_than_the_plan_says(change: str) -> None:
    plan = planned([NATION, PLACES_, FINE], unit=USER)
    sizing = plan.blocks[-1]
    if change == "rate":
        law = sizing.law.noise  # type: ignore[attr-defined]
        law = replace(law, noise=replace(law.noise, rate=law.noise.rate * 2))
        forged = replace(sizing, law=replace(sizing.law, noise=law))  # type: ignore[call-arg]
    else:
        forged = replace(sizing, epsilon=sizing.epsilon / 2)
    with pytest.raises(InternalError):
        execute.check(replace(plan, blocks=(*plan.blocks[:-1], forged)))


def test_needs_are_of_the_cells_that_can_hold_a_row() -> None:
    zeros = [["d0", "f"], ["d1", "f"], ["d1", "m"]]
    plan = planned([NATION, PLACES_, {**FINE, "zeros": zeros}])
    assert plan.tables is not None
    assert plan.tables.detail is not None
    variances = OneFit(plan, plan.tables.fits[0], {}).variances["fine"]
    errors = (np.sqrt(2 / np.pi * variances)).reshape(6, 2)
    (needed,) = plan.tables.detail.needed
    assert needed[1] is None  # no row can be in it
    assert needed[0] == math.ceil(errors[0, 1] / 0.2)
    assert list(needed[2:]) == [math.ceil(2 * pair.max() / 0.2) for pair in errors[2:]]


def test_public_errors_alone_cost_nothing_and_are_said() -> None:
    goal = {"statistic": "count", "max_error": 2}
    fine = {**FINE, "detail": goal}
    plan = planned([NATION, PLACES_, fine])
    assert plan.tables is not None
    assert plan.tables.detail is not None
    plain = planned([NATION, PLACES_, {**FINE, "detail": None}])
    assert [b.to_json() for b in plan.blocks] == [b.to_json() for b in plain.blocks]
    assert plan.tables.detail.chosen(None) == [1] * 6
    strict = {**FINE, "detail": {**goal, "max_error": 0.5}}
    said = planned([NATION, PLACES_, strict])
    assert said.tables is not None
    assert said.tables.detail is not None
    assert said.tables.detail.chosen(None) == [0] * 6
    assert any("of 6 groups of places, 6 at places, 0 at fine" in note for note in said.notes)
    both = planned([NATION, PLACES_, {**FINE, "detail": {**RELATIVE, "max_error": 0.5}}])
    assert both.tables is not None
    assert both.tables.detail is not None
    assert both.tables.detail.needed == ((None,) * 6,)
    assert any("no group stands at fine: its errors are too large" in n for n in both.notes)


def test_the_plan_promises_no_share_of_detailed_groups() -> None:
    plan = planned([*ALL_FOUR[:3], with_detail(levels=["regions", "places"])])
    text = str(plan)
    flat = " ".join(text.split())
    assert (
        "each group of regions at the finest where the expected error of count is at most 20 % of the average size"
        in flat
    )
    assert "5 % of the budget, used for nothing else" in flat
    assert "is not known now" in flat
    assert "a group stands at places from a drawn count of" in flat


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_sizes_are_the_bounded_groups_own_sums_in_every_engine(engine: Any) -> None:
    plan = planned([NATION, PLACES_, FINE], unit=USER)
    assert plan.tables is not None
    answer = engine().compute(as_source(people()), plan.query, b"salt").reveal_to_mechanism()
    found = {}
    for block in plan.blocks:
        measurement = block.measurement
        cells = exact_cells(measurement, block.measurement.primitives, answer, len(plan.keys))
        merge = plan.tables.sums(block.table)
        assert merge is not None
        found[block.name] = np.array(summed(cells, *merge)).ravel().astype(int)
    sizes, fine = found["places.count-detail"], found["fine.count"]
    assert sizes.tolist() == fine.reshape(6, 2).sum(axis=1).tolist()
    assert sizes.sum() > 0


# --- persons of several groups: no level is a sum of another -----------------------------------


def of_persons(statistics: list[Any], goal: dict[str, Any], **changed: Any) -> ReleasePlan:
    tables = [{**t, "statistics": statistics} for t in ALL_FOUR]
    tables[-1]["detail"] = {"statistic": "count_persons", "levels": ["regions", "places"], **goal}
    return planned(tables, **{"unit": USER, **changed})


def test_each_level_of_persons_has_its_own_error_and_need() -> None:
    plan = of_persons(["count(persons)"], {"max_relative_error": 0.2})
    assert plan.tables is not None
    assert plan.tables.detail is not None
    errors = {s.table: s.planned_error or 0 for s in plan.statistics}
    assert (
        errors["places"] == errors["fine"]
    )  # a person is in two cells of each, and in two regions
    cells = {"places": 3, "fine": 6}
    for (name, count), needed in zip(cells.items(), plan.tables.detail.needed, strict=True):
        assert set(needed) == {math.ceil(count * errors[name] / 0.2)}
    sizing = plan.block(plan.tables.detail.block or "")
    assert (sizing.name, sizing.table) == ("regions.count_persons-detail", "regions")
    of = plan.block("regions.count_persons").measurement
    assert sizing.measurement.primitives == of.primitives  # the persons of a region, each once
    assert [t.block for f in plan.tables.fits for t in f.tables] == [
        f"{t['name']}.count_persons" for t in ALL_FOUR
    ]


@pytest.mark.parametrize(
    ("statistics", "unit", "said"),
    [
        (["count(persons)"], USER, "stand at regions, and count(persons) of the rows does not add up, as a person"),
        (PERSONS, USER, "add up to every total; count(persons) of the rows does not add up, as a person"),
        (PERSONS, {**USER, "max_groups": 1}, "and the rows add up to every total"),
    ],
)  # fmt: skip
def test_the_plan_says_which_rows_add_up(statistics: list[str], unit: Any, said: str) -> None:
    plan = of_persons(statistics, {"max_error": 50}, unit=unit)
    (note,) = (note for note in plan.notes if note.startswith("rows of fine stand"))
    assert said in note
    assert ("does not add up" in note) == (unit == USER)
    assert ("to every total" in note) == (statistics == PERSONS)


def test_public_errors_of_persons_are_those_of_each_level() -> None:
    """Tables at equal shares have the same error; one that is measured worse is never chosen."""
    plan = of_persons(["count(persons)"], {"max_error": 50})
    assert plan.tables is not None
    assert plan.tables.detail is not None
    (error,) = {s.planned_error for s in plan.statistics if s.table == "fine"}
    tables = [{**t, "statistics": ["count(persons)"]} for t in ALL_FOUR]
    tables[2]["share"] = 0.05
    tables[-1]["detail"] = {
        "statistic": "count_persons",
        "max_error": 2 * (error or 0),
        "levels": ["regions", "places"],
    }
    worse = planned(tables, unit=USER)
    assert worse.tables is not None
    assert worse.tables.detail is not None
    assert worse.tables.detail.needed == ((None, None), (0, 0))
