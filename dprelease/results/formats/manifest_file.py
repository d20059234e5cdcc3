"""The bytes of a folder's `release.json` as a manifest, or what its format asks the reader to do.

A format version chooses the rules by which a folder is verified, and means the same for ever. One whose
rules turned out to be unsound is revoked by its name: nothing that verified under it is worth more than
its publisher's word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dprelease.core.errors import VerificationError
from dprelease.core.strict_json import read_json
from dprelease.results.formats.json_ import FILE, VERSION

REHEARSAL = "rehearsal/1"
"""The format of what `run --rehearse` writes: made-up rows, no release."""

REVOKED: Mapping[str, str] = {
    "release/1": "its rules believed what a manifest says of its own bounds and certificates, so a"
    " forged folder verified; and its releases may have counted two people as one",
}
"""Formats that are revoked, and what was found."""


def read_manifest(data: bytes | None, folder: Path, *, revoked: bool = False) -> dict[str, Any]:
    """Return the manifest of a folder from the bytes of its `release.json`.

    Args:
        revoked: one of a revoked format too, which can still be withdrawn.

    Raises:
        VerificationError: there is none, or it is not one of ours (DPR801), of a format that this
            version does not verify (DPR802), of one that is revoked (DPR803), or it is a rehearsal (DPR808).
    """
    why = f"a publication folder holds a manifest of version {VERSION}"
    fix = "name the folder of one period, e.g. public/clinic_weekly/2026-W46"
    version: object = None
    try:
        manifest = read_json(data or b"")
        version = manifest["dprelease"]
        if version == VERSION or (revoked and version in REVOKED):
            return dict(manifest)
    except (LookupError, TypeError, ValueError) as problem:
        if isinstance(problem, ValueError) and data is not None:
            why = f"it is not strict JSON: {problem}"
            fix = "ask the publisher, who moves the folder away and runs its period again: it returns the same bytes"
    if isinstance(version, str):
        raise _another(version, folder)
    raise VerificationError(
        f"there is no readable {FILE}"
        if (folder / FILE).exists()
        else f"this folder holds no {FILE}",
        where=str(folder),
        why=why,
        fix=fix,
        code="DPR801",
    )


def _another(version: str, folder: Path) -> VerificationError:
    """Return the refusal of another format: what to do depends on whether it is older or newer."""
    if version == REHEARSAL:
        return VerificationError(
            "rehearsal: no release",
            where=str(folder),
            why="`run --rehearse` wrote it: its rows are made up, and no number in it is about anybody",
            fix="name the folder of a release; rehearsals are for trying a pipeline out",
            code="DPR808",
        )
    if version in REVOKED:
        return VerificationError(
            f"the format {version} is revoked",
            where=str(folder),
            why=REVOKED[version],
            fix="do not rely on it: ask the publisher to withdraw it and, if the budget allows, to release"
            f" the period again as {VERSION}; what was spent stays spent",
            code="DPR803",
        )
    number = re.fullmatch(r"release/([1-9][0-9]{0,5})", version, re.ASCII)
    newer = number is not None and int(number[1]) > int(VERSION.partition("/")[2])
    return VerificationError(
        f"a release of format {version[:40]} is not verified by this version",
        where=str(folder),
        why=f"it knows the rules of {VERSION}" + ("" if newer else ", and no format of that name"),
        fix="verify it with a newer version of dprelease"
        if newer
        else "ask the publisher what made it",
        code="DPR802",
    )
