"""One run of a pipeline: its file, its period, its ledger, then the stages of `flow`. Read this first.

A run is keyed by (dataset, pipeline, period), and a period that is not over is refused (`closing`). The first run of a key pays and draws; every later
one copies the committed bytes, reads no row and costs nothing. Up to the charge, an error has
spent nothing; after it, nothing that depends on the data can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.budget import refusals
from dprelease.budget.citation import read_citations
from dprelease.budget.ledger import Key, Ledger
from dprelease.core.errors import BudgetError, ConfigError, LedgerError, SourceError
from dprelease.core.periods import EXAMPLES, check_period_name, instant, instant_text
from dprelease.engines.engine import Engine, Metered
from dprelease.engines.scan import Meter
from dprelease.engines.source import (
    Source,
    as_source,
    duckdb_table,
    file_source,
    object_source,
    postgres_table,
    spark_table,
    tables_source,
)
from dprelease.pipeline import anchoring, preflight
from dprelease.pipeline.closing import (
    closes_at,
    declared_span,
    require_released_period,
    still_open,
)
from dprelease.pipeline.config import PipelineConfig, SourceConfig, load_pipeline
from dprelease.pipeline.due import due_at
from dprelease.pipeline.flow import Flow, Progress, Signing, quiet
from dprelease.pipeline.planned import closing_at, plan_pipeline
from dprelease.pipeline.ready import must_be_ready
from dprelease.pipeline.stages import Request, must_be_approved, of_fixed_lists, recorded
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import declared_by
from dprelease.release_plan.weak import weak_of
from dprelease.results.publish import folder_for
from dprelease.results.receipt import Receipt
from dprelease.results.signature_file import signing


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did.

    Attributes:
        folder: where the period is published.
        files: name -> size in bytes.
        receipt: what it cost; `fresh` is False when the period existed already.
        plan: the plan that was followed.
    """

    folder: Path
    files: Mapping[str, int]
    receipt: Receipt
    plan: ReleasePlan

    def to_json(self) -> dict[str, Any]:
        r = self.receipt
        return {
            "folder": str(self.folder),
            "files": dict(self.files),
            "pipeline": r.pipeline,
            "period": r.period,
            "dataset": r.dataset,
            "early": r.early,
            "fresh": r.fresh,
            "charged": r.epsilon if r.fresh else "0",
            "epsilon": r.epsilon,
            "spent": r.spent,
            "budget": r.budget,
            "weak": weak_of(r.epsilon, r.spent),
            "ledger": {"ledger_id": r.ledger_id, "seq": r.seq, "head_hash": r.head_hash},
            "plan_hash": r.plan_hash,
        }


def run(
    pipeline: str | Path | PipelineConfig,
    *,
    period: str | None = None,
    early: bool = False,
    now: datetime | None = None,
    planned: Callable[[ReleasePlan], object] | None = None,
    progress: Progress | None = None,
    meter: Meter | None = None,
) -> RunResult:
    """Run one period of a pipeline and publish it.

    Args:
        pipeline: a pipeline file, or its loaded configuration.
        period: the period's name, `2013-W05`; needed with a `period` block, else of your choice (default `once`).
        early: release a period that is not over, too; the release says so for good. One that is
            over waits for its rows all the same (`period.ready`).
        now: what the time is, aware; the system's clock by default.
        planned: called with the plan, before the ledger and the source are opened.
        progress: called with (stage, public detail).
        meter: told how far the scan is, where the engine knows; for a terminal.

    Raises:
        DpreleaseError: its class says what was already spent.
    """
    config = pipeline if isinstance(pipeline, PipelineConfig) else load_pipeline(pipeline)
    report = progress or quiet
    name = period_name(config, period)
    closes = closes_at(config, name)
    require_released_period(config, name)
    folder_for(config.publish.to, config.name, name)
    fixed = of_fixed_lists(config.schema, partial(_request, config, name, now))
    plan = plan_pipeline(replace(config, schema=fixed), name if config.period else None)
    if planned is not None:
        planned(plan)
    report("plan", plan.in_words(plan.guarantee))
    request = _request(config, name, now)
    moment = now or datetime.now(UTC)
    ahead = None if closes is None or closes <= moment else closes
    ready = request.ledger.has(request.key) and request.ledger.files(request.key) is not None
    if not _drawn(request):
        _may_be_drawn(config, name, ahead, early=early)
    plan = recorded(plan, request)
    with said_of(config):
        must_be_approved(plan, request)
    due = due_at(config, name)
    export = partial(anchoring.export_after_charge, config.budget, request.ledger)
    flow = Flow(plan, request, _engine(config, meter), report, export, _signing(config, ready))
    source = None if ready else open_source(config.source)
    if source is not None:
        flow.preflight(source)
        preflight.require_places(config.publish, request, config.budget.anchor)
    receipt = _charge(flow, config, ahead)
    if source is not None:
        if receipt.early is not None:
            flow = replace(flow, plan=closing_at(plan, instant(receipt.early)))
        noised = flow.draw(source, receipt)
        flow.commit(noised, receipt, config.publish.formats, due=due, moment=moment)
    folder, files = flow.publish(config.publish.to, receipt, due=due)
    return RunResult(folder, {n: len(b) for n, b in sorted(files.items())}, receipt, flow.plan)


