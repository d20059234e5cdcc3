"""Who is protected: the adjacency relation and the privacy unit.

Source: `docs/theory/sensitivities-and-contribution-bounding.md#neighbours-and-units`.

An epsilon without its adjacency and unit means nothing, so `describe` is printed with every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from dprelease.core.codec import decode, encode
from dprelease.core.codec_notes import AtLeast, StoredAs, WrittenAs
from dprelease.core.periods import Every

if TYPE_CHECKING:
    from dprelease.schema.about import UnitName


class Adjacency(StrEnum):
    """Which tables are neighbours."""

    add_remove = "add_remove"
    substitution = "substitution"


@dataclass(frozen=True, slots=True)
class RowUnit:
    """One row is protected."""


@dataclass(frozen=True, slots=True)
class UserUnit:
    """All rows that share a value of `column` are protected together.

    At most `max_groups` groups per user and `max_rows_per_group` rows per (user, group) are kept;
    `max_rows`, when given, also caps a user's rows over all groups. With `per` the unit is the user's
    rows of one day, week, month, quarter or year of the table's `time`, and the caps are per interval.
    """

    column: Annotated[str, StoredAs("user")]
    max_groups: Annotated[int, AtLeast(1)]
    max_rows_per_group: Annotated[int, AtLeast(1)]
    max_rows: Annotated[int | None, AtLeast(1)] = None
    per: Every | None = None

    @property
    def in_any_cells(self) -> UserUnit:
        """The unit where all groups are one: as many rows as it keeps over all, in whichever cells."""
        most = self.max_groups * self.max_rows_per_group
        most = most if self.max_rows is None else min(most, self.max_rows)
        return replace(self, max_groups=1, max_rows_per_group=most, max_rows=None)


@dataclass(frozen=True, slots=True)
class EdgeUnit:
    """`k` undirected edges of a simple graph over a public node set are protected.

    `labels` are the declared nodes; without them nodes are written 0, 1, ..., `nodes` - 1.
    """

    source: str
    target: str
    k: Annotated[int, AtLeast(1)]
    nodes: Annotated[int, AtLeast(2)]
    labels: tuple[str, ...] = field(default=(), repr=False)

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The nodes as they are written, in the order of their numbers."""
        return self.labels or tuple(str(i) for i in range(self.nodes))


Unit = RowUnit | UserUnit | EdgeUnit


def describe(adjacency: Adjacency, unit: Unit, name: UnitName | None = None) -> str:
    """Return one English phrase, for receipts, plans and manifests; `name` has the publisher's word for a unit."""
    match unit:
        case RowUnit():
            who = "one row"
        case UserUnit(column=c, max_groups=g, max_rows_per_group=m, per=per):
            rows = "1 row" if m == 1 else f"{m} rows"
            groups = "one group" if g == 1 else f"each of {g} groups"
            whose = f"one {c if name is None else name.one}"
            whose += "" if per is None else f"'s rows of one {per}"
            who = f"{whose} (at most {rows} in {groups})"
        case EdgeUnit(k=k):
            who = "one edge" if k == 1 else f"{k} edges"
    verb = "added or removed" if adjacency is Adjacency.add_remove else "replaced"
    return f"{who}, {verb}"


def unit_to_json(unit: Unit) -> object:
    """Return the unit as it is written in a schema."""
    match unit:
        case RowUnit():
            return "row"
        case UserUnit():
            return encode(unit)
        case EdgeUnit():
            edge = encode(unit)
            edge["nodes"] = edge.pop("labels", edge["nodes"])
            return {"edge": edge}


def unit_from_json(value: object) -> Unit:
    """Return the unit that `unit_to_json` wrote; for manifests, not for schemas.

    Raises:
        ConfigError: nothing wrote this (DPR180).
    """
    if value == "row":
        return RowUnit()
    if not isinstance(value, Mapping) or value.keys() != {"edge"}:
        return decode(UserUnit, value, "unit")
    edge = dict(decode(Mapping[str, Any], value["edge"], "unit"))
    if isinstance(labels := edge.get("nodes"), list):
        edge |= {"nodes": len(labels), "labels": labels}
    return decode(EdgeUnit, edge, "unit")


WrittenUnit = Annotated[Unit, WrittenAs(unit_to_json, unit_from_json)]
"""A unit in a stored dataclass: as schemas say it."""


def caps_words(unit: UserUnit, groups: int, one: str, rows: int | None = None) -> str:
    """Return how many of a person's rows a count holds: at most 1 per patient in each of 2 groups.

    Args:
        groups: how many there are; one: what a person is called; rows: kept per person and group, if not the unit's.
    """
    said = f"at most {unit.max_rows_per_group if rows is None else rows} per {one}"
    said += "" if unit.per is None else f" and {unit.per}"
    if unit.max_groups < groups:
        said += f" in each of {unit.max_groups} groups" if unit.max_groups > 1 else " in one group"
    elif groups > 1:
        said += " in each group"
    return said if unit.max_rows is None else f"{said}, {unit.max_rows} in all"
