"""`dprelease inspect`: raw-input checks for the curator, at a terminal and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import console


def inspect(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.", show_default=False)],
    period: Annotated[
        str | None, typer.Option(help="Look at the rows of this period; at all rows without it.")
    ] = None,
) -> None:
    """PRIVATE, for curators: how the raw rows fit the schema (null, clamped, filtered, unknown keys).

    The numbers are exact and have no privacy guarantee. They are shown at a terminal only and
    never written; no release reads them.

    Example: dprelease inspect pipelines/flights_weekly.yaml --period 2013-W05
    """
    from dprelease.errors import ArgumentError

    if not sys.stdout.isatty():
        raise ArgumentError(
            "raw-input checks are shown at a terminal only",
            why="their numbers are exact: in a file, a pipe or a log they would be a leak",
            fix="run `dprelease inspect` yourself, without a pipe or redirection",
            code="DPR616",
        )
    from dataclasses import replace

    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from dprelease.inspection import MARK, inspect_rows
    from dprelease.pipeline.config import load_pipeline
    from dprelease.pipeline.run import open_source, plan_pipeline

    config = load_pipeline(pipeline)
    if period is None:
        config = replace(config, period=None)
    found = inspect_rows(plan_pipeline(config, period), open_source(config.source))
    table = Table(show_lines=False, header_style="bold", expand=False)
    filtered = any(f.passing is not None for f in found)
    numbers = ("rows", "share", *(("pass the filter",) if filtered else ()))
    for header in ("column", "PRIVATE: what", *numbers):
        table.add_column(header, justify="right" if header in numbers else "left")
    for f in found:
        share = f"{f.rows / f.of:.2%}" if f.of else ""
        style = "yellow" if f.rows and f.of else ""
        cells = [f"{f.rows:,}", share]
        if filtered:
            cells.append("" if f.passing is None else f"{f.passing:,}")
        table.add_row(Text(f.column), Text(f.what), *cells, style=style)
    out = console()
    warning = Panel(Text(MARK), title="PRIVATE", border_style="bold red", expand=False)
    out.print(warning)
    out.print(table)
    out.print(Text("PRIVATE: clear your screen when you are done", style="bold red"))
