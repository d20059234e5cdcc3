"""A schema written as one mapping, with its key files and its defaults filled in.

The mapping has the shape of a schema file, so the schema reader reads it back, with all its
refusals. Lists that a file named (`values_from`, node files) stand in it themselves; the default
release is left out, as a request states its own.
"""

from __future__ import annotations

from typing import Any

from dprelease.core.numeric import plain
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.hierarchy import hierarchy_to_json
from dprelease.schema.table import Rows, TableSchema
from dprelease.schema.time import time_to_json
from dprelease.schema.unit import unit_to_json


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """Return `schema` as JSON data; equal schemas give equal JSON."""
    return {
        "dprelease": "schema/1",
        "name": schema.name,
        **schema.about.to_json(),
        "unit": unit_to_json(schema.unit),
        "adjacency": schema.adjacency.value,
        **({} if schema.population is None else {"population": schema.population}),
        **({} if schema.time is None else {"time": time_to_json(schema.time)}),
        "rows": _rows(schema.rows),
        "columns": {name: _column(column) for name, column in schema.columns.items()},
        **_hierarchies(schema),
    }


def _hierarchies(schema: TableSchema) -> dict[str, Any]:
    if not schema.hierarchies:
        return {}
    return {"hierarchies": {name: hierarchy_to_json(h) for name, h in schema.hierarchies.items()}}


def domain_to_json(domain: Domain) -> dict[str, Any]:
    """Return `{"range": [low, high], "forbidden": [[a, b], ...]}`, exact; infinite ends as text."""
    out: dict[str, Any] = {"range": [plain(domain.lower), plain(domain.upper)]}
    gaps = [[plain(a), plain(b)] for a, b in domain.exact_gaps]
    return {**out, "forbidden": gaps} if gaps else out


def _rows(rows: Rows) -> dict[str, Any]:
    guess = dict(rows.expected_by_key) or rows.expected
    said = {"max": rows.maximum, "expected": guess, "exact": rows.exact}
    return {name: value for name, value in said.items() if value is not None}


def _column(column: Column) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": column.kind.value}
    if column.derived is not None:
        out["from"] = column.derived
    for word in ("measure", "title", "description"):
        if getattr(column, word) is not None:
            out[word] = getattr(column, word)
    if column.domain is not None:
        out |= domain_to_json(column.domain)
    if column.days is not None:
        out["range"] = [day.isoformat() for day in column.days]
    if column.step is not None:
        out["step"] = plain(column.step)
    if column.expected_sd is not None:
        out["expected"] = {"sd": plain(column.expected_sd)}
    if column.values:
        out["values"] = list(column.values)
    if column.lists:
        out["values_from"] = {"keys": list(column.lists)}
    if column.other is not None:
        out["other"] = {"as": column.other}
    if column.nulls == "as":
        out["nulls"] = {"as": column.null_label}
    elif column.null_default is not None:
        truth = column.kind is Kind.boolean
        out["nulls"] = {
            "default": bool(column.null_default) if truth else plain(column.null_default)
        }
    return out
