"""What a dataset's debits cost together: the worst unit's loss, over time.

Law      docs/theory/composition.md#over-time. A unit that lives in interval u is read by the entries whose instants hold u. Its loss is their
         composition, and the dataset's is the largest one:

             loss = max over u of sum { cost(e) : u in instants(e) }
             loss = max over u, u' of sum { cost(e) : u or u' in instants(e) }       (`pairs`)

         The second for rows under substitution: the replaced row may be of another instant; an entry
         that reads only one of the two sees a row come or go, which its price covers. Costs are nano-units
         of epsilon, atto-units of delta, or nano-units of rho: each adds up by itself (basic
         composition, zCDP), also where entries are chosen adaptively. Optimal composition is no such
         filter and has no place here.
Record   SQLite and PostgreSQL sum a table's rows before they take a debit. Such a dataset's row of
         `budget` therefore holds a ceiling that no sum reaches, as under zCDP (`rho_filter`), and its event
         says {"apart": {"nano_epsilon", "atto_delta"}}: what was declared or added. A debit whose delta would
         reach that ceiling has 0 in its row and says {"unsummed": true}; the ledger has schema version 8 then.
Method   Between two neighbouring ends of instants the sum is constant. Single instants: one sweep. Pairs: a
         sweep over u, with a tree over u' that holds the sum of the entries that read u' and not u.
Units    whole nano- and atto-units, or exact fractions. Time O(n log n) in the number of debits.
Sources  `docs/theory/composition.md#parallel-composition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from typing import Any

from dprelease.budget.accountant import Cost
from dprelease.budget.record import Budget
from dprelease.budget.rho_filter import spent_epsilon
from dprelease.budget.timeline import ALWAYS, Instants
from dprelease.core.numeric import NANO


@dataclass(frozen=True, slots=True)
class TimedCost:
    """What one debit costs every unit of its instants; `nano_rho` where the dataset composes by zCDP."""

    instants: Instants
    cost: Cost
    nano_rho: int = 0


@dataclass(frozen=True, slots=True)
class TimeStretch:
    """A stretch of time in which every unit is read by the same entries, and what they cost it."""

    instants: Instants
    entries: int
    cost: Cost


def worst_cost(costs: Sequence[TimedCost], *, pairs: bool, within: Instants = ALWAYS) -> Cost:
    """Return the largest sum of epsilon and the largest sum of delta, each over its own worst unit."""
    all_instants = [c.instants for c in costs]
    nano = worst(all_instants, [c.cost.nano_epsilon for c in costs], pairs=pairs, within=within)
    atto = worst(all_instants, [c.cost.atto_delta for c in costs], pairs=pairs, within=within)
    return Cost(int(nano), int(atto))


def worst_rho(costs: Sequence[TimedCost], *, pairs: bool, within: Instants = ALWAYS) -> int:
    """Return the largest sum of rho, in nano-units."""
    rhos = [c.nano_rho for c in costs]
    return int(worst([c.instants for c in costs], rhos, pairs=pairs, within=within))


def remainder(
    total: Cost,
    nano_rho: int | None,
    costs: Sequence[TimedCost],
    *,
    pairs: bool,
    within: Instants = ALWAYS,
) -> Budget:
    """Return a budget with what is spent of it by the worst unit, and left; `nano_rho` of one in rho."""
    worst = worst_cost(costs, pairs=pairs, within=within)
    used, delta, rho = worst.epsilon, worst.delta, None
    if nano_rho is not None:
        nano = worst_rho(costs, pairs=pairs, within=within)
        rho = Fraction(nano, NANO)
        used = spent_epsilon(nano, total.delta)
        delta = total.delta if nano else Fraction(0)
    return Budget(
        epsilon=total.epsilon,
        delta=total.delta,
        spent=used,
        left=total.epsilon - used,
        spent_delta=delta,
        left_delta=total.delta - delta,
        rho=None if nano_rho is None else Fraction(nano_rho, NANO),
        spent_rho=rho,
    )


def worst(
    all_instants: Sequence[Instants],
    costs: Sequence[int] | Sequence[Fraction],
    *,
    pairs: bool,
    within: Instants = ALWAYS,
) -> Fraction:
    """Return the largest sum of costs over the entries that read one unit, or one of a pair.

    Args:
        within: of units, or the first of a pair, that live here.
    """
    if not any(costs):  # a delta that nothing has, most often
        return Fraction(0)
    ends = _ends([*all_instants, within])
    spans, last = _spans([*all_instants, within], ends)
    first, end = spans.pop()
    found = _sums(spans, costs, last)
    if pairs:
        found = _worst_pairs(spans, costs, found)
    return Fraction(max(found[first : end + 1]))


def stretches(costs: Sequence[TimedCost]) -> list[TimeStretch]:
    """Return what units cost over time, in order: stretches that neighbour and differ."""
    ends = _ends([c.instants for c in costs])
    spans, last = _spans([c.instants for c in costs], ends)
    parts = (
        [1] * len(costs),
        [c.cost.nano_epsilon for c in costs],
        [c.cost.atto_delta for c in costs],
    )
    columns = [_sums(spans, part, last) for part in parts]
    out = []
    for i, (entries, nano, atto) in enumerate(zip(*columns, strict=True)):
        instants = ends[i - 1] if i else None, ends[i] if i < len(ends) else None
        out.append(TimeStretch(instants, entries, Cost(nano, atto)))
    return out


def _ends(all_instants: Sequence[Instants]) -> list[datetime]:
    return sorted({end for instants in all_instants for end in instants if end is not None})


def _spans(
    all_instants: Sequence[Instants], ends: list[datetime]
) -> tuple[list[tuple[int, int]], int]:
    """Return the first and last stretch of each entry, and the number of the last one."""
    last = len(ends)
    spans = []
    for low, high in all_instants:
        first = 0 if low is None else bisect_left(ends, low) + 1
        spans.append((first, last if high is None else bisect_left(ends, high)))
    return spans, last


def _sums(spans: Sequence[tuple[int, int]], costs: Sequence[Any], last: int) -> list[Any]:
    """Return the sum of the costs over each stretch."""
    changes = [0] * (last + 2)
    for (first, end), cost in zip(spans, costs, strict=True):
        changes[first] += cost
        changes[end + 1] -= cost
    return list(accumulate(changes[:-1]))


def _worst_pairs(
    spans: Sequence[tuple[int, int]], costs: Sequence[Any], sums: Sequence[Any]
) -> list[Any]:
    """Return, for each stretch, the largest sum over the entries that read it or another one."""
    begin: list[list[int]] = [[] for _ in sums]
    over: list[list[int]] = [[] for _ in range(len(sums) + 1)]
    for i, (first, last) in enumerate(spans):
        begin[first].append(i)
        over[last + 1].append(i)
    others, out = _Tree(sums), []
    for place, own in enumerate(sums):
        for sign, entries in ((1, over[place]), (-1, begin[place])):
            for i in entries:
                others.add(*spans[i], sign * costs[i])
        out.append(own + others.most)
    return out


class _Tree:
    """Numbers in a row, to which a range of them can be added, and their maximum."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.size = 1 << max(0, len(values) - 1).bit_length()
        self.top: list[Any] = [-1] * (2 * self.size)  # below every sum of costs
        self.top[self.size : self.size + len(values)] = values
        self.added: list[Any] = [0] * (2 * self.size)
        for node in range(self.size - 1, 0, -1):
            self.top[node] = max(self.top[2 * node], self.top[2 * node + 1])

    @property
    def most(self) -> Any:
        return self.top[1]

    def add(self, first: int, last: int, value: Any) -> None:
        """Add `value` to the numbers from `first` to `last`, both included."""
        self._add(1, 0, self.size - 1, first, last, value)

    def _add(self, node: int, low: int, high: int, first: int, last: int, value: Any) -> None:
        if last < low or high < first:
            return
        if first <= low and high <= last:
            self.top[node] += value
            self.added[node] += value
            return
        middle = (low + high) // 2
        self._add(2 * node, low, middle, first, last, value)
        self._add(2 * node + 1, middle + 1, high, first, last, value)
        self.top[node] = max(self.top[2 * node], self.top[2 * node + 1]) + self.added[node]
