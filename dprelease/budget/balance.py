"""What a dataset has spent and has left, whichever way its budget adds up; one reader's view.

Units: epsilon in nats, exact. Everything is read inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.budget import declarations, rho_filter, rows
from dprelease.budget.connection import Connection
from dprelease.budget.parallel import worst, worst_cost, worst_rho
from dprelease.budget.record import Budget, Entry
from dprelease.budget.timeline import ALWAYS, Instants
from dprelease.core.numeric import NANO


def balance(db: Connection, dataset: str, window: Instants = ALWAYS) -> Budget:
    """Return the budget of a declared dataset and what is left of it to a release of that window."""
    total, line = declarations.total(db, dataset), declarations.timeline_of(db, dataset)
    charges = rows.charges(db, dataset)
    instants = line.instants(window)
    worst = worst_cost(charges, pairs=line.pairs, within=instants)
    concentrated = rho_filter.rho_budget(db, dataset)
    if concentrated is None:
        used, delta, rho = worst.epsilon, worst.delta, None
    else:
        nano = worst_rho(charges, pairs=line.pairs, within=instants)
        rho = Fraction(nano, NANO)
        used = rho_filter.spent_epsilon(nano, total.delta)
        delta = total.delta if nano else Fraction(0)
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
    pairs = declarations.timeline_of(db, dataset).pairs
    all_instants = [e.instants for e in entries]
    if rho_filter.rho_budget(db, dataset) is None:
        return worst(all_instants, [e.epsilon for e in entries], pairs=pairs)
    nano = int(worst(all_instants, [rho_filter.nano_rho(e) or 0 for e in entries], pairs=pairs))
    return rho_filter.spent_epsilon(
        nano, declarations.total(db, dataset).delta if delta is None else delta
    )


def spent_delta_by(db: Connection, dataset: str, entries: Sequence[Entry]) -> Fraction:
    """Return the delta beside that epsilon: added up like it, or the dataset's where rho adds up."""
    if rho_filter.rho_budget(db, dataset) is not None:
        return declarations.total(db, dataset).delta if entries else Fraction(0)
    pairs = declarations.timeline_of(db, dataset).pairs
    return worst([e.instants for e in entries], [e.delta for e in entries], pairs=pairs)
