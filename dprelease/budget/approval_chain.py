"""Approvals, followed while the chain is folded again: no debit without the one that it needs.

What a charge looked at in its transaction is looked at again here, from the events alone: the request,
the limits, the last day against the instant that the debit states, the key. The instant is the word of
whoever made the debit; a host with a wrong clock is not found out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dprelease.budget.approval import Approval, Approved, signing_key
from dprelease.budget.period_cap import counted_period
from dprelease.budget.record import Entry
from dprelease.core.errors import LedgerError
from dprelease.core.periods import instant


@dataclass(slots=True)
class Approvals:
    """The approvals by dataset, and what was debited. What is wrong is returned as text, None for nothing."""

    known: dict[str, list[Approved]] = field(default_factory=dict)
    periods: dict[int, str] = field(default_factory=dict)
    in_period: dict[tuple[str, str, str], Fraction] = field(default_factory=dict)
    in_all: dict[int, Fraction] = field(default_factory=dict)

    def declare(self, seq: int, body: Mapping[str, Any], previous: str) -> str | None:
        """Note an approval; `previous` is the hash of the event before it."""
        approval = Approval.of_event(body)
        known = self.known.setdefault(approval.dataset, [])
        key = signing_key(known)
        known.append(Approved(seq, approval))
        if approval.after != previous:
            return "was recorded elsewhere in the chain"
        if key is not None and approval.public_key != key:
            return "is not by the key that approves for its dataset"
        return None if approval.public_key is None or _is_signed(approval) else "is not signed"

    def debit(self, seq: int, entry: Entry, body: Mapping[str, Any]) -> str | None:
        """Note a debit; return what is wrong with it."""
        self.periods[seq] = counted_period(body, self.periods)
        dataset, pipeline = entry.key.dataset, entry.key.pipeline
        place = (dataset, pipeline, self.periods[seq])
        self.in_period[place] = self.in_period.get(place, Fraction(0)) + entry.epsilon
        stated = body.get("approval")
        same = [a for a in self.known.get(dataset, ()) if a.approval.pipeline == pipeline]
        if body.get("origin") is not None:  # `reconcile` debits what is published already
            return None
        if stated is None:
            return "is made without the approval that its pipeline needs" if same else None
        event = stated["event"]
        self.in_all[event] = self.in_all.get(event, Fraction(0)) + entry.epsilon
        newest = next((a for a in reversed(same) if a.approval.hash == stated["request"]), None)
        if newest is None or newest.event != event:
            return "names an approval that does not count for it"
        return self._within(newest, place, str(stated["at"]), signing_key(self.known[dataset]))

    def _within(
        self, newest: Approved, place: tuple[str, str, str], at: str, key: str | None
    ) -> str | None:
        limits = newest.approval
        if key is not None and limits.public_key != key:
            return "names an approval by another key"
        if limits.until is not None and instant(at).date().isoformat() > limits.until:
            return "is made after its approval ended"
        over = self.in_period[place] > limits.per_period
        if over or (limits.total is not None and self.in_all[newest.event] > limits.total):
            return "exceeds its approval"
        return None


def _is_signed(approval: Approval) -> bool:
    """Return whether the signature holds; where the extra is missing, runs refuse such approvals anyway."""
    try:
        return approval.is_signed()
    except LedgerError:
        return True
