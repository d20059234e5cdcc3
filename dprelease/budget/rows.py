"""Reading and appending single ledger rows, always inside the caller's transaction.

Every append writes its event to the chain first and then its row. The caller's transaction makes
the two one; nothing here commits.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, replace

from dprelease.budget import approval, chain, period_cap, refusals, rho_filter
from dprelease.budget.accountant import Cost, fits
from dprelease.budget.approval import Asked
from dprelease.budget.citation import Citation
from dprelease.budget.connection import Connection, Place, raise_version
from dprelease.budget.parallel import Charge, worst_cost, worst_rho
from dprelease.budget.record import Anchor, Entry, EntryRow, Key, protected_unit
from dprelease.budget.timeline import ALWAYS, Timeline, timeline

__all__ = [
    "accounted",
    "adopt",
    "budgets",
    "charged",
    "charges",
    "declaration",
    "declared",
    "entry_row",
    "find",
    "insert_again",
    "insert_budget",
    "insert_cap",
    "insert_dataset",
    "insert_entry",
    "insert_files",
    "insert_payload",
    "insert_state",
    "must_account",
    "must_be_same_budget",
    "must_be_same_plan",
    "origins",
    "relevant",
    "state",
    "stored_files",
    "stored_payload",
    "stored_salt",
    "timeline_of",
    "total",
]

_NOTHING = Cost(0)


# -- datasets and budgets ------------------------------------------------------------------


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
    bodies = [
        json.loads(text)
        for (text,) in db.execute(
            "SELECT body FROM chain JOIN budget USING (seq) WHERE dataset = ? ORDER BY seq",
            (dataset,),
        )
    ]
    stated = [body.get("apart", body) for body in bodies]
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


def charges(db: Connection, dataset: str) -> list[Charge]:
    """Return what every debit of the dataset costs, and whom, in order."""
    apart = timeline_of(db, dataset).apart
    concentrated = rho_filter.rho_budget(db, dataset) is not None
    out = []
    for nano, atto, text in db.execute(
        "SELECT nano_epsilon, atto_delta, body FROM entry JOIN chain USING (seq)"
        " WHERE dataset = ? ORDER BY seq",
        (dataset,),
    ).fetchall():
        body = json.loads(text) if apart or concentrated else {}
        reach = Entry.from_json(body["entry"]).reach if apart else ALWAYS
        rho = int(body["nano_rho"]) if concentrated else 0
        out.append(Charge(reach, Cost(int(nano), int(atto)), rho))
    return out


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


# -- entries -------------------------------------------------------------------------------


def find(db: Connection, key: Key) -> int | None:
    """Return the seq of the key's debit, or None."""
    row = db.execute(
        "SELECT seq FROM entry WHERE dataset = ? AND pipeline = ? AND period = ?",
        (key.dataset, key.pipeline, key.period),
    ).fetchone()
    return int(row[0]) if row else None


def charged(db: Connection, key: Key, path: Place) -> int:
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
    )


def must_be_same_plan(db: Connection, seq: int, asked: Entry, path: Place) -> None:
    """Raise DPR410 unless the recorded entry has the asked plan at the asked price."""
    recorded = entry_row(db, seq).entry
    same = (
        recorded.plan_hash == asked.plan_hash
        and (recorded.epsilon, recorded.delta) == (asked.epsilon, asked.delta)
        and (recorded.adjacency, recorded.unit) == (asked.adjacency, asked.unit)
    )
    if not same:
        raise refusals.other_plan(path, asked.key, recorded.plan_hash, asked.plan_hash)


