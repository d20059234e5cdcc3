"""What users call: `plan`, `release`, `keys`, `sql` and `run`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.budget.ledger import Key, Ledger
from dprelease.budget.record import check_identifier
from dprelease.core.errors import (
    NOT_READ,
    ArgumentError,
    DpreleaseError,
    LedgerError,
    NotReadWarning,
    UnledgeredWarning,
)
from dprelease.core.numeric import Number
from dprelease.engines.engine import DEFAULT
from dprelease.engines.source import TableLike, as_source
from dprelease.pipeline.flow import Flow
from dprelease.pipeline.planned import plan_release
from dprelease.pipeline.preflight import engine_named
from dprelease.pipeline.stages import Request, of_fixed_lists, recorded
from dprelease.query.load import SchemaLike, as_schema, overrides
from dprelease.release_plan.plan import ReleasePlan
from dprelease.released import Keys, Release
from dprelease.schema.table import TableSchema

if TYPE_CHECKING:
    from dprelease.pipeline.run import RunResult

__all__ = [
    "Statistics",
    "Tables",
    "draft_schema",
    "keys",
    "plan",
    "release",
    "run",
    "sql",
]

Statistics = Sequence[str | Mapping[str, Any]] | Mapping[str, str | Sequence[str]]
"""Statistics as in a schema's `release` block: `"mean(age)"`, or a mapping with options; or by column, as
pandas has them: `{"age": ["mean", "std"]}`."""


Tables = Sequence[Mapping[str, Any]]
"""Tables as in a schema's `release` block: `{"name": "regions", "by": ["region"], "statistics": ["count"]}`."""


def plan(
    schema: SchemaLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    statistics: Statistics | None = None,
    by: Sequence[str] | None = None,
    where: str | None = None,
    tables: Tables | None = None,
    rules: Mapping[str, object] | None = None,
    during: str | None = None,
) -> ReleasePlan:
    """Return what a release would draw and cost. Reads no row and spends nothing.

    Args:
        schema: a schema, a path to its file, or a mapping of the same shape.
        epsilon, delta, statistics, by, where, tables, rules: override the schema's `release` block; `tables` stand
            instead of `by` and `statistics`.
        during: as in `release`.

    Raises:
        ConfigError, PlanError: the request is faulty, or no proved, useful plan exists.
        ArgumentError: `during` names no period, or the schema declares no `time` (DPR639, DPR640).
    """
    keys: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "statistics": statistics}
    keys |= {"by": by, "where": where, "tables": tables, "rules": rules}
    return plan_release(as_schema(schema), overrides(keys), during=during)


def release(
    data: TableLike,
    schema: SchemaLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    statistics: Statistics | None = None,
    by: Sequence[str] | None = None,
    where: str | None = None,
    tables: Tables | None = None,
    rules: Mapping[str, object] | None = None,
    during: str | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    period: str | None = None,
) -> Release:
    """Plan, charge, draw and check a release of `data`.

    Args:
        data: pandas or polars frame, pyarrow table, DuckDB relation, Spark DataFrame, or a path to
            Parquet or CSV; `{"csv": {"path": …, "delimiter": …, "decimal": …}}` says how a CSV file is written.
        schema: a schema, a path to its file, or a mapping of the same shape.
        epsilon, delta, statistics, by, where, tables, rules: override the schema's `release` block; `tables` stand
            instead of `by` and `statistics`.
        during: release the rows of one period of the schema's `time` alone: 2026-W46, 2026-11, 2026-Q4. It
            is the window that the loss counts in, and names the ledger's entry.
        ledger: its file, or a PostgreSQL server by reference: "${env:NAME}".
        dataset, period: charge durably under the key (dataset, schema name, period); the
            same key again returns the same values, costs nothing, and says that it read no row (`NotReadWarning`). Without them nothing records
            the spending: one `UnledgeredWarning`, and `publish` refuses. `period` is a label: it leaves
            no row out, so its loss counts for all times; beside `during` it can only be the same.

    Raises:
        ConfigError, PlanError, SourceError, BudgetError, LedgerError: nothing was spent.
        WithheldError, InternalError: the budget may have been charged.
    """
    keys: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "statistics": statistics}
    keys |= {"by": by, "where": where, "tables": tables, "rules": rules}
    return _drawn(data, schema, keys, (ledger, dataset, period), during=during)