def _signing(config: PipelineConfig, ready: bool) -> Signing:
    """Return what signs the files, which are as they were made where the pipeline names no key, or they are `ready`."""
    key = config.publish.signing_key
    if key is None or ready:
        return dict
    return signing(key.reveal_to_source(), "publish.signing_key")


def _drawn(request: Request) -> bool:
    """Return whether its noise is drawn: the same bytes are published again whenever they are asked for."""
    return request.ledger.has(request.key) and request.ledger.state(request.key) != "charged"


def _may_be_drawn(
    config: PipelineConfig, name: str, ahead: datetime | None, *, early: bool
) -> None:
    """Refuse a period that is not over (`ahead`: when it will be), or whose rows are not there yet."""
    if ahead is None:
        must_be_ready(config, name)
    elif not early:
        raise still_open(config, name, ahead)


def _engine(config: PipelineConfig, meter: Meter | None) -> Engine:
    engine = preflight.engine_named(config.engine, config.limits, config.engine_options())
    if meter is not None and isinstance(engine, Metered):
        engine.meter = meter
    return engine


def _request(config: PipelineConfig, name: str, now: datetime | None) -> Request:
    key = Key(config.budget.dataset, config.name, name)
    request = Request(_open_ledger(config), key, approved=config.budget.approved)
    return request if now is None else replace(request, clock=lambda: now)


def period_name(config: PipelineConfig, period: str | None) -> str:
    """Return the name of the period that is run.

    Raises:
        ConfigError: the pipeline has periods and none is named (DPR183).
    """
    rule = config.period
    if rule is not None and period is None:
        span, example = declared_span(rule), rule.last or rule.first or EXAMPLES[rule.every]
        raise ConfigError(
            f"which {rule.every}?",
            where=config.origin,
            why="this pipeline releases one period per run, and the period is its budget key",
            fix=f"name it, e.g. `--period {example}`{span and f'; the source holds periods {span}'}",
            code="DPR183",
        )
    return check_period_name("once" if period is None else period)


def _open_ledger(config: PipelineConfig) -> Ledger:
    try:
        book = Ledger.open(config.budget.ledger, public=config.publish.to)
        if config.budget.dataset in book.datasets():
            # A budget lowered in the file alone would look like a limit and be none.
            _declare(config)
        anchoring.check(config.budget, book)
        return book
    except LedgerError as refused:
        if refused.code == "DPR401" and _rests_on_another(config):
            refused = refusals.missing(config.budget.ledger, refusals.RESTING)
        raise _naming(refused, config) from None


def _rests_on_another(config: PipelineConfig) -> bool:
    """Return whether releases of the dataset are published: then `init` would refuse as well."""
    cited = read_citations([config.publish.to])
    return any(c.entry.key.dataset == config.budget.dataset for c in cited)


