"""`dprelease withdraw` and `dprelease supersede`: corrections that keep the record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.terminal import say

if TYPE_CHECKING:
    from dprelease.results.corrections import Correction

Folder = Annotated[Path, typer.Argument(help="The folder of one published period.")]
Reason = Annotated[str, typer.Option(help="Why, in public words; shown for good.")]


def withdraw(folder: Folder, reason: Reason) -> None:
    """Record that a published release no longer stands. Deletes nothing; the budget stays spent.

    Example: dprelease withdraw public/flights_weekly/2013-W05 --reason "the source held test rows"
    """
    from dprelease.results.series.correct import withdraw as record

    _said(folder, record(folder, reason=reason))


def supersede(
    folder: Folder,
    by: Annotated[Path, typer.Option(help="The folder of the release that stands instead.")],
    reason: Reason,
) -> None:
    """Record that another published release stands instead. Deletes nothing.

    A period is drawn once, so a corrected release is another pipeline's, or another period's, and
    pays for itself.

    Example: dprelease supersede public/flights_weekly/2013-W05 --by
    public/flights_corrected/2013-W05 --reason "late rows were added"
    """
    from dprelease.results.series.correct import supersede as record

    _said(folder, record(folder, by=by, reason=reason))


def _said(folder: Path, entry: Correction) -> None:
    say(f"{entry.period} is {entry.says()}")
    say(
        f"recorded in {folder.resolve().parent / 'status.json'} as {entry.hash[:16]}…; the index "
        "and the feed show it, `latest` passes over it, no published byte changed"
    )
