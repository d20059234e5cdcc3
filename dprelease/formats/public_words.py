"""What public pages and files call things: the publisher's words where there are some, else ours.

A function of the manifest's request, so `verify` makes the same pages again. A folder of somebody else's
is read with the same checks as a schema file: texts of one line and bounded length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dprelease.formats.words import heading, inside, name_words
from dprelease.query.request import request_to_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.schema.about import ROWS, About, about_from_json
from dprelease.schema.unit import RowUnit, Unit, UserUnit, unit_from_json
from dprelease.schema.unit_words import kept_words, one_unit, whole_unit

__all__ = ["PublicWords", "planned_words", "public_words"]

_MOST = 500
"""Characters of a column's or statistic's title that are shown of a foreign folder."""


@dataclass(frozen=True, slots=True)
class PublicWords:
    """The words of one release.

    Attributes:
        name: what it is called where it has no title; unit: the protected one.
        columns, statistics: titles that were given, by name; details: descriptions of columns.
    """

    name: str
    unit: Unit = field(default_factory=RowUnit)
    about: About = field(default_factory=About)
    columns: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.about.title or name_words(self.name)

    @property
    def one(self) -> str:
        """The protected unit: one aircraft's flights of one week."""
        return one_unit(self.unit, self.about.unit_name)

    @property
    def whole(self) -> str:
        """Who is behind all of a person's units: one aircraft."""
        return whole_unit(self.unit, self.about.unit_name)

    @property
    def rows(self) -> str:
        """What a person's rows are called."""
        return ROWS if self.about.unit_name is None else self.about.unit_name.rows

    def protected(self, by: tuple[str, ...], groups: int) -> str:
        """Return the unit and how much of it counts, in brackets."""
        kept = kept_words(self.unit, [inside(self.column(name)) for name in by], groups)
        return f"{self.one} ({kept})" if kept else self.one

    def column(self, name: str) -> str:
        """Return what a column is called."""
        return self.columns.get(name, name)

    def heading(self, statistic: PlannedStatistic) -> str:
        """Return what a statistic is called: by its publisher, or by what it is."""
        own = self.statistics.get(statistic.name)
        made = own or heading(statistic.text, statistic.function, self.columns)
        return self._counted().get(made, made)

    def titled(self, statistic: PlannedStatistic) -> tuple[str, str]:
        """Return a statistic's heading and the unit beside it, which a number of rows needs none of."""
        counts = heading(statistic.text, statistic.function).startswith("Number of")
        return self.heading(statistic), "" if counts else statistic.measure

    def _counted(self) -> Mapping[str, str]:
        """Return our two headings of counts in the publisher's words."""
        unit = self.about.unit_name
        if unit is None:
            return {}
        rows = unit.rows if isinstance(self.unit, UserUnit) else ROWS
        rows = unit.many if isinstance(self.unit, RowUnit) else rows
        return {"Number of units": f"Number of {unit.many}", "Number of rows": f"Number of {rows}"}


def public_words(manifest: Mapping[str, Any]) -> PublicWords:
    """Return the words of a manifest's request.

    Raises:
        ArgumentError, ValueError, TypeError, LookupError, AttributeError: they have another shape
            than a release's.
    """
    name = manifest["pipeline"] or manifest["plan"]["schema"]
    return _words(name, unit_from_json(manifest["guarantee"]["unit"]), manifest["request"])


def planned_words(plan: ReleasePlan, name: str | None = None) -> PublicWords:
    """Return the words of a plan that nothing was drawn of yet; `name` is its pipeline's."""
    asked = None if plan.asked is None else request_to_json(plan.asked)
    return _words(name or plan.schema, plan.unit, asked)


def _words(name: str, unit: Unit, asked: Mapping[str, Any] | None) -> PublicWords:
    if asked is None:
        return PublicWords(name, unit)
    columns = asked["schema"]["columns"]
    release = asked["release"]
    listed = [s for part in release.get("tables", [release]) for s in part["statistics"]]
    return PublicWords(
        name,
        unit,
        about_from_json(asked["schema"]),
        _said({n: c["title"] for n, c in columns.items() if "title" in c}, _MOST),
        _said({n: c["description"] for n, c in columns.items() if "description" in c}, 5000),
        _said({s["as"]: s["title"] for s in listed if "title" in s}, _MOST),
    )


def _said(words: dict[str, Any], most: int) -> dict[str, str]:
    for text in words.values():
        if not isinstance(text, str) or not 0 < len(text) <= most or not text.isprintable():
            raise ValueError("not words that can be shown")
    return words
