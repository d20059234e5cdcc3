"""`dprelease report` and `dprelease note`: pages made again from a published folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dprelease.cli.terminal import save, say
from dprelease.core.caller import cannot_write


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of one period.")],
    to: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
) -> None:
    """Rebuild the HTML report from `release.json`; the folder itself is not touched.

    Of a release that stands, by the record of corrections beside the folder, it is the published page byte
    for byte; of another one, the new page says so at its top.

    Example: dprelease report public/flights_weekly/2013-W05 --to report.html
    """
    from dprelease.results.formats.html import report as written

    noised, manifest, _, gone = _made_again(folder)
    _write(to, written(noised, manifest, gone=gone), gone)


def note(
    folder: Annotated[Path, typer.Argument(help="The folder of one period.")],
    to: Annotated[Path, typer.Option(help="Where to write it: .md or .html.")] = Path("note.md"),
) -> None:
    """Write the methodology of a folder, to be printed or edited: who is protected, concepts, bounds, noise, budget.

    Example: dprelease note public/flights_weekly/2013-W05 --to note.html
    """
    from dprelease.results.formats.note import note as written

    kind = to.suffix.lower().removeprefix(".")
    if kind not in ("md", "html"):
        why = f"`{to.suffix}` is not a format of a note"
        raise cannot_write(to, why, "name a file that ends in .md or .html")
    noised, manifest, release, gone = _made_again(folder, whole=True)
    _write(to, written(noised, manifest, kind, release=release, gone=gone), gone)


def _made_again(folder: Path, *, whole: bool = False) -> tuple[Any, dict[str, Any], str, str]:
    """Return the release, its manifest and the manifest's hash, and what is said of a release that does not stand.

    Args:
        whole: all files must be those of the release, as `dprelease verify` finds them.
    """
    from dprelease.results.published_folder import standing_of
    from dprelease.verification.verify import made_again, must_verify

    if whole:
        must_verify(folder, but="status")
    noised, manifest, release = made_again(folder)
    stands, said = standing_of(folder, manifest, release)
    return noised, manifest, release, "" if stands else said


def _write(to: Path, data: bytes, gone: str) -> None:
    save(to, data)
    say(f"wrote {to}")
    if gone:
        say(f"this release does not stand: {gone}", style="yellow")
