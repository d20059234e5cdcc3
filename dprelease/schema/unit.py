"""Who is protected: the adjacency relation and the privacy unit.

Source: `docs/theory/sensitivities-and-contribution-bounding.md#neighbours-and-units`.

An epsilon without its adjacency and unit means nothing, so `describe` is printed with every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dprelease.numeric import whole_from_json, whole_or_none
from dprelease.periods import Every, every_from_json

__all__ = [
    "Adjacency",
    "EdgeUnit",
    "RowUnit",
    "Unit",
    "UserUnit",
    "describe",
    "unit_from_json",
    "unit_to_json",
]


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

    column: str
    max_groups: int
    max_rows_per_group: int
    max_rows: int | None = None
    per: Every | None = None


@dataclass(frozen=True, slots=True)
class EdgeUnit:
    """`k` undirected edges of a simple graph over a public node set are protected.

    `labels` are the declared nodes; without them nodes are written 0, 1, ..., `nodes` - 1.
    """

    source: str
    target: str
    k: int
    nodes: int
    labels: tuple[str, ...] = field(default=(), repr=False)

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The nodes as they are written, in the order of their numbers."""
        return self.labels or tuple(str(i) for i in range(self.nodes))


Unit = RowUnit | UserUnit | EdgeUnit


def describe(adjacency: Adjacency, unit: Unit) -> str:
    """Return one English phrase, for receipts, plans and manifests."""
    match unit:
        case RowUnit():
            who = "one row"
        case UserUnit(column=c, max_groups=g, max_rows_per_group=m, per=per):
            rows = "1 row" if m == 1 else f"{m} rows"
            groups = "one group" if g == 1 else f"each of {g} groups"
            whose = f"one {c}" if per is None else f"one {c}'s rows of one {per}"
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
            out: dict[str, object] = {
                "user": unit.column,
                "max_groups": unit.max_groups,
                "max_rows_per_group": unit.max_rows_per_group,
            }
            if unit.per is not None:
                out["per"] = unit.per
            if unit.max_rows is not None:
                out["max_rows"] = unit.max_rows
            return out
        case EdgeUnit():
            return {
                "edge": {
                    "source": unit.source,
                    "target": unit.target,
                    "k": unit.k,
                    "nodes": list(unit.labels) if unit.labels else unit.nodes,
                }
            }


def unit_from_json(value: Any) -> Unit:
    """Return the unit that `unit_to_json` wrote; for manifests, not for schemas.

    Raises:
        ArgumentError: a bound is not a whole number of at least 1 (DPR605), or no period is of the
            length `per` (DPR640).
    """
    if value == "row":
        return RowUnit()
    if isinstance(value, Mapping) and "edge" in value:
        edge = value["edge"]
        nodes = edge["nodes"]
        listed = () if isinstance(nodes, int) else tuple(nodes)
        count = whole_from_json(nodes if isinstance(nodes, int) else len(listed), least=2)
        k = whole_from_json(edge["k"], least=1)
        return EdgeUnit(edge["source"], edge["target"], k, count, listed)
    return UserUnit(
        value["user"],
        whole_from_json(value["max_groups"], least=1),
        whole_from_json(value["max_rows_per_group"], least=1),
        whole_or_none(value.get("max_rows"), least=1),
        None if "per" not in value else every_from_json(value["per"]),
    )
