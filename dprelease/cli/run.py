"""`dprelease run`: preflight, plan, charge, draw, validate, publish."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.terminal import AsJson, console, flowing, loaded, print_json
from dprelease.core.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from dprelease.pipeline.config import PipelineConfig
    from dprelease.pipeline.flow import Progress
    from dprelease.pipeline.run import RunResult
    from dprelease.release_plan.plan import ReleasePlan

Pipeline = Annotated[Path, typer.Argument(help="A pipeline file.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the receipt and the folder only.")
]
Early = Annotated[
    bool, typer.Option("--early", help="Release a period that is not over; it says so for good.")
]
Rehearse = Annotated[
    bool,
    typer.Option(
        "--rehearse", help="On made-up rows: opens neither source nor ledger, spends nothing."
    ),
]
RehearsedTo = Annotated[
    Path | None, typer.Option(help="With --rehearse: where, outside `publish.to`.")
]
Period = Annotated[
    str | None,
    typer.Option(help="Which period, e.g. 2013-W05; the name of the run where there is none."),
]


def run(
    pipeline: Pipeline,
    period: Period = None,
    early: Early = False,
    rehearse: Rehearse = False,
    to: RehearsedTo = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Release one period: charge the ledger, draw once, validate, publish.

    The same period again returns the same bytes and costs nothing. One that is not over, its delay
    counted, is refused: it is released once, and what comes later would be missing.

    Example: dprelease run pipelines/flights_weekly.yaml --period 2013-W05

    Example: dprelease run pipelines/flights_weekly.yaml --period 2013-W05 --rehearse --to rehearsal

    Exit status: 0 done; 1 refused, nothing spent; 2 usage or a faulty file; 3 spent, withheld;
    130 Ctrl-C: run again, it finishes at no further cost.
    """
    _run(pipeline, period, early, rehearse, to, quiet=quiet, as_json=as_json)


def keys(
    pipeline: Pipeline,
    period: Period = None,
    early: Early = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the keys that enough persons have in one period: the run of a pipeline with `release: {keys: …}`.

    Example: dprelease keys pipelines/pages.yaml --period 2026-W40
    """
    _run(pipeline, period, early, of_keys=True, quiet=quiet, as_json=as_json)


def _run(
    pipeline: Path,
    period: str | None,
    early: bool,
    rehearse: bool = False,
    to: Path | None = None,
    *,
    of_keys: bool = False,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a pipeline, or rehearse it, and say what is done; see `run`."""
    from dprelease.results.validate import gx_process

    with gx_process.begun():  # first of all: it takes as long as all else before the charge
        from dprelease.pipeline.planned import plan_pipeline
        from dprelease.pipeline.run import run as run_pipeline

        config = loaded(pipeline)
        if of_keys and not config.release.found:
            raise ConfigError(
                "this pipeline finds no keys",
                where=config.release.origin,
                fix="write e.g. `release: {keys: {column: page, epsilon: 1, delta: 0.000001}}` in its schema, or `dprelease run`",
                code="DPR111",
            )
        out = console(stderr=as_json)

        def show(plan: ReleasePlan) -> None:
            if not quiet and not as_json:
                from dprelease.release_plan.explain import renderable

                out.print(renderable(plan, out.width))

        def report(stage: str, detail: str) -> None:
            if not quiet:
                out.print(flowing(out, f"{stage:<9} {detail}", 10), soft_wrap=True)

        if rehearse or to is not None:
            show(plan_pipeline(config, period if config.period else None))
            _rehearse(config, to if rehearse else None, period, report, as_json=as_json)
            return
        watched = partial(_scanned, out) if out.is_terminal and not quiet else None
        result = run_pipeline(
            config, period=period, early=early, planned=show, progress=report, meter=watched
        )
        if as_json:
            print_json(result.to_json())
            return
        _say_where(result, out, quiet=quiet)


def _scanned(out: Console, share: float, left: float | None) -> None:
    from rich.text import Text

    rest = "" if left is None else f", about {left:,.0f} s left"
    out.print(Text(f"scan      {share:.0%}{rest}          "), end="\r", soft_wrap=True)


def _say_where(result: RunResult, out: Console, *, quiet: bool) -> None:
    if quiet:  # else the progress has said both
        out.print(flowing(out, str(result.receipt)), soft_wrap=True)
        out.print(flowing(out, str(result.folder)), soft_wrap=True)
    elif "report.html" in result.files:
        where = str(result.folder / "report.html")
        out.print(flowing(out, f"open      {where}", 10), soft_wrap=True)


def _rehearse(
    config: PipelineConfig, to: Path | None, period: str | None, report: Progress, *, as_json: bool
) -> None:
    from dprelease.pipeline.rehearsal import MARK, rehearse

    if to is None:
        raise ArgumentError(
            "`--rehearse` and `--to DIR` belong together",
            fix="a rehearsal says where, and a run publishes where its pipeline says",
            code="DPR659",
        )
    made = rehearse(config, to, period=period, progress=report)
    if as_json:
        print_json({"rehearsal": MARK, "folder": str(made.folder), "files": dict(made.files)})
