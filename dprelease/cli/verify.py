"""`dprelease verify`: re-check a publication folder without the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import AsJson, console, print_json


def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of one period.", show_default=False)],
    ledger: Annotated[
        Path | None,
        typer.Option(help="Also check its anchor in this ledger: a file, or '${env:NAME}'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute hashes, certificates, values and domains from the published folder alone.

    Example: dprelease verify public/flights_weekly/2013-W05
    """
    from rich.text import Text

    from dprelease.verification import verify as verify_folder

    result = verify_folder(folder, ledger=ledger)
    if as_json:
        print_json(result.to_json())
    else:
        out = console()
        for check in result.checks:
            mark = ("ok  ", "green") if check.ok else ("FAIL", "bold red")
            out.print(Text.assemble(mark, f"  {check.name:<13} {check.detail}"), soft_wrap=True)
        out.print(
            "verified" if result.ok else "NOT verified", style="bold" if result.ok else "bold red"
        )
    if not result.ok:
        raise typer.Exit(1)
