"""The ledger's head kept in a second place, signed if there is a key.

A chain does not show that the whole file was replaced by an older copy. Every published manifest
cites a head; this file is one more witness, in a place of its own: on another disk, under version
control, with an auditor. It is replaced after every debit and after every publication. A ledger
that does not hold the head it names is older or another, and no run goes on with it. A run never
makes the file, as it never makes a ledger: removing it must not remove the check.

A crash between a commit and this file leaves an earlier head of the same chain, which the ledger
still holds. Two processes write under the folder's lock, and a lower head never replaces a higher.

    {"dprelease": "ledger-head/1", "ledger_id", "seq", "head_hash", "public_key", "signature"}

Limits   whoever can replace this file and every manifest together with the ledger; a signature
         does not change that, because an older pair of ledger and head was signed as well.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.budget import location, signature
from dprelease.budget.record import Anchor, canonical
from dprelease.core.errors import LedgerError
from dprelease.core.strict_json import read_file, read_json

if TYPE_CHECKING:
    from dprelease.budget.ledger import Ledger

HEAD = "ledger-head/1"
_LARGEST = 4096


def write_head(
    path: Path, anchor: Anchor, signer: signature.Signer | None = None, *, replace: bool = False
) -> None:
    """Replace the head at `path`, atomically and durably, unless it holds a later one.

    Args:
        replace: also a later one.

    Raises:
        OSError: the system refuses; what was there is as before.
    """
    value: dict[str, object] = {"dprelease": HEAD, **asdict(anchor)}
    if signer is not None:
        value |= {
            "public_key": signer.public_key,
            "signature": signer.sign(signature.head_text(anchor)),
        }
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with location.locked(path.parent) as folder:
        with suppress(LedgerError):
            old = read_head(path)
            later = old.ledger_id == anchor.ledger_id and old.seq > anchor.seq
            if later and not replace:
                return
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(aside, flags, 0o644), "wb") as file:
                file.write(canonical(value).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            aside.rename(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        os.fsync(folder)


def read_head(path: Path, public_key: str | None = None) -> Anchor:
    """Return the head at `path`.

    Args:
        public_key: 64 hex digits; the head must then be signed by this key. Without it a
            signature is not looked at: one that names its own key proves nothing.

    Raises:
        LedgerError: there is none, it does not parse (DPR419), is not signed by that key (DPR420),
            or the extra is not installed (DPR422).
    """
    try:
        data = read_file(path, _LARGEST)
    except OSError:
        raise _unreadable(path, "it is missing, or cannot be read") from None
    try:
        value = read_json(data)
    except ValueError as error:
        raise _unreadable(path, f"it does not parse: {error}") from None
    try:
        if value["dprelease"] != HEAD or type(value["seq"]) is not int:
            raise TypeError("head")
        anchor = Anchor(str(value["ledger_id"]), value["seq"], str(value["head_hash"]))
        claimed, signed = str(value.get("public_key")), str(value.get("signature"))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise _unreadable(path, "it is not the head of a ledger") from None
    if public_key is not None and (
        claimed != public_key
        or not signature.verifies(signature.head_text(anchor), public_key, signed)
    ):
        raise LedgerError(
            "the ledger's head in its second place is not signed by the key",
            where=str(path),
            why="it was changed, or another key signed it",
            fix="find out who wrote it; `dprelease ledger verify` checks the ledger itself",
            code="DPR420",
        )
    return anchor


def check_head(path: Path, ledger: Ledger, public_key: str | None = None) -> Anchor:
    """Return the head at `path` if the ledger holds it.

    Raises:
        LedgerError: as `read_head`, or the ledger does not hold it (DPR419).
    """
    anchor = read_head(path, public_key)
    if not ledger.anchor_ok(anchor):
        raise LedgerError(
            "the ledger does not hold the head kept in its second place",
            where=str(path),
            why=f"event {anchor.seq} is missing or different: the ledger is older, rewritten or"
            " another one, and would spend again what was spent since",
            fix="put the newest copy back, or `dprelease ledger reconcile`",
            code="DPR419",
        )
    return anchor


def _unreadable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        "the ledger's head is not in its second place",
        where=str(path),
        why=f"{why}; a run that made it anew would lose the check",
        fix="restore it; after you have checked the ledger, `dprelease ledger init` makes it anew",
        code="DPR419",
    )
