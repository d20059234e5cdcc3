"""Which statistics are of which kind, as they say themselves."""

from __future__ import annotations

from dprelease.query.arguments import NumberColumn, NumberColumns, syntaxes

__all__ = ["GRAPH", "OF_ONE_COLUMN", "OF_SOME_COLUMNS", "SEVERAL", "WEIGHTED"]

SEVERAL = tuple(n for n, s in syntaxes().items() if isinstance(s.arguments, NumberColumns))
"""Statistics of two columns or more."""

OF_SOME_COLUMNS: tuple[str, ...] = ()
"""Statistics that refuse some columns of numbers, of values below 0 say. Their own test enumerates them on
columns that they take: `check_aggregate(name, columns=...)`."""

OF_ONE_COLUMN = tuple(
    n
    for n, s in syntaxes().items()
    if (type(s.arguments) is NumberColumn or n in OF_SOME_COLUMNS) and s.most == 1
)
"""Statistics that are written `name(x)`, x a column of numbers: each is enumerated and recorded, and no list names it."""

GRAPH = tuple(n for n, s in syntaxes().items() if s.arguments.of_edges)
"""Statistics of a graph."""

WEIGHTED = tuple(n for n in syntaxes() if n == "ratio" or n.startswith("weighted_"))
"""Statistics of a column that weighs or divides: their tables are in `test_weighted_sensitivities`."""
