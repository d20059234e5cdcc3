"""The bounded query as public JSON, so that the plan's hash covers it and a stranger reads it.

Written: every code (column, allowed runs, step, null default), every primitive, the filter and how
the cells are cleaned that expressions read, the window, the contribution bounds and the intervals they
hold in. Read back, a condition becomes what it is to the arithmetic, a 0/1 code whose column is the condition's
text, with a default where it is never null (`known`); that is enough to recompute every sensitivity, and
cannot be run against rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from fractions import Fraction
from typing import Any

from dprelease.codec import decode, encode
from dprelease.numeric import fraction_from_json, whole_from_json, whole_or_none
from dprelease.query.bounded import (
    BoundedQuery,
    Code,
    Condition,
    Fixed,
    GroupKeys,
    Label,
    Near,
    Primitive,
    Window,
)
from dprelease.query.cleaning import cleaning_json, read_by_expressions
from dprelease.query.intervals import Intervals
from dprelease.query.never_null import never_null
from dprelease.query.view import View
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet

__all__ = ["task_from_json", "task_to_json"]


def task_to_json(query: BoundedQuery) -> dict[str, Any]:
    """Return `query` as JSON data; the group keys themselves are in the plan."""
    window = query.window
    return {
        "codes": [_code(c, query.columns) for c in query.codes],
        "primitives": [_primitive(p) for p in query.primitives],
        "groups": [
            {"column": c.name, "other": c.other, "null": c.null_key} for c in query.groups.columns
        ],
        "where": query.where.canonical if query.where else None,
        "window": None
        if window is None
        else [window.column, window.start.isoformat(), window.end.isoformat()],
        "user": query.user,
        "max_groups": query.max_groups,
        "max_rows": query.max_rows,
        "max_rows_total": query.max_rows_total,
        # left out where there is none: plans without them keep their hash
        **(
            {
                "derived": [
                    {"column": d.column, "from": d.expression.canonical}
                    for d in sorted(query.derived, key=lambda d: d.column)
                ]
            }
            if query.derived
            else {}
        ),
        **({"cleaned": cleaned} if (cleaned := _cleaned(query)) else {}),
        **({"view": _view(query.view)} if query.view is not None else {}),
        **({"per": encode(query.per)} if query.per is not None else {}),
    }


def _cleaned(query: BoundedQuery) -> list[dict[str, Any]]:
    """Return how the cells that expressions read are cleaned; of codes it is in the codes."""
    read = read_by_expressions(query)
    columns = sorted(query.columns, key=lambda column: column.name)  # their order decides nothing
    return cleaning_json(c for c in columns if c.name in read)


def _view(view: View) -> dict[str, Any]:
    return {"sql": view.sql, "proven": view.proven, "keeps_rows": view.keeps_rows}


def _primitive(p: Primitive) -> dict[str, Any]:
    pair = {} if p.other is None else {"other": p.other, "other_power": p.other_power}
    return {
        "kind": p.kind,
        "code": p.code,
        "power": p.power,
        "low": str(p.low),
        "high": str(p.high),
        "max_rows": p.max_rows,
        **pair,
        **({"near": [str(v) for v in astuple(p.near)]} if p.near is not None else {}),
    }


def _code(code: Code, columns: Sequence[Column]) -> dict[str, Any]:
    if isinstance(code, Condition):
        known = {"known": True} if never_null(code.expression, columns) else {}
        return {"condition": code.expression.canonical, **known}
    if isinstance(code, Label):
        if code.values == _numbers(len(code.values)):  # the nodes of a large graph
            return {"column": code.column, "numbers": len(code.values)}
        return {"column": code.column, "values": list(code.values)}
    return {
        "column": code.column,
        "runs": [[str(a), str(b)] for a, b in code.grid.runs],
        "step": str(code.step),
        "default": None if code.default is None else str(code.default),
    }


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def task_from_json(value: Mapping[str, Any], keys: Sequence[Sequence[str]]) -> BoundedQuery:
    """Return the query for re-checking (not for running)."""
    codes: list[Code] = []
    for code in value["codes"]:
        if "condition" in code:
            known = 0 if code.get("known") is True else None  # else a row may be left out
            codes.append(Fixed(code["condition"], GridSet(((0, 1),)), Fraction(1), known))
        elif "numbers" in code:
            codes.append(Label(code["column"], _numbers(whole_from_json(code["numbers"], least=0))))
        elif "values" in code:
            codes.append(Label(code["column"], tuple(code["values"])))
        else:
            runs = tuple((whole_from_json(a), whole_from_json(b)) for a, b in code["runs"])
            default = whole_or_none(code["default"])
            codes.append(
                Fixed(code["column"], GridSet(runs), fraction_from_json(code["step"]), default)
            )
    groups = tuple(
        Column(g["column"], Kind.category, other=g["other"], null_label=g["null"])
        for g in value["groups"]
    )
    window = value["window"]
    return BoundedQuery(
        columns=groups,
        groups=GroupKeys(groups, tuple(tuple(k) for k in keys)),
        codes=tuple(codes),
        primitives=tuple(
            Primitive(
                kind=p["kind"],
                code=whole_or_none(p["code"], least=0),
                power=whole_from_json(p["power"], least=0),
                low=whole_from_json(p["low"]),
                high=whole_from_json(p["high"]),
                max_rows=whole_or_none(p["max_rows"], least=1),
                other=whole_or_none(p.get("other"), least=0),
                other_power=whole_from_json(p.get("other_power", 0), least=0),
                near=Near(*(whole_from_json(v) for v in p["near"])) if "near" in p else None,
            )
            for p in value["primitives"]
        ),
        window=None
        if window is None
        else Window(
            window[0], datetime.fromisoformat(window[1]), datetime.fromisoformat(window[2])
        ),
        user=value["user"],
        max_groups=whole_from_json(value["max_groups"], least=1),
        max_rows=whole_from_json(value["max_rows"], least=1),
        max_rows_total=whole_or_none(value["max_rows_total"], least=1),
        view=View(**value["view"]) if "view" in value else None,
        per=None if "per" not in value else decode(Intervals, value["per"]),
    )
