"""Withdraw or supersede a published release: an entry in the record, no byte of it removed.

The ledger is not touched: what was published was seen, so its budget stays spent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from dprelease.core.errors import ArgumentError, VerificationError
from dprelease.results import corrections
from dprelease.results.corrections import Correction
from dprelease.results.formats.json_ import FILE as MANIFEST
from dprelease.results.formats.manifest_file import read_manifest
from dprelease.results.publish import update_files_of_pipeline
from dprelease.results.published_folder import listing, read_small, record_at
from dprelease.results.series.collect import collect
from dprelease.results.series.write import files_of


def withdraw(
    folder: Path, *, reason: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Correction:
    """Record that the release in `folder` is withdrawn, and make the index again.

    Raises:
        VerificationError: `folder` holds no release (DPR801, DPR810), it does not stand in its
            pipeline's folder (DPR831), or the record is broken (DPR830).
        ArgumentError: no usable reason (DPR691).
    """
    return _record(folder, "withdraw", reason, None, now)


def supersede(
    folder: Path,
    *,
    by: Path,
    reason: str,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Correction:
    """Record that the release in `by` stands instead of the one in `folder`.

    Raises:
        ArgumentError: both are the same release, or the other one was corrected itself (DPR692); else as `withdraw`.
    """
    place = by.resolve()
    manifest, release = _release(place)
    if release == _release(folder.resolve())[1]:
        raise ArgumentError(
            "a release cannot supersede itself",
            where=str(by),
            fix="name the folder of the release that stands instead",
            code="DPR692",
        )
    record = place.parent / corrections.FILE
    entries = corrections.parse(record_at(record) if record.exists() else None)
    if gone := corrections.current(entries).get(str(manifest["period"])):
        raise ArgumentError(
            "the release that is to stand instead does not stand",
            where=str(by),
            why=gone.says(),
            fix="name the folder of a release that stands, or withdraw this one",
            code="DPR692",
        )
    successor = {
        "pipeline": str(manifest["pipeline"]),
        "period": str(manifest["period"]),
        "release": release,
    }
    return _record(folder, "supersede", reason, successor, now)


def _record(
    folder: Path,
    action: corrections.Action,
    reason: str,
    by: Mapping[str, str] | None,
    now: Callable[[], datetime],
) -> Correction:
    place = folder.resolve()
    manifest, release = _release(place)
    period = str(manifest["period"])
    if (place.parent.name, place.name) != (manifest["pipeline"], period):
        raise VerificationError(
            "this release does not stand where it was published",
            where=str(folder),
            why="its record of corrections belongs beside it, in the pipeline's folder",
            fix=f"name <to>/{manifest['pipeline']}/{period}",
            code="DPR831",
        )
    at = now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def make(files: Mapping[str, bytes]) -> dict[str, bytes]:
        status = corrections.add(
            files.get(corrections.FILE),
            action=action,
            period=period,
            release=release,
            reason=reason,
            at=at,
            by=by,
        )
        new = {corrections.FILE: status}
        return {**new, **files_of(collect(place.parent, {**files, **new}))}

    update_files_of_pipeline(place.parent, make)
    entries = corrections.parse(record_at(place.parent / corrections.FILE))
    return corrections.current(entries)[period]


def _release(folder: Path) -> tuple[dict[str, object], str]:
    listing(folder)  # it is a folder of files
    data = read_small(folder / MANIFEST)
    manifest = read_manifest(data, folder, revoked=True)
    return manifest, hashlib.sha256(data or b"").hexdigest()
