"""Custom Great Expectations: a released row obeys its statistic's rule.

Importing this module imports Great Expectations, which is slow and changes the process's warning
and logging state; only `validate.gx_process` does so.

One expectation, `ExpectReleasedRowsToObey`, looks at several columns of the long table, and at all
statistics, at once. Its parameters travel as one JSON string: passed as nested dictionaries, Great
Expectations copies and serialises them for every metric, which takes minutes for thousands of
domains. Built-in `between` expectations skip NaN as if it were missing; this one asks for finite
values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import MulticolumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider.multicolumn_condition_partial import (
    multicolumn_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.multicolumn_map_metric_provider import (
    MulticolumnMapMetricProvider,
)
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer


def in_domain(rows: pd.DataFrame, domains: dict[str, list[list[float]]]) -> pd.Series:
    """Columns (statistic, value[, status]); `domains`: published column -> allowed intervals.

    With a status, a suppressed or impossible row has no value, and no other row has none.
    """
    value = rows.iloc[:, 1].to_numpy(dtype=float)
    at = pd.Index(list(domains)).get_indexer(pd.Index(rows.iloc[:, 0]))
    good = np.zeros(len(rows), dtype=bool)
    # All statistics at once: their first intervals, then their second ones, ...
    for i in range(max(map(len, domains.values()), default=0)):
        ends = np.array([d[i] if i < len(d) else (np.nan, np.nan) for d in domains.values()])
        good |= (at >= 0) & (value >= ends[at, 0]) & (value <= ends[at, 1])
    good &= np.isfinite(value)
    if rows.shape[1] > 2:
        gone = rows.iloc[:, 2].isin(["suppressed", "impossible"]).to_numpy()
        good = np.where(gone, np.isnan(value), good)
    return pd.Series(good, index=rows.index)


def in_order(rows: pd.DataFrame, without: list[str]) -> pd.Series:
    """Columns (statistic, lower, upper[, status]); `without`: published columns that have no interval."""
    low, high = rows.iloc[:, 1].astype(float), rows.iloc[:, 2].astype(float)
    good = np.isfinite(low) & np.isfinite(high) & (low <= high)
    none = rows.iloc[:, 0].isin(without)
    if rows.shape[1] > 3:
        none |= rows.iloc[:, 3] == "impossible"
    return pd.Series(np.where(none, np.isnan(low) & np.isnan(high), good), index=rows.index)


def among(rows: pd.DataFrame, allowed: dict[str, list[str]]) -> pd.Series:
    """Columns as named in `allowed`: each cell is one of its column's labels."""
    good = [rows[name].isin(labels) for name, labels in allowed.items()]
    return pd.Series(np.logical_and.reduce(good), index=rows.index)


RULES: dict[str, Callable[[pd.DataFrame, Any], pd.Series]] = {
    "domain": in_domain,
    "interval": in_order,
    "among": among,
}

SHOWN = 8


def sentence(rule: str, parameters: Any, column: str = "value") -> str:
    """Return what a rule asks of `column`, for Data Docs: the first `SHOWN` statistics by name."""
    if rule == "interval":
        none = f"; there is none for {_listed(parameters)}." if parameters else "."
        return f"Every interval has finite ends, the lower one first{none}"
    if rule == "among":
        said = [f"{name} is one of {_listed(labels)}" for name, labels in parameters.items()]
        return f"Labels are declared ones: {'; '.join(said)}."
    said = [
        f"{name} in {' or '.join(f'{low:g} to {high:g}' for low, high in pieces)}"
        for name, pieces in parameters.items()
    ]
    released = "released value" if column == "value" else f"{column} value"
    return f"Every {released} lies in its domain: {_listed(said)}."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


class ReleasedRowsObey(MulticolumnMapMetricProvider):  # type: ignore[misc, unused-ignore]
    """The metric: one boolean per row."""

    condition_metric_name = "dprelease.released_rows.obey"
    condition_value_keys = ("rule", "parameters")

    @multicolumn_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator, unused-ignore]
    def _pandas(self, column_list: pd.DataFrame, rule: str, parameters: str, **_: Any) -> pd.Series:
        return RULES[rule](column_list, json.loads(parameters))


class ExpectReleasedRowsToObey(MulticolumnMapExpectation):  # type: ignore[misc, unused-ignore]
    """Every row of a long table of released values obeys a rule.

    Args:
        column_list: the columns the rule looks at.
        rule: `domain`, `interval` or `among`; parameters: the rule's, as JSON text.
    """

    rule: str
    parameters: str

    map_metric = ReleasedRowsObey.condition_metric_name
    success_keys = ("column_list", "rule", "parameters", "mostly")
    args_keys = ("column_list", "rule", "parameters")

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator, unused-ignore]
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any]:
        """Return the rule as a sentence; without this, Data Docs print the call."""
        del runtime_configuration
        arguments = (configuration or result.expectation_config).kwargs
        said = sentence(
            arguments["rule"], json.loads(arguments["parameters"]), arguments["column_list"][1]
        )
        template = {"template": "$said", "params": {"said": said}}  # its text is not a template
        return [
            RenderedStringTemplateContent(
                content_block_type="string_template", string_template=template
            )
        ]
