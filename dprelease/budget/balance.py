"""What a dataset has spent and has left, whichever way its budget adds up; one reader's view.

Units: epsilon in nats, exact. Everything is read inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.budget import declarations, rho_filter, rows
from dprelease.budget.connection import Connection
from dprelease.budget.parallel import remainder, worst
from dprelease.budget.record import Budget, Entry
from dprelease.budget.timeline import ALWAYS, Instants


def balance(db: Connection, dataset: str, window: Instants = ALWAYS) -> Budget:
    """Return the budget of a declared dataset and what is left of it to a release of that window."""
    line, concentrated = declarations.timeline_of(db, dataset), rho_filter.rho_budget(db, dataset)
    return remainder(
        declarations.total(db, dataset),
        None if concentrated is None else concentrated.nano_rho,
        rows.charges(db, dataset),
        pairs=line.pairs,
        within=line.instants(window),
    )


def spent_by(
    db: Connection, dataset: str, entries: Sequence[Entry], delta: Fraction | None = None
) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta that some of the dataset's debits have cost together.

    Args:
        delta: where they add up by zCDP, at this delta, the dataset's present one by default.
    """
    pairs = declarations.timeline_of(db, dataset).pairs
    read = [e.instants for e in entries]
    if rho_filter.rho_budget(db, dataset) is None:
        deltas = worst(read, [e.delta for e in entries], pairs=pairs)
        return worst(read, [e.epsilon for e in entries], pairs=pairs), deltas
    nano = int(worst(read, [rho_filter.nano_rho(e) or 0 for e in entries], pairs=pairs))
    whole = declarations.total(db, dataset).delta
    spent = rho_filter.spent_epsilon(nano, whole if delta is None else delta)
    return spent, whole if entries else Fraction(0)
