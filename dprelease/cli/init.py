"""`dprelease init`: a starter project that runs at once, on synthetic data it generates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import say


def init(
    directory: Annotated[Path, typer.Argument(help="Where; created if missing.")] = Path(),
) -> None:
    """Make a runnable starter project with synthetic data. Overwrites nothing.

    Example: dprelease init my-release
    """
    from dprelease.pipeline.starter import create_starter

    made = create_starter(directory)
    for path in made:
        say(f"wrote {path}")
    where = "" if directory == Path() else f"cd {directory}\n  "
    say(
        f"\nnext:\n  {where}dprelease schema check schemas/clinic.yaml           # what is public, who is protected\n"
        "  dprelease plan pipelines/clinic_weekly.yaml          # price and expected errors; reads no row\n"
        "  dprelease ledger init pipelines/clinic_weekly.yaml   # the durable budget, once\n"
        "  dprelease run pipelines/clinic_weekly.yaml --period 2026-W46\n"
        "  dprelease verify public/clinic_weekly/2026-W46       # needs no data\n"
        "then open public/clinic_weekly/2026-W46/report.html; what a scheduler would call:\n"
        "  dprelease schedule pipelines/clinic_weekly.yaml --once"
    )