def keys(
    data: TableLike,
    schema: SchemaLike,
    *,
    column: str,
    epsilon: Number,
    delta: Number,
    max_keys: int = 1,
    during: str | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    period: str | None = None,
) -> Keys:
    """Release the keys of a column that nobody declared, those that enough persons have, and how many have each.

    Args:
        data, schema, during: as in `release`.
        column: a category without `values`.
        epsilon, delta: what the whole list costs one person.
        max_keys: keys that one person counts at, chosen by a secret hash.
        ledger, dataset, period: as in `release`, under the key (dataset, schema name and "-keys", period).

    Raises:
        DpreleaseError: as `release`.
    """
    options = {"column": column, "epsilon": epsilon, "delta": delta, "max_keys": max_keys}
    at = ledger, dataset, period
    found = _drawn(data, schema, {"keys": options}, at, "-keys", origin="keys(...)", during=during)
    return Keys(found.noised, found.flow)


def draft_schema(data: TableLike, *, name: str = "table") -> str:
    """Return a schema file for `data`, drafted from its column names and types: never its values.

    Every question that only the publisher can answer stands on a line with ANSWER: ranges, public
    values, who is protected, how much it may cost.

    Args:
        data: anything that `release` takes.
        name: of the schema.

    Raises:
        SourceError: the table does not open or cannot be described (DPR500 to DPR502, DPR505).
    """
    from dprelease.pipeline.drafted import draft_schema as drafted

    return drafted(data, name=name)


def sql(
    query: str,
    schema: SchemaLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    period: str | None = None,
    **tables: TableLike,
) -> Release:
    """Release what one SELECT asks for: the same plan as the release block that says the same.

    Args:
        query: `SELECT region, COUNT(*) AS n, AVG(age) FROM visits WHERE age >= 18 GROUP BY region`;
            the supported forms are listed in `dprelease.query.select`. It is read as a request
            and never run.
        schema: a schema, a path to its file, or a mapping of the same shape; the SELECT replaces
            its `by`, `where` and `statistics`.
        epsilon, delta: override the schema's `release` block.
        ledger, dataset, period: as in `release`.
        tables: one table, under the name that FROM gives it: `visits=df`.

    Raises:
        PlanError: the SELECT asks for more than a release can give (DPR250 to DPR255).
        ArgumentError: not exactly one table is given (DPR638).
        DpreleaseError: as `release`.
    """
    if len(tables) != 1:
        raise ArgumentError(
            f"a release is of one table, not {len(tables)}",
            where="sql(...)",
            fix="pass the table under its name in FROM: `visits=df`",
            code="DPR638",
        )
    ((name, data),) = tables.items()
    keys = {"sql": query, "epsilon": epsilon, "delta": delta}
    return _drawn(data, schema, keys, (ledger, dataset, period), origin="sql(...)", table=name)


