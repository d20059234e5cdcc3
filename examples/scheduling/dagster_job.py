"""A Dagster job and schedule: the load, then one pass per hour, events as Dagster logs.

The pipeline has `ready: {file: …}`: a week is released once its marker is there, and nothing is spent before.
The marker is the load's last step, for weeks without rows too. Here the table is loaded already, so the
load is its marker alone: put your own before it.

The pass runs in Dagster's own process, through the same functions as the command. It may run
beside other schedulers: the ledger charges and draws each period once.

Annotations are evaluated on purpose: Dagster refuses an op whose `context` is annotated by a string.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from dagster import Definitions, Failure, OpExecutionContext, ScheduleDefinition, job, op

from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.schedule import job as scheduled
from dprelease.pipeline.schedule import tick

PROJECT = Path(os.environ.get("DPRELEASE_PROJECT", "/srv/release"))
PIPELINES = ("pipelines/flights_landed.yaml",)
LOADED = ("2013-W49", "2013-W50", "2013-W51", "2013-W52")


def run_what_is_due(project: Path, report: Callable[[Mapping[str, object]], None]) -> int:
    """Run one pass over the project's pipelines; return its exit status."""
    configs = [load_pipeline(project / name) for name in PIPELINES]
    return tick(scheduled(configs, report=report))


@op
def load() -> int:
    """Say which weeks' rows are all there; return how many."""
    folder = PROJECT / "landed" / "flights"
    folder.mkdir(parents=True, exist_ok=True)
    for week in LOADED:
        (folder / f"{week}.ok").touch()
    return len(LOADED)


@op
def release_what_is_due(context: OpExecutionContext, weeks: int) -> None:
    """Release what is due once the load has ended. Fail the op if a run was refused or a release is withheld; nothing private is logged."""
    context.log.info(str({"loaded": weeks}))
    status = run_what_is_due(
        PROJECT, lambda event: getattr(context.log, str(event["level"]))(str(dict(event)))
    )
    if status:
        raise Failure(f"exit status {status}: see the log", allow_retries=False)


@job
def dprelease_schedule() -> None:
    """Load, then run what is due."""
    release_what_is_due(load())


defs = Definitions(
    jobs=[dprelease_schedule],
    schedules=[ScheduleDefinition(job=dprelease_schedule, cron_schedule="@hourly")],
)
