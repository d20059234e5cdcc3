"""Which statistics are of which kind, as they say themselves."""

from __future__ import annotations

from dprelease.query.arguments import NumberColumns, syntaxes

__all__ = ["GRAPH", "SEVERAL", "WEIGHTED"]

SEVERAL = tuple(n for n, s in syntaxes().items() if isinstance(s.arguments, NumberColumns))
"""Statistics of two columns or more."""

GRAPH = tuple(n for n, s in syntaxes().items() if s.arguments.of_edges)
"""Statistics of a graph."""

WEIGHTED = tuple(n for n in syntaxes() if n == "ratio" or n.startswith("weighted_"))
"""Statistics of a column that weighs or divides: their tables are in `test_weighted_sensitivities`."""
