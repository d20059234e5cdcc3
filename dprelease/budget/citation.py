"""What a published manifest says about the ledger, and how a ledger is held to it.

Every manifest (`release.json`) names its key, plan hash and guarantee, and under "ledger" the
head right after its debit. A ledger is older or foreign if it cannot account for such a citation:

    same ledger, and the head at that seq differs or does not exist yet      rolled back, rewritten
    same ledger and head, but the release's bytes are not committed here     rolled back between
                                            the debit and the publication: it would draw again
    another ledger, for a dataset this one budgets                           new, empty or swapped

unless `reconcile` recorded that very citation. In doubt a manifest that does not parse counts as
evidence, not as absence.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.budget.population import MemberLoss
from dprelease.budget.record import OPEN, Anchor, Entry, Key, canonical
from dprelease.core.codec import decode
from dprelease.core.errors import UNREADABLE, DpreleaseError, LedgerError
from dprelease.core.numeric import fraction_from_json
from dprelease.core.strict_json import MOST_BYTES, read_file, read_json

MANIFEST = "release.json"


@dataclass(frozen=True, slots=True)
class Citation:
    """One manifest's account of its debit.

    The entry's one mechanism descriptor is the SHA-256 of the manifest, which holds the others, and the number of
    rows that it takes for public. `member` is what it states that a member of a population had lost by then.
    """

    entry: Entry
    anchor: Anchor
    member: MemberLoss | None = None

    @classmethod
    def from_manifest(cls, data: bytes) -> Citation:
        """Return what the bytes of a `release.json` cite.

        Raises:
            LedgerError: it does not parse, or cites no debit (DPR406).
        """
        try:
            manifest = read_json(data)
            anchor, guarantee = manifest["ledger"], manifest["guarantee"]
            if not isinstance(anchor["seq"], int) or isinstance(anchor["seq"], bool):
                raise TypeError("seq")
            rows = (manifest.get("request") or {}).get("schema", {}).get("rows", {})
            size = {"public_size": rows["exact"]} if "exact" in rows else {}
            entry = Entry(
                key=Key(manifest["dataset"], manifest["pipeline"], manifest["period"]),
                plan_hash=manifest["plan_hash"],
                adjacency=guarantee["adjacency"],
                unit=canonical(guarantee["unit"]),
                mechanisms=({"manifest_sha256": hashlib.sha256(data).hexdigest(), **size},),
                epsilon=fraction_from_json(guarantee["epsilon"]),
                delta=fraction_from_json(guarantee["delta"]),
                rho=_rho(manifest),
                early=manifest.get("early"),
                time=canonical(guarantee["time"]) if "time" in guarantee else None,
                window=tuple(guarantee.get("window", OPEN)),
            )
            member = decode(MemberLoss | None, (manifest.get("budget") or {}).get("member"))
            head = Anchor(str(anchor["ledger_id"]), anchor["seq"], str(anchor["head_hash"]))
            return cls(entry, head, member)
        except (*UNREADABLE, DpreleaseError):
            raise _unreadable(None) from None


def _rho(manifest: dict[str, Any]) -> Fraction | None:
    """Return the rho that the cited plan records: pure plans need none, and where noise ends there is none."""
    composition = manifest.get("plan", {}).get("composition")
    rho = None if composition is None else composition["evidence"].get("rho")
    return None if rho is None else fraction_from_json(rho)


def read_citations(places: Iterable[Path]) -> list[Citation]:
    """Return the citations of all manifests, ordered by seq.

    Args:
        places: public folders (searched as `*/*/release.json`, links and hidden folders left
            out) or manifests. A folder that does not exist holds none.

    Raises:
        LedgerError: a manifest cannot be read (DPR406).
    """
    citations = [_read(path) for place in places for path in _manifests(Path(place))]
    return sorted(citations, key=lambda c: (c.anchor.ledger_id, c.anchor.seq, str(c.entry.key)))


def _manifests(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    try:
        outer = folders_in(place) if place.exists() else []
        folders = [inner for folder in outer for inner in folders_in(folder)]
    except OSError:
        raise _unreadable(place) from None
    return [path for folder in folders if os.path.lexists(path := folder / MANIFEST)]


def folders_in(place: Path) -> list[Path]:
    """Return the folders in a folder by name, links and hidden ones left out; OSError if it cannot be listed."""
    return [
        Path(found.path)
        for found in sorted(os.scandir(place), key=lambda found: found.name)
        if found.is_dir(follow_symlinks=False) and not found.name.startswith(".")
    ]


def _read(path: Path) -> Citation:
    try:
        return Citation.from_manifest(read_file(path, MOST_BYTES))
    except (OSError, LedgerError):
        raise _unreadable(path) from None


def _unreadable(path: Path | None) -> LedgerError:
    return LedgerError(
        "a published manifest does not say which debit it rests on",
        where=str(path) if path else None,
        why="without it a ledger that lost debits could not be told from a good one",
        fix="move the folder out of the way, and run its period again: the ledger holds the bytes",
        code="DPR406",
    )
