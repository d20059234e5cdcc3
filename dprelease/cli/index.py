"""`dprelease index`: rebuild the page, the data and the feed over all periods of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import say
from dprelease.core.numeric import counted


def index(
    folder: Annotated[Path, typer.Argument(help="The folder of one pipeline, <to>/<pipeline>.")],
) -> None:
    """Rebuild index.html, index.json, feed.xml and catalog.jsonld from the published folders alone.

    Every run does this by itself; here is the way to do it after folders were copied or moved.

    Example: dprelease index public/flights_weekly
    """
    from dprelease.results.formats.json_ import FILE as MANIFEST
    from dprelease.results.published_folder import not_a_release
    from dprelease.results.series import catalog
    from dprelease.results.series.collect import collect
    from dprelease.results.series.write import refresh

    # Any other folder's own index.html stays: that of a site, or of the folder above.
    known = any(folder.glob(f"*/{MANIFEST}")) or (folder / catalog.FILE).exists()
    if folder.is_dir() and not known:
        raise not_a_release(folder, "no folder in it holds a release")
    changed = refresh(folder)
    series = collect(folder)
    for name in changed:
        say(f"wrote {folder / name}")
    if not changed:
        say(f"{folder / 'index.html'} is up to date")
    for name in series.unreadable:
        say(f"left out: `dprelease verify {folder / name}` says why", "yellow")
    away = sum(p.correction is not None for p in series.periods)
    note = f", {away} of them withdrawn or superseded" if away else ""
    say(f"{counted(len(series.periods), 'period')}{note}")
