"""Debits: rows of a ledger, found and appended inside the caller's transaction, and what they leave of a budget.

Every append writes its event to the chain first and then its row. The caller's transaction makes
the two one; nothing here commits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction

from dprelease.budget import approval, chain, period_cap, refusals, rho_filter
from dprelease.budget.accountant import Cost
from dprelease.budget.approval import ApprovalRequest
from dprelease.budget.approval_words import apart
from dprelease.budget.connection import Connection, Place, debits, raise_version, summed
from dprelease.budget.declarations import declared, must_fit_members, timeline_of, total
from dprelease.budget.parallel import TimedCost, remainder, worst, worst_cost, worst_rho
from dprelease.budget.person import window_of_debit
from dprelease.budget.record import Anchor, Budget, Entry, EntryRow, Key, canonical, protected_unit
from dprelease.budget.stored import state
from dprelease.budget.timeline import ALWAYS, Instants

_LONGEST = 16_384
"""Characters of a request that a debit's event holds, at most: every later debit reads the events before it."""


def find(db: Connection, key: Key) -> int | None:
    """Return the seq of the key's debit, or None."""
    row = db.execute(
        "SELECT seq FROM entry WHERE dataset = ? AND pipeline = ? AND period = ?",
        (key.dataset, key.pipeline, key.period),
    ).fetchone()
    return int(row[0]) if row else None


def debit_seq(db: Connection, key: Key, path: Place) -> int:
    """Return the seq of the key's debit, or raise DPR412."""
    seq = find(db, key)
    if seq is None:
        raise refusals.wrong_stage(path, key, "it is not charged")
    return seq


def entry_row(db: Connection, seq: int) -> EntryRow:
    (text,) = db.execute("SELECT body FROM chain WHERE seq = ?", (seq,)).fetchone()
    body = json.loads(text)
    origin = body["origin"]
    name, code = state(db, seq)
    return EntryRow(
        entry=Entry.from_json(body["entry"]),
        anchor=chain.head(db, seq),
        state=name,
        code=code,
        origin=Anchor(**origin) if origin else None,
        approval=body["approval"]["event"] if "approval" in body else None,
        lists=body.get("lists", {}),
    )


def must_be_same_plan(
    db: Connection, seq: int, entry: Entry, path: Place, request: ApprovalRequest | None = None
) -> None:
    """Raise DPR410 unless the recorded entry has the asked plan at the asked price; it tells where the requests differ."""
    recorded = entry_row(db, seq).entry
    same = (
        recorded.plan_hash == entry.plan_hash
        and (recorded.epsilon, recorded.delta) == (entry.epsilon, entry.delta)
        and (recorded.adjacency, recorded.unit) == (entry.adjacency, entry.unit)
    )
    if not same:
        (text,) = db.execute("SELECT body FROM chain WHERE seq = ?", (seq,)).fetchone()
        before = json.loads(text).get("request")
        lines = apart(before, request.request(), word="recorded") if before and request else []
        raise refusals.other_plan(path, entry.key, recorded.plan_hash, entry.plan_hash, lines)


def _request(wanted: ApprovalRequest | None) -> dict[str, object]:
    """Return what a debit's event says of its request, which is public: for messages alone, nothing rests on it."""
    request = {} if wanted is None else wanted.request()
    return {"request": request} if 0 < len(canonical(request)) <= _LONGEST else {}


def insert_entry(
    db: Connection,
    entry: Entry,
    path: Place,
    *,
    origin: Anchor | None,
    wanted: ApprovalRequest | None = None,
    again: int | None = None,
) -> int:
    """Debit `entry` if it fits, is approved and speaks of the declared unit; return its seq.

    Args:
        origin: what is published already needs no approval.
        again: the debit whose release this one pays for once more (`insert_again`).
    """
    key, cost = entry.key, entry.cost
    stated = entry.adjacency, protected_unit(entry.unit), entry.time
    if declared(db, key.dataset, path) != stated:
        raise refusals.other_declaration(path, key.dataset)
    rho = _fitting(db, entry, path)
    must_fit_members(db, entry, path)
    period = key.period if again is None else entry_row(db, again).entry.key.period
    period_cap.must_fit(db, entry, period, path)
    under = None if origin else approval.must_cover(db, entry, wanted, period, path)
    row = _row(db, entry, ceiling=rho is not None or timeline_of(db, key.dataset).apart)
    seq = chain.append(
        db,
        "debit",
        {
            "entry": entry.to_json(),
            **asdict(cost),
            "origin": None if origin is None else asdict(origin),
            **({} if rho is None else {"nano_rho": rho}),
            **({} if again is None else {"again": again}),
            **({} if row == cost else {"unsummed": True}),
            **({} if under is None else {"approval": under}),
            **_request(wanted),
            **({} if wanted is None or not wanted.lists else {"lists": wanted.lists}),
        },
    )
    db.execute(
        "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
        (seq, *asdict(key).values(), entry.plan_hash, row.nano_epsilon, row.atto_delta),
    )
    return seq


