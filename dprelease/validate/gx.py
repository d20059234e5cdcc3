"""The same rules as a Great Expectations 1.x suite, for houses that validate with it.

The noised table becomes one long table (group, statistic, value, lower, upper, status and one
partner column per joint rule), and the plan becomes a suite over it: no wide table, whose cost
grows with its columns. Great Expectations runs in an ephemeral context without analytics, files,
progress bars or data docs.

It is imported inside functions only (`gx_import`: a second or more), and its side effects are undone: it
redirects warnings into logging and emits deprecation warnings at import. Its results, which quote
failing rows, are reduced to counts before they leave this module.

Limits  Rules on steps and joint rules are in floats here, exact in `validate.rules`; a step whose
        multiples exceed 2**53 is left to the exact rules.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dprelease.errors import ConfigError
from dprelease.formats.tidy_rows import group_places
from dprelease.noised import Noised, tidy_columns
from dprelease.release_plan.plan import ReleasePlan
from dprelease.validate import gx_release
from dprelease.validate.gx_import import import_great_expectations
from dprelease.validate.gx_release import COLUMNS, group_labels
from dprelease.validate.joint import JointRule, joint_rules
from dprelease.validate.rules import STATUSES, has_tidy_columns
from dprelease.validate.verdict import RuleResult, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

__all__ = [
    "COUNTS",
    "ENGINE",
    "expectation_suite",
    "gx_validate",
    "long_table",
    "require_great_expectations",
    "undisturbed",
]

ENGINE = "great_expectations"
SUITE = "dprelease"
COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Import Great Expectations, and undo what it does to the process: warnings, logging, environment."""
    captured = getattr(warnings.showwarning, "__module__", "") == "logging"
    before = os.environ.get("GX_ANALYTICS_ENABLED")
    level = logging.getLogger("great_expectations").level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        # An expectation that cannot be evaluated logs its row; we report it as failed instead.
        logging.getLogger("great_expectations").setLevel(logging.CRITICAL + 1)
        try:
            import_great_expectations()
            yield
        finally:
            logging.getLogger("great_expectations").setLevel(level)
            if before is None:
                os.environ.pop("GX_ANALYTICS_ENABLED", None)
            else:
                os.environ["GX_ANALYTICS_ENABLED"] = before
            if not captured:
                # Inside `catch_warnings`: otherwise logging would believe it still captures.
                logging.captureWarnings(False)


def require_great_expectations() -> None:
    """Import Great Expectations now: a broken installation is found before anything is charged.

    It imports PySpark where that is installed, and PySpark without its own `connect` dependencies
    ends the process at import (`SystemExit`), which no later stage could report.

    Raises:
        ConfigError: it cannot be imported (DPR173).
    """
    failed = False
    try:
        with undisturbed():
            pass
    except (Exception, SystemExit):  # noqa: BLE001 - any failure of a foreign import
        failed = True
    if failed:
        raise ConfigError(
            "Great Expectations cannot be imported",
            why="it, or PySpark which it imports where installed, lacks a dependency",
            fix="install `pyspark[connect]` beside it, or uninstall pyspark; then "
            "`python -c 'import great_expectations'` must succeed",
            code="DPR173",
        )


def expectation_suite(plan: ReleasePlan) -> ExpectationSuite:
    """Return the suite of a plan, over the columns of `long_table`."""
    with undisturbed():
        return _suite(plan, group_labels(plan.keys))


def gx_validate(noised: Noised) -> Verdict:
    """Return the verdict of Great Expectations on a drawn release; never raises on its values."""
    if (
        noised.plan.tables is not None
    ):  # one suite per table: that they add up, the built-in rules say
        found = [(name, gx_validate(part)) for name, part in noised.parts.items()]
        rules = [
            replace(r, statistic=f"{name}.{r.statistic}") for name, v in found for r in v.rules
        ]
        return Verdict.of(tuple(rules), ENGINE)
    if not has_tidy_columns(noised.table, noised.plan):
        rows = noised.table.num_rows
        return Verdict.of((RuleResult("shape", "*", rows, max(rows, 1)),), ENGINE)
    with undisturbed():
        return _validate(noised)


def long_table(noised: Noised) -> pd.DataFrame:
    """Return the long table: `(rows, 7 + joint rules)`; `group` is the key as JSON text."""
    return _table(noised, group_labels(noised.plan.keys))


