"""Recording an approval: inside one write transaction, signed there, at its one place in the chain."""

from __future__ import annotations

from dataclasses import replace

from dprelease.budget import chain, refusals
from dprelease.budget.approval import VERSION, Approval, approvals, signing_key
from dprelease.budget.connection import Connection, Place, raise_version
from dprelease.budget.signature import Signer


def record(db: Connection, place: Place, approval: Approval, signer: Signer | None) -> int:
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
