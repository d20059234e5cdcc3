"""A plan's hash is of what it decides: words may be corrected, and floating point may have other last digits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import dprelease as dp
from dprelease.release_plan.identity import former_hash, is_hash_of, plan_hash
from dprelease.release_plan.plan import ReleasePlan
from tests import several_tables
from tests.folders import CASES, COLUMNS, COUNT, FULL, planned, schema
from tests.sizes import some

INFORM = {
    "statistics": {
        "measure", "sensitivity", "error_text", "notes", "remark",
        "options", "planned_error", "group_errors", "uninformative",
    },
    "blocks": {"certificate"},
    "": {"notes"},
}  # fmt: skip
"""What a plan says for readers, in words and figures, and what follows from its laws."""

MEANS = [{**table, "statistics": ["count", "mean(income)"]} for table in several_tables.TREE]


def tables() -> ReleasePlan:
    return dp.plan(several_tables.schema(MEANS))


PINNED = {
    mechanism: lambda mechanism=mechanism: planned(
        schema({"epsilon": 1.5, "statistics": [{**COUNT, "mechanism": mechanism}]})
    )
    for mechanism in ("bounded_laplace", "bounded_gaussian", "rectified_laplace", "staircase")
}


def plan_of(*, measure: str = "years", note: str = "as every year", **changes: Any) -> ReleasePlan:
    columns = {**COLUMNS, "age": {**COLUMNS["age"], "measure": measure}}
    count = {"statistic": "count", "note": note}
    return planned(schema({**FULL, "statistics": [count, "mean(age)"], **changes}, columns=columns))


def test_a_corrected_unit_or_remark_is_the_same_plan() -> None:
    plan, corrected = plan_of(), plan_of(measure="Jahre", note="as in no other year")
    assert plan.to_json() != corrected.to_json()
    assert plan.hash == corrected.hash


@pytest.mark.parametrize(
    "change",
    [{"where": "age >= 19"}, {"epsilon": 2.5}, {"by": ["treated"]}, {"loss": "squared"}],
)
def test_another_request_is_another_plan(change: dict[str, Any]) -> None:
    assert plan_of(**change).hash != plan_of().hash


def test_every_part_but_words_and_figures_is_hashed() -> None:
    """One part at a time is changed, of each object of the plan."""
    plan = json.loads(json.dumps(CASES["a delta"]().to_json()))
    whole = plan_hash(plan)
    for name in plan:
        other = "another" if not isinstance(plan[name], list) else [] if plan[name] else ["another"]
        changed = plan_hash({**plan, name: plan[name] if name == "statistics" else other})
        assert (changed == whole) == (name in {"statistics", *INFORM[""]}), name
    for part in ("statistics", "blocks"):
        for name in plan[part][0]:
            first = {**plan[part][0], name: "another"}
            changed = plan_hash({**plan, part: [first, *plan[part][1:]]})
            assert (changed == whole) == (name in INFORM[part]), name


def test_what_is_allowed_without_a_proof_is_decided() -> None:
    plan = plan_of()
    assert replace(plan, allow=("visible-timeout",)).hash != plan.hash
    assert plan_of(allow=["visible-timeout"]).allow == ("visible-timeout",)
    assert plan.epsilon == Fraction(2)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, Mapping | list):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in pairs:
            yield from _leaves(part, (*path, key))
    else:
        yield path, value


def _changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    copy[path[0]] = _changed(value[path[0]], path[1:], new)
    return copy


@cache
def _plan(make: Callable[[], ReleasePlan]) -> Any:
    return json.loads(json.dumps(make().to_json()))


@pytest.mark.parametrize("name", some([*CASES, "tables"], 3))
def test_the_last_digits_of_figures_are_not_hashed(name: str) -> None:
    """Each float of a plan moves by its last digit, as between two versions of numpy."""
    plan = moved = _plan(tables if name == "tables" else CASES[name])
    floats = [(path, leaf) for path, leaf in _leaves(plan) if isinstance(leaf, float)]
    for path, leaf in floats:
        moved = _changed(moved, path, math.nextafter(leaf, math.inf))
    assert plan_hash(moved) == plan_hash(plan)
    assert not floats or former_hash(moved) != former_hash(plan)


@pytest.mark.parametrize("mechanism", ["bounded_laplace", "bounded_gaussian"])
def test_the_last_digits_of_a_proposed_law_are_not_hashed(mechanism: str) -> None:
    """A root finder proposes it. A scale that is a millionth wider is another law."""
    plan = _plan(PINNED[mechanism])
    ((path, p),) = [(at, leaf) for at, leaf in _leaves(plan["blocks"][0]["law"]) if at[-1] == "p"]
    at = ("blocks", 0, "law", *path)
    gap = (1 << int(p).bit_length()) - int(p)
    near = _changed(plan, at, str(int(p) + gap // 10**12))
    assert plan_hash(near) == plan_hash(plan)
    wider = _changed(plan, at, str(int(p) + gap // 10**6))
    assert plan_hash(wider) != plan_hash(plan)


@pytest.mark.parametrize("name", [*PINNED, "tables"])
def test_every_number_of_a_law_or_a_table_is_hashed(name: str) -> None:
    plan = _plan(tables if name == "tables" else PINNED[name])
    whole = plan_hash(plan)
    parts = {"blocks": 0, "tables": None} if name == "tables" else {"blocks": 0}
    for part, index in parts.items():
        inside = plan[part] if index is None else plan[part][index]
        at = (part,) if index is None else (part, index)
        for path, leaf in _leaves(inside):
            if set(path) & (INFORM["blocks"] | INFORM["statistics"]) or isinstance(leaf, bool):
                continue
            other = leaf + 1 if isinstance(leaf, int | float) else f"{leaf or ''}1"
            assert plan_hash(_changed(plan, (*at, *path), other)) != whole, path


def test_both_hashes_are_of_the_plan_and_no_other_is() -> None:
    plan, other = _plan(CASES["a week"]), _plan(CASES["groups of users"])
    assert is_hash_of(plan_hash(plan), plan) and is_hash_of(former_hash(plan), plan)
    assert plan_hash(plan) != former_hash(plan)
    assert not is_hash_of(plan_hash(other), plan) and not is_hash_of(former_hash(other), plan)
