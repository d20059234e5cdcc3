"""What users hold: `plan`, `release`, and the `Release` they return.

The facade may import every stage; what it passes around is plain frozen data.
"""

from __future__ import annotations

import html as escaping
import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.budget.ledger import Key, Ledger
from dprelease.engines.source import as_source
from dprelease.errors import ArgumentError, LedgerError, UnledgeredWarning
from dprelease.noised import Noised, Receipt
from dprelease.pipeline import stages
from dprelease.pipeline.paid import paid, published
from dprelease.pipeline.run import RunResult
from dprelease.pipeline.run import run as run_pipeline
from dprelease.planning.model import ReleasePlan
from dprelease.publish import publish_files
from dprelease.query.load import Schema
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import unit_to_json
from dprelease.validate.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dprelease.formats.picture import Picture

__all__ = ["Release", "create_ledger", "plan", "release", "run", "sql"]

SchemaLike = TableSchema | str | Path | Mapping[str, object]


def _schema(schema: SchemaLike) -> TableSchema:
    if isinstance(schema, TableSchema):
        return schema
    if isinstance(schema, Mapping):
        return Schema.from_dict(schema)
    if isinstance(schema, (str, Path)):
        return Schema.load(schema)
    raise ArgumentError(
        f"cannot read a schema from an object of type {type(schema).__name__}",
        fix="pass dp.Schema.load(...), a path to a schema file, or a mapping of the same shape",
        code="DPR630",
    )


def _overrides(given: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}


def plan(
    schema: SchemaLike,
    *,
    epsilon: object = None,
    delta: object = None,
    statistics: object = None,
    by: object = None,
    where: object = None,
) -> ReleasePlan:
    """Return what a release would draw and cost. Reads no row and spends nothing.

    Args:
        schema: a schema, a path to its file, or a mapping of the same shape.
        epsilon, delta, statistics, by, where: override the schema's `release` block.

    Raises:
        ConfigError, PlanError: the request is faulty, or no proved, useful plan exists.
    """
    given = {"epsilon": epsilon, "delta": delta, "statistics": statistics, "by": by, "where": where}
    return stages.plan_release(_schema(schema), _overrides(given))


