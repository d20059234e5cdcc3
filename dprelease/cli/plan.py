"""`dprelease plan`: the whole plan and its price; reads no row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import AsJson, console, print_json


def plan(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.", show_default=False)],
    period: Annotated[
        str | None, typer.Option(help="Plan this period; the price is the same.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run would draw and cost: mechanisms, runner-ups, expected errors.

    Reads no row and spends nothing.

    Example: dprelease plan pipelines/flights_weekly.yaml
    """
    from dprelease.pipeline.config import load_pipeline
    from dprelease.pipeline.run import plan_pipeline

    made = plan_pipeline(load_pipeline(pipeline), period)
    if as_json:
        print_json({**made.to_json(), "hash": made.hash})
        return
    from dprelease.planning.explain import renderable

    console().print(renderable(made))
