"""Which statistics are of which kind, as they say themselves."""

from __future__ import annotations

from dprelease.query.arguments import NumberColumns, syntaxes

__all__ = ["GRAPH", "OF_SOME_COLUMNS", "SEVERAL", "WEIGHTED"]

SEVERAL = tuple(n for n, s in syntaxes().items() if isinstance(s.arguments, NumberColumns))
"""Statistics of two columns or more."""

GRAPH = tuple(n for n, s in syntaxes().items() if s.arguments.of_edges)
"""Statistics of a graph."""

WEIGHTED = tuple(n for n in syntaxes() if n == "ratio" or n.startswith("weighted_"))
"""Statistics of a column that weighs or divides: their tables are in `test_weighted_sensitivities`."""

OF_SOME_COLUMNS: tuple[str, ...] = ()
"""Statistics that refuse some columns of numbers, of values below 0 say. Their own test enumerates them on
columns that they take: `check_aggregate(name, columns=...)`."""
