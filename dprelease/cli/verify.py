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
    patience: Annotated[
        float, typer.Option(help="Seconds that making a foreign plan again may take.", min=0.1)
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make a published folder again from its request, draw and receipt, and compare every byte.

    Example: dprelease verify public/flights_weekly/2013-W05
    """
    from rich.text import Text

    from dprelease.verification.verify import UNKNOWN
    from dprelease.verification.verify import verify as verify_folder

    result = verify_folder(folder, ledger=ledger, patience=patience)
    if as_json:
        print_json(result.to_json())
    else:
        out = console()
        marks = {True: ("ok  ", "green"), False: ("FAIL", "bold red"), None: ("-   ", "yellow")}
        for check in result.checks:
            line = Text.assemble(marks[check.ok], f"  {check.name:<13} {check.detail}")
            out.print(line, soft_wrap=True)
        out.print(result.summary, style="bold" if result.ok else "bold red", soft_wrap=True)
        out.print("no folder can show:", style="dim")
        for unknown in UNKNOWN:
            out.print(f"  {unknown}", style="dim", soft_wrap=True)
    if not result.ok:
        raise typer.Exit(1)
