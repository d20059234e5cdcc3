"""One key's way through the ledger: what each step of the protocol does inside its transaction.

    charge        T1  entry for the key? same plan: use it, other plan: refuse. Else check, insert.
    draw          T2  payload? take it. Else draw *inside* the write transaction and insert.
    commit_files  T3  the files, deterministic functions of the payload
    publish           the state that says they are in place
    fail              the state that ends the key without them
    approve           an approval at its one place in the chain, signed inside the transaction

Why the draw is inside T2. A crash before T2 commits may be followed by a second draw under the
same debit. That costs nothing only because whether T2 commits does not depend on the drawn
values: the payload has a fixed width and everything that depends on values comes later. Two
parallel drawers of which the first wins would cost up to twice epsilon, so T2 holds the write
lock. For the same reason an exception inside the draw, or a payload of the wrong width, makes the
entry FAILED for good instead of rolling back: a retry that depends on values is paid for.
No seed is stored: whoever later read a backup could subtract the noise.

Every function takes an open write transaction and the place for messages; errors are those of the
method of `Ledger` that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dprelease.budget import chain, declarations, refusals, rows, stored
from dprelease.budget.approval import VERSION, Approval, ApprovalRequest, approvals, signing_key
from dprelease.budget.connection import Connection, Place, closed_tables, raise_version
from dprelease.budget.record import Entry, Key, Receipt
from dprelease.budget.rows import balance
from dprelease.budget.signature import Signer
from dprelease.budget.timeline import window_of_texts


def charge(
    db: Connection,
    place: Place,
    entry: Entry,
    *,
    again: bool,
    wanted: ApprovalRequest | None = None,
) -> Receipt:
    """T1: debit `entry` unless its key is debited already by the same plan."""
    key = entry.key
    declarations.declared(db, key.dataset, place)
    if closed := closed_tables(db):
        raise refusals.closed(place, closed)
    seq = rows.find(db, key)
    fresh = seq is None
    if seq is None:
        seq = rows.insert_entry(db, entry, place, origin=None, wanted=wanted)
    else:
        rows.must_be_same_plan(db, seq, entry, place, wanted)
        if again and stored.state(db, seq)[0] == "charged":
            rows.insert_again(db, entry, place, seq, wanted)
            fresh = True
    window = window_of_texts(entry.window)
    now, recorded = balance(db, key.dataset, window), rows.entry_row(db, seq)
    return Receipt(
        anchor=chain.head(db, seq),
        spent=now.spent,
        budget=now.epsilon,
        fresh=fresh,
        early=recorded.entry.early,
        approval=recorded.approval,
    )


def draw(
    db: Connection, place: Place, key: Key, make: Callable[[], bytes], width: int | None
) -> bytes | None:
    """T2: return the payload, made here if there is none; None if the making failed for good."""
    seq = _live(db, place, key)
    data = stored.stored_payload(db, seq, place)
    if data is not None:
        return data
    if stored.state(db, seq)[0] == "published":
        raise refusals.published_elsewhere(place, key)
    data = _drawn(make, width)
    if data is None:
        stored.insert_state(db, seq, "failed", "DPR711")
    else:
        stored.insert_payload(db, seq, data)
    return data


def commit_files(db: Connection, place: Place, key: Key, files: Mapping[str, bytes]) -> None:
    """T3: store the files by name; a repeat must be identical."""
    seq = _live(db, place, key)
    known = stored.stored_files(db, seq, place)
    if known and known != files:
        raise refusals.other_files(place, key)
    if not known:
        if stored.state(db, seq)[0] != "drawn" or not files:
            raise refusals.wrong_stage(place, key, "there is nothing drawn to make files of")
        stored.insert_files(db, seq, files)


def publish(db: Connection, place: Place, key: Key) -> None:
    """Record that the stored files are in place."""
    seq = _live(db, place, key)
    state, _ = stored.state(db, seq)
    if state == "ready":
        stored.insert_state(db, seq, "published", None)
    elif state != "published":
        raise refusals.wrong_stage(place, key, "its files are not committed")


def fail(db: Connection, place: Place, key: Key, code: str) -> None:
    """Withhold the key for good."""
    seq = rows.debit_seq(db, key, place)
    state, _ = stored.state(db, seq)
    if state in ("ready", "published"):
        raise refusals.wrong_stage(place, key, "its files are committed")
    if state != "failed":
        stored.insert_state(db, seq, "failed", code)


def _live(db: Connection, place: Place, key: Key) -> int:
    seq = rows.debit_seq(db, key, place)
    state, code = stored.state(db, seq)
    if state == "failed":
        raise refusals.failed_before(place, key, code)
    return seq


def _drawn(make: Callable[[], bytes], width: int | None) -> bytes | None:
    """Return what `make` gave, or None if it raised or broke its width.

    The exception is dropped, not chained: its text and its frames may hold an exact answer.
    """
    try:
        data = make()
    except Exception:  # noqa: BLE001 (whatever it was, it must not lead to a second draw)
        return None
    if not isinstance(data, bytes) or (width is not None and len(data) != width):
        return None
    return data


def approve(db: Connection, place: Place, approval: Approval, signer: Signer | None) -> int:
    """Append the approval, signed by `signer` if there is one; return the event's number.

    Raises:
        LedgerError: the dataset's approvals are signed by another key (DPR428).
    """
    key = signing_key(approvals(db, approval.dataset))
    if key is not None and (signer is None or signer.public_key != key):
        raise refusals.other_approver(place, approval.dataset, key)
    made = replace(approval, after=chain.head(db).head_hash)
    if signer is not None:
        made = made.signed(signer)
    raise_version(db, VERSION)
    return chain.append(db, "approval", made.to_json())
