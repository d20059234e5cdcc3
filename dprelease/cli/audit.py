"""`dprelease audit`: evidence for a plan's guarantee, on made-up rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import AsJson, console, print_json


def audit(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.", show_default=False)],
    draws: Annotated[
        int, typer.Option(min=100, max=10_000_000, help="Draws per law and per made-up table.")
    ] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Try to break what a pipeline's plan claims: exact losses, draws, a black box.

    Reads no private row, spends nothing: rows are made up from the schema's public numbers.

    Example: dprelease audit pipelines/flights_weekly.yaml --draws 20000

    Exit status: 0 nothing breaks its claim; 1 something does; 2 usage or a faulty file.
    """
    from rich.text import Text

    from dprelease.audit.plan import audit_plan
    from dprelease.pipeline.config import load_pipeline
    from dprelease.pipeline.run import plan_pipeline
    from dprelease.pipeline.stages import engine_named

    config = load_pipeline(pipeline)
    evidence = audit_plan(plan_pipeline(config), engine_named(config.engine), draws=draws)
    if as_json:
        print_json(evidence.to_json())
    else:
        out = console()
        out.print(Text(evidence.guarantee, style="bold"), soft_wrap=True)
        marks = {True: ("ok  ", "green"), False: ("FAIL", "bold red"), None: ("--  ", "yellow")}
        for f in evidence.findings:
            head = Text.assemble(marks[f.ok], f"  {f.layer:<13} {f.subject}")
            out.print(head, soft_wrap=True)
            out.print(
                Text(f"      claimed {f.claimed}; found {f.found}; {f.size}", style="dim"), soft_wrap=True
            )
        verdict = "nothing breaks its claim" if evidence.ok else "a claim is BROKEN"
        out.print(
            Text(f"{verdict}; {len(evidence.findings)} findings in {evidence.seconds:.1f} s"),
            style="bold" if evidence.ok else "bold red",
            soft_wrap=True,
        )
    if not evidence.ok:
        raise typer.Exit(1)
