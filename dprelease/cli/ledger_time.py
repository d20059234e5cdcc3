"""What `dprelease ledger show` says of losses over time and over tables: who has lost what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.core.codec import encode
from dprelease.core.numeric import counted, plain

if TYPE_CHECKING:
    from dprelease.budget.ledger import Ledger

_SHOWN = 60
"""Stretches of time in the table: the newest ones."""


def datasets_of(book: Ledger, population: str | None) -> tuple[str, ...]:
    """Return the datasets of a population, or all; LedgerError for one that is not there (DPR431)."""
    found, names = book.populations(), book.datasets()
    if population not in (None, *found.known):
        from dprelease.budget.refusals import no_population

        raise no_population(book.path, str(population), sorted(found.known))
    return tuple(n for n in names if population in (None, found.member.get(n)))


def of_one(book: Ledger, dataset: str) -> str:
    """Return whose budget is left, where the units of each period have their own."""
    return ", for the unit that lost most" * book.timeline(dataset).apart


def used_up(book: Ledger, dataset: str) -> Iterator[str]:
    """Yield each approval in words, with what was charged under it."""
    known = book.approvals(dataset)
    for found in known:
        paid = (row for row in book.entries(dataset) if row.approval == found.event)
        under = [row.entry.epsilon for row in paid]
        spent = f"epsilon {plain(sum(under, Fraction(0)))} in {counted(len(under), 'debit')}"
        yield f"{found.among(known)}; charged under it: {spent}"


def over_time_json(book: Ledger, dataset: str) -> dict[str, Any]:
    """Return the stretches of time and the whole person's figure; nothing where losses all add up."""
    from dprelease.budget.person import PersonLoss, person_at
    from dprelease.core.periods import instant_text

    line = book.timeline(dataset)
    out: dict[str, Any] = {}
    if line.apart:
        out["over_time"] = [
            {
                "from": None if s.instants[0] is None else instant_text(s.instants[0]),
                "to": None if s.instants[1] is None else instant_text(s.instants[1]),
                "entries": s.entries,
                "epsilon": str(s.cost.epsilon),
                "delta": str(s.cost.delta),
            }
            for s in book.stretches(dataset)
            if s.entries
        ]
    if line.per is not None:
        person = encode(person_at(book, dataset), PersonLoss | None)
        out |= {"per": line.per, "whole_person": person}
    return out


def over_time(
    book: Ledger, dataset: str, called: Callable[[], tuple[str, str] | None] = lambda: None
) -> Iterator[str]:
    """Yield the same in words, one line each; and what a member of the dataset's population has lost by all its datasets, and how long the budget lasts.

    Args:
        called: what the pipeline's schema, read only if asked, calls one unit, and a whole person; the ledger itself has no names.
    """
    from dprelease.budget.lasting import lasting_words
    from dprelease.release_plan.weak import weak_promise
    from dprelease.results.formats.over_time import OF_TABLE, ledger_over_time, over_tables

    if weak := weak_promise(book.budget(dataset).spent):
        yield weak
    said = over_time_json(book, dataset)
    one = f"one person's rows of one {said['per']}" if "per" in said else "one row"
    if said:
        yield ledger_over_time(book, dataset, called() or (one, "one person"), scope=OF_TABLE)
    found = said.get("over_time", [])
    if len(found) > _SHOWN:
        yield f"the newest {_SHOWN} of {len(found)} stretches of time:"
    for part in found[-_SHOWN:]:
        span = f"{part['from'] or 'ever before'} to {part['to'] or 'ever after'}"
        yield f"  {span}: epsilon {plain(Fraction(part['epsilon']))} in {counted(part['entries'], 'debit')}"
    alone = "no population: what a person loses by other datasets is not added to this"
    yield from over_tables(book.populations().loss(dataset)) or [alone]
    yield from lasting_words(book, dataset)
