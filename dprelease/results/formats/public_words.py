"""What public pages and files call things: the publisher's words where there are some, else ours.

A function of the manifest's request, so `verify` makes the same pages again. A folder of somebody else's
is read with the same checks as a schema file: texts of one line and bounded length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dprelease.core import registry
from dprelease.core.numeric import counted
from dprelease.query.arguments import unquoted
from dprelease.query.bounded import MOST_FOUND
from dprelease.query.functions import PARTS
from dprelease.query.written import request_to_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.formats.format import of_today
from dprelease.results.formats.plain_words import plain_condition, plain_error
from dprelease.results.formats.words import heading, inside, name_words
from dprelease.schema.about import ROWS, About, about_from_json
from dprelease.schema.naming import is_shown
from dprelease.schema.unit import (
    Adjacency,
    RowUnit,
    Unit,
    UserUnit,
    caps_words,
    describe,
    unit_from_json,
)
from dprelease.schema.unit_words import called, cap_in_words, one_unit, whole_unit
from dprelease.statistics.base import kind_named

_MOST = 500
"""Characters of a column's or statistic's title that are shown of a foreign folder."""
_AMOUNT = re.compile(r"\b(\d[\d,]*) (units?|rows?)\b")
_RANKED = "(95 %)"
_CALL = re.compile(r"\b([a-z_]+)\([^()]*\)")
"""A statistic as it is asked for, in a plan's sentence."""
_FINEST = re.compile(r"(by the finest groups \()([^;()]*)(?=;)")


