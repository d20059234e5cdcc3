"""What stands in a published folder, read within bounds and through no link.

Folders are foreign until they verify: a file may be a pipe, a link or endless, and there may be any
number of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from dprelease.budget.citation import MANIFEST
from dprelease.core.errors import VerificationError
from dprelease.core.numeric import counted
from dprelease.core.periods import names_a_period
from dprelease.core.strict_json import MOST_BYTES as LARGEST
from dprelease.core.strict_json import read_file
from dprelease.results import corrections

Listing = Mapping[str, int]
"""Name to size in bytes."""

_MOST_FILES = 1000
_LARGEST_PAGE = 32 * 2**20
_LARGEST_RECORD = 16 * 2**20
_LEFT_BY = {
    ".DS_Store": "the Finder of macOS",
    ".ipynb_checkpoints": "Jupyter",
    "__MACOSX": "an archive of macOS",
    "Thumbs.db": "the Explorer of Windows",
    "desktop.ini": "the Explorer of Windows",
}


def listing(path: Path) -> Listing:
    """Return the files of a folder, following no link inside it.

    Raises:
        VerificationError: there is no such folder, it holds something else than regular files, or
            more than a thousand of them (DPR810).
    """
    found: dict[str, int] = {}
    why = "it holds something that is not a regular file"
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                said = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(said.st_mode) or len(found) >= _MOST_FILES:
                    why = why if len(found) < _MOST_FILES else "it holds more than 1,000 files"
                    break
                found[entry.name] = said.st_size
            else:
                return found
    except OSError as error:
        why = error.strerror or "it cannot be listed"
    raise not_a_release(path, why)


def read_small(path: Path | str, most: int = LARGEST, within: int | None = None) -> bytes | None:
    """Return the bytes of a regular file (`read_file`); None where it is none, a link, or larger than `most`."""
    try:
        return read_file(path, most, within)
    except OSError:
        return None


def record_at(path: Path | str, within: int | None = None) -> bytes:
    """Return the bytes of a record of corrections; VerificationError DPR830 if it cannot be one."""
    data = read_small(path, _LARGEST_RECORD, within)
    if data is None:
        raise corrections.unreadable()
    return data


def files_of_pipeline(folder: int) -> dict[str, bytes]:
    """Return the files beside the periods, passing over all else, and what is too large for ours."""
    found: dict[str, bytes] = {}
    for name in sorted(os.listdir(folder)):
        said = os.stat(name, dir_fd=folder, follow_symlinks=False)
        ours = stat.S_ISREG(said.st_mode) and not name.startswith(".")
        if name == corrections.FILE and ours:
            found[name] = record_at(name, folder)
        elif ours and said.st_size <= _LARGEST_PAGE and len(found) < _MOST_FILES:
            found[name] = read_file(name, _LARGEST_PAGE, folder)
    return found


def holds(folder: int, files: Mapping[str, bytes]) -> bool:
    """Return whether the folder holds exactly `files`; OSError for a file that is larger, or no file."""
    return set(os.listdir(folder)) == set(files) and all(
        read_file(name, len(data), folder) == data for name, data in files.items()
    )


def left_by(name: str) -> str | None:
    """Return which program leaves files or folders of this name behind; None if none is known."""
    if name in _LEFT_BY:
        return _LEFT_BY[name]
    return "macOS" if name.startswith("._") else None


def not_a_release(path: Path, why: str | None) -> VerificationError:
    """Return the refusal of a folder; it says what stands there, if that can be told."""
    why, fix = _what_is_there(path) or (why, "name <to>/<pipeline>/<period> or its `latest`")
    return VerificationError(
        "this is not a published folder", where=str(path), why=why, fix=fix, code="DPR810"
    )


def _what_is_there(path: Path) -> tuple[str, str] | None:
    """Return what keeps a folder from being one of a period, and what to do, where that can be told."""
    try:
        names = sorted(entry.name for entry in path.iterdir())[:_MOST_FILES]
    except OSError:
        return None
    if MANIFEST not in names:
        periods = [n for n in names if n != "latest" and (path / n / MANIFEST).is_file()]
        if periods:
            listed = "…, " * (len(periods) > 3) + ", ".join(periods[-3:])
            return (
                f"it is the folder of a pipeline, with {counted(len(periods), 'period')}: {listed}",
                f"name one of them: {path / periods[-1]}",
            )
        inner = next(iter(sorted(path.glob(f"*/*/{MANIFEST}"))), None)
        if inner is not None:
            pipeline = inner.parent.parent
            return "it is the folder above those of pipelines", f"name one of them: {pipeline}"
    for name in names:
        who = left_by(name)
        if who is not None and not (path / name).is_file():
            return f"it holds {name}, which {who} made", f"remove it: {path / name}"
    return None


def standing_of(folder: Path, manifest: Mapping[str, object], release: str) -> tuple[bool, str]:
    """Return whether the release stands, and what the record beside its folder says.

    One that stands under the name of another period, or under another name in its pipeline's folder, does not.

    Args:
        folder: the release's folder, its link `latest` included.
        release: SHA-256 of its `release.json`.

    Raises:
        VerificationError: the record is broken (DPR830).
    """
    place = folder.resolve()
    if place.name != manifest["period"] and (
        place.parent.name == manifest["pipeline"] or names_a_period(place.name)
    ):
        return (
            False,
            f"the release is of {manifest['period']}, and its folder is named {place.name}",
        )
    record = place.parent / corrections.FILE
    if not record.exists() and not record.is_symlink():
        return True, "no correction is recorded beside the folder"
    entries = corrections.parse(record_at(record))
    entry = corrections.current(entries).get(str(manifest["period"]))
    if entry is None:
        return True, f"stands; {counted(len(entries), 'correction')} of other periods"
    if entry.release != release:
        return False, f"{entry.says()} (the record names another release of this period)"
    return False, entry.says()
