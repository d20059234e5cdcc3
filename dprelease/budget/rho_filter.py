"""Datasets whose budget is composed by zCDP: a filter on the sum of rho.

Law      Stop before the sum of rho passes a fixed rho_max. Each release, its rho included, may be
         chosen after seeing the earlier ones; all released so far is rho_max-zCDP, hence
         (epsilon, delta)-DP for every pair that rho_max converts to (`concentrated`, [FZ], [WRRW]).
         rho_max is the largest whole number of nano-units whose certified conversion fits the
         declared (epsilon, delta). It is fixed when the dataset is budgeted; a raise fixes a new
         one for the raised pair: the guarantee of all releases is then the raised pair's.
Record   The budget's event says {"zcdp": {"nano_epsilon", "atto_delta", "nano_rho"}}: what was
         declared, and rho_max from then on. A debit's event says "nano_rho". Meanings that exist
         do not change: the tables' columns still hold every release's own epsilon and delta
         (the basic sum stays on record), and such a dataset's row of `budget` holds a ceiling that
         no sum reaches. A ledger with such a dataset has schema version 2: software that knows
         version 1 only refuses it instead of taking the ceiling for a budget.
Units    nano-units of rho (1e-9), costs rounded up, rho_max down.
Sources  `docs/theory/composition.md#a-budget-in-rho`.
Limits   every release needs a rho of its own; one known by (epsilon, delta) alone is refused,
         because approximate privacy gives no zCDP. One with delta 0 counts at epsilon^2 / 2.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dprelease.budget.accountant import ATTO, LARGEST_EPSILON, Cost
from dprelease.budget.concentrated import zcdp_epsilon, zcdp_of_pure, zcdp_rho
from dprelease.budget.connection import Connection
from dprelease.budget.record import Entry
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO, nano_up

COMPOSITIONS = ("basic", "zcdp")
"""Ways a dataset's budget adds up."""

VERSION = 2
"""Schema version of a ledger that holds such a dataset."""

CEILING = Cost(LARGEST_EPSILON * NANO, ATTO - 1)
NEXT = Cost(1, 0)
"""What the table `budget` holds for the first declaration and for every raise."""


@dataclass(frozen=True, slots=True)
class RhoBudget:
    """What was declared, step by step, and rho_max in nano-units."""

    steps: tuple[Cost, ...]
    nano_rho: int


def check_composition(composition: str, budget: Cost) -> None:
    """Refuse a composition that there is not, or one without the delta it needs.

    Raises:
        ArgumentError: unknown (DPR653), or zcdp with delta 0 or a budget that holds no rho (DPR654).
    """
    if composition not in COMPOSITIONS:
        raise ArgumentError(
            "a budget's composition is basic or zcdp",
            fix="leave it out for basic composition",
            code="DPR653",
        )
    if composition == "zcdp" and (budget.atto_delta == 0 or worth(budget) == 0):
        raise ArgumentError(
            "a budget that is composed by zcdp needs a delta",
            why="a sum of rho is worth an epsilon only at a delta above 0",
            fix="declare e.g. `delta: 0.000001`",
            code="DPR654",
        )


def worth(budget: Cost) -> int:
    """Return rho_max of an (epsilon, delta), in nano-units."""
    return int(zcdp_rho(budget.epsilon, budget.delta) * NANO)


def event(more: Cost, total: Cost) -> dict[str, object]:
    """Return the budget event's part: what is added, and rho_max of the `total` from now on."""
    return {"zcdp": {**asdict(more), "nano_rho": worth(total)}}


def nano_rho(entry: Entry) -> int | None:
    """Return the entry's rho in nano-units, rounded up; None if none is known."""
    if entry.rho is not None:
        return nano_up(entry.rho)
    return nano_up(zcdp_of_pure(entry.epsilon)) if entry.delta == 0 else None


def events(db: Connection, dataset: str) -> list[Any]:
    """Return the events of the dataset's budget and its raises, in order: found by their rows, not by the chain."""
    found = db.execute(
        "SELECT (SELECT body FROM chain WHERE chain.seq = budget.seq) FROM budget"
        " WHERE dataset = ? ORDER BY seq",
        (dataset,),
    )
    return [json.loads(text) for (text,) in found]


def rho_budget(db: Connection, dataset: str) -> RhoBudget | None:
    """Return the dataset's budget if it is composed by zCDP, else None."""
    found = [body.get("zcdp") for body in events(db, dataset)]
    if not found or found[0] is None:
        return None
    steps = tuple(Cost(int(f["nano_epsilon"]), int(f["atto_delta"])) for f in found)
    return RhoBudget(steps, int(found[-1]["nano_rho"]))


def spent_epsilon(nano: int, delta: Fraction) -> Fraction:
    """Return what a sum of rho has cost in epsilon at the dataset's delta."""
    return zcdp_epsilon(Fraction(nano, NANO), delta)
