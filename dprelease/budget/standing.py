"""What a dataset has spent and has left, whichever way its budget adds up; one reader's view.

Units: epsilon in nats, exact. Everything is read inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.budget import rho_filter, rows
from dprelease.budget.accountant import Cost, spent
from dprelease.budget.connection import Connection
from dprelease.budget.record import Budget, Entry
from dprelease.numeric import NANO

__all__ = ["spent_by", "standing"]


def standing(db: Connection, dataset: str) -> Budget:
    """Return the budget of a declared dataset and what is left of it."""
    total, costs = rows.total(db, dataset), rows.costs(db, dataset)
    concentrated = rho_filter.rho_budget(db, dataset)
    if concentrated is None:
        nano, delta = spent(costs)
        used, rho = Cost(nano).epsilon, None
    else:
        rho = Fraction(rho_filter.spent_nano_rho(db, dataset), NANO)
        used = rho_filter.spent_epsilon(int(rho * NANO), total.delta)
        delta = total.delta if costs else Fraction(0)
    return Budget(
        epsilon=total.epsilon,
        delta=total.delta,
        spent=used,
        left=total.epsilon - used,
        spent_delta=delta,
        left_delta=total.delta - delta,
        rho=None if concentrated is None else Fraction(concentrated.nano_rho, NANO),
        spent_rho=rho,
    )


def spent_by(
    db: Connection, dataset: str, entries: Sequence[Entry], delta: Fraction | None = None
) -> Fraction:
    """Return the epsilon that some of the dataset's debits have cost together.

    Args:
        delta: where they add up by zCDP, at this delta, the dataset's present one by default.
    """
    if rho_filter.rho_budget(db, dataset) is None:
        return sum((e.epsilon for e in entries), Fraction(0))
    nano = sum(rho_filter.nano_rho(e) or 0 for e in entries)
    return rho_filter.spent_epsilon(nano, rows.total(db, dataset).delta if delta is None else delta)
