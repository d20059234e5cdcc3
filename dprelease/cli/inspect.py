"""`dprelease inspect`: raw-input checks for the curator, at a terminal and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import console, loaded


def inspect(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    period: Annotated[
        str | None, typer.Option(help="Look at the rows of this period; at all rows without it.")
    ] = None,
) -> None:
    """PRIVATE, for curators: how the raw rows fit the schema (null, clamped, filtered, unknown keys).

    The numbers are exact and have no privacy guarantee. They are shown at a terminal only and
    never written; no release reads them.

    Example: dprelease inspect pipelines/flights_weekly.yaml --period 2013-W05
    """
    from dprelease.inspection.screen import must_be_watched, show

    must_be_watched("`dprelease inspect`")
    from dataclasses import replace

    from dprelease.pipeline.planned import plan_pipeline
    from dprelease.pipeline.run import open_source

    config = loaded(pipeline)
    if period is None:
        config = replace(config, period=None)
    show(plan_pipeline(config, period), open_source(config.source), console())
