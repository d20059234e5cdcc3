"""`dprelease verify`: re-check a publication folder without the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.terminal import AsJson, print_json, say, show_error
from dprelease.core.errors import VerificationError
from dprelease.core.numeric import counted

if TYPE_CHECKING:
    from dprelease.verification.verify import Verification


def verify(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="The folder of one period or several, of a pipeline, or all of `public/`."
        ),
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(help="Also check its anchor in this ledger: a file, or '${env:NAME}'."),
    ] = None,
    public_key: Annotated[
        list[str],
        typer.Option(
            help="It must be signed by this key, or another one given: a file, or 64 hex digits."
        ),
    ] = [],  # noqa: B006 - typer's way to say that there may be none
    patience: Annotated[
        float, typer.Option(help="Seconds that making a foreign plan again may take.", min=0.1)
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make a published folder again from its request, draw and receipt, and compare every byte.

    Of several folders each has its answer, and one that does not verify makes the exit status 1.

    Example: dprelease verify public/flights_weekly/2013-W05 --public-key office.pub

    Example: dprelease verify public --ledger .dprelease/ledger.db
    """
    from dprelease.verification.verify import verify as verify_folder

    answers: list[dict[str, Any]] = []
    listed = [period for folder in folders for period in _periods(folder)]
    short = listed != folders
    for folder in listed:
        try:
            result = verify_folder(
                folder, ledger=ledger, public_key=public_key or None, patience=patience
            )
        except VerificationError as problem:
            # No release at all: the others are looked at all the same.
            if len(listed) == 1:
                raise
            answers.append({"folder": str(folder), "ok": False, **problem.as_dict()})
            if not as_json:
                show_error(problem)
            continue
        answers.append(result.to_json())
        if not as_json:
            _print(result, named=len(listed) > 1, short=short)
    if as_json:
        print_json(answers[0] if len(listed) == 1 else answers)
    elif short:
        say(f"{sum(a['ok'] for a in answers)} of {counted(len(answers), 'folder')} verified")
    if not all(answer["ok"] for answer in answers):
        raise typer.Exit(1)


def _periods(folder: Path) -> list[Path]:
    """Return the folders of periods below that of a pipeline or of all pipelines; another folder as it is."""
    manifest = "release.json"
    if (folder / manifest).exists() or not any(
        path for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{manifest}")
    ):
        return [folder]
    inner = [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.is_symlink()]
    return [period for path in inner if path.name[0] != "." for period in _periods(path)]


def _print(result: Verification, *, named: bool, short: bool) -> None:
    """Print one answer, below its folder's name where there are several; `short`: in a line if it verifies."""
    if short and result.ok:
        say(f"ok    {result.folder}: {result.summary}")
        return
    styles = {True: "", False: "bold red", None: "yellow"}
    if named:
        say(result.folder, style="bold")
    for check in result.checks:
        line = f"{check.mark:<4}  {check.name:<13} {check.detail}"
        say(line, style=styles[check.ok])
    style = "bold" if result.ok else "bold red"
    say(result.summary, style=style)
    for line in ("no folder can show:", *(f"  {unknown}" for unknown in result.unknown)):
        say(line, style="dim")
