"""The words of the SQL door that it does not take, and what to write instead."""

from __future__ import annotations

INSTEAD = {
    "VAR_SAMP": "VAR_POP(c), the population form",
    "VARIANCE": "VAR_POP(c), the population form",
    "STDDEV": "STDDEV_POP(c), the population form",
    "STDDEV_SAMP": "STDDEV_POP(c), the population form",
    "COVAR_SAMP": "COVAR_POP(a, b), the population form",
    "QUANTILE_CONT": "QUANTILE_DISC(c, p)",
    "PERCENTILE_CONT": "PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY c)",
    "APPROX_QUANTILE": "QUANTILE_DISC(c, p)",
    "APPROX_COUNT_DISTINCT": "COUNT(DISTINCT c)",
    "COUNT_IF": "PROPORTION(condition), or COUNT(*) with WHERE",
    "COUNTIF": "PROPORTION(condition), or COUNT(*) with WHERE",
    "GROUPING": "the statistics alone: every grouping set is a table of its own, with its own keys",
    "GROUPING_ID": "the statistics alone: every grouping set is a table of its own",
    "MODE": "COUNT(*) with GROUP BY c",
}
CLAUSES = {
    "HAVING": "release the groups, then choose among the released ones",
    "ORDER": "sort the released table",
    "LIMIT": "every declared group is released; cut the released table",
    "OFFSET": "every declared group is released; cut the released table",
    "FETCH": "every declared group is released; cut the released table",
    "QUALIFY": "leave it out",
    "WINDOW": "leave it out",
    "USING": "leave it out",
    "WITH": "write GROUP BY ROLLUP(a, b)",
    "SAMPLE": "leave it out",
    "TABLESAMPLE": "leave it out",
    "UNION": "write one SELECT per release",
    "INTERSECT": "write one SELECT per release",
    "EXCEPT": "write one SELECT per release",
}
JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ASOF", "SEMI", "ANTI")
