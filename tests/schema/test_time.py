"""The schema's time: what is read, what is refused, and that it is part of request and plan."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.core.errors import ConfigError, PlanError
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import schema_from_dict
from dprelease.query.read_view import parse_view
from dprelease.schema.time import Time
from dprelease.schema.unit import UserUnit, describe, unit_from_json, unit_to_json
from dprelease.schema.written import schema_to_json

USER = {"user": "who", "per": "week", "max_groups": 1, "max_rows_per_group": 2}


def clinic(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "dprelease": "schema/1",
        "name": "clinic",
        "unit": USER,
        "adjacency": "add_remove",
        "time": {"column": "at", "timezone": "Europe/Berlin", "immutable": True},
        "rows": {"max": 100},
        "columns": {
            "who": {"kind": "identifier"},
            "at": {"kind": "timestamp"},
            "day": {"kind": "date"},
            "late": {"kind": "date", "from": "day"},
            "age": {"kind": "integer", "range": [0, 100]},
        },
        "release": {"epsilon": 1, "statistics": ["count"]},
    }
    return {k: v for k, v in {**base, **changes}.items() if v is not None}


def test_a_time_and_a_unit_of_one_interval():
    schema = schema_from_dict(clinic())
    assert schema.time == Time("at", "Europe/Berlin", immutable=True)
    assert schema.unit == UserUnit("who", 1, 2, per="week")
    said = "one who's rows of one week (at most 2 rows in one group), added or removed"
    assert describe(schema.adjacency, schema.unit) == said
    shown = schema._repr_html_()
    assert said.replace("'", "&#x27;") in shown
    assert "at in Europe/Berlin, declared never to change" in shown
    dates = schema_from_dict(clinic(time={"column": "day"}))
    assert dates.time == Time("day", dates=True)
    assert "day, may change between runs" in dates._repr_html_()


@pytest.mark.parametrize("per", ["day", "week", "month", "quarter", "year"])
def test_a_unit_goes_to_json_and_back(per):
    unit = UserUnit("who", 1, 2, 3, per=per)
    assert unit_from_json(unit_to_json(unit)) == unit
    with pytest.raises(Exception, match="none of the known values"):
        unit_from_json({**USER, "per": "fortnight"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"time": None}, "DPR152"),
        ({"time": {"column": "then"}}, "DPR122"),
        ({"time": {"column": "age"}}, "DPR152"),
        ({"time": {"column": "late"}}, "DPR152"),
        ({"time": {"column": "at", "timezone": "Mars/Olympus"}}, "DPR152"),
        ({"time": {"column": "at", "zone": "UTC"}}, "DPR110"),
        ({"time": {"column": "at", "immutable": "perhaps"}}, "DPR112"),
        ({"unit": {**USER, "per": "fortnight"}}, "DPR112"),
    ],
)
def test_a_faulty_time_is_refused_with_its_code(changes, code):
    with pytest.raises(ConfigError) as caught:
        schema_from_dict(clinic(**changes))
    assert caught.value.code == code


def test_edges_have_no_instant():
    graph = {"edge": {"source": "a", "target": "b", "k": 1, "nodes": 3}}
    columns = {"a": {"kind": "node"}, "b": {"kind": "node"}, "at": {"kind": "date"}}
    given = clinic(unit=graph, columns=columns, release=None)
    with pytest.raises(ConfigError, match="an edge has no instant"):
        schema_from_dict({**given, "time": {"column": "at", "immutable": True}})
    assert schema_from_dict({**given, "time": {"column": "at"}}).time is not None


def test_a_schema_is_read_back_as_it_was_written():
    schema = schema_from_dict(clinic())
    again = schema_from_dict(schema_to_json(schema))
    assert (again.time, again.unit) == (schema.time, schema.unit)


def test_the_plans_hash_covers_the_time_and_its_promise():
    made = {plan_release(schema_from_dict(clinic())).hash}
    for time in ({"column": "at"}, {"column": "day", "immutable": True}):
        made.add(plan_release(schema_from_dict(clinic(time=time))).hash)
    made.add(plan_release(schema_from_dict(clinic(unit={**USER, "per": "month"}))).hash)
    assert len(made) == 4
    plan = plan_release(schema_from_dict(clinic()))
    assert type(plan).from_json(plan.to_json()).hash == plan.hash


def test_a_view_passes_the_time_on_as_it_is_stored():
    schema = schema_from_dict(clinic())
    good = parse_view("SELECT v.who, v.at, v.age FROM visits v", private=["visits"], public=[])
    assert plan_release(schema, view=good).query.view is good
    moved = "SELECT v.who, coalesce(v.day, v.at) AS at, v.age FROM visits v"
    public = "SELECT v.who, p.at, v.age FROM visits v LEFT JOIN p ON p.k = v.age"
    for sql in (moved, public, "SELECT v.who, v.age FROM visits v"):
        with pytest.raises(PlanError, match="`at` on as it is stored"):
            plan_release(schema, view=parse_view(sql, private=["visits"], public=["p"]))


@pytest.mark.parametrize("unit", ["row", USER])
def test_a_view_does_not_call_another_column_the_time(unit):
    """Two stored times under one name would lay one row into two windows that count as disjoint."""
    schema = schema_from_dict(clinic(unit=unit))
    other = "SELECT v.who, v.day AS at, v.age FROM visits v"
    for sql in (other, "SELECT who, day AS at, age FROM visits"):
        with pytest.raises(PlanError, match=r"takes `\w+\.day` for the time") as caught:
            plan_release(schema, view=parse_view(sql, private=["visits"], public=[]))
        assert caught.value.code == "DPR263"
        assert "column: day" in str(caught.value.fix)
    same = "SELECT v.who, v.at AS at, v.age FROM visits v"
    assert plan_release(schema, view=parse_view(same, private=["visits"], public=[])).hash


def test_a_time_that_no_loss_is_added_up_by_may_have_another_name():
    view = parse_view("SELECT v.who, v.day AS at, v.age FROM visits v", private=["visits"], public=[])  # fmt: skip
    person = {name: part for name, part in USER.items() if name != "per"}
    for schema in (clinic(unit=person), clinic(unit="row", time={"column": "at"})):
        assert plan_release(schema_from_dict(schema), view=view).query.view is view


def test_a_period_is_of_the_declared_time():
    from datetime import UTC, datetime

    window = ("day", datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 8, tzinfo=UTC))
    with pytest.raises(PlanError, match="the table's time is `at`"):
        plan_release(schema_from_dict(clinic()), window=window)
