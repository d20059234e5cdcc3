"""`dprelease expectations`: the generated suite as a Great Expectations project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import loaded, say
from dprelease.core.numeric import counted


def expectations(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    to: Annotated[Path, typer.Option("--to", help="A folder for the project; created if missing.")],
    data_docs: Annotated[
        bool,
        typer.Option("--data-docs", help="Build the Data Docs site; its styles need the network."),
    ] = False,
) -> None:
    """Export what every released value must satisfy, as a Great Expectations project.

    Suite, checkpoint and custom expectation run without dprelease. Reads no row, spends nothing.

    Example: dprelease expectations pipelines/flights_weekly.yaml --to build/expectations
    """
    from dprelease.pipeline.planned import plan_pipeline
    from dprelease.results.validate.gx_project import export_project

    config = loaded(pipeline)
    files = export_project(plan_pipeline(config), to, data_docs=data_docs)
    say(f"wrote {counted(len(files), 'file')} to {to}", style="green")
    published = config.publish.to / config.name / "latest"
    shown = published.relative_to(Path.cwd()) if published.is_relative_to(Path.cwd()) else published
    say(f"check a release:  python {to / 'gx' / 'plugins' / 'dprelease_release.py'} {shown}")
