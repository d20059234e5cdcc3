"""A folder against the ledger that it cites: the debit, the bytes committed under it, the whole chain.

The ledger decides: nothing that the folder states of its budget, approval or persons is taken from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.budget.connection import Place
from dprelease.budget.ledger import Anchor, Key, Ledger
from dprelease.budget.person import PersonLoss, person_at
from dprelease.budget.population import MemberLoss
from dprelease.core.codec import decode, encode
from dprelease.core.numeric import counted
from dprelease.results.formats.json_ import FILE
from dprelease.results.formats.over_time import ledger_over_time, over_tables
from dprelease.results.formats.public_words import public_words
from dprelease.results.published_folder import Listing
from dprelease.verification.comparison import holds

if TYPE_CHECKING:
    from dprelease.verification.derivation import Derivation


def against_ledger(
    path: Path, found: Listing, made: Derivation, place: Place | str
) -> tuple[bool, str]:
    """Return whether the ledger at `place` debited this release, and what it says of it."""
    book = Ledger.open(place)
    manifest = made.manifest
    cited = manifest["ledger"]
    if cited is None:
        return False, "the release cites no ledger"
    anchor = Anchor(cited["ledger_id"], cited["seq"], cited["head_hash"])
    if not book.anchor_ok(anchor):
        return False, f"the ledger does not have the cited head at entry {anchor.seq}"
    # A debit made again by `reconcile` stands elsewhere in the chain and names where it was.
    entry = next((e for e in book.entries() if anchor in (e.anchor, e.origin)), None)
    if entry is None or entry.entry.plan_hash != manifest["plan_hash"]:
        return False, f"entry {anchor.seq} debits another plan"
    key = entry.entry.key
    if (key.dataset, key.pipeline, key.period) != tuple(
        manifest[name] for name in ("dataset", "pipeline", "period")
    ):
        return False, f"entry {anchor.seq} is of {key}"
    if manifest["early"] not in {e.entry.early for e in book.entries() if e.entry.key == key}:
        return False, f"entry {anchor.seq} says otherwise whether the period was over"
    if entry.anchor == anchor and entry.approval != made.receipt.approval:
        return False, f"entry {anchor.seq} says otherwise whether it was approved"
    stated = manifest["budget"]
    if stated is not None and entry.anchor == anchor and not _budgeted(book, anchor, key, stated):
        return False, f"the budget as of entry {anchor.seq} is another one"
    # A restored ledger may know the debit without the bytes (`reconcile`): then by the manifest's hash,
    # which holds its budget and what it says of whole persons.
    adopted = book.adopted_manifest(key)
    if adopted is not None and adopted != hashlib.sha256(made.files[FILE]).hexdigest():
        return False, f"the manifest is not the one that was reconciled under entry {anchor.seq}"
    populations, member = book.populations(), (stated or {}).get("member")
    if adopted and member and not populations.knows(key.dataset, decode(MemberLoss, member)):
        return False, "it states that a member has lost more than the ledger knows"
    committed = book.files(key)
    if committed is not None and (
        set(committed) != set(found)
        or not all(holds(path / name, found[name], data) for name, data in committed.items())
    ):
        return False, f"the folder does not hold the bytes committed under entry {anchor.seq}"
    report = book.verify()
    if not report.ok:
        return False, "; ".join(report.problems[:3])
    words, loss = public_words(manifest), populations.loss(key.dataset)
    unit = ledger_over_time(book, key.dataset, (words.one, words.whole))
    said = "; ".join([unit, *over_tables(loss)])
    return (
        True,
        f"entry {anchor.seq} debits this plan; {counted(report.entries, 'debit')}, chain intact; {said}",
    )


def _budgeted(book: Ledger, anchor: Anchor, key: Key, stated: Mapping[str, Any]) -> bool:
    """Return whether the dataset had this budget, and a whole person and a member had lost that, at the entry: totals and deltas only rise."""
    now, member = book.budget(key.dataset), book.populations(anchor.seq).loss(key.dataset)
    delta, composition = Fraction(stated["delta"]), book.composition(key.dataset)
    spent, spent_delta = book.spent_at(key.dataset, anchor.seq, delta)
    person = person_at(book, key.dataset, anchor.seq, delta)
    return (
        stated["composition"] == composition
        and Fraction(stated["spent"]) == spent
        and Fraction(stated["total"]) <= now.epsilon
        and (delta <= now.delta if composition == "zcdp" else delta == spent_delta)
        and ("person" not in stated or stated["person"] == encode(person, PersonLoss | None))
        and stated.get("member") == (None if member is None else member.to_json())
    )
