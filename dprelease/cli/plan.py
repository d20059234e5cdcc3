"""`dprelease plan`: the whole plan and its price; reads no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.terminal import (
    AsJson,
    console,
    flowing,
    loaded,
    print_json,
    save,
    say,
    show_error,
)
from dprelease.core.numeric import counted, short

if TYPE_CHECKING:
    from dprelease.pipeline.config import PipelineConfig
    from dprelease.release_plan.plan import ReleasePlan

POLL = 0.5
"""Seconds between two looks at the files of `--watch`."""


def plan(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    period: Annotated[
        str | None, typer.Option(help="Plan this period; the price is the same.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", help="Write an offline page: error against epsilon, to explore."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write the plan to a file, for `dprelease approve`; its page, if that is called .html.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Show what differs from another pipeline file or a published folder."),
    ] = None,
    max_error: Annotated[
        list[str] | None,
        typer.Option(help="NAME=ERROR: which epsilon brings a statistic that near? Repeatable."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Name every admissible mechanism, with its error.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Plan again whenever a file changes; Ctrl-C ends it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run would draw and cost: mechanisms, runner-ups, expected errors.

    Reads no row and spends nothing.

    Example: dprelease plan pipelines/flights_weekly.yaml

    Example: dprelease plan pipelines/flights_weekly.yaml --html plan.html --max-error count=2

    Example: dprelease plan pipelines/flights_weekly.yaml --out plan.json
    """
    from dprelease.core.errors import ArgumentError

    if watch and as_json:
        raise ArgumentError(
            "`--watch` prints again and again, `--json` one object",
            fix="leave one of them out",
            code="DPR614",
        )

    def once() -> PipelineConfig:
        return load_and_show(
            pipeline, period, page, against, max_error or [], as_json=as_json, file=out, every=every
        )

    if watch:
        watched(pipeline, once)
    else:
        once()


def load_and_show(
    pipeline: Path,
    period: str | None,
    page: Path | None,
    against: Path | None,
    wishes: list[str],
    *,
    as_json: bool,
    file: Path | None = None,
    every: bool = False,
) -> PipelineConfig:
    """Plan once and print it, with what else was asked for; `page` and `file` are written."""
    from dprelease.pipeline.explore import needed, plan_of, releases_words, shared_words, wish
    from dprelease.pipeline.planned import plan_pipeline
    from dprelease.release_plan.compare import compare, differences
    from dprelease.release_plan.explain import renderable

    config = loaded(pipeline)
    wanted = [wish(text) for text in wishes]
    made = plan_pipeline(config, period)
    needs = [needed(config, name, error, made) for name, error in wanted]
    changes = None if against is None else compare(plan_of(against), made)
    if page is not None:
        save(page, _page(config, made))
    if file is not None and file.suffix == ".html":
        save(file, _page(config, made))
    elif file is not None:
        from dprelease.pipeline.approving import plan_file  # it reads ledgers: a plan does not

        save(file, plan_file(config, made, period))
    if as_json:
        found: dict[str, Any] = {**made.to_json(), "hash": made.hash}
        if wanted:
            found["needed"] = [n.to_json() for n in needs]
        if changes is not None:
            found["changes"] = [c.to_json() for c in changes]
        print_json(found)
        return config
    out = console()
    out.print(renderable(made, out.width, every=every))
    if pays := releases_words(config, made, made.epsilon):
        whole = f"the whole budget, epsilon {short(config.budget.epsilon)}{shared_words(config)}, pays for"
        out.print(
            f"{whole} {pays} such release{'s' * (pays != '1')}; `dprelease ledger show` says for how many more",
            markup=False,
        )
    for need in needs:
        out.print(flowing(out, str(need)), soft_wrap=True)
    if changes is not None:
        out.print(differences(changes, str(against), config.name))
    for written in (page, file):
        if written is not None:
            say(f"wrote {written}")
    return config


def _page(config: PipelineConfig, made: ReleasePlan) -> bytes:
    from dprelease.pipeline.explore import explore, releases_words, shared_words
    from dprelease.results.formats.plan_page import plan_page

    curve = explore(config, made)
    budget = {"total": short(config.budget.epsilon), "shared": shared_words(config)}
    for point in curve.points:
        if left := releases_words(config, made, point.epsilon):
            budget[short(point.epsilon)] = left
    return plan_page(config.name, made, curve, budget)


def watched(
    pipeline: Path,
    once: Callable[[], PipelineConfig],
    pause: Callable[[], bool] | None = None,
) -> None:
    """Plan now and after every change; a faulty file is shown and waited for."""
    import time

    from dprelease.core.errors import DpreleaseError
    from dprelease.pipeline.watch import changes, files_of

    files: tuple[Path, ...] = (pipeline.resolve(),)

    def look() -> None:
        nonlocal files
        try:
            config = once()
            files = files_of(config)
        except DpreleaseError as error:
            show_error(error)
        console(stderr=True).print(
            f"watching {counted(len(files), 'file')}; Ctrl-C ends it", style="dim"
        )

    def wait() -> bool:
        time.sleep(POLL)
        return True

    look()
    for _ in changes(lambda: files, pause or wait):
        look()
