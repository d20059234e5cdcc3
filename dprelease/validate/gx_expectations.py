"""Custom Great Expectations: a released row obeys its statistic's rule.

Importing this module imports Great Expectations, which is slow and changes the process's warning
and logging state; only `validate.gx` does so, inside its guard.

One expectation, `ExpectReleasedRowsToObey`, looks at several columns of the long table at once.
Its parameters travel as one JSON string: passed as nested dictionaries, Great Expectations copies
and serialises them for every metric, which takes minutes for thousands of domains. Built-in
`between` expectations skip NaN as if it were missing; this one asks for finite values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
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

METRIC = "dprelease.released_rows.obey"


def _places(names: pd.Series, known: Iterable[str]) -> npt.NDArray[np.intp]:
    """Return each name's place in `known`, -1 where it is not among them; shape `(rows,)`."""
    return pd.Index(list(known)).get_indexer(pd.Index(names))


def in_domain(rows: pd.DataFrame, domains: dict[str, list[list[float]]]) -> pd.Series:
    """Columns (statistic, value); `domains`: published column -> allowed intervals."""
    value = rows.iloc[:, 1].to_numpy(dtype=float)
    at = _places(rows.iloc[:, 0], domains)
    good = np.zeros(len(rows), dtype=bool)
    # All statistics at once: their first intervals, then their second ones, ...
    for i in range(max(map(len, domains.values()), default=0)):
        ends = np.array([d[i] if i < len(d) else (np.nan, np.nan) for d in domains.values()])
        good |= (at >= 0) & (value >= ends[at, 0]) & (value <= ends[at, 1])
    return pd.Series(good & np.isfinite(value), index=rows.index)


def on_step(rows: pd.DataFrame, steps: dict[str, list[int]]) -> pd.Series:
    """Columns (statistic, value); `steps`: published column -> [numerator, denominator]."""
    value = rows.iloc[:, 1].to_numpy(dtype=float)
    at = _places(rows.iloc[:, 0], steps)
    p, q = (
        np.array(list(steps.values()), dtype=float).reshape(-1, 2)[at].T
        if steps
        else (value, value)
    )
    with np.errstate(all="ignore"):
        multiple = np.rint(value / p * q)
        good = (at >= 0) & np.isfinite(value) & (multiple * p / q == value)
    return pd.Series(good, index=rows.index)


def ordered(rows: pd.DataFrame, without: dict[str, list[str]]) -> pd.Series:
    """Columns (statistic, lower, upper); `without`: published columns that have no interval."""
    low, high = rows.iloc[:, 1].astype(float), rows.iloc[:, 2].astype(float)
    good = np.isfinite(low) & np.isfinite(high) & (low <= high)
    none = rows.iloc[:, 0].isin(without["none"])
    return pd.Series(np.where(none, np.isnan(low) & np.isnan(high), good), index=rows.index)


def finite(rows: pd.DataFrame, _: dict[str, Any]) -> pd.Series:
    """Columns (statistic, value)."""
    return pd.Series(np.isfinite(rows.iloc[:, 1].astype(float)), index=rows.index)


def joint(rows: pd.DataFrame, rule: dict[str, Any]) -> pd.Series:
    """Columns (statistic, value, partner): `value` of the first statistic, `partner` of the second.

    The arithmetic of `validate.joint`, in floats; rows of other statistics and rows whose partner
    is missing are the business of other rules.
    """
    mine = (rows.iloc[:, 0] == rule["first"]) & rows.iloc[:, 1:].apply(np.isfinite).all(axis=1)
    first, second = rows.iloc[:, 1].astype(float), rows.iloc[:, 2].astype(float)
    low, high, s_first, s_second = (float(rule[k]) for k in ("low", "high", "s_first", "s_second"))
    # Floats lose a few units in the last place against the exact rule, which is the judge.
    slack = 1e-9 * max(1.0, (high - low) ** 2)
    if rule["kind"] == "variance_std":
        good = np.maximum(0, second - s_second) ** 2 <= first + s_first + slack
        good &= (second + s_second) ** 2 >= first - s_first - slack
    else:
        ceiling = (high - first) * (first - low) + abs(high + low - 2 * first) * s_first + slack
        if rule["kind"] == "mean_variance":
            good = (second >= 0) & (second <= ceiling + s_second)
        else:
            good = np.maximum(0, second - s_second) ** 2 <= ceiling
    return pd.Series(good | ~mine, index=rows.index)


