"""A plan's hash is of what it decides: words may be corrected, decisions may not."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dprelease.release_plan.plan import ReleasePlan, plan_hash
from tests.folders import CASES, COLUMNS, FULL, planned, schema

WORDS = {"statistics": {"measure", "sensitivity", "error_text", "notes", "remark"}, "": {"notes"}}


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


def test_every_part_but_words_is_hashed() -> None:
    """One part at a time is changed, of each object of the plan."""
    plan = json.loads(json.dumps(CASES["a delta"]().to_json()))
    whole = plan_hash(plan)
    for name in plan:
        changed = plan_hash({**plan, name: plan[name] if name == "statistics" else "another"})
        assert (changed == whole) == (name in {"statistics", *WORDS[""]}), name
    for part in ("statistics", "blocks"):
        for name in plan[part][0]:
            first = {**plan[part][0], name: "another"}
            changed = plan_hash({**plan, part: [first, *plan[part][1:]]})
            assert (changed == whole) == (name in WORDS.get(part, ())), name


def test_what_is_allowed_without_a_proof_is_decided() -> None:
    plan = plan_of()
    assert replace(plan, allow=("visible-timeout",)).hash != plan.hash
    assert plan_of(allow=["visible-timeout"]).allow == ("visible-timeout",)
    assert plan.epsilon == Fraction(2)
