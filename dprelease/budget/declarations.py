"""What a dataset was declared as, and its budgets: rows of a ledger, always inside the caller's transaction.

Every append writes its event to the chain first and then its row. The caller's transaction makes
the two one; nothing here commits.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from dprelease.budget import chain, connection, period_cap, population, refusals, rho_filter
from dprelease.budget.accountant import Cost
from dprelease.budget.connection import LAST, Connection, Place, raise_version, schema_version
from dprelease.budget.population import Population, Populations
from dprelease.budget.record import Budget, Declaration, Entry, declaration_of
from dprelease.budget.timeline import ALWAYS, Timeline, timeline
from dprelease.core.errors import BudgetError, LedgerError
from dprelease.core.numeric import plain

_NOTHING = Cost(0)


def declaration(db: Connection, dataset: str) -> Declaration | None:
    """Return what the dataset was declared as, or None if it has no budget here."""
    row = db.execute(
        "SELECT body FROM chain JOIN dataset USING (seq) WHERE name = ?", (dataset,)
    ).fetchone()
    return None if row is None else declaration_of(json.loads(row[0]))


def timeline_of(db: Connection, dataset: str) -> Timeline:
    """Return how the losses of a declared dataset lie in time."""
    found = declaration(db, dataset)
    return Timeline() if found is None else timeline(*found)


def declared(db: Connection, dataset: str, path: Place) -> Declaration:
    """Return `declaration`, or raise DPR407."""
    found = declaration(db, dataset)
    if found is None:
        names = db.execute("SELECT name FROM dataset ORDER BY name LIMIT 20").fetchall()
        raise refusals.unknown_dataset(path, dataset, [str(row[0]) for row in names])
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
        row = rho_filter.CEILING if first else rho_filter.NEXT
        _append_budget(db, dataset, row, {"apart": asdict(more)})
    elif concentrated is None:
        _append_budget(db, dataset, more, {})
    else:
        raised = sum(concentrated.steps, _NOTHING) + more
        _append_budget(db, dataset, rho_filter.NEXT, rho_filter.event(more, raised))


def _append_budget(db: Connection, dataset: str, row: Cost, more: Mapping[str, object]) -> None:
    body = {"dataset": dataset, **asdict(row)}
    seq = chain.append(db, "budget", {**body, **more})
    db.execute("INSERT INTO budget VALUES (?, ?, ?, ?)", (seq, *body.values()))


def populations(db: Connection, last: int = LAST) -> Populations:
    """Return the populations and what their datasets' debits cost, as of event `last`."""
    found = _members(db, last)
    _read_debits(db, found, found.member, last)
    return found


def _members(db: Connection, last: int = LAST) -> Populations:
    """Return the populations and their datasets, without debits; nothing of a ledger that has had none."""
    found = Populations()
    if schema_version(db) >= population.VERSION:
        for _, body in connection.events(db, "dataset", "population", "member", last=last):
            found.note(body["kind"], body)
    return found


def _read_debits(
    db: Connection, found: Populations, datasets: Iterable[str], last: int = LAST
) -> None:
    """Note debits up to event `last`: as one sum, which the database makes, where each costs a member what it costs a unit.

    The table lacks deltas that add up to 1 or more (`parallel`): no population's budget holds those.
    """
    for dataset in datasets:
        if not found.costs_as_its_unit(dataset):
            for _, body in connection.debits(db, dataset, last):
                found.note("debit", body)
            continue
        cost = connection.summed(db, dataset, last)
        if cost.nano_epsilon:
            found.debits[dataset] = [(cost.epsilon, cost.delta, None, ALWAYS, False)]


def join(
    db: Connection, dataset: str, shared: Population | None, path: Place, *, public_size: bool
) -> None:
    """Let a dataset share a population's budget, which the first of them declares; a no-op if it does, or for None.

    Raises:
        LedgerError: the population has other terms here, or the dataset is of another (DPR429), or it
            cannot join (DPR430).
        BudgetError: what its debits cost a member does not fit beside the others (DPR309).
    """
    if shared is None:
        return
    raise_version(db, population.VERSION)
    found, name = _members(db), shared.name
    _read_debits(db, found, {*found.member, dataset})
    said, here = found.datasets[dataset], found.member.get(dataset)
    if name not in found.known:
        calendar = timeline(*said).calendar if shared.interval else None
        _note(
            db, found, "population", asdict(replace(shared, adjacency=said[0], calendar=calendar))
        )
    terms = found.known[name]
    stated = [replace(each, adjacency=None, calendar=None) for each in (terms[0], terms[-1])]
    if here not in (None, name) or shared not in stated:
        now = found.known[here or name][-1]
        figures = f"epsilon {plain(now.budget.epsilon)}, delta {plain(now.budget.delta)}"
        its = f"its terms are {figures}, {now.composition}, interval {now.interval or 'none'}"
        raise refusals.other_population(path, dataset, here or name, its)
    why = found.why_apart(name, dataset)
    if public_size and population.is_replaced_by_none(terms[-1], said):
        why = population.PUBLIC_SIZE
    if why is not None:
        raise _apart(f"dataset {dataset} cannot join population {name}", why, path)
    if here is None:
        _note(db, found, "member", {"dataset": dataset, "population": name})
        _must_fit(found, name, path, f"what dataset {dataset} has cost already")