def insert_entry(
    db: Connection,
    entry: Entry,
    path: Place,
    *,
    origin: Anchor | None,
    asked: Asked | None = None,
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
    period = key.period if again is None else entry_row(db, again).entry.key.period
    period_cap.must_fit(db, entry, period, path)
    under = None if origin else approval.must_cover(db, entry, asked, period, path)
    seq = chain.append(
        db,
        "debit",
        {
            "entry": entry.to_json(),
            "nano_epsilon": cost.nano_epsilon,
            "atto_delta": cost.atto_delta,
            "origin": _anchor_json(origin),
            **({} if rho is None else {"nano_rho": rho}),
            **({} if again is None else {"again": again}),
            **({} if under is None else {"approval": under}),
        },
    )
    db.execute(
        "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
        (seq, *asdict(key).values(), entry.plan_hash, cost.nano_epsilon, cost.atto_delta),
    )
    return seq


def insert_again(
    db: Connection, entry: Entry, path: Place, seq: int, asked: Asked | None = None
) -> None:
    """Debit `entry` a second time, because the run that debit `seq` paid for may have drawn.

    One key holds one debit, so this one gets a period's name of its own; its event says "again".
    """
    number, name = 1, ""
    while not name or find(db, replace(entry.key, period=name)) is not None:
        name = f"{entry.key.period[:48]}--again-{number}"
        number += 1
    named = replace(entry, key=replace(entry.key, period=name))
    insert_entry(db, named, path, origin=None, asked=asked, again=seq)


def _fitting(db: Connection, entry: Entry, path: Place) -> int | None:
    """Refuse an entry that does not fit what is left; return its nano-rho where that counts."""
    dataset, cost = entry.key.dataset, entry.cost
    concentrated = rho_filter.rho_budget(db, dataset)
    rho = None if concentrated is None else rho_filter.nano_rho(entry)
    if concentrated is not None and rho is None:
        raise refusals.without_rho(path, dataset)
    line = timeline_of(db, dataset)
    after = [*charges(db, dataset), Charge(entry.reach, cost, rho or 0)]
    if concentrated is None:
        worst, budget = worst_cost(after, pairs=line.pairs), total(db, dataset)
        if not fits((), worst, budget):
            raise refusals.over_budget(path, dataset, cost, worst, budget, line)
        return None
    spent = worst_rho(after, pairs=line.pairs)
    if rho is not None and spent > concentrated.nano_rho:
        raise refusals.over_rho(path, dataset, rho, spent - rho, concentrated.nano_rho)
    return rho


# -- payload, files, state -----------------------------------------------------------------


def insert_payload(db: Connection, seq: int, data: bytes) -> None:
    body = {"entry": seq, "size": len(data), "sha256": chain.digest(data)}
    at = chain.append(db, "payload", body)
    db.execute("INSERT INTO payload VALUES (?, ?, ?)", (seq, at, data))


def insert_files(db: Connection, seq: int, files: Mapping[str, bytes]) -> None:
    hashes = {name: chain.digest(data) for name, data in files.items()}
    at = chain.append(db, "files", {"entry": seq, "files": hashes})
    db.executemany(
        "INSERT INTO file VALUES (?, ?, ?, ?)",
        [(seq, at, name, data) for name, data in files.items()],
    )


def insert_state(
    db: Connection,
    seq: int,
    name: str,
    code: str | None,
    *,
    origin: Anchor | None = None,
) -> None:
    body = {"entry": seq, "state": name, "code": code, "origin": _anchor_json(origin)}
    at = chain.append(db, "state", body)
    db.execute("INSERT INTO state VALUES (?, ?, ?, ?)", (seq, at, name, code))


def stored_payload(db: Connection, seq: int, path: Place) -> bytes | None:
    """Return the payload if its hash is the chain's, None if there is none, else raise DPR403."""
    row = db.execute(
        "SELECT bytes, body FROM payload JOIN chain USING (seq) WHERE entry = ?", (seq,)
    ).fetchone()
    if row is None:
        return None
    if chain.digest(row[0]) != json.loads(row[1])["sha256"]:
        raise refusals.corrupt(path, f"the payload of debit {seq} was changed")
    return bytes(row[0])


def stored_files(db: Connection, seq: int, path: Place) -> dict[str, bytes]:
    """Return the files if their hashes are the chain's, {} if none, else raise DPR403."""
    found = {
        str(name): bytes(data)
        for name, data in db.execute(
            "SELECT name, bytes FROM file WHERE entry = ? ORDER BY name", (seq,)
        )
    }
    if not found:
        return {}
    (text,) = db.execute(
        "SELECT body FROM chain WHERE seq = (SELECT MAX(seq) FROM file WHERE entry = ?)", (seq,)
    ).fetchone()
    if {name: chain.digest(data) for name, data in found.items()} != json.loads(text)["files"]:
        raise refusals.corrupt(path, f"the files of debit {seq} were changed")
    return found


def state(db: Connection, seq: int) -> tuple[str, str | None]:
    """Return the entry's state and, for `failed`, its code."""
    row = db.execute("SELECT state, code FROM state WHERE entry = ?", (seq,)).fetchone()
    if row is not None:
        return str(row[0]), row[1]
    for table, name in (("file", "ready"), ("payload", "drawn")):
        if db.execute(f"SELECT 1 FROM {table} WHERE entry = ? LIMIT 1", (seq,)).fetchone():
            return name, None
    return "charged", None


# -- citations -----------------------------------------------------------------------------


def origins(db: Connection) -> set[Anchor]:
    """Return the anchors that `reconcile` recorded."""
    found = db.execute("""SELECT body FROM chain WHERE body LIKE '%"origin":{%'""").fetchall()
    values = [json.loads(text).get("origin") for (text,) in found]
    return {Anchor(**value) for value in values if value}


def relevant(db: Connection, citation: Citation) -> bool:
    """Return whether the citation concerns this ledger: its own, or of a dataset it budgets.

    Other ledgers may publish other datasets into the same public folder.
    """
    return (
        citation.anchor.ledger_id == chain.ledger_id(db)
        or declaration(db, citation.entry.key.dataset) is not None
    )


def accounted(db: Connection, citation: Citation) -> bool:
    """Return whether the ledger holds the cited debit and knows that it was published."""
    seq = find(db, citation.entry.key)
    if seq is None:
        return False
    recorded = entry_row(db, seq)
    if recorded.entry.plan_hash != citation.entry.plan_hash:
        return False
    if recorded.state not in ("ready", "published"):
        return False
    return recorded.anchor == citation.anchor or citation.anchor in origins(db)


def must_account(db: Connection, citations: list[Citation], path: Place) -> None:
    """Raise DPR404 or DPR405 unless every relevant citation is accounted for."""
    for citation in citations:
        if relevant(db, citation) and not accounted(db, citation):
            own = citation.anchor.ledger_id == chain.ledger_id(db)
            raise (refusals.older if own else refusals.foreign)(path, citation.entry.key)


def adopt(db: Connection, citation: Citation, path: Place) -> None:
    """Record an unaccounted citation: debit it if it is not, and mark it published."""
    key, origin = citation.entry.key, citation.anchor
    seq = find(db, key)
    if seq is None:
        seq = insert_entry(db, citation.entry, path, origin=origin)
    else:
        recorded = entry_row(db, seq).entry.plan_hash
        if recorded != citation.entry.plan_hash:
            raise refusals.other_plan(path, key, recorded, citation.entry.plan_hash)
        name, _ = state(db, seq)
        # A payload under the cited debit is the one that was published; under another debit of
        # the same key it is a second draw.
        if name != "charged" and not (name == "drawn" and chain.head(db, seq) == origin):
            raise refusals.drawn_elsewhere(path, key)
    insert_state(db, seq, "published", None, origin=origin)


def _anchor_json(anchor: Anchor | None) -> dict[str, object] | None:
    return None if anchor is None else asdict(anchor)