def _naming(
    refused: LedgerError | BudgetError, config: PipelineConfig
) -> LedgerError | BudgetError:
    """Return the error with its commands completed: the fix can be pasted; a refusal of the budget names the file."""
    budget, file = config.budget, _file(config)
    fix = refusals.completed(refused.fix or "", file)
    declared = refusals.declaring(budget.ledger, budget.dataset)
    fix = fix.replace(declared, f"dprelease ledger init {file}")
    raised = refusals.raising(budget.ledger, budget.dataset, "")
    fix = fix.replace(raised, f"dprelease ledger add {file} --epsilon ")
    where = budget.origin if isinstance(refused, BudgetError) else refused.where
    return refused.from_error(refused, where=where, fix=fix or None)


def _file(config: PipelineConfig) -> str:
    return config.origin.rpartition(":")[0]


def init_ledger(config: PipelineConfig) -> Ledger:
    """Create the ledger and the dataset budget that the pipeline names; a no-op if both exist.

    The ledger's head in its second place is made too, if it is missing, and checked otherwise.
    """
    with said_of(config):
        book = _declare(config)
    anchoring.init(config.budget, book)
    return book


def _declare(config: PipelineConfig) -> Ledger:
    budget = config.budget
    return Ledger.create(
        budget.ledger,
        dataset=budget.dataset,
        epsilon=budget.epsilon,
        delta=budget.delta,
        composition=budget.composition,
        per_period=budget.per_period,
        **declared_by(config.schema),
        population=budget.population,
        public_size=config.schema.rows.exact is not None,
        anchors=[config.publish.to],
    )


def _charge(flow: Flow, config: PipelineConfig, ahead: datetime | None) -> Receipt:
    early = None if ahead is None else instant_text(ahead)
    with said_of(config):
        return flow.charge(again=config.budget.on_crash == "charge_again", early=early)


@contextmanager
def said_of(config: PipelineConfig) -> Iterator[None]:
    """Let what the ledger refuses name the pipeline's file, so that its fix can be pasted."""
    try:
        yield
    except (LedgerError, BudgetError) as refused:
        raise _naming(refused, config) from None


def open_source(source: SourceConfig) -> Source:
    """Return the engine's source for a pipeline's `source` block.

    Raises:
        SourceError: it does not exist (DPR501), this installation cannot read it (DPR507), or as
            `object_source`.
    """
    if source.kind in ("parquet", "csv"):
        assert source.path is not None
        return file_source(source.kind, source.path, root=source.root, signs=source.signs)  # type: ignore[arg-type]
    if source.kind == "objects":
        return object_source(str(source.path))
    if source.kind == "arrow":
        return as_source(_arrow(str(source.path)))
    if source.kind == "view":
        named = {name: open_source(table) for name, table in source.tables.items()}
        return tables_source(named)
    if source.kind == "duckdb":
        return duckdb_table(str(source.path), str(source.table))
    if source.kind == "postgres":
        assert source.dsn is not None
        return postgres_table(source.dsn.reveal_to_source, str(source.table))
    if source.kind == "spark":
        return spark_table(str(source.table))
    raise SourceError(
        f"this version does not read from `{source.kind}`",
        fix="export the table to Parquet, or name a DuckDB file",
        code="DPR507",
    )


def _arrow(path: str) -> Any:
    """Return a memory-mapped Arrow IPC file (or stream) as a table."""
    import pyarrow as pa

    try:
        if Path(path).is_file():  # a named pipe would be waited for
            with pa.memory_map(path) as mapped:
                try:
                    return pa.ipc.open_file(mapped).read_all()
                except pa.ArrowInvalid:
                    return pa.ipc.open_stream(mapped).read_all()
    except (OSError, ValueError, pa.ArrowException):
        pass
    raise SourceError(
        f"{path} does not open as an Arrow IPC file",
        fix="write it with pyarrow.ipc or pyarrow.feather",
        code="DPR502",
    )
