"""What datasets are declared as, and what their debits cost together, while the chain is folded again.

Every debit speaks of its dataset's adjacency, unit and time, as `charge` requires. When its window is
laid out in time, the dataset's declaration says what it meets, never the debit's own.

A debit never lowers what any unit has lost, and a budget never falls. So the debits up to a raise are
added up once, under the budget that stood till then: the last of them speaks for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from dprelease.budget.accountant import Cost
from dprelease.budget.parallel import TimedCost, worst_cost, worst_rho
from dprelease.budget.record import Declaration, Entry, declaration_of, protected_unit
from dprelease.budget.rho_filter import CEILING, NEXT
from dprelease.budget.timeline import Timeline, timeline, window_of_texts

_NOTHING = Cost(0)


@dataclass(slots=True)
class _Dataset:
    """One of them: its declaration, its budget, its debits so far."""

    declared: Declaration
    line: Timeline
    budget: Cost = _NOTHING
    costs: list[TimedCost] = field(default_factory=list)


@dataclass(slots=True)
class Timed:
    """The datasets by name. What is wrong is returned as text, None for nothing."""

    datasets: dict[str, _Dataset] = field(default_factory=dict)

    def declare(self, body: Mapping[str, Any]) -> None:
        """Note what a dataset is declared as, and how its losses lie in time."""
        said = declaration_of(body)
        self.datasets[str(body["name"])] = _Dataset(said, timeline(*said))

    def raise_budget(self, body: Mapping[str, Any]) -> str | None:
        """Note a budget: where disjoint losses do not add up, its row is a ceiling and it says so."""
        found = self.datasets[str(body["dataset"])]
        apart = found.line.apart and "zcdp" not in body
        if apart != ("apart" in body):
            return "changes how its dataset composes"
        stated = body["apart"] if apart else body
        row = NEXT if found.budget.nano_epsilon else CEILING
        more = Cost(*(stated[name] for name in ("nano_epsilon", "atto_delta")))
        whole = all(type(part) is int and part >= 0 for part in astuple(more))
        in_table = (body["nano_epsilon"], body["atto_delta"])
        if not whole or (apart and in_table != astuple(row)):
            return "is not written as its dataset composes"
        found.budget += more
        return None

    def debit(self, entry: Entry, nano_rho: int) -> str | None:
        """Note a debit; it speaks of its dataset's adjacency, unit and time, and lies in that time."""
        found = self.datasets[entry.key.dataset]
        instants = found.line.instants(window_of_texts(entry.window))
        found.costs.append(TimedCost(instants, entry.cost, nano_rho))
        if entry.time != found.declared[2]:
            return "is of another time than its dataset"
        if (entry.adjacency, protected_unit(entry.unit)) != found.declared[:2]:
            return "is of another adjacency or unit than its dataset"
        return None

    def check(self, name: str, seq: int, nano_rho: int | None) -> list[str]:
        """Add up the debits before event `seq`; `nano_rho`: of a dataset by zCDP, whose deltas may pass 1 together."""
        found = self.datasets[name]
        over = not worst_cost(found.costs, pairs=found.line.pairs).within(found.budget)
        if nano_rho is not None:
            over = worst_rho(found.costs, pairs=found.line.pairs) > nano_rho
        return [f"a debit before event {seq} exceeds the budget it was charged to"] if over else []
