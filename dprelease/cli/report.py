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
    """Rebuild the HTML report from `release.json` alone; the folder itself is not touched.

    Example: dprelease report public/flights_weekly/2013-W05 --to report.html
    """
    from dprelease.formats.html import report_from_manifest
    from dprelease.publish import read_folder
    from dprelease.verification import read_manifest, table_of

    files = read_folder(folder)
    manifest = read_manifest(files, folder)
    to.write_bytes(report_from_manifest(manifest, table_of(manifest)))
    console().print(f"wrote {to}", markup=False)
