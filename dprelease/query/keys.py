"""What groups are made by: a category, a truth value, or in `tables` a level of a hierarchy."""

from __future__ import annotations

import math
import re

from dprelease.core.strict_json import json_text
from dprelease.query.arguments import quoted
from dprelease.query.functions import PARTS
from dprelease.schema.column import Column, Kind
from dprelease.schema.naming import nearest
from dprelease.schema.table import TableSchema

_LISTED = 32
"""The most values that a message lists."""
_SPANS = {"quarter": 4, "month": 12, "weekday": 7}


def unfit_key(
    schema: TableSchema, name: str, *, levels: bool, found: bool = False
) -> tuple[str, str, str] | None:
    """Return what is wrong with `name` in a `by`, its fix and code; None if groups can be made by it.

    Args:
        levels: levels of hierarchies are keys here, as in `tables`; found: its keys are yet to be found.
    """
    column = schema.columns.get(name)
    if column is not None:
        if found and (column.kind is not Kind.category or column.values):
            fix = f"declare `{quoted(name)}: {{kind: category}}`, without values"
            return f"no keys can be found in `{name}`", fix, "DPR136"
        if column.kind is Kind.category and not found and not column.values:
            what = f"the category `{name}` needs either `values` or `values_from`"
            return what, 'add e.g. `values: ["a", "b"]`; or find its keys first', "DPR111"
        if column.kind in (Kind.category, Kind.boolean):
            return None
        return f"cannot group by `{name}`: it is of kind {column.kind}", _declared(column), "DPR136"
    coarser = [level for h in schema.hierarchies.values() for level in h.levels]
    if name in coarser:
        if levels:
            return None
        what = f"`{name}` is a level of a hierarchy, not a column"
        return (
            what,
            f"write `tables: [{{name: by_{name}, by: [{name}], statistics: […]}}]`",
            "DPR122",
        )
    called = re.fullmatch(rf"({'|'.join(PARTS)})\((\w+)\)", name)
    if called and called[2] in schema.columns:
        return f"`{name}` is not a column", _part(called[1], called[2]), "DPR122"
    near = nearest(name, (*schema.columns, *(coarser if levels else ())))
    known = f"declared columns: {', '.join(schema.columns)}"
    return (
        f"unknown column{' or level' * levels} `{name}`",
        f"did you mean `{near}`?" if near else known,
        "DPR122",
    )


def _declared(column: Column) -> str:
    """Return the line that declares the column as a category."""
    if column.derived is None and column.kind in (Kind.date, Kind.timestamp):
        return _part("month", column.name)
    made = "" if column.derived is None else f"from: {json_text(column.derived)}, "
    return _line(column.name, f"{made}values: [{_values(column)}]")


def _part(part: str, name: str) -> str:
    values = ", ".join(map(str, range(1, _SPANS.get(part, 0) + 1))) or "…"
    return _line(
        f"{part}_of_{name}", f"from: {json_text(f'{part}({quoted(name)})')}, values: [{values}]"
    )


def _line(name: str, rest: str) -> str:
    return f"declare `{quoted(name)}: {{kind: category, {rest}}}` with all public values, and group by it"


def _values(column: Column) -> str:
    ends = (
        None
        if column.domain is None
        else (column.domain.exact_pieces[0][0], column.domain.exact_pieces[-1][1])
    )
    if ends is None or math.inf in (-ends[0], ends[1]):
        return "…"
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    whole = range(low, high + 1)
    return ", ".join(map(str, whole)) if len(whole) <= _LISTED else f"{low}, {low + 1}, …, {high}"
