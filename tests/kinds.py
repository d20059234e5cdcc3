"""Which statistics are of which kind, as they say themselves."""

from __future__ import annotations

from dprelease.aggregates.base import aggregate_named
from dprelease.query.arguments import NumberColumns, syntaxes

__all__ = ["GRAPH", "OF_TABLES", "SEVERAL"]

SEVERAL = tuple(n for n, s in syntaxes().items() if isinstance(s.arguments, NumberColumns))
"""Statistics of two columns or more."""

GRAPH = tuple(n for n, s in syntaxes().items() if s.arguments.of_edges)
"""Statistics of a graph."""

OF_TABLES = tuple(n for n in syntaxes() if aggregate_named(n).of_tables)
"""Statistics that are computed from fitted sums, and not measured."""