def _drawn(
    data: TableLike,
    schema: SchemaLike,
    keys: Mapping[str, Any],
    at: tuple[str | Path | None, str | None, str | None],
    ending: str = "",
    **more: Any,
) -> Release:
    """Return the release of what is given in place of the schema's `release` block.

    Args:
        at: ledger, dataset and period; ending: of the ledger's name for it, behind the schema's. more: as in
            `plan_release`.
    """
    counted = False
    try:
        table, block = as_schema(schema), overrides(keys)
        request = _request(table, *at, more.get("during"), ending)
        if request is None:
            plan = plan_release(table, block, **more)
        else:
            added = request.ledger.composition(request.key.dataset)
            fixed = of_fixed_lists(table, lambda: request)
            plan = recorded(plan_release(fixed, block, composition=added, **more), request)
        source = as_source(data)
        engine = engine_named("spark" if source.kind == "spark_frame" else DEFAULT)
        flow = Flow(plan, request, engine)
        flow.preflight(source)
        counted = any(b.measurement.public_rows for b in plan.blocks)
        if request is None:
            warnings.warn(
                "released without a ledger: nothing records the epsilon spent; pass ledger=, dataset= "
                "and period= for a durable, publishable release",
                UnledgeredWarning,
                stacklevel=_caller_level(),
            )
        receipt = flow.charge()
    except DpreleaseError as refused:
        if not counted:
            refused.frame_not_read()
        raise
    drawn = request is not None and request.ledger.payload(request.key) is not None
    noised = flow.draw(source, receipt)
    if drawn:
        warnings.warn(
            f"{NOT_READ}: {receipt.period} of {receipt.pipeline} was drawn before, and these are its"
            f" values; other rows need another `{'during' if plan.query.window else 'period'}`, which costs epsilon again",
            NotReadWarning,
            stacklevel=_caller_level(),
        )
    flow.validate(noised, great_expectations=False)
    return Release(noised, flow)


def _caller_level() -> int:
    """Return the stack level of the first caller outside this package, for the warning."""
    import sys

    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - what warnings itself uses to name a line
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("dprelease"):
        level, frame = level + 1, frame.f_back
    return level


def _request(
    schema: TableSchema,
    ledger: str | Path | None,
    dataset: str | None,
    period: str | None,
    during: str | None,
    ending: str,
) -> Request | None:
    if ledger is None:
        if dataset is not None or period is not None:
            raise ArgumentError(
                "`dataset` and `period` name a ledger entry, but no ledger is given",
                fix='add `ledger="ledger.db"`',
                code="DPR676",
            )
        return None
    for name, value in (("dataset", dataset), ("period", period)):
        if (
            value is not None
        ):  # before it is compared: what pandas' NA is equal to is no truth value
            check_identifier(value, name)
    if during is not None and period not in (None, during):
        raise ArgumentError(
            f"the rows of {during} would be released under another name",
            why="`during` names the ledger's entry; who reads the folder must find the rows that it says",
            fix="leave `period` out; another release of the same rows needs a schema with another name",
            code="DPR677",
        )
    named = next(text for text in (period, during, "once") if text is not None)
    pipeline = schema.name[: 64 - len(ending)] + ending
    key = Key(schema.name if dataset is None else dataset, pipeline, named)
    also = "" if schema.population is None else ", population_epsilon=..."
    create = f'dp.create_ledger("{ledger}", schema, dataset="{key.dataset}", epsilon=...{also})'
    try:
        book = Ledger.open(ledger)
    except LedgerError as refused:
        if refused.code != "DPR401":
            raise
        why = "a release that created one would start from a full budget"
        fix = f"`{create}`, once; or restore the lost one"
        raise refused.from_error(refused, where=str(ledger), why=why, fix=fix) from None
    if key.dataset not in book.datasets():
        raise LedgerError(
            f"dataset {key.dataset} has no budget in this ledger",
            where=str(ledger),
            why=f"it holds budgets of: {', '.join(book.datasets()) or 'none'}",
            fix=f"name one of these, or `{create}`",
            code="DPR407",
        )
    return Request(book, key)


def run(pipeline: str | Path, *, period: str | None = None, early: bool = False) -> RunResult:
    """Run one period of a pipeline file and publish it (see `pipeline.run.run`).

    Args:
        early: release a period that is not over, too; the release says so for good.

    Raises:
        SourceError: the period is not over (DPR521), or not one that the source holds (DPR522).
        DpreleaseError: its class says what was already spent.
    """
    from dprelease.pipeline.run import run as run_pipeline  # pipeline files: a release reads none

    return run_pipeline(pipeline, period=period, early=early)
