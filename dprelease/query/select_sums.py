"""The SQL door's sums: SUM of a column or of a product of two, and the quotient of two of them.

    SUM(x * w)               weighted_sum(x, w)
    SUM(a) / SUM(b)          ratio(a, b)
    SUM(x * w) / SUM(w)      weighted_mean(x, w), where nulls of x have a default

SUM(w) of SQL is over all rows whose w is known, a weighted mean's denominator over those whose x is known, too. Where
that is not the same the quotient is refused, and WEIGHTED_AVG(x, w) is named, which is over rows with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.arguments import quoted, sql_functions
from dprelease.query.sql_text import SqlText, SqlToken
from dprelease.schema.column import Column


@dataclass(frozen=True, slots=True)
class Summed:
    """What one SUM is of: a column, or the product of two."""

    columns: tuple[str, ...]
    token: SqlToken


def summed_text(sum_of: Summed) -> str:
    """Return the statistic of one SUM."""
    plain, syntax = sql_functions()["SUM"]
    function = plain if len(sum_of.columns) == 1 else syntax.weighted
    return f"{function}({', '.join(map(quoted, sum_of.columns))})"


def quotient(read: SqlText, top: Summed, bottom: Summed, columns: Mapping[str, Column]) -> str:
    """Return the statistic of one SUM divided by another; PlanError DPR253 where there is none."""
    if len(bottom.columns) > 1:
        read.fail(
            "a quotient divides by the sum of one column",
            bottom.token,
            fix="declare the product as a column, `from: ...`, and write SUM(a) / SUM(product)",
            code="DPR253",
        )
    (below,) = bottom.columns
    if len(top.columns) == 1:
        return f"{sql_functions()['RATIO'][0]}({quoted(top.columns[0])}, {quoted(below)})"
    if below not in top.columns:
        read.fail(
            f"SUM({' * '.join(top.columns)}) is divided by the sum of neither column",
            bottom.token,
            fix=f"SUM(x * w) / SUM(w) is a weighted mean; for another ratio declare the product as a column,"
            f' `from: "{" * ".join(top.columns)}"`',
            code="DPR253",
        )
    value = top.columns[top.columns[0] == below]
    column = columns.get(value)
    if column is not None and column.null_default is None:
        read.fail(
            f"SUM({below}) also has the rows whose `{value}` is null",
            bottom.token,
            why="their weight would be in the denominator alone, and no average comes out",
            fix=f"write WEIGHTED_AVG({quoted(value)}, {quoted(below)}), over rows where both are known",
            code="DPR253",
        )
    _, mean = sql_functions()["AVG"]
    return f"{mean.weighted}({quoted(value)}, {quoted(below)})"
