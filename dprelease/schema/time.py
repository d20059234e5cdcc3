"""A table's time column: which instant a row has, and whether that can change.

Declared once, in the schema. A pipeline's periods and the intervals of a unit with `per` are of this
column, in this zone.

`immutable: true` is a declaration about the data, as `unit` is: a row's time never changes between
runs, and every column, view and weight that a release uses is a function of its own row and of public
tables, or of rows of the same unit (no visit numbers, no sums over other intervals). Then releases of
disjoint windows read disjoint rows whatever the data, and their losses do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.schema.column import Column, Kind


@dataclass(frozen=True, slots=True)
class Time:
    """The time of a row.

    Attributes:
        column: a stored date or timestamp; timezone: where its days begin, for timestamps.
        immutable: see the module's docstring.
        dates: the column holds dates, which have no zone.
    """

    column: str
    timezone: str = "UTC"
    immutable: bool = False
    dates: bool = False


def how_to_declare(columns: Mapping[str, Column]) -> str:
    """Return the fix where a schema names no time, with the first column that can be one."""
    possible = (
        n for n, c in columns.items() if c.kind in (Kind.date, Kind.timestamp) and not c.derived
    )
    return f"declare it: `time: {{column: {next(possible, 'visited_at')}, timezone: UTC}}`"


def time_words(time: Time) -> str:
    """Return the declaration in words, for schemas, plans and reports."""
    zone = "" if time.dates else f" in {time.timezone}"
    promise = "declared never to change" if time.immutable else "may change between runs"
    return f"{time.column}{zone}, {promise}"


def time_to_json(time: Time) -> dict[str, Any]:
    """Return the declaration as it is written in a schema."""
    return {"column": time.column, "timezone": time.timezone, "immutable": time.immutable}