class Release:
    """A drawn release: values, intervals, plan and receipt. All of it may be published.

    Attributes:
        table: tidy pyarrow table, one row per (group, published column).
        plan: the plan that was followed; receipt: what it cost.
    """

    def __init__(self, noised: Noised, request: stages.Request | None) -> None:
        self._noised = noised
        self._request = request

    @property
    def table(self) -> pa.Table:
        return self._noised.table

    @property
    def plan(self) -> ReleasePlan:
        return self._noised.plan

    @property
    def receipt(self) -> Receipt:
        return self._noised.receipt

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as `release.json` will hold it, file hashes left out."""
        from dprelease.formats.json_ import build_manifest

        verdict = stages.validated(self._noised, great_expectations=False)
        return build_manifest(
            self._noised, verdict, {}, software=stages.software(), formats=stages.FORMATS
        )

    def to_pandas(self, *, intervals: bool = True, status: bool = True) -> pd.DataFrame:
        """Return the wide table: one row per group, keys first, then each published column.

        Args:
            intervals: with `<name>_lower` and `<name>_upper`, the ends of the 95 % interval.
            status: with `<name>_status`. Without it, uninformative values are missing (NA): a
                number that says nothing never stands there as if it said something.
        """
        from dprelease.formats.wide import wide_table

        table = wide_table(self._noised, intervals=intervals, status=status)
        frame: pd.DataFrame = table.to_pandas()
        gaps = [
            c for c in table.column_names if str(table[c].type) == "int64" and table[c].null_count
        ]
        return frame.astype(dict.fromkeys(gaps, "Int64"))

    def plot(
        self, statistic: str | None = None, *, group: str | Sequence[str] | None = None
    ) -> Picture:
        """Return a picture of one statistic over the groups, with its 95 % intervals.

        It shows itself in a notebook; its `svg` is text to be written to a file. A histogram is a
        panel per group, the first 60 of them.

        Args:
            statistic: its published name (`mean_age`) or as it was asked for (`mean(age)`); the
                first one by default.
            group: one group alone: its label, or its labels in the order of `by`.

        Raises:
            ArgumentError: there is no such statistic (DPR613), or no such group (DPR618).
        """
        from dprelease.formats.picture import release_picture

        return release_picture(self._noised, statistic, group)

    def validate(self) -> Verdict:
        """Check every value with the Great Expectations suite made from the plan."""
        return stages.validated(self._noised, great_expectations=True)

    def publish(self, folder: str | Path) -> Path:
        """Publish to `<folder>/<pipeline>/<period>/` and return that path; repeatable.

        Raises:
            ArgumentError: the release has no ledger (DPR631).
            WithheldError: a value failed validation (DPR701), or the folder holds other bytes.
        """
        request = self._request
        if request is None:
            raise ArgumentError(
                "an unledgered release cannot be published",
                why="nothing durable records what it spent",
                fix='release with `ledger="ledger.db", dataset=..., period=...`',
                code="DPR631",
            )
        ledger, key = request.ledger, request.key
        files = ledger.files(key)
        if files is None:
            verdict = stages.validated(self._noised, great_expectations=True)
            if not verdict.ok:
                raise stages.withhold(request, verdict)
            budget = stages.spent_at(ledger, key, self.receipt.seq or 0)
            made = stages.bundle(
                self._noised, budget=budget, published=stages.day_of(datetime.now(UTC))
            )
            stages.commit(request, made)
            files = ledger.files(key) or {}
        out = publish_files(Path(folder), key.pipeline, key.period, files)
        with published():
            ledger.mark_published(key)
        from dprelease.series.write import refresh_after_publication

        refresh_after_publication(out.parent)
        return out

    def __repr__(self) -> str:
        groups = f"{len(self.plan.keys):,} groups" if self.plan.by else "one group"
        return f"<Release of {len(self.plan.statistics)} statistics over {groups}; {self.receipt}>"

    def _repr_html_(self) -> str:
        frame: Any = self.to_pandas(intervals=False, status=False)
        names = ", ".join(s.name for s in self.plan.statistics)
        lines = [
            f"{self.plan.guarantee}. {self.receipt}",
            f"Noise is in every number: see `release.to_pandas()` for intervals, `release.plot(name)` for {names}.",
        ]
        if frame.isna().any(axis=None):
            lines.append(
                "Where a value is missing, it would say nothing: the noise is as large as its whole range."
            )
        note = "<br>".join(escaping.escape(line) for line in lines)
        shown = frame.to_html(index=False, max_rows=40, escape=True, border=0)
        return f"{shown}<p>{note}</p>"


def release(
    data: object,
    schema: SchemaLike,
    *,
    epsilon: object = None,
    delta: object = None,
    statistics: object = None,
    by: object = None,
    where: object = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    period: str | None = None,
) -> Release:
    """Plan, charge, draw and check a release of `data`.

    Args:
        data: pandas or polars frame, pyarrow table, DuckDB relation, Spark DataFrame, or a path to
            Parquet or CSV.
        schema: a schema, a path to its file, or a mapping of the same shape.
        epsilon, delta, statistics, by, where: override the schema's `release` block.
        ledger: its file, or a PostgreSQL server by reference: "${env:NAME}".
        dataset, period: charge durably under the key (dataset, schema name, period); the
            same key again returns the same values and costs nothing. Without them nothing records
            the spending: one `UnledgeredWarning`, and `publish` refuses.

    Raises:
        ConfigError, PlanError, SourceError, BudgetError, LedgerError: nothing was spent.
        WithheldError, InternalError: the budget may have been charged.
    """
    table = _schema(schema)
    given = {"epsilon": epsilon, "delta": delta, "statistics": statistics, "by": by, "where": where}
    chosen = stages.plan_release(table, _overrides(given))
    return _drawn(data, chosen, _request(table, ledger, dataset, period))


def sql(
    query: str,
    schema: SchemaLike,
    *,
    epsilon: object = None,
    delta: object = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    period: str | None = None,
    **tables: object,
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
    table = _schema(schema)
    given = _overrides({"sql": query, "epsilon": epsilon, "delta": delta})
    chosen = stages.plan_release(table, given, origin="sql(...)", table=name)
    return _drawn(data, chosen, _request(table, ledger, dataset, period))


def _drawn(data: object, chosen: ReleasePlan, request: stages.Request | None) -> Release:
    source = as_source(data)
    engine = stages.engine_for(source)
    stages.preflight(chosen, source, engine)
    if request is None:
        warnings.warn(
            "released without a ledger: nothing records the epsilon spent; pass ledger=, dataset= "
            "and period= for a durable, publishable release",
            UnledgeredWarning,
            stacklevel=_caller_level(),
        )
        noised = stages.draw(chosen, source, engine, request=None)
    else:
        receipt = stages.charge(chosen, request)
        with paid(receipt):
            noised = stages.draw(chosen, source, engine, request=request, receipt=receipt)
    verdict = stages.validated(noised, great_expectations=False)
    if not verdict.ok:
        raise stages.withhold(request, verdict)
    return Release(noised, request)


def _caller_level() -> int:
    """Return the stack level of the first caller outside this package, for the warning."""
    import sys

    level = 1
    frame = sys._getframe(1)  # noqa: SLF001 - what warnings itself uses to name a line
    while frame is not None and frame.f_globals.get("__name__", "").startswith("dprelease"):
        level += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    return level


def _request(
    schema: TableSchema, ledger: str | Path | None, dataset: str | None, period: str | None
) -> stages.Request | None:
    if ledger is None:
        if dataset is not None or period is not None:
            raise ArgumentError(
                "`dataset` and `period` name a ledger entry, but no ledger is given",
                fix='add `ledger="ledger.db"`',
                code="DPR632",
            )
        return None
    key = Key(dataset or schema.name, schema.name, period or "once")
    create = f'dp.create_ledger("{ledger}", schema, dataset="{key.dataset}", epsilon=...)'
    try:
        book = Ledger.open(ledger)
    except LedgerError as refused:
        if refused.code != "DPR401":
            raise
        raise LedgerError(
            "there is no ledger",
            where=str(ledger),
            why="a release that created one would start from a full budget",
            fix=f"`{create}`, once; or restore the lost one",
            code="DPR401",
        ) from None
    if key.dataset not in book.datasets():
        raise LedgerError(
            f"dataset {key.dataset} has no budget in this ledger",
            where=str(ledger),
            why=f"it holds budgets of: {', '.join(book.datasets()) or 'none'}",
            fix=f"name one of these, or `{create}`",
            code="DPR407",
        )
    return stages.Request(book, key)


def create_ledger(
    path: str | Path,
    schema: SchemaLike,
    *,
    epsilon: object,
    delta: object = 0,
    dataset: str | None = None,
    composition: str = "basic",
) -> Path:
    """Create a ledger, or a dataset's budget in one; a no-op if both exist unchanged.

    Args:
        path: the ledger's file, on a local disk (back it up like the data), or a PostgreSQL server
            by reference: "${env:NAME}".
        schema: declares who is protected; a dataset's releases must all protect the same unit.
        epsilon, delta: everything that may ever be spent on the dataset.
        dataset: its name; the schema's by default.
        composition: "basic", or "zcdp" (with a delta): releases add up by their rho.

    Returns:
        `path`, for `release(..., ledger=...)`.

    Raises:
        LedgerError: the dataset has another budget, adjacency or unit here, or the folder cannot
            hold a ledger.
        ConfigError, ArgumentError: a faulty schema, name or number.
    """
    table = _schema(schema)
    Ledger.create(
        path,
        dataset=dataset or table.name,
        epsilon=epsilon,
        delta=delta,
        composition=composition,
        adjacency=table.adjacency.value,
        unit=json.dumps(unit_to_json(table.unit)),
    )
    return Path(path)


def run(pipeline: str | Path, *, period: str | None = None, early: bool = False) -> RunResult:
    """Run one period of a pipeline file and publish it (see `pipeline.run.run`).

    Args:
        early: release a period that is not over, too; the release says so for good.

    Raises:
        SourceError: the period is not over (DPR521), or not one that the source holds (DPR522).
        DpreleaseError: its class says what was already spent.
    """
    return run_pipeline(pipeline, period=period, early=early)