def join_as_stated(db: Connection, dataset: str, name: str, path: Place) -> None:
    """Let a dataset join the population that a published release of it states, on the terms that are known here.

    Raises:
        LedgerError: none of that name is known, or the dataset is of another (DPR429); or as `join`.
    """
    declared(db, dataset, path)
    found = _members(db)
    here = found.member.get(dataset)
    if here is None and name in found.known:
        terms = replace(found.known[name][-1], adjacency=None, calendar=None)
        join(db, dataset, terms, path, public_size=False)
    elif here != name:
        said = f"a published release of it states {name}"
        raise refusals.other_population(path, dataset, here, said)


def raise_population(db: Connection, name: str, more: Cost, path: Place) -> Budget:
    """Raise a population's budget and return it; LedgerError where there is none (DPR431)."""
    found = populations(db)
    if name not in found.known:
        raise refusals.no_population(path, name, sorted(found.known))
    raised = found.known[name][-1].raised(more)
    Cost.budget(raised.budget.epsilon, raised.budget.delta)  # the sum, too, must fit 64 bits
    _note(db, found, "population", asdict(raised))
    return found.budget(name)


def must_fit_members(db: Connection, entry: Entry, path: Place) -> None:
    """Refuse a debit that costs a member of its dataset's population more than is left, or no number.

    Raises:
        BudgetError: it does not fit (DPR309), or cannot be counted (DPR310).
        LedgerError: it takes a number of rows for public that tells of a member (DPR430).
    """
    found = _members(db)
    name = found.member.get(entry.key.dataset)
    if name is None:
        return
    _read_debits(db, found, [other for other, its in found.member.items() if its == name])
    why = found.note("debit", {"entry": entry.to_json()})
    if why == population.PUBLIC_SIZE:
        what = f"this release of dataset {entry.key.dataset} cannot be charged to population {name}"
        raise _apart(what, why, path)
    if why is not None:
        raise BudgetError(
            f"what this release costs a member of population {name} cannot be added up",
            where=str(path),
            why=why,
            fix="release one period at a time, by laws whose loss the population's composition counts",
            code="DPR310",
        )
    _must_fit(found, name, path)


def _apart(what: str, why: str, path: Place) -> LedgerError:
    fix = "leave its `population` out, in a new ledger if it has joined: its own budget then stands for it alone"
    if why == population.PUBLIC_SIZE:
        fix = f"state `rows: {{max: N}}` in its schema in place of `exact`; if a release has told the number, {fix}"
    return LedgerError(what, where=str(path), why=why, fix=fix, code="DPR430")


def _must_fit(found: Populations, name: str, path: Place, what: str = "this release") -> None:
    now = found.budget(name)
    if not now.over:
        return
    rho = "" if now.rho is None else f", rho {plain(now.spent_rho or now.rho)} of {plain(now.rho)}"
    whose = population.member_words(name, found.known[name][-1].interval)
    raise BudgetError(
        f"the budget of population {name} does not cover {what}: {whose} would have lost epsilon"
        f" {plain(now.spent)} of {plain(now.epsilon)}, delta {plain(now.spent_delta)} of {plain(now.delta)}{rho}",
        where=str(path),
        why="it is for the releases of all the population's datasets together",
        fix="ask for less, or for a larger budget: state one where this declares it, else raise it on the record: "
        f"`{refusals.on_ledger(path, 'add')} --population {name} --epsilon E{' --delta D' if now.left_delta < 0 else ''}`",
        code="DPR309",
    )


def _note(db: Connection, found: Populations, kind: str, body: dict[str, object]) -> None:
    chain.append(db, kind, body)
    found.note(kind, body)
