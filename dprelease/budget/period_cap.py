"""A cap on what one period of a dataset may cost over all pipelines.

Law      the sum of the epsilons of all debits of a dataset under one period's name stays within
         the cap that stands when a debit is made. It limits the pace of spending; the dataset's
         budget limits the whole and holds beside it.
Record   an event "cap" with the dataset and nano-units, the latest counts. A cap may be changed on
         the record at any time; what is debited under an earlier one stays. A ledger with such an
         event has schema version 3: software that would overlook the cap refuses it.
Units    nano-units of epsilon, costs rounded up, the cap down. The plain sum is compared also
         where a budget composes by zCDP: it is an upper bound, so the cap only binds sooner.
Limits   periods are told apart by name: a week and the month around it are two periods, and delta
         has no cap of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dprelease.budget.accountant import Cost
from dprelease.budget.connection import Connection, Place, debits, events, schema_version
from dprelease.budget.record import Entry
from dprelease.budget.timeline import Timeline
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from dprelease.core.numeric import plain

VERSION = 3
"""Schema version of a ledger that holds a cap."""


def capped(db: Connection, dataset: str) -> Cost | None:
    """Return the dataset's cap per period, or None."""
    if schema_version(db) < VERSION:  # it never held one: no event is looked at
        return None
    nanos = [int(b["nano_epsilon"]) for _, b in events(db, "cap") if b["dataset"] == dataset]
    return Cost(nanos[-1]) if nanos else None


def must_count(line: Timeline, dataset: str) -> None:
    """Refuse a cap where the budget is one for every interval already.

    Raises:
        ArgumentError: losses of disjoint windows do not add up (DPR655).
    """
    if line.apart:
        raise ArgumentError(
            f"dataset {dataset} needs no cap per period",
            why="its time is declared immutable: the budget's epsilon is what the releases that can have"
            " read one row, or one person's rows of one interval, may cost together",
            fix="leave `per_period` out and let `epsilon` be the cap",
            code="DPR655",
        )


def must_fit(db: Connection, entry: Entry, period: str, path: Place) -> None:
    """Raise DPR305 unless the entry fits what is left of its period.

    Args:
        period: the period it counts towards; another than its key's where it pays for a second
            draw of a crashed release.
    """
    cap = capped(db, entry.key.dataset)
    if cap is None:
        return
    periods: dict[int, str] = {}
    used = 0
    for seq, body in debits(db, entry.key.dataset):
        periods[seq] = counted_period(body, periods)
        used += int(body["nano_epsilon"]) if periods[seq] == period else 0
    if used + entry.cost.nano_epsilon > cap.nano_epsilon:
        raise _over(path, entry, period, Cost(used).epsilon, cap.epsilon)


def counted_period(body: Mapping[str, object], periods: Mapping[int, str]) -> str:
    """Return the period that a debit's event counts towards; `periods` holds the earlier ones."""
    again = body.get("again")
    if again is not None:
        return periods[again]  # type: ignore[index]
    entry = body["entry"]
    assert isinstance(entry, dict)
    return str(entry["period"])


@dataclass(slots=True)
class Caps:
    """Follows caps and what every period costs while the chain is folded again."""

    cap: dict[str, int] = field(default_factory=dict)
    periods: dict[int, str] = field(default_factory=dict)
    spent: dict[tuple[str, str], int] = field(default_factory=dict)

    def declare(self, dataset: str, nano: int) -> str | None:
        """Note a cap; return what is wrong with it."""
        self.cap[dataset] = nano
        return None if nano > 0 else "is not above 0"

    def debit(self, seq: int, dataset: str, body: Mapping[str, object], nano: int) -> str | None:
        """Note a debit; return what is wrong with it."""
        self.periods[seq] = counted_period(body, self.periods)
        place = (dataset, self.periods[seq])
        self.spent[place] = self.spent.get(place, 0) + nano
        over = dataset in self.cap and self.spent[place] > self.cap[dataset]
        return "exceeds the cap of its period" if over else None


def is_other(recorded: Cost | None, stated: Cost | None, path: Place, dataset: str) -> LedgerError:
    """Return the error for a pipeline file that states another cap than the ledger's."""
    now = "there is none" if recorded is None else f"it is {plain(recorded.epsilon)}"
    wanted = plain(stated.epsilon) if stated else ""
    return LedgerError(
        f"dataset {dataset} has another cap per period in this ledger",
        where=str(path),
        why=f"{now}; a cap in a pipeline file alone would look like a limit and be none",
        fix=f"`dprelease ledger add` with --per-period {wanted} changes it, on the record",
        code="DPR418",
    )


def _over(path: Place, entry: Entry, period: str, used: Fraction, cap: Fraction) -> BudgetError:
    return BudgetError(
        f"the cap of period {period} of dataset {entry.key.dataset} does not cover this release:"
        f" spent {plain(used)} of {plain(cap)}, asked {plain(entry.cost.epsilon)}",
        where=str(path),
        why="the cap holds over all pipelines that release this period",
        fix="ask for less, or change the cap on the record: `dprelease ledger add` with --per-period",
        code="DPR305",
    )
