"""Where a ledger is kept, a file or a server: make one, check that it is there, run a transaction.

The protocol, the chain and the rows are the same; SQLite's side is in `storage` and `location`,
PostgreSQL's in `postgres`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dprelease.budget import location, postgres, refusals, storage
from dprelease.budget.connection import Connection, Place
from dprelease.budget.postgres_place import PostgresPlace

__all__ = ["make", "must_stand", "transaction"]


def make(place: Place, first: Callable[[Connection], object], *, allowed: bool) -> None:
    """Put a new ledger there unless there is one, as `location.place_new`.

    Raises:
        LedgerError: there is none and it may not be created (DPR401), or cannot (DPR402, DPR408,
            DPR409, DPR424).
    """
    if isinstance(place, Path):
        location.place_new(place, first, allowed=allowed)
    elif not postgres.place_new(place, first, allowed=allowed):
        raise refusals.missing(place, refusals.RESTING)


def must_stand(place: Place) -> None:
    """Refuse a place that holds no ledger, or is none for one.

    Raises:
        LedgerError: missing (DPR401), not a regular file (DPR403), on a network file system
            (DPR408), or the server does not answer (DPR425) or refuses (DPR402, DPR409, DPR424).
    """
    if isinstance(place, PostgresPlace):
        if not postgres.exists(place):
            raise refusals.missing(place, None)
        return
    if not os.path.lexists(place):
        raise refusals.missing(place, None)
    if place.is_symlink() or not place.is_file():
        raise refusals.corrupt(place, "it is not a regular file")
    location.refuse_network(place.parent)


def transaction(place: Place, *, write: bool, charged: bool) -> AbstractContextManager[Connection]:
    """Return one transaction, as `storage.transaction`."""
    if isinstance(place, PostgresPlace):
        return postgres.transaction(place, write=write, charged=charged)
    return storage.transaction(place, write=write, charged=charged)