@dataclass(frozen=True, slots=True)
class PublicWords:
    """The words of one release.

    Attributes:
        name: what it is called where it has no title; unit: the protected one.
        columns: titles that were given, by name; details: descriptions of columns.
        statistics: titles that were given, by table (None: the release has one) and name.
        row_caps: rows that a statistic keeps of a unit in a group, where it is not the unit's own bound.
        by: the grouping columns; groups: how many there are, or can be found at most.
        together: rows are bounded over all groups, as no table is the finest.
        instants: columns of timestamps, whose weekdays and hours are in UTC whatever zone the schema names.
        today: of today's edition; the pages of an older folder are made as they were published.
    """

    name: str
    unit: Unit = field(default_factory=RowUnit)
    about: About = field(default_factory=About)
    columns: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[tuple[str | None, str], str] = field(default_factory=dict)
    row_caps: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    groups: int = 1
    instants: frozenset[str] = frozenset()
    together: bool = False
    today: bool = True

    @property
    def title(self) -> str:
        return self.about.title or name_words(self.name)

    @property
    def one(self) -> str:
        """The protected unit: one aircraft's flights of one week."""
        return one_unit(self.unit, self.about.unit_name)

    @property
    def data(self) -> str:
        """What a result may depend on: one patient's visits, or `one unit's data` where nobody named it."""
        return "one unit's data" if self.about.unit_name is None else self.one

    @property
    def whole(self) -> str:
        """Who is behind all of a person's units: one aircraft."""
        return whole_unit(self.unit, self.about.unit_name)

    @property
    def rows(self) -> str:
        """What a person's rows are called."""
        return ROWS if self.about.unit_name is None else self.about.unit_name.rows

    @property
    def protected(self) -> str:
        """The unit and how much of it counts, in brackets."""
        by = [] if self.together else [inside(self.column(name)) for name in self.by]
        cap = cap_in_words(self._bounded, by, self.groups)
        return f"{self.one} ({cap})" if cap else self.one

    @property
    def _bounded(self) -> Unit:
        """The unit as its rows are bounded."""
        if self.together and isinstance(self.unit, UserUnit):
            return self.unit.in_any_cells
        return self.unit

    @property
    def counted(self) -> str:
        """What the rows are called that statistics are made of."""
        name = self.about.unit_name
        return self.rows if name is None or not isinstance(self.unit, RowUnit) else name.many

    def statement(self, text: str) -> str:
        """Return a sentence about who is protected with the publisher's words for the unit."""
        if self.about.unit_name is None:
            return text
        for adjacency in Adjacency:
            exact = describe(adjacency, self.unit)
            done = exact.rpartition(", ")[2]
            text = text.replace(exact, f"{self.protected}, {done}")
        return self.sentence(text)

    def sentence(self, text: str) -> str:
        """Return a plan's sentence with the publisher's words for statistics, groups and the protected unit in it."""
        text = _CALL.sub(self._called, text)
        text = _FINEST.sub(lambda found: found[1] + self._columns(found[2]), text)
        return called(text, self.unit, self.about.unit_name)

    def _called(self, found: re.Match[str]) -> str:
        made = heading(found[0], found[1], self.columns)
        return found[0] if made == found[0] else inside(made)

    def _columns(self, listed: str) -> str:
        return ", ".join(inside(self.column(name)) for name in listed.split(", "))

    def condition(self, text: str) -> str | None:
        """Return which rows are taken, in words; None where it is more than comparisons of columns."""
        return plain_condition(text, lambda name: inside(self.column(name)))

    def error(self, statistic: PlannedStatistic) -> str:
        """Return a statistic's expected error, as its plan says it, in a reader's words."""
        counts = _counts(statistic) or _RANKED in statistic.error_text
        called = self._measures if counts else {}
        return plain_error(statistic.error_text, {**called, "group": self.counted})

    def mute(self, statistic: PlannedStatistic) -> str:
        """Return why a statistic is expected to say nothing, as its plan says it, in a reader's words; else ''."""
        said = str(statistic.uninformative or "")
        return plain_error(said, {"rows": self.counted, "group": self.counted})

    def change(self, statistic: PlannedStatistic) -> str:
        """Return how far one unit moves what is measured."""
        return _AMOUNT.sub(
            self._amount, statistic.sensitivity_text if self.today else statistic.sensitivity
        )

    def _amount(self, found: re.Match[str]) -> str:
        name, kind = self.about.unit_name, found[2]
        if name is None or (
            kind.startswith("row") and isinstance(self.unit, UserUnit) and found[1] == "1"
        ):
            return found[0]  # one of a person's rows has no name
        many = name.many if kind.startswith("unit") else self.counted
        return f"{found[1]} {name.one if found[1] == '1' else many}"

    def measure(self, statistic: PlannedStatistic) -> str:
        """Return the unit of its values."""
        called = self._measures if _counts(statistic) else {}
        return called.get(statistic.measure, statistic.measure)

    @property
    def _measures(self) -> Mapping[str, str]:
        """Return what units and rows are called: in the publisher's words, or units by the column that names them."""
        name, ids = self.about.unit_name, self._ids
        if name is None:
            return {"units": ids} if ids else {}
        return {"units": name.many, "rows": self.counted}

    @property
    def _ids(self) -> str:
        """The column whose values units are, as it is called inside a sentence; empty where a unit is a row."""
        one = self.unit.column if self.today and isinstance(self.unit, UserUnit) else ""
        return inside(self.column(one))

    def column(self, name: str) -> str:
        """Return what a column is called."""
        part, _, rest = name.partition("(")
        if name not in self.columns and rest.endswith(")") and part in PARTS:
            of = unquoted(rest[:-1])
            utc = " (UTC)" if part in ("weekday", "hour") and of in self.instants else ""
            return f"{part.capitalize()} of {inside(self.column(of))}{utc}"
        return self.columns.get(name, name)

    def heading(self, statistic: PlannedStatistic) -> str:
        """Return what a statistic is called: by its publisher, or by what it is."""
        own = self.own_title(statistic)
        if own is not None:
            return own
        made = heading(statistic.text, statistic.function, self.columns)
        made, where, condition = made.partition(", where ")
        said, condition = self._counted().get(made, made), where + condition
        unit = self._bounded
        if not isinstance(unit, UserUnit):
            return said + condition
        if made == "Number of rows":
            cap = self.row_caps.get((statistic.table, statistic.name))
            said += f" kept, {caps_words(unit, self.groups, self.whole.removeprefix('one '), cap)}"
        elif made == "Number of units" and self.today and unit.max_groups < self.groups:
            said += f", each in at most {counted(unit.max_groups, 'group')}"
            said += "" if unit.per is None else f" per {unit.per}"
        return said + condition

    def column_headings(self, statistic: PlannedStatistic) -> list[str]:
        """Return what its published columns are called: the heading, and which bin of several."""
        head, several = self.heading(statistic), len(statistic.columns) > 1
        parts = (c.removeprefix(statistic.name) if several else "" for c in statistic.columns)
        return [f"{head} {part}".rstrip() for part in parts]

    def own_title(self, statistic: PlannedStatistic) -> str | None:
        """Return the title that the publisher gave it in its table, or None."""
        return self.statistics.get((statistic.table, statistic.name))

    def titled(self, statistic: PlannedStatistic) -> tuple[str, str]:
        """Return a statistic's heading and the unit beside it, which a number of rows needs none of."""
        return self.heading(statistic), "" if _counts(statistic) else statistic.measure

    def _counted(self) -> Mapping[str, str]:
        """Return our two headings of counts in the publisher's words."""
        unit = self.about.unit_name
        if unit is not None:
            return {
                "Number of units": f"Number of {unit.many}",
                "Number of rows": f"Number of {self.counted}",
            }
        return {"Number of units": f"Number of distinct {self._ids}"} if self._ids else {}


