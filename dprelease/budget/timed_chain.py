"""What datasets are declared as, and those whose losses are added up by time, while the chain is folded again.

Every debit speaks of its dataset's adjacency, unit and time, as `charge` requires. When its window is
laid out in time, the dataset's declaration says what it meets, never the debit's own.

A debit never lowers what any unit has lost, and a budget never falls. So the debits up to a raise are
added up once, under the budget that stood till then: the last of them speaks for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from dprelease.budget.accountant import Cost, fits
from dprelease.budget.parallel import Charge, worst_cost, worst_rho
from dprelease.budget.person import window_of_texts
from dprelease.budget.record import Entry, protected_unit
from dprelease.budget.rho_filter import CEILING, NEXT
from dprelease.budget.timeline import Timeline, timeline

_NOTHING = Cost(0)


@dataclass(slots=True)
class _Dataset:
    """One of them: its declaration, its budget where the tables hold a ceiling, its debits so far."""

    line: Timeline
    budget: Cost = _NOTHING
    charges: list[Charge] = field(default_factory=list)


@dataclass(slots=True)
class Timed:
    """The datasets by name. What is wrong is returned as text, None for nothing."""

    datasets: dict[str, _Dataset] = field(default_factory=dict)
    declared: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.datasets

    def declare(self, body: Mapping[str, Any]) -> None:
        """Note what a dataset is declared as, and how its losses lie in time, if it has one."""
        name, adjacency, unit = (str(body[part]) for part in ("name", "adjacency", "unit"))
        time = str(body["time"]) if "time" in body else None
        self.declared[name] = adjacency, protected_unit(unit), time
        if time is not None:
            self.datasets[name] = _Dataset(timeline(adjacency, unit, time))

    def raise_budget(self, body: Mapping[str, Any]) -> str | None:
        """Note a budget: where disjoint losses do not add up, its row is a ceiling and it says so."""
        found = self.datasets.get(str(body["dataset"]))
        apart = found is not None and found.line.apart and "zcdp" not in body
        if apart != ("apart" in body):
            return "changes how its dataset composes"
        if found is None or not apart:
            return None
        more = Cost(*(body["apart"][name] for name in ("nano_epsilon", "atto_delta")))
        row = NEXT if found.budget.nano_epsilon else CEILING
        whole = all(type(part) is int and part >= 0 for part in astuple(more))
        if not whole or (body["nano_epsilon"], body["atto_delta"]) != astuple(row):
            return "is not written as its dataset composes"
        found.budget += more
        return None

    def debit(self, entry: Entry, nano_rho: int) -> str | None:
        """Note a debit; it speaks of its dataset's adjacency, unit and time, and lies in that time."""
        found = self.datasets.get(entry.key.dataset)
        if found is not None:
            instants = found.line.instants(window_of_texts(entry.window))
            found.charges.append(Charge(instants, entry.cost, nano_rho))
        adjacency, unit, time = self.declared[entry.key.dataset]
        if entry.time != time:
            return "is of another time than its dataset"
        if (entry.adjacency, protected_unit(entry.unit)) != (adjacency, unit):
            return "is of another adjacency or unit than its dataset"
        return None

    def check(self, name: str, seq: int, left: Cost, nano_rho: int | None) -> str | None:
        """Add up the debits before event `seq`.

        Args:
            left: the budget in the tables; nano_rho: of a dataset that composes by zCDP.
        """
        found = self.datasets.get(name)
        if found is None or not found.charges:
            return None
        pairs = found.line.pairs
        apart = found.line.apart and nano_rho is None
        budget = found.budget if apart else left
        over = not fits((), worst_cost(found.charges, pairs=pairs), budget)
        over = over or (nano_rho is not None and worst_rho(found.charges, pairs=pairs) > nano_rho)
        return f"a debit before event {seq} exceeds the budget it was charged to" if over else None
