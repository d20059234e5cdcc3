"""The reference of statistics: every option of every one, found out by asking the readers and the planner.

Each statistic is planned once on a small made-up schema, for the mechanisms that are compared, and read
once with each option: what is refused there is refused in a schema.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

from dprelease.core import registry
from dprelease.errors import DpreleaseError
from dprelease.planning.make import make_plan
from dprelease.query.arguments import syntaxes
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.query.statistic_options import OPTIONS
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.json_schema import json_schema
from dprelease.schema.table import TableSchema

_NUMBER = {"kind": "number", "range": [0, 24], "step": 1}
_TABLE: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "example",
    "unit": {"user": "person", "max_groups": 1, "max_rows_per_group": 2},
    "adjacency": "add_remove",
    "rows": {"max": 40, "expected": 20},
    "columns": {
        "person": {"kind": "identifier"},
        **dict.fromkeys(("age", "bmi", "hour"), _NUMBER),
        "income": {"kind": "number", "range": [1, 100], "step": 1},  # for what needs values above 0
        "weight": {"kind": "integer", "range": [1, 50]},
        "deaths": {"kind": "integer", "range": [0, 3], "nulls": {"default": 0}},
        "person_years": {"kind": "integer", "range": [1, 24], "nulls": {"default": 1}},
        "colour": {"kind": "category", "values": ["red", "green"]},
    },
}
_GRAPH = {
    **_TABLE,
    "unit": {"edge": {"source": "a", "target": "b", "k": 1, "nodes": 6}},
    "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
}
_SAMPLES: dict[str, Any] = {
    "as": "named", "domain": {"range": [0, 12]}, "share": 0.5, "weight": 2, "max_error": 1_000_000,
    "expected": 0.5, "spikes": "forbid", "max_rows_per_group": 1,
    "accurate_for": "ranges", "note": "A sentence.", "title": "A heading", "interval": True, "certain": True, "where": "age > 9", "winsorize": 0.1,
    "weighted_by": "weight", "edges_from": Path(__file__).parents[1] / "examples" / "data" / "hours.csv",
}  # fmt: skip
"""A value of each option that is taken wherever the option is; any budget meets the `max_error`, so none is searched for."""
_CONTEXTS = (_TABLE, _GRAPH)
_LARGE = 20
"""An epsilon at which no statistic is so faint that a plan looks for what it would need."""


def page() -> str:
    """Return the page: what each option means, then each statistic with the options it takes."""
    out = ["# Statistics and their options", "", _INTRODUCTION, "", "## Options", ""]
    out += ["| option | value | meaning |", "|---|---|---|"]
    out += [f"| `{name}` | {_value(name)} | {_meaning(name)} |" for name in _options()]
    for function, form in syntaxes().items():
        out += ["", f"## `{form.example}`", "", _sentence(function), ""]
        out += [f"* Takes {form.arity}."]
        if form.sql:
            out.append(f"* In a SELECT: {', '.join(f'`{name}`' for name in form.sql)}.")
        out.append(f"* Options: {', '.join(f'`{name}`' for name in taken(function)) or 'none'}.")
        refused = [name for name in _options() if name not in taken(function)]
        if refused:
            out.append(f"* Not: {', '.join(f'`{name}`' for name in refused)}.")
        out.append(f"* Mechanisms compared: {', '.join(f'`{m}`' for m in compared(function))}.")
    return "\n".join(out) + "\n"


_INTRODUCTION = (
    'A statistic is a text, `mean(age)`, or a mapping with options, `{statistic: "mean(age)", as:'
    " mean_age, max_error: 1}`. This page is made from the code: what it says is taken was taken, what it"
    " says is compared was compared, on a small example."
)


def _options() -> tuple[str, ...]:
    return tuple(name for name in OPTIONS if name != "statistic")


@cache
def _properties() -> dict[str, Any]:
    found = str(json_schema("schema"))
    assert "max_error" in found
    waiting: list[Any] = [json_schema("schema")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "max_error" in part:
                return part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    raise LookupError("max_error")


def _value(name: str) -> str:
    field = _properties()[name]
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    return {"object": "`{range, forbidden, step}`", "integer": "whole number"}.get(
        str(field.get("type")), "text" if field.get("type") == "string" else "number"
    )


def _meaning(name: str) -> str:
    return str(_properties()[name]["description"])


def _sentence(function: str) -> str:
    module = inspect.getmodule(registry.load("aggregates", function))
    text = (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")


@cache
def _schema(which: int) -> TableSchema:
    return schema_from_dict(_CONTEXTS[which], origin="example")


@cache
def _example(function: str) -> tuple[int, str]:
    """Return the schema that a statistic's example is of, and the example in its columns."""
    text = syntaxes()[function].example
    for which in range(len(_CONTEXTS)):
        for known in (text, text.replace("region", "colour"), text.replace("(node)", "(0)")):
            try:
                resolve(_schema(which), merge_release(_schema(which), _release(known), "example"))
            except DpreleaseError:
                continue
            return which, known
    columns = sorted({name for context in _CONTEXTS for name in context["columns"]})
    raise LookupError(
        f"the example of {function}, `{text}`, is refused: ask it of one of the columns {', '.join(columns)}, or add"
        f" what it needs to the sample schemas of {__name__}"
    )


def _release(text: str, epsilon: int = 1, **option: Any) -> dict[str, Any]:
    paid = {"delta": "0.001"} if "certain" in option else {}
    return {"epsilon": epsilon, **paid, "statistics": [{"statistic": text, **option}]}


def _planned(
    which: int, text: str, epsilon: int = 1, *, brief: bool = False, **option: Any
) -> ReleasePlan:
    """Return the plan of one statistic; a brief one where only a refusal is looked for."""
    schema = _schema(which)
    release = merge_release(schema, _release(text, epsilon, **option), "example")
    return make_plan(resolve(schema, release), brief=brief)


@cache
def taken(function: str) -> tuple[str, ...]:
    """Return the options that the statistic takes."""
    which, text = _example(function)
    found = []
    for name in _options():
        sample = compared(function)[-1] if name == "mechanism" else _SAMPLES[name]
        asked = text.partition(", [")[0] + ")" if name == "edges_from" and "[" in text else text
        try:
            _planned(which, asked, _LARGE, brief=True, **{name: sample})
        except DpreleaseError:
            continue
        found.append(name)
    return tuple(found)


@cache
def compared(function: str) -> tuple[str, ...]:
    """Return the mechanisms that the planner compares for the statistic, the best one first."""
    which, text = _example(function)
    plan = _planned(which, text)
    return tuple(dict.fromkeys(o.mechanism for s in plan.statistics for o in s.chosen))
