"""`dprelease report`: rebuild the HTML report from a published folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import console


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of one period.", show_default=False)],
    to: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
) -> None:
    """Rebuild the HTML report from `release.json`; the folder itself is not touched.

    Of a release that stands, by the record of corrections beside the folder, it is the published page byte
    for byte; of another one, the new page says so at its top.

    Example: dprelease report public/flights_weekly/2013-W05 --to report.html
    """
    from dprelease.results.formats.html import report_from_manifest
    from dprelease.results.series.correct import standing_of
    from dprelease.verification.verify import made_again

    manifest, table, release = made_again(folder)
    stands, said = standing_of(folder, manifest, release)
    to.write_bytes(report_from_manifest(manifest, table, gone="" if stands else said))
    out = console()
    out.print(f"wrote {to}", markup=False)
    if not stands:
        out.print(
            f"this release does not stand: {said}", style="yellow", markup=False, soft_wrap=True
        )