def _table(noised: Noised, groups: list[str]) -> pd.DataFrame:
    import pandas as pd

    plan, keys, table = noised.plan, len(noised.plan.by), noised.table
    # Texts repeat: as categories they are hashed once, not row by row for every expectation.
    columns = {}
    parts = tidy_columns(plan)
    for name in (name for name in COLUMNS if name in parts.names):
        column = table.column(keys + parts.get_field_index(name))
        text = name in ("statistic", "status")
        columns[name] = (column.dictionary_encode() if text else column).to_pandas()
    joint = [(rule.first.columns[0], rule.second.columns[0]) for rule in joint_rules(plan)]
    return gx_release.long_table(pd.DataFrame(columns), _groups(noised, groups), joint)


def _groups(noised: Noised, labels: list[str]) -> pd.Series:
    """Return every row's `group_label`, `labels` being those of the plan's keys; `(rows,)`."""
    import pandas as pd

    plan, table = noised.plan, noised.table
    places = group_places(table, plan)
    if (places < 0).any():
        undeclared = [table.column(i).to_pylist() for i in range(len(plan.by))]
        return pd.Series(group_labels(zip(*undeclared, strict=True)), dtype="category")
    return pd.Series(pd.Categorical.from_codes(places, categories=pd.Index(labels)))


def _suite(plan: ReleasePlan, groups: list[str]) -> ExpectationSuite:
    """Return the suite; `groups` are the labels of the plan's keys."""
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.core.expect_compound_columns_to_be_unique import (
        ExpectCompoundColumnsToBeUnique,
    )
    from great_expectations.expectations.core.expect_table_row_count_to_equal import (
        ExpectTableRowCountToEqual,
    )

    from dprelease.validate.gx_expectations import ExpectReleasedRowsToObey

    columns = {c: s for s in plan.statistics for c in s.columns}
    small = {
        c: [s.step.numerator, s.step.denominator]
        for c, s in columns.items()
        if max(map(abs, s.domain.hull)) * s.step.denominator < 2.0**53
    }
    domains = {c: [list(piece) for piece in s.domain.pieces] for c, s in columns.items()}
    without = [c for c, s in columns.items() if not plan.block(s.block).has_interval]
    labels = {
        "group": groups,
        "statistic": list(columns),
        "status": list(STATUSES),
    }
    value, beside = ["statistic", "value"], () if plan.fitted else ("consistent",)

    def obey(rule: str, on: list[str], name: str, parameters: Mapping[str, Any]) -> Any:
        return ExpectReleasedRowsToObey(
            column_list=on,
            rule=rule,
            parameters=json.dumps(parameters, allow_nan=True),
            ignore_row_if="never",
            meta={"rule": name},
        )

    expectations = [
        ExpectTableRowCountToEqual(value=len(plan.keys) * len(columns), meta={"rule": "shape"}),
        ExpectCompoundColumnsToBeUnique(
            column_list=["group", "statistic"], ignore_row_if="never", meta={"rule": "groups"}
        ),
        *(
            obey("among", [name, "value"], {"status": "status"}.get(name, "groups"), {name: known})
            for name, known in labels.items()
        ),
        obey("finite", value, "finite", {}),
        obey("domain", value, "domain", domains),
        *(obey("domain", ["statistic", name], name, domains) for name in beside),
        obey("interval", ["statistic", "lower", "upper"], "interval", {"none": without}),
        *(
            obey("joint", [*value, f"joint_{i}"], rule.name, _joint(rule))
            for i, rule in enumerate(joint_rules(plan))
        ),
    ]
    if len(small) == len(columns):
        expectations.append(obey("step", value, "step", small))
    return ExpectationSuite(name=SUITE, expectations=expectations)


def _joint(rule: JointRule) -> dict[str, Any]:
    return {
        "kind": rule.kind,
        "first": rule.first.columns[0],
        "low": float(rule.low),
        "high": float(rule.high),
        "s_first": float(rule.first.step),
        "s_second": float(rule.second.step),
    }


def _validate(noised: Noised) -> Verdict:
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        store_backend_defaults=InMemoryStoreBackendDefaults(),
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    groups = group_labels(noised.plan.keys)
    frame = _table(noised, groups)
    batch = (
        context.data_sources.add_pandas(SUITE)
        .add_dataframe_asset(SUITE)
        .add_batch_definition_whole_dataframe(SUITE)
        .get_batch({"dataframe": frame})
    )
    result = batch.validate(_suite(noised.plan, groups), result_format=COUNTS)
    rules = tuple(_reduced(r, len(frame)) for r in result.results)
    return Verdict.of(rules, ENGINE)


def _reduced(result: Any, rows: int) -> RuleResult:
    """Return the counts of one expectation's result; nothing else of it is kept."""
    name = str(result.expectation_config.meta["rule"])
    if result.success:
        return RuleResult(name, "*", rows, 0)
    failed = result.result.get("unexpected_count", 0)
    return RuleResult(name, "*", rows, max(int(failed or 0), 1))