def _counts(statistic: PlannedStatistic) -> bool:
    known = statistic.function in registry.names("aggregates")
    return known and kind_named(statistic.function).counting


def public_words(manifest: Mapping[str, Any]) -> PublicWords:
    """Return the words of a manifest's request.

    Raises:
        ArgumentError, ValueError, TypeError, LookupError, AttributeError: they have another shape
            than a release's.
    """
    plan = manifest["plan"]
    groups = MOST_FOUND if plan["query"].get("late") else len(plan["keys"])
    unit = unit_from_json(manifest["guarantee"]["unit"])
    name = manifest["pipeline"] or plan["schema"]
    by = tuple(plan["by"])
    words = _words(name, unit, manifest["request"], by, groups)
    return replace(words, together=bool(by) and plan["keys"] == [[]], today=of_today(manifest))


def planned_words(plan: ReleasePlan, name: str | None = None) -> PublicWords:
    """Return the words of a plan that nothing was drawn of yet; `name` is its pipeline's."""
    request = None if plan.request is None else request_to_json(plan.request)
    groups = plan.query.groups
    words = _words(name or plan.schema, plan.unit, request, plan.by, groups.count)
    return replace(words, together=groups.whole)


def _words(
    name: str, unit: Unit, request: Mapping[str, Any] | None, by: tuple[str, ...], groups: int
) -> PublicWords:
    if request is None:
        return PublicWords(name, unit, by=by, groups=groups)
    columns = request["schema"]["columns"]
    hierarchies = request["schema"].get("hierarchies", {}).values()
    levels = {level: title for h in hierarchies for level, title in h.get("titles", {}).items()}
    release = request["release"]
    parts = (
        [(t["name"], t) for t in release["tables"]] if "tables" in release else [(None, release)]
    )
    listed = [(table, s) for table, part in parts for s in part["statistics"]]
    return PublicWords(
        name,
        unit,
        about_from_json(request["schema"]),
        _said(levels | {n: c["title"] for n, c in columns.items() if "title" in c}, _MOST),
        _said({n: c["description"] for n, c in columns.items() if "description" in c}, 5000),
        _said({(table, s["as"]): s["title"] for table, s in listed if "title" in s}, _MOST),
        {(t, s["as"]): s["max_rows_per_group"] for t, s in listed if "max_rows_per_group" in s},
        by,
        groups,
        frozenset(name for name, c in columns.items() if c["kind"] == "timestamp"),
    )


def _said(words: dict[Any, Any], most: int) -> dict[Any, str]:
    for text in words.values():
        if not isinstance(text, str) or not 0 < len(text) <= most or not is_shown(text):
            raise ValueError("not words that can be shown")
    return words
