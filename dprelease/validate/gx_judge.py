"""What Great Expectations finds in a long table: expectations in as plain data, numbers of failed rows out.

Its results quote failing rows; nothing but counts leaves this module. It runs in an ephemeral context without
analytics, files, progress bars or data docs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dprelease.validate.gx_import import undisturbed

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

SUITE = "dprelease"
ROWS, UNIQUE, OBEY = "rows", "unique", "obey"

Expected = tuple[str, str, dict[str, Any]]
"""(rule, `ROWS`, `UNIQUE` or `OBEY`, arguments as JSON can hold them)."""

COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}


def suite(expected: Sequence[Expected]) -> ExpectationSuite:
    """Return the suite of these expectations."""
    with undisturbed():
        return _suite(expected)


def judged(frame: pd.DataFrame, expected: Sequence[Expected]) -> list[tuple[str, int]]:
    """Return (rule, rows that break it) of every expectation; never raises on the values of `frame`."""
    with undisturbed():
        return _judged(frame, expected)


def _suite(expected: Sequence[Expected]) -> ExpectationSuite:
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.core.expect_compound_columns_to_be_unique import (
        ExpectCompoundColumnsToBeUnique,
    )
    from great_expectations.expectations.core.expect_table_row_count_to_equal import (
        ExpectTableRowCountToEqual,
    )

    from dprelease.validate.gx_expectations import ExpectReleasedRowsToObey

    kinds: dict[str, Any] = {
        ROWS: ExpectTableRowCountToEqual,
        UNIQUE: ExpectCompoundColumnsToBeUnique,
        OBEY: ExpectReleasedRowsToObey,
    }
    made = [kinds[kind](**arguments, meta={"rule": rule}) for rule, kind, arguments in expected]
    return ExpectationSuite(name=SUITE, expectations=made)


def _judged(frame: pd.DataFrame, expected: Sequence[Expected]) -> list[tuple[str, int]]:
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
    batch = (
        context.data_sources.add_pandas(SUITE)
        .add_dataframe_asset(SUITE)
        .add_batch_definition_whole_dataframe(SUITE)
        .get_batch({"dataframe": frame})
    )
    result = batch.validate(_suite(expected), result_format=COUNTS)
    return [_reduced(one) for one in result.results]


def _reduced(result: Any) -> tuple[str, int]:
    """Return the count of one expectation's result; nothing else of it is kept."""
    name = str(result.expectation_config.meta["rule"])
    if result.success:
        return name, 0
    return name, max(int(result.result.get("unexpected_count", 0) or 0), 1)
