"""What a plan says of its loss over time, and the window that its loss counts in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dprelease.budget.parallel import worst
from dprelease.pipeline.planned import plan_release
from dprelease.query.bounded import Window
from dprelease.query.calendar import Calendar, window_of
from dprelease.query.load import schema_from_dict
from dprelease.query.read_view import parse_view
from dprelease.release_plan.promise import ledger_window, timeline_of
from tests.schema.test_time import USER, clinic

PERIODS = {"week": "2013-W05", "month": "2013-02", "year": "2013", "day": "2013-02-01"}


def plan(every: str | None = "week", *, view: Any = None, allow: Any = (), **changes: Any) -> Any:
    schema = schema_from_dict(clinic(**changes))
    if every is None:
        return plan_release(schema, view=view)
    calendar = Calendar("at", every, "Europe/Berlin", PERIODS[every], "2025b")
    window = ("at", *window_of(schema, calendar))
    overrides = {"allow": list(allow)} if allow else None
    return plan_release(schema, overrides, window=window, calendar=calendar, view=view)


def said(made: Any) -> str:
    return "\n".join(made.notes)


def test_a_person_of_a_week_and_the_whole_person():
    assert "one who's rows of one week: epsilon 1; one who over all of this release, which meets 1 week: at most 1" in said(plan())  # fmt: skip
    assert "which meets 5 weeks: at most 5" in said(plan("month"))
    assert "one who over all weeks: no bound" in said(plan(None))
    assert "declared never to change" in said(plan())
    assert "releases of disjoint periods do not add up" in said(plan())


def test_without_the_declaration_the_plan_says_what_it_would_save():
    time = {"column": "at", "timezone": "Europe/Berlin"}
    words = said(plan(time=time))
    assert "52 weeks of them, a year, cost epsilon 52" in words
    assert "immutable: true}` in the schema, if it is true, would make that 1" in words
    rows = plan(time=time, unit="row", adjacency="substitution", rows={"exact": 5})
    assert "would make that 2" in said(rows)
    assert "12 months of them, a year, cost epsilon 12" in said(
        plan("month", time=None, unit="row")
    )
    years = said(plan("year", time=None, unit="row"))
    assert "10 years of them cost epsilon 10;" in years and "would make that 1" in years
    person = plan(time=None, unit={k: v for k, v in USER.items() if k != "per"})
    assert "add up" not in said(person)


@pytest.mark.parametrize("unit", ["row", USER])
def test_a_loss_counts_in_the_window_that_the_engine_reads(unit):
    week = ("2013-01-27T23:00:00Z", "2013-02-03T23:00:00Z")
    made = plan(unit=unit)
    assert ledger_window(made) == week
    assert ledger_window(plan(None, unit=unit)) == (None, None)
    assert ledger_window(replace(made, time=None)) == (None, None)
    other = replace(made.query, window=replace(made.query.window, column="day"))
    assert ledger_window(replace(made, query=other)) == (None, None)
    assert isinstance(made.query.window, Window)


def test_a_time_that_may_change_gives_rows_no_window():
    assert ledger_window(plan(unit="row", time={"column": "at", "timezone": "Europe/Berlin"})) == (
        None, None,
    )  # fmt: skip


def test_a_proven_view_keeps_the_window_and_an_unproven_one_loses_it():
    sql = "SELECT v.who, v.at, v.age FROM visits v"
    proven = parse_view(sql, private=["visits"], public=[])
    assert ledger_window(plan(view=proven)) != (None, None)
    wide = parse_view(
        "SELECT DISTINCT who, at, age FROM visits", private=["visits"], public=[],
        allow=["unproven-view"],
    )  # fmt: skip
    made = plan(view=wide, allow=["unproven-view"])
    assert ledger_window(made) == (None, None)
    assert "no bound" in said(made)
    assert "this loss adds up with that of every other release" in said(made)
    assert "do not add up" not in said(made)


@pytest.mark.parametrize(("count", "together"), [(1, 1), (2, 2), (3, 2), (52, 2)])
def test_disjoint_periods_of_replaced_rows_cost_a_pair_and_the_plan_says_so(count, together):
    made = plan(unit="row", adjacency="substitution", rows={"exact": 5})
    assert "at most the two largest of their losses" in said(made)
    assert "do not add up" not in said(made)
    line = timeline_of(made)
    start = made.query.window.start
    windows = [(start + k * timedelta(weeks=1), start + (k + 1) * timedelta(weeks=1)) for k in range(count)]  # fmt: skip
    assert (
        worst([line.instants(w) for w in windows], [made.epsilon] * count, pairs=line.pairs)
        == together
    )
    added = plan(unit="row")
    assert "releases of disjoint periods do not add up" in said(added)
