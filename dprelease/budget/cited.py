"""What published folders cite, held against a ledger's own rows; recorded where it is missing.

Always inside the caller's transaction; nothing here commits.
"""

from __future__ import annotations

import json

from dprelease.budget import chain, refusals
from dprelease.budget.citation import Citation
from dprelease.budget.connection import Connection, Place
from dprelease.budget.declarations import declaration, join_as_stated
from dprelease.budget.record import Anchor, Key
from dprelease.budget.rows import entry_row, find, insert_entry
from dprelease.budget.stored import insert_state, state


def origins(db: Connection) -> set[Anchor]:
    """Return the anchors that `reconcile` recorded."""
    found = db.execute("""SELECT body FROM chain WHERE body LIKE '%"origin":{%'""").fetchall()
    values = [json.loads(text).get("origin") for (text,) in found]
    return {Anchor(**value) for value in values if value}


def adopted_manifest(db: Connection, key: Key) -> str | None:
    """Return the SHA-256 of the manifest that `reconcile` adopted for the key, or None."""
    seq = find(db, key)
    row = db.execute(
        "SELECT body FROM chain JOIN state USING (seq) WHERE entry = ?", (seq or 0,)
    ).fetchone()
    if seq is None or row is None:
        return None
    body = json.loads(row[0])
    if body["origin"] is None:
        return None
    debited = entry_row(db, seq).entry.mechanisms[0].get("manifest_sha256")
    found = body.get("manifest_sha256", debited)
    return None if found is None else str(found)


def relevant(db: Connection, citation: Citation) -> bool:
    """Return whether the citation concerns this ledger: its own, or of a dataset it budgets.

    Other ledgers may publish other datasets into the same public folder.
    """
    return (
        citation.anchor.ledger_id == chain.ledger_id(db)
        or declaration(db, citation.entry.key.dataset) is not None
    )


def accounted(db: Connection, citation: Citation) -> bool:
    """Return whether the ledger holds the cited debit and knows that it was published."""
    seq = find(db, citation.entry.key)
    if seq is None:
        return False
    recorded = entry_row(db, seq)
    if recorded.entry.plan_hash != citation.entry.plan_hash:
        return False
    if recorded.state not in ("ready", "published"):
        return False
    return recorded.anchor == citation.anchor or citation.anchor in origins(db)


def must_account(db: Connection, citations: list[Citation], path: Place) -> None:
    """Raise DPR404 or DPR405 unless every relevant citation is accounted for."""
    for citation in citations:
        if relevant(db, citation) and not accounted(db, citation):
            own = citation.anchor.ledger_id == chain.ledger_id(db)
            raise (refusals.older if own else refusals.foreign)(path, citation.entry.key)


def adopt(db: Connection, citation: Citation, path: Place) -> None:
    """Record an unaccounted citation: debit it if it is not, and mark it published."""
    key, origin = citation.entry.key, citation.anchor
    if citation.member is not None:
        join_as_stated(db, key.dataset, citation.member.population, path)
    seq = find(db, key)
    if seq is None:
        seq = insert_entry(db, citation.entry, path, origin=origin)
    else:
        recorded = entry_row(db, seq).entry.plan_hash
        if recorded != citation.entry.plan_hash:
            raise refusals.other_plan(path, key, recorded, citation.entry.plan_hash)
        name, _ = state(db, seq)
        # A payload under the cited debit is the one that was published; under another debit of
        # the same key it is a second draw.
        if name != "charged" and not (name == "drawn" and chain.head(db, seq) == origin):
            raise refusals.drawn_elsewhere(path, key)
    manifest = str(citation.entry.mechanisms[0]["manifest_sha256"])
    insert_state(db, seq, "published", None, origin=origin, manifest=manifest)
