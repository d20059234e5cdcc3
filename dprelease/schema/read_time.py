"""The time column of a schema's declaration."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import zone
from dprelease.schema.column import Column, Kind
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.models import TimeModel
from dprelease.schema.naming import nearest
from dprelease.schema.time import Time
from dprelease.schema.unit import EdgeUnit, Unit, UserUnit


def read_time(
    file: DeclarationFile, model: TimeModel | None, unit: Unit, columns: Mapping[str, Column]
) -> Time | None:
    """Return the declared time; ConfigError for an unusable column or zone, or a missing one (DPR122, DPR152)."""
    if model is None:
        if isinstance(unit, UserUnit) and unit.per is not None:
            file.fail(
                f"one person's rows of one {unit.per} are protected, and no column says when a row was",
                "unit",
                "per",
                fix="declare it: `time: {column: visited_at, timezone: UTC}`",
                code="DPR152",
            )
        return None
    column = _column(file, model.column, columns)
    try:
        zone(model.timezone)
    except ArgumentError as error:
        file.fail(error.what, "time", "timezone", fix="e.g. UTC or Europe/Dublin", code="DPR152")
    if model.immutable and isinstance(unit, EdgeUnit):
        file.fail(
            "an edge has no instant, so `immutable` says nothing of it",
            "time",
            "immutable",
            why="it may have rows at any number of times; losses of its releases add up",
            fix="remove `immutable`",
            code="DPR152",
        )
    return Time(model.column, model.timezone, model.immutable, column.kind is Kind.date)


def _column(file: DeclarationFile, name: str, columns: Mapping[str, Column]) -> Column:
    """Return the stored date or timestamp column `name`."""
    column = columns.get(name)
    if column is None:
        near = nearest(name, columns)
        file.fail(
            f"the time names an unknown column `{name}`",
            "time",
            "column",
            fix=f"did you mean `{near}`?" if near else f"declare `{name}` under `columns`",
            code="DPR122",
        )
    if column.kind not in (Kind.date, Kind.timestamp):
        file.fail(
            f"`{name}` is of kind {column.kind} and says no time",
            "time",
            "column",
            fix="name a date or timestamp column",
            code="DPR152",
        )
    if column.derived is not None:
        file.fail(
            f"`{name}` is derived, and a row's time is what the table stores",
            "time",
            "column",
            why="a computed time could put one row into two periods",
            fix="name a stored column",
            code="DPR152",
        )
    return column
