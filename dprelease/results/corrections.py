"""`status.json`: the record of releases that were withdrawn or superseded after publication.

Published bytes never change and spent budget never comes back, so a correction is an entry beside
the periods, `<to>/<pipeline>/status.json`: append-only, each entry bound to the exact release by
the SHA-256 of its `release.json`, and to the entry before it by a hash chain. The latest entry of
a period is the current one. The file stays when a period's folder is moved away, so a withdrawn
release that is copied out of the ledger again is still withdrawn.

    {"dprelease": "status/1", "entries": [{"seq", "action", "period", "release", "reason", "by",
                                           "at", "prev", "hash"}]}

What the chain shows: an entry that was edited, dropped from the middle or reordered. What it does
not: the last entries cut off, or the whole file gone; a reader who must know keeps a copy of its
last hash, which `index.json` repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from dprelease.budget.record import canonical
from dprelease.core.codec import Stored, decode
from dprelease.core.errors import UNREADABLE, ArgumentError, ConfigError, VerificationError
from dprelease.core.strict_json import json_text, read_json
from dprelease.schema.naming import is_shown

FILE = "status.json"
VERSION = "status/1"
LONGEST = 1000

Action = Literal["withdraw", "supersede"]
_START = "0" * 64
_SUCCESSOR = {"pipeline", "period", "release"}


@dataclass(frozen=True, slots=True)
class Correction(Stored):
    """One entry.

    Attributes:
        release: SHA-256 of the release's `release.json`, in hex.
        reason: the publisher's own public words.
        by: of a supersession, the release that stands instead: pipeline, period, release.
        at: when it was recorded, `2013-02-06T11:00:00Z`.
    """

    action: Action
    period: str
    release: str
    reason: str
    by: Mapping[str, str] | None
    at: str
    prev: str = _START
    hash: str = ""

    def completed(self) -> Correction:
        texts = self.period, self.release, self.reason, self.at, *(self.by or {}).values()
        if max(map(len, texts)) > LONGEST or (self.by is not None and {*self.by} != _SUCCESSOR):
            raise ValueError("not as entries are written")
        return self

    @property
    def word(self) -> str:
        return "withdrawn" if self.action == "withdraw" else "superseded"

    def body(self) -> dict[str, Any]:
        """Return what is hashed."""
        return {name: part for name, part in asdict(self).items() if name != "hash"}

    def says(self) -> str:
        """Return one public sentence."""
        by = f" by {self.by['pipeline']} {self.by['period']}" if self.by else ""
        return f"{self.word}{by} on {self.at[:10]}: {self.reason}"


def parse(data: bytes | None) -> tuple[Correction, ...]:
    """Return the entries of a `status.json`, oldest first; of None, no entries.

    Raises:
        VerificationError: it is not ours, or its chain is broken (DPR830).
    """
    if data is None:
        return ()
    try:
        document = read_json(data)
        if document["dprelease"] != VERSION:
            raise ValueError("version")
        entries = tuple(_entry(value) for value in document["entries"])
    except (*UNREADABLE, ConfigError):
        raise _broken("it is not a record of corrections") from None
    prev = _START
    for entry in entries:
        if entry.prev != prev or entry.hash != _digest(entry):
            raise _broken("its hash chain is broken: an entry was changed, dropped or moved")
        prev = entry.hash
    return entries


def add(
    data: bytes | None,
    *,
    action: Action,
    period: str,
    release: str,
    reason: str,
    at: str,
    by: Mapping[str, str] | None = None,
) -> bytes:
    """Return `status.json` with one entry more; unchanged if the period stands like that already.

    Raises:
        VerificationError: `data` is broken (DPR830).
        ArgumentError: no usable reason (DPR691).
    """
    said = " ".join(reason.split())
    if not said or len(said) > LONGEST or not is_shown(said):
        raise ArgumentError(
            "a correction needs a reason",
            why="readers see it beside the release, for good",
            fix=f'say it in 1 to {LONGEST} characters: --reason "the source held test rows"',
            code="DPR691",
        )
    entries = parse(data)
    now = current(entries).get(period)
    new = Correction(action, period, release, said, by, at, entries[-1].hash if entries else _START)
    if now is None or not _same(now, new):
        entries = (*entries, replace(new, hash=_digest(new)))
    listed = [{"seq": i, **asdict(e)} for i, e in enumerate(entries, start=1)]
    document = {"dprelease": VERSION, "entries": listed}
    return (json_text(document, indent=1, sort_keys=True) + "\n").encode()


def current(entries: tuple[Correction, ...]) -> dict[str, Correction]:
    """Return period -> its latest entry."""
    return {entry.period: entry for entry in entries}


def _entry(value: Mapping[str, Any]) -> Correction:
    return decode(Correction, {name: part for name, part in value.items() if name != "seq"})


def _same(a: Correction, b: Correction) -> bool:
    return (a.action, a.release, a.reason, a.by) == (b.action, b.release, b.reason, b.by)


def _digest(entry: Correction) -> str:
    return hashlib.sha256(canonical(entry.body()).encode("ascii")).hexdigest()


def unreadable() -> VerificationError:
    """Return the error for a record that is not a readable file, or larger than one can be."""
    return _broken("it is not a readable file of a record's size")


def _broken(why: str) -> VerificationError:
    return VerificationError(
        f"the record of corrections, {FILE}, does not verify",
        why=why,
        fix="restore it from a copy; without it, readers cannot know what was withdrawn",
        code="DPR830",
    )
