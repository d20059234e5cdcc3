"""Words of other programs for what a schema calls otherwise, so that a fix names the right one."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("int", "int32", "int64", "bigint", "whole", "year", "long"), "integer"),
    **dict.fromkeys(
        ("float", "float32", "float64", "double", "decimal", "numeric", "real"), "number"
    ),
    **dict.fromkeys(
        ("string", "str", "text", "varchar", "object", "categorical", "enum", "factor"),
        "category",
    ),
    "bool": "boolean",
    "logical": "boolean",
    "datetime": "timestamp",
    "time": "timestamp",
    **dict.fromkeys(("id", "uuid", "key", "person"), "identifier"),
}

STATISTICS: Mapping[str, str] = {
    "avg": "mean",
    "average": "mean",
    "var": "variance",
    "sd": "std",
    "stdev": "std",
    "stddev": "std",
    "total": "sum",
    "n": "count",
    "size": "count",
    "value_counts": "count",
    "nunique": "count_distinct",
    "distinct": "count_distinct",
    "percentile": "quantile",
    "corr": "correlation",
    "cov": "covariance",
    "hist": "histogram",
    "fraction": "proportion",
    "share": "proportion",
    "minimum": "min",
    "maximum": "max",
}

DATE_PARTS: Mapping[str, str] = dict.fromkeys(("dow", "dayofweek", "day_of_week"), "weekday")

UNITS: Mapping[str, str] = dict.fromkeys(
    ("person", "people", "patient", "customer", "client", "individual", "subject", "id", "column"),
    "user",
)


def meant(word: str, known: Mapping[str, str]) -> str | None:
    """Return what `word` is called here, if it is another program's word.

    >>> meant("Float", KINDS), meant("AVG", STATISTICS), meant("kurtosis", STATISTICS)
    ('number', 'mean', None)
    """
    return known.get(word.casefold())
