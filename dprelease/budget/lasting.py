"""For how many more periods like a debit's the budgets last: its dataset's, and its population's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

from dprelease.budget import rho_filter
from dprelease.budget.accountant import Cost
from dprelease.budget.parallel import TimedCost, remainder
from dprelease.budget.population import Population, UncountableError, member_costs
from dprelease.budget.record import Declaration, Entry
from dprelease.budget.timeline import ALWAYS, Instants, Timeline, timeline, window_of_texts
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO
from dprelease.core.periods import every_of, following_period, parse_period

if TYPE_CHECKING:
    from dprelease.budget.ledger import Ledger

MOST = 100
"""As many periods are looked at, and no more."""

_Periods = Sequence[tuple[TimedCost, ...]]


def lasting(book: Ledger, entry: Entry) -> int:
    """Return how many periods after the entry's, one after the other at its price, every budget covers."""
    dataset = entry.key.dataset
    line, budget, populations = book.timeline(dataset), book.budget(dataset), book.populations()
    own = window_of_texts(entry.window)
    windows = [own] * MOST if own == ALWAYS else _windows(entry.key.period, own, line)
    paid = [row.entry for row in book.entries(dataset)]
    before = [TimedCost(e.instants, e.cost, rho_filter.nano_rho(e) or 0) for e in paid]
    rho = rho_filter.nano_rho(entry) or 0
    ahead = [(TimedCost(line.instants(window), entry.cost, rho),) for window in windows]
    nano = None if budget.rho is None else int(budget.rho * NANO)
    total = Cost.budget(budget.epsilon, budget.delta)
    found = _covered(total, nano, before, ahead, pairs=line.pairs)
    if name := populations.member.get(dataset):
        terms, said = populations.known[name][-1], populations.datasets[dataset]
        price = entry.epsilon, entry.delta, entry.rho
        each = [member_costs(terms, said, (*price, window, False)) for window in windows]
        shared = _covered(
            terms.budget, terms.nano_rho, populations.timed_costs(name), each, pairs=False
        )
        found = min(found, shared)
    return found


def lasting_words(book: Ledger, dataset: str) -> Iterator[str]:
    """Yield for how many more periods like the newest of each pipeline the budget lasts, a line each."""
    paid = [
        row.entry for row in book.entries(dataset)
    ]  # names that are no period stay in this order
    paid.sort(key=lambda e: (e.window[0] or "", e.key.period * e.key.period[:4].isdigit()))
    last = {entry.key.pipeline: entry for entry in paid}
    line, alone = book.timeline(dataset), dataset not in book.populations().member
    for newest in last.values():
        count = lasting(book, newest)
        most = f"at least {count}" if count == MOST else str(count)
        many = f"period{'s' * (count != 1)}{' of it alone' * (len(last) > 1)}"
        apart = alone and line.per and not line.pairs and newest.window[0] and count < MOST
        later = f"; those of a later {line.per} may fit again" if apart else ""
        yield f"{newest.key.pipeline}: after {newest.key.period}, the budget lasts for {most} more such {many}{later}"


def whole(budget: Cost, cost: Cost, line: Timeline, period: str) -> int:
    """Return how many periods from `period` on a whole budget pays for at `cost` each, where they tell units apart."""
    ahead = [(TimedCost(line.instants(w), cost),) for w in _windows(period, ALWAYS, line)]
    return _covered(budget, None, (), ahead, pairs=line.pairs)


def whole_of_members(
    terms: Population, declared: Declaration, epsilon: Fraction, delta: Fraction, period: str
) -> int:
    """Return how many periods a population's whole budget pays for, of one dataset alone; 0 where no number bounds one."""
    windows = _windows(period, ALWAYS, timeline(*declared))
    try:
        each = [member_costs(terms, declared, (epsilon, delta, None, w, False)) for w in windows]
    except UncountableError:
        return 0
    return _covered(terms.budget, terms.nano_rho, (), each, pairs=False)


def _windows(name: str, own: Instants, line: Timeline) -> list[Instants]:
    """Return the windows of the periods that follow, or `own` for one that is named otherwise."""
    out: list[Instants] = []
    try:
        every = every_of(name)
        while len(out) < MOST:
            name = following_period(name, every, line.zone)
            out.append(parse_period(name, every, line.zone))
    except ArgumentError:
        pass
    return out or [own] * MOST


def _covered(
    total: Cost, nano: int | None, before: Sequence[TimedCost], ahead: _Periods, *, pairs: bool
) -> int:
    def over(count: int) -> bool:
        return remainder(total, nano, [*before, *chain(*ahead[:count])], pairs=pairs).over

    return bisect_left(range(1, len(ahead) + 1), True, key=over)