def _row(db: Connection, entry: Entry, *, ceiling: bool) -> Cost:
    """Return what the table holds of a debit: a delta that would reach a ceiling stands in the event alone."""
    if not ceiling:
        return entry.cost
    after = summed(db, entry.key.dataset) + entry.cost
    if after.atto_delta <= rho_filter.CEILING.atto_delta:
        return entry.cost
    raise_version(db, chain.UNSUMMED)
    return Cost(entry.cost.nano_epsilon, 0)


def insert_again(
    db: Connection, entry: Entry, path: Place, seq: int, wanted: ApprovalRequest | None = None
) -> None:
    """Debit `entry` a second time, because the run that debit `seq` paid for may have drawn.

    One key holds one debit, so this one gets a period's name of its own; its event says "again".
    """
    number, name = 1, ""
    while not name or find(db, replace(entry.key, period=name)) is not None:
        name = f"{entry.key.period[:48]}--again-{number}"
        number += 1
    named = replace(entry, key=replace(entry.key, period=name))
    insert_entry(db, named, path, origin=None, wanted=wanted, again=seq)


def _fitting(db: Connection, entry: Entry, path: Place) -> int | None:
    """Refuse an entry that does not fit what is left; return its nano-rho where that counts."""
    dataset, cost = entry.key.dataset, entry.cost
    concentrated = rho_filter.rho_budget(db, dataset)
    rho = None if concentrated is None else rho_filter.nano_rho(entry)
    if concentrated is not None and rho is None:
        raise refusals.without_rho(path, dataset)
    line = timeline_of(db, dataset)
    after = [*timed_costs(db, dataset), TimedCost(entry.instants, cost, rho or 0)]
    if concentrated is None:
        worst, budget = worst_cost(after, pairs=line.pairs), total(db, dataset)
        if not worst.within(budget):
            raise refusals.over_budget(path, dataset, cost, worst, budget, line)
        return None
    spent = worst_rho(after, pairs=line.pairs)
    if rho is not None and spent > concentrated.nano_rho:
        raise refusals.over_rho(path, dataset, rho, spent - rho, concentrated.nano_rho)
    return rho


def timed_costs(db: Connection, dataset: str) -> list[TimedCost]:
    """Return what the dataset's debits cost, and whom; together where every one can have read every unit."""
    line = timeline_of(db, dataset)
    concentrated = rho_filter.rho_budget(db, dataset) is not None
    if not line.apart and not concentrated:  # one unit is read by all: the database makes the sum
        return [TimedCost(ALWAYS, summed(db, dataset))]
    out = []
    for _, body in debits(db, dataset):
        instants = line.instants(window_of_debit(body["entry"]))
        rho = int(body["nano_rho"]) if concentrated else 0
        cost = Cost(int(body["nano_epsilon"]), int(body["atto_delta"]))
        out.append(TimedCost(instants, cost, rho))
    return out


def balance(db: Connection, dataset: str, window: Instants = ALWAYS) -> Budget:
    """Return the budget of a declared dataset and what is left of it to a release of that window."""
    line, concentrated = timeline_of(db, dataset), rho_filter.rho_budget(db, dataset)
    return remainder(
        total(db, dataset),
        None if concentrated is None else concentrated.nano_rho,
        timed_costs(db, dataset),
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
    pairs = timeline_of(db, dataset).pairs
    read = [e.instants for e in entries]
    if rho_filter.rho_budget(db, dataset) is None:
        deltas = worst(read, [e.delta for e in entries], pairs=pairs)
        return worst(read, [e.epsilon for e in entries], pairs=pairs), deltas
    nano = int(worst(read, [rho_filter.nano_rho(e) or 0 for e in entries], pairs=pairs))
    whole = total(db, dataset).delta
    spent = rho_filter.spent_epsilon(nano, whole if delta is None else delta)
    return spent, whole if entries else Fraction(0)
