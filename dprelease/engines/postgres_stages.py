"""Which stages of a statement PostgreSQL must keep apart, and the rows under the first one.

PostgreSQL merges stages, so that an expression is computed as often as it is used, and grows with each
stage. Where it would grow large the stage is fenced by OFFSET 0; elsewhere merging is the quicker way,
and lets the scan run in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

_LARGE, _QUERY = 400, 100
"""Nodes of an expression above which its stage is fenced, and what a subquery in it counts."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A table of rows under the statement: its columns' expressions, over a table of the database."""

    table: str
    columns: Mapping[str, str]

    @property
    def sizes(self) -> dict[str, int]:
        """Return about how many nodes each column's expression has; 1 behind a fence."""
        sizes = {
            name: len(sql) // 8 + _QUERY * sql.count("SELECT") for name, sql in self.columns.items()
        }
        return dict.fromkeys(sizes, 1) if self._is_large(sizes) else sizes

    @property
    def sql(self) -> str:
        """Return the SELECT."""
        parts = ", ".join(f'{sql} AS "{name}"' for name, sql in self.columns.items())
        fence = " OFFSET 0" if self.sizes == dict.fromkeys(self.columns, 1) else ""
        return f"SELECT {parts or '1 AS row'} FROM {self.table}{fence}"  # noqa: S608 - quoted identifiers

    @staticmethod
    def _is_large(sizes: Mapping[str, int]) -> bool:
        return max(sizes.values(), default=0) > _LARGE // 4


def fence(tree: exp.Expression, sizes: dict[str, dict[str, int]]) -> None:
    """Keep stages apart whose expressions, written out where they are used, would grow too large."""
    for stage in tree.find_all(exp.CTE):
        select = stage.this
        if not isinstance(select, exp.Select):
            continue
        below = _below(select, sizes)
        own: dict[str, int] = {}
        for part in select.expressions:
            if isinstance(part, exp.Column) and isinstance(part.this, exp.Star):
                own |= below
            else:
                own[part.alias_or_name] = _size(part, below)
        if max(own.values(), default=0) > _LARGE:
            select.offset(0, copy=False)
            own = dict.fromkeys(own, 1)
        sizes[stage.alias] = own


def fence_large(select: exp.Select, below: Mapping[str, int]) -> None:
    """Keep a SELECT apart whose columns, written out, would grow too large."""
    if max((_size(part, below) for part in select.expressions), default=0) > _LARGE:
        select.offset(0, copy=False)


def _below(select: exp.Select, sizes: Mapping[str, dict[str, int]]) -> dict[str, int]:
    source = select.args["from_"].this
    return sizes.get(source.name, {})


def _size(part: exp.Expression, below: Mapping[str, int]) -> int:
    # what a window gives is never computed again
    nodes = list(part.walk(prune=lambda node: isinstance(node, exp.Window)))
    queries = sum(isinstance(n, exp.Subquery) for n in nodes)
    columns = (below.get(n.name, 1) for n in nodes if isinstance(n, exp.Column))
    return len(nodes) + _QUERY * queries + sum(columns)
