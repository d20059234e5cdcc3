"""Every family of measurements has one object, and what it says of itself holds for what is offered."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest

from dprelease.core import registry
from dprelease.core.errors import PlanError
from dprelease.measurements.base import MeasurementFamily, family_named
from dprelease.measurements.law import Law
from dprelease.planning.layout import layout
from dprelease.query.bounded import BoundedQuery, GroupKeys
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.statistics.measurement import Family, Form, Measurement
from tests.golden.plan_cases import cases


@cache
def offered() -> list[Measurement]:
    """Return the measurements that every tenth of the recorded requests may be drawn by."""
    found: list[Measurement] = []
    for schema in list(cases().values())[::10]:
        table = Schema.from_dict(schema)
        with suppress(PlanError):
            for block in layout(resolve(table, merge_release(table))):
                found += block.options
    return found


FAMILIES = tuple(map(family_named, registry.names("measurements")))


def test_every_family_has_one_measurement_of_its_name() -> None:
    assert {kind.family for kind in FAMILIES} == set(Family.__args__)
    assert {f for kind in FAMILIES for f in kind.forms} == set(Form.__args__)


def test_those_that_join_statistics_are_asked() -> None:
    joining = [k.family for k in FAMILIES if type(k).together is not MeasurementFamily.together]
    assert tuple(joining) == registry.JOINING


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.family)
def test_what_draws_it_is_registered(kind: MeasurementFamily) -> None:
    for tag in kind.draws:
        law = registry.load("draws", tag)
        assert isinstance(law, type)
        assert issubclass(law, Law)
        assert law.tag == tag
    assert kind.free or kind.pins()


def test_offered_measurements_are_made_as_their_family_says() -> None:
    seen = set()
    for measurement in offered():
        assert measurement.form in family_named(measurement.family).forms
        seen.add(measurement.family)
    assert len(seen) > 8


class Odd:
    """A law of no measurement."""

    tag = "odd"


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.family)
def test_cells_or_laws_of_another_measurement_are_refused(kind: MeasurementFamily) -> None:
    own = next((e for e in offered() if e.family == kind.family), None)
    if own is None:
        own = replace(offered()[0], family=kind.family, form=kind.forms[0])  # type: ignore[arg-type]
    task, law = BoundedQuery((), GroupKeys((), ((),)), (), ()), Odd()
    assert kind.refusal(own, law, task, ()) == f"{kind.family} has laws of its own"  # type: ignore[arg-type]
    law.tag = kind.draws[0]
    wrong = replace(own, form="odd")  # type: ignore[arg-type]
    assert "is not made of odd cells" in kind.refusal(wrong, law, task, ())  # type: ignore[arg-type]
