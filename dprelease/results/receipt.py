"""What a release cost, as its publisher and its readers hold it: one line of text."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.core.numeric import plain
from dprelease.release_plan.weak import weak_of


def summed_by(composition: str, delta: Fraction) -> str:
    """Return how a receipt's figure of what is spent was summed, in words behind the dataset; "" for a plain sum."""
    return f", by zCDP at δ = {plain(delta)}" if composition == "zcdp" else ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the release cost and where that is written down.

    Attributes:
        ledger: its place; None where it is not at hand: of a folder, and of an unledgered release, which has no
            `seq` either and is recorded nowhere.
        spent: of `budget`, by the units that the release can have read; of a folder, as of its own entry.
        counted: which units `spent` is of, and how it is summed, in words behind the dataset; "" where all
            its releases add up.
        early: the instant at which the period closes, for a release paid for before that.
        approval: the ledger's event that approved it, where it needed one. plan_hash: the debit's.
        over_time: what one unit and a whole person had lost by all releases up to this one's entry, in words.
    """

    epsilon: str
    delta: str
    protects: str
    ledger: str | None = None
    ledger_id: str | None = None
    seq: int | None = None
    head_hash: str | None = None
    dataset: str | None = None
    pipeline: str | None = None
    period: str | None = None
    spent: str | None = None
    budget: str | None = None
    fresh: bool = True
    early: str | None = None
    approval: int | None = None
    plan_hash: str | None = None
    over_time: str = ""
    counted: str = ""

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))  # of a notebook

    def __str__(self) -> str:
        weak = weak_of(self.epsilon, self.spent)
        then = "" if self.fresh or not self.over_time else "as of that entry: "
        last = "".join(f" · {said}" for said in (f"{then}{self.over_time}", weak) if said)
        cost = f"spent epsilon {self.epsilon}"
        cost += "" if self.delta in ("", "0") else f", delta {self.delta}"
        if self.seq is None:
            return f"{cost} ({self.protects}) · ledger: none{last}"
        cost = cost if self.fresh else "cost nothing (already released)"
        approved = "" if self.approval is None else f", approved by event {self.approval}"
        of = f"{self.dataset}{self.counted} ({self.protects})"
        paid = of if self.spent is None else f"{self.spent} of {self.budget} spent on {of}"
        book = "" if self.ledger is not None else f" of ledger {str(self.ledger_id)[:8]}"
        return f"{cost} · {paid} · ledger entry {self.seq}{book}{approved}{last}"
