"""A curator's view as the engines get it: tables, joins, columns and what is proved of its rows.

`read_view` makes it of SQL and says which views are proved. A view is a source: its expressions, its
filter and its joins read cells as they are stored, and its columns are cleaned (`query.cleaning`)
like those of a table.

Limits. A column is of the kind that the schema declares for its name, else as it is stored: a CSV
column that the schema does not declare is text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from dprelease.core.codec_notes import Note
from dprelease.core.errors import PlanError
from dprelease.schema.table import declared_time
from dprelease.schema.time import Time
from dprelease.schema.unit import EdgeUnit, Unit, UserUnit

UNPROVEN = "unproven-view"

Place = tuple[str, str]
"""A column of a table of the view: (alias, column)."""


class Over(StrEnum):
    """What is made of a group's rows, as SQL writes it."""

    rows = "COUNT"
    different = "COUNT DISTINCT"
    total = "SUM"
    average = "AVG"
    least = "MIN"
    greatest = "MAX"


COUNTS = (Over.rows, Over.different)
ENDS = (Over.least, Over.greatest)


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """One output column: a stored column passed on (`place`), or an expression's text; `over`: of a group's rows."""

    name: str
    place: Place | None
    text: str
    at: str
    over: Over | None = None


@dataclass(frozen=True, slots=True)
class ViewJoin:
    """A public table, joined where each of its `keys` equals the value beside it."""

    table: str
    alias: str
    kind: Literal["left", "inner"]
    keys: tuple[tuple[str, Place], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A checked view, of which a plan says no more than its text and what is proved.

    Attributes:
        sql: one spelling of it, for plans and manifests.
        proven: each private row gives at most one row, made from it and public rows alone.
        keeps_rows: it gives exactly one.
        tables: every table it reads, private and public.
        private: (table, alias); joins, columns, where, groups: the parts of a proven view. Conditions
            call a column of a table `"alias.column"`. With `groups` there is one row per group.
    """

    sql: str
    proven: bool
    keeps_rows: bool
    tables: Annotated[tuple[str, ...], Note.unstored] = ()
    private: Annotated[Place | None, Note.unstored] = None
    joins: Annotated[tuple[ViewJoin, ...], Note.unstored] = ()
    columns: Annotated[tuple[ViewColumn, ...], Note.unstored] = ()
    where: Annotated[str | None, Note.unstored] = None
    where_at: Annotated[str, Note.unstored] = ""
    groups: Annotated[tuple[Place, ...], Note.unstored] = ()


def check_unit(view: View, unit: Unit, time: Time | None) -> None:
    """Refuse a proven view whose unit or time is not what the private table stores, under its name.

    A group's time is its first or last row's. A period takes its rows before they are grouped (`of_period`).

    A ledger knows both by their names. Of two columns called alike, two persons would be protected as
    one, or one row would lie in two disjoint windows (docs/theory/composition.md#over-time).

    Raises:
        PlanError: rows are grouped and the unit is no whole person (DPR260); a column of the unit or
            the time is computed, public or missing, or is called otherwise than where it is stored
            (DPR263); a time by which no losses are added up may be.
    """
    if not view.proven or view.private is None:
        return
    if view.groups and not (isinstance(unit, UserUnit) and unit.per is None):
        raise PlanError(
            "a view that groups rows is proved for a unit `user` without `per`",
            where=view.where_at,
            why="a group may hold rows of several other units",
            fix=f"declare `unit: {{user: {view.groups[0][1]}, …}}`, or prepare the groups in the source",
            code="DPR260",
        )
    wanted: dict[str, str] = {}
    computed = "a computed id could split one person into several"
    if isinstance(unit, UserUnit):
        wanted = {unit.column: computed}
    elif isinstance(unit, EdgeUnit):
        wanted = {unit.source: computed, unit.target: computed}
    if time is not None:
        wanted[time.column] = "a computed time could put one row into two periods"
    alias = view.private[1]
    for name, why in wanted.items():
        column = next((c for c in view.columns if c.name == name), None)
        is_time = time is not None and name == time.column
        stored = f"{alias}.{name}"
        if is_time and column and column.over in ENDS and column.text.strip('"') in (name, stored):
            continue
        if column is None or column.place is None or column.place[0] != alias:
            stored = f"MIN({stored}) AS {name}" if is_time and view.groups else stored
            raise PlanError(
                f"the view does not pass the column `{name}` on as it is stored",
                where=None if column is None else column.at,
                why=why,
                fix=f"select the private table's column `{name}`: {stored}",
                code="DPR263",
            )
        if column.place[1] != name and not (is_time and declared_time(unit, time) is None):
            _refuse_another_name(column, column.place, time=is_time)


def _refuse_another_name(column: ViewColumn, place: Place, *, time: bool) -> None:
    """Refuse another stored column as the unit, or as the time that losses are added up by."""
    role, key = ("the time", f"time: {{column: {place[1]}, …}}") if time else ("the unit", "unit")
    raise PlanError(
        f"the view takes `{'.'.join(place)}` for {role}, which the schema calls `{column.name}`",
        where=column.at,
        why="losses are added up by one stored column: by two, a row could lie in two disjoint periods"
        if time
        else "losses are added up for one stored id: by two, they would be those of different persons",
        fix=f"name the stored column in the schema, under `{key}`, and select {'.'.join(place)} under"
        " its own name",
        code="DPR263",
    )


def of_period(view: View, column: str, *window: datetime, dates: bool) -> View:
    """Return a view that groups the rows of a period alone; any other view as it is."""
    if not view.groups or view.private is None:
        return view
    own = '"' + f"{view.private[1]}.{column}".replace('"', '""') + '"'
    start, end = (f"date '{t.date()}'" if dates else f"timestamp '{t.isoformat()}'" for t in window)
    inside = f"{own} >= {start} and {own} < {end}"
    return replace(view, where=inside if view.where is None else f"({view.where}) and {inside}")


STOPS = (
    f"not covered by the guarantee ({UNPROVEN}): whether the view can be computed at all. A cell that stops it (two columns"
    " of different types compared, a sum of decimals too long for 38 digits, arithmetic on totals) ends the run after the"
    " charge, nothing is published, and everybody sees that: it is one bit about one row, which no epsilon pays for"
)


def view_notes(view: View | None) -> list[str]:
    """Return what plan and manifest say of a view."""
    if view is None:
        return []
    if not view.proven:
        return [
            (
                f"observed, not proved ({UNPROVEN}): that one unit reaches only its own rows of the "
                f"view {view.sql}; the guarantee is for the view's rows"
            ),
            STOPS,
        ]
    if view.groups:
        return [f"rows come through a view, each made of one unit's rows alone: {view.sql}"]
    fewer = "" if view.keeps_rows else ", which makes the number of rows private"
    return [f"rows come through a view, at most one per row{fewer}: {view.sql}"]