def among(rows: pd.DataFrame, allowed: dict[str, list[str]]) -> pd.Series:
    """Columns as named in `allowed`: each cell is one of its column's labels."""
    good = np.ones(len(rows), dtype=bool)
    for name, labels in allowed.items():
        good &= _places(rows[name], labels) >= 0
    return pd.Series(good, index=rows.index)


def sentence(rule: str, parameters: dict[str, Any], column: str = "value") -> str:
    """Return what a rule asks of `column`, for Data Docs: the first `SHOWN` statistics by name."""
    released = "released value" if column == "value" else f"{column} value"
    if rule == "domain":
        said = [
            f"{name} in {' or '.join(f'{low:g} to {high:g}' for low, high in pieces)}"
            for name, pieces in parameters.items()
        ]
        return f"Every {released} lies in its domain: {_listed(said)}."
    if rule == "step":
        said = [f"{name} in steps of {p / q:g}" for name, (p, q) in parameters.items()]
        return f"Every {released} is a whole number of steps: {_listed(said)}."
    if rule == "interval":
        none = parameters["none"]
        return "Every interval has finite ends, the lower one first" + (
            f"; there is none for {_listed(none)}." if none else "."
        )
    if rule == "joint":
        partner = parameters["kind"].rpartition("_")[2]
        return f"{parameters['first']} and the {partner} of the same rows fit each other."
    if rule == "among":
        said = [f"{name} is one of {_listed(labels)}" for name, labels in parameters.items()]
        return f"Labels are declared ones: {'; '.join(said)}."
    return "Every released value is a finite number."


SHOWN = 8


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


RULES: dict[str, Callable[[pd.DataFrame, Any], pd.Series]] = {
    "domain": in_domain,
    "step": on_step,
    "interval": ordered,
    "finite": finite,
    "joint": joint,
    "among": among,
}


class ReleasedRowsObey(MulticolumnMapMetricProvider):  # type: ignore[misc, unused-ignore]
    """The metric: one boolean per row."""

    condition_metric_name = METRIC
    condition_value_keys = ("rule", "parameters")

    @multicolumn_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator, unused-ignore]
    def _pandas(self, column_list: pd.DataFrame, rule: str, parameters: str, **_: Any) -> pd.Series:
        return RULES[rule](column_list, json.loads(parameters))


class ExpectReleasedRowsToObey(MulticolumnMapExpectation):  # type: ignore[misc, unused-ignore]
    """Every row of a long table of released values obeys a rule.

    Args:
        column_list: the columns the rule looks at.
        rule: `domain`, `step`, `interval`, `finite`, `joint` or `among`.
        parameters: the rule's parameters, as JSON text.
    """

    rule: str
    parameters: str = "{}"

    map_metric = METRIC
    success_keys = ("column_list", "rule", "parameters", "mostly")
    args_keys = ("column_list", "rule", "parameters")

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator, unused-ignore]
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any]:
        """Return the rule as a sentence; without this, Data Docs print the call."""
        del runtime_configuration
        asked = configuration or result.expectation_config
        rule, parameters = asked.kwargs["rule"], json.loads(asked.kwargs.get("parameters", "{}"))
        said = sentence(rule, parameters, asked.kwargs["column_list"][1])
        template = {"template": "$said", "params": {"said": said}}  # its text is not a template
        return [
            RenderedStringTemplateContent(
                content_block_type="string_template", string_template=template
            )
        ]
