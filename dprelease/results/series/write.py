"""Write what is said of all periods: `index.html`, `index.json`, `feed.xml`, `catalog.jsonld`.

They are functions of the published folders, made again after every publication and correction,
under the lock of the pipeline's folder, so a slower publisher cannot put an older page back.
"""

from __future__ import annotations

from pathlib import Path

from dprelease.core.errors import DpreleaseError, InternalError
from dprelease.results.publish import update_files_of_pipeline
from dprelease.results.series import catalog, feed, index_json, page
from dprelease.results.series.collect import PAGE, PublishedSeries, collect


def files_of(series: PublishedSeries) -> dict[str, bytes]:
    """Return the files of a series, by name."""
    return {
        catalog.FILE: catalog.write(series),
        feed.FILE: feed.write(series),
        index_json.FILE: index_json.write(series),
        PAGE: page.write(series),
    }


def refresh(folder: Path) -> tuple[str, ...]:
    """Make the index files of the pipeline folder `<to>/<pipeline>` again; return those changed.

    Raises:
        VerificationError: there is no such folder (DPR810), or its record of corrections is
            broken (DPR830).
        OSError: the system refuses a step.
    """
    return update_files_of_pipeline(folder, lambda files: files_of(collect(folder, files)))


def refresh_after_publication(folder: Path) -> str | None:
    """Refresh; return what went wrong, in public words, or None.

    The release is published by now: a page that is made from it must not turn that into a failure.
    """
    try:
        refresh(folder)
    except DpreleaseError as error:
        problem = f"{error.what} ({error.code})"
    except Exception as error:  # noqa: BLE001 - as above; its text may quote a path or a label
        problem = InternalError.unforeseen(error).what
    else:
        return None
    return f"the index was not made again: {problem}; `dprelease index {folder}` tells more"
