"""What a dataset was declared as, and its budgets: rows of a ledger, always inside the caller's transaction.

Every append writes its event to the chain first and then its row. The caller's transaction makes
the two one; nothing here commits.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

from dprelease.budget import chain, period_cap, refusals, rho_filter
from dprelease.budget.accountant import Cost
from dprelease.budget.connection import Connection, Place, raise_version
from dprelease.budget.record import protected_unit
from dprelease.budget.timeline import Timeline, timeline

_NOTHING = Cost(0)

Declaration = tuple[str, str, str | None]
"""Adjacency, protected unit, and the time that losses are added up by, if they are."""


def declaration(db: Connection, dataset: str) -> Declaration | None:
    """Return what the dataset was declared as, or None if it has no budget here."""
    row = db.execute(
        "SELECT body FROM chain JOIN dataset USING (seq) WHERE name = ?", (dataset,)
    ).fetchone()
    if row is None:
        return None
    body = json.loads(row[0])
    return str(body["adjacency"]), protected_unit(str(body["unit"])), body.get("time")


def timeline_of(db: Connection, dataset: str) -> Timeline:
    """Return how the losses of a declared dataset lie in time."""
    found = declaration(db, dataset)
    return Timeline() if found is None else timeline(*found)


def declared(db: Connection, dataset: str, path: Place) -> Declaration:
    """Return `declaration`, or raise DPR407."""
    found = declaration(db, dataset)
    if found is None:
        held = db.execute("SELECT name FROM dataset ORDER BY name LIMIT 20").fetchall()
        raise refusals.unknown_dataset(path, dataset, [str(row[0]) for row in held])
    return found


def stored_salt(db: Connection, dataset: str, path: Place) -> bytes:
    """Return the dataset's salt if its hash is the chain's, else raise DPR403."""
    salt, text = db.execute(
        "SELECT salt, body FROM dataset JOIN chain USING (seq) WHERE name = ?", (dataset,)
    ).fetchone()
    if chain.digest(salt) != json.loads(text)["salt_sha256"]:
        raise refusals.corrupt(path, "the salt of a dataset was changed")
    return bytes(salt)


def budgets(db: Connection, dataset: str) -> list[Cost]:
    """Return the declared budget and every raise of it, in order."""
    concentrated = rho_filter.rho_budget(db, dataset)
    if concentrated is not None:
        return list(concentrated.steps)
    stated = [body.get("apart", body) for body in rho_filter.events(db, dataset)]
    return [Cost(int(part["nano_epsilon"]), int(part["atto_delta"])) for part in stated]


def total(db: Connection, dataset: str) -> Cost:
    return sum(budgets(db, dataset), _NOTHING)


def must_be_same_budget(
    db: Connection, dataset: str, budget: Cost, cap: Cost | None, composition: str, path: Place
) -> None:
    """Raise DPR414 or DPR418 unless this is the recorded budget, or what raises have made of it."""
    same = (rho_filter.rho_budget(db, dataset) is not None) == (composition == "zcdp")
    if not same or budget not in (budgets(db, dataset)[0], total(db, dataset)):
        raise refusals.other_budget(path, dataset, total(db, dataset))
    if cap is not None and (now := period_cap.capped(db, dataset)) != cap:
        raise period_cap.is_other(now, cap, path, dataset)


def insert_dataset(
    db: Connection,
    dataset: str,
    budget: Cost,
    adjacency: str,
    unit: str,
    composition: str = "basic",
    time: str | None = None,
) -> None:
    salt = secrets.token_bytes(32)
    body = {"adjacency": adjacency, "unit": unit, "salt_sha256": chain.digest(salt)}
    if time is not None:
        raise_version(db, chain.TIMED)
        body["time"] = time
    seq = chain.append(db, "dataset", {"name": dataset, **body})
    db.execute("INSERT INTO dataset (seq, name, salt) VALUES (?, ?, ?)", (seq, dataset, salt))
    if composition == "zcdp":
        raise_version(db, rho_filter.VERSION)
        _append_budget(db, dataset, rho_filter.CEILING, rho_filter.event(budget, budget))
    else:
        insert_budget(db, dataset, budget)


def insert_cap(db: Connection, dataset: str, cap: Cost) -> None:
    """Record what one period may cost from now on."""
    raise_version(db, period_cap.VERSION)
    chain.append(db, "cap", {"dataset": dataset, "nano_epsilon": cap.nano_epsilon})


def insert_budget(db: Connection, dataset: str, more: Cost) -> None:
    """Record a budget, or a raise of one."""
    concentrated = rho_filter.rho_budget(db, dataset)
    if concentrated is None and timeline_of(db, dataset).apart:
        first = not budgets(db, dataset)
        stated = {"nano_epsilon": more.nano_epsilon, "atto_delta": more.atto_delta}
        row = rho_filter.CEILING if first else rho_filter.NEXT
        _append_budget(db, dataset, row, {"apart": stated})
    elif concentrated is None:
        _append_budget(db, dataset, more, {})
    else:
        raised = sum(concentrated.steps, _NOTHING) + more
        _append_budget(db, dataset, rho_filter.NEXT, rho_filter.event(more, raised))


def _append_budget(db: Connection, dataset: str, row: Cost, more: Mapping[str, object]) -> None:
    values = (dataset, row.nano_epsilon, row.atto_delta)
    body = {**dict(zip(("dataset", "nano_epsilon", "atto_delta"), values, strict=True)), **more}
    seq = chain.append(db, "budget", body)
    db.execute("INSERT INTO budget VALUES (?, ?, ?, ?)", (seq, *values))
