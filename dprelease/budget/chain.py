"""The hash chain: one append-only sequence of everything the ledger ever recorded.

    hash_i = SHA-256(hash_{i-1} || canonical_json(body_i)),    hash_0 = 64 zeros

Event 1 names the ledger, so two ledgers never share a head. Every body has a random nonce, so
neither do two histories of one ledger: after a restored backup the same debit, charged again,
would otherwise give the head that an earlier manifest cites. The later kinds:

    dataset   name, adjacency, unit, sha256 of the salt      budget   dataset, increase
    cap       dataset, epsilon that one period may cost
    moved     where to; the last event of a ledger that rests (moving.py)
    approval  dataset, pipeline, request, limits, last day, who, when (approval.py)
    population  name, terms                                  member   dataset, population (population.py)
    debit     the entry, its cost in integers, the request    payload  entry, size, sha256
    files     entry, sha256 of each file                      state    entry, published | failed

The tables beside the chain are projections. `problems` folds the chain again and compares every
row of every table, so an edit of either is found; the stored bytes hang on hashes in the chain.
A chain alone does not stop a writer who rewrites all of it, nor a restored backup: the anchors
in published manifests do (citation.py).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections import Counter, defaultdict
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from dprelease.budget import approval, period_cap, population
from dprelease.budget.accountant import Cost
from dprelease.budget.approval_chain import Approvals
from dprelease.budget.connection import Connection, Server, schema_version
from dprelease.budget.record import Anchor, Entry, canonical
from dprelease.budget.rho_filter import CEILING, VERSION, nano_rho, spent_epsilon
from dprelease.budget.storage import APPLICATION_ID, DDL, SCHEMA_VERSION
from dprelease.budget.timed_chain import Timed
from dprelease.core.errors import UNREADABLE, DpreleaseError

_GENESIS = "0" * 64

MOVED = 4
"""The schema version of a ledger that was moved: software that does not know the event must refuse it."""

TIMED = 5
"""The schema version of a ledger with a dataset whose losses are added up by time: software that knows
no windows would take every sum for the whole."""

UNSUMMED = 8
"""The schema version of a ledger with debits whose deltas its tables do not add up: they are of disjoint times."""

_NEWEST = UNSUMMED


def digest(data: bytes) -> str:
    """Return SHA-256 as hex."""
    return hashlib.sha256(data).hexdigest()


def append(db: Connection, kind: str, body: dict[str, object]) -> int:
    """Append one event inside the caller's write transaction and return its seq."""
    text = canonical({"kind": kind, "nonce": secrets.token_hex(16), **body})
    row = db.execute("SELECT seq, hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    seq, previous = (int(row[0]), str(row[1])) if row else (0, _GENESIS)
    db.execute(
        "INSERT INTO chain (seq, body, prev_hash, hash) VALUES (?, ?, ?, ?)",
        (seq + 1, text, previous, digest((previous + text).encode())),
    )
    return seq + 1


def ledger_id(db: Connection) -> str:
    """Return the random name event 1 gave this ledger."""
    (body,) = db.execute("SELECT body FROM chain WHERE seq = 1").fetchone()
    return str(json.loads(body)["ledger_id"])


def head(db: Connection, seq: int | None = None) -> Anchor:
    """Return the chain's head, or what it was right after event `seq`."""
    where = "ORDER BY seq DESC LIMIT 1" if seq is None else "WHERE seq = ?"
    row = db.execute(f"SELECT seq, hash FROM chain {where}", () if seq is None else (seq,))
    number, value = row.fetchone()
    return Anchor(ledger_id(db), int(number), str(value))


@dataclass(slots=True)
class _Fold:
    """What the tables must hold, rebuilt from the chain alone."""

    rows: dict[str, list[tuple[object, ...]]] = field(default_factory=lambda: defaultdict(list))
    digests: dict[tuple[object, ...], str] = field(default_factory=dict)
    declared: dict[str, Cost] = field(default_factory=dict)
    rho: dict[str, int] = field(default_factory=dict)
    caps: period_cap.Caps = field(default_factory=period_cap.Caps)
    moved: bool = False
    unsummed: bool = False
    timed: Timed = field(default_factory=Timed)
    approvals: Approvals = field(default_factory=Approvals)
    populations: population.Populations = field(default_factory=population.Populations)
    problems: list[str] = field(default_factory=list)


# Each projection with the query that must give the same rows as the fold.
_QUERIES = {
    "dataset": "SELECT seq, name FROM dataset",
    "budget": "SELECT seq, dataset, nano_epsilon, atto_delta FROM budget",
    "entry": "SELECT seq, dataset, pipeline, period, plan_hash, nano_epsilon, atto_delta"
    " FROM entry",
    "payload": "SELECT entry, seq, length(bytes) FROM payload",
    "file": "SELECT entry, seq, name FROM file",
    "state": "SELECT entry, seq, state, code FROM state",
}
# What is said of stored bytes that are others, and where they stand.
_STORED = (
    ("the payload of debit {} was changed", "payload", "SELECT entry, bytes FROM payload"),
    ("a file of debit {} was changed", "file", "SELECT entry, name, bytes FROM file"),
    ("the salt of a dataset was changed", "salt", "SELECT name, salt FROM dataset"),
)


def problems(db: Connection, *, deep: bool) -> list[str]:
    """Return everything that is wrong with the ledger, as public one-line findings.

    Args:
        deep: also the hash of all stored bytes.
    """
    try:
        found = _storage_problems(db)
        if found:
            return found
        fold = _Fold()
        found = _links(db, fold)
        if not found:
            found = fold.problems + _projections(db, fold) + _version(db, fold)
        if deep and not found:
            found = _bytes(db, fold)
    except (sqlite3.Error, *UNREADABLE, DpreleaseError):  # the latter: what could never be charged
        return ["the ledger does not parse"]
    return found


def _storage_problems(db: Connection) -> list[str]:
    if not isinstance(db, Server) and db.execute("PRAGMA application_id").fetchone() != (
        APPLICATION_ID,
    ):
        return ["the file is not a dprelease ledger"]
    if not SCHEMA_VERSION <= schema_version(db) <= _NEWEST:
        return ["the ledger has a schema version this dprelease does not know"]
    if isinstance(db, Server):
        return db.storage_problems()
    # Not quick_check: it leaves out the indexes, and one flipped bit there hides a debit's row from
    # the look-up of its key.
    if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        return ["SQLite finds the file corrupt"]
    if db.execute("PRAGMA foreign_key_check").fetchone() is not None:
        return ["a table refers to a row that does not exist"]
    written = {
        str(name): str(text)
        for name, text in db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    }
    return [] if written == DDL else ["the tables or their append-only triggers were changed"]


def _links(db: Connection, fold: _Fold) -> list[str]:
    previous, expected = _GENESIS, 1
    for seq, text, prev_hash, value in db.execute(
        "SELECT seq, body, prev_hash, hash FROM chain ORDER BY seq"
    ):
        if seq != expected:
            return [f"event {expected} of the chain is missing"]
        if prev_hash != previous or value != digest((previous + text).encode()):
            return [f"event {seq} of the chain was changed"]
        body = json.loads(text)
        if (body["kind"] == "ledger") != (seq == 1):
            return [f"event {seq} of the chain is out of place"]
        if body["kind"] == "approval":
            wrong = fold.approvals.declare(seq, body, previous)
            fold.problems += [] if wrong is None else [f"approval {seq} {wrong}"]
        _apply(fold, seq, body)
        previous, expected = value, expected + 1
    for name in fold.timed.datasets:
        fold.problems += fold.timed.check(name, expected, fold.rho.get(name))
    fold.problems += [
        f"the debits exceed the budget of population {name}"
        for name in fold.populations.known
        if not fold.problems and fold.populations.budget(name).over
    ]
    return [] if expected > 1 else ["the chain is empty"]


def _apply(fold: _Fold, seq: int, body: dict[str, Any]) -> None:
    if fold.moved:
        fold.problems.append(f"event {seq} of the chain comes after its move")
    wrong: list[str | None] = []
    match body["kind"]:
        case "ledger" | "approval" | "population" | "member":
            pass
        case "moved":
            fold.moved = True
        case "dataset":
            fold.rows["dataset"].append((seq, body["name"]))
            fold.digests["salt", body["name"]] = str(body["salt_sha256"])
            fold.timed.declare(body)
        case "budget":
            row = (seq, body["dataset"], body["nano_epsilon"], body["atto_delta"])
            fold.rows["budget"].append(row)
            name = str(body["dataset"])
            fold.problems += fold.timed.check(name, seq, fold.rho.get(name))
            wrong = [fold.timed.raise_budget(body)]
            _declare_rho(fold, seq, body)
        case "cap":
            wrong = [fold.caps.declare(_known(fold, body), _integer(body["nano_epsilon"]))]
        case "debit":
            entry = Entry.from_json(body["entry"])
            cost = Cost(_integer(body["nano_epsilon"]), _integer(body["atto_delta"]))
            if cost != entry.cost:
                fold.problems.append(f"debit {seq} costs less or more than its loss")
            key = entry.key
            row, atto = (seq, *asdict(key).values(), entry.plan_hash), cost.atto_delta
            if "unsummed" in body:
                fold.unsummed, atto = True, 0
                if key.dataset not in fold.rho and not fold.timed.datasets[key.dataset].line.apart:
                    fold.problems.append(f"debit {seq} is not written as its dataset composes")
            fold.rows["entry"].append((*row, cost.nano_epsilon, atto))
            _spend_rho(fold, seq, entry, body)
            wrong = [
                fold.timed.debit(entry, _integer(body.get("nano_rho", 0))),
                fold.caps.debit(seq, key.dataset, body, cost.nano_epsilon),
                fold.approvals.debit(seq, entry, body),
            ]
        case "payload":
            fold.rows["payload"].append((body["entry"], seq, body["size"]))
            fold.digests["payload", body["entry"]] = str(body["sha256"])
        case "files":
            for name, value in body["files"].items():
                fold.rows["file"].append((body["entry"], seq, name))
                fold.digests["file", body["entry"], name] = str(value)
        case "state":
            fold.rows["state"].append((body["entry"], seq, body["state"], body["code"]))
        case _:
            fold.problems.append(f"event {seq} of the chain has an unknown kind")
    wrong.append(fold.populations.note(str(body["kind"]), body))
    fold.problems += [f"{body['kind']} {seq} {text}" for text in wrong if text is not None]


def _declare_rho(fold: _Fold, seq: int, body: dict[str, Any]) -> None:
    """Follow a budget that composes by zCDP: rho_max must be worth what was declared so far."""
    name = str(body["dataset"])
    if "zcdp" not in body:
        if name in fold.rho:
            fold.problems.append(f"budget {seq} changes how its dataset composes")
        return
    part = body["zcdp"]
    more = Cost(_integer(part["nano_epsilon"]), _integer(part["atto_delta"]))
    total = fold.declared.get(name, Cost(0)) + more
    rho = _integer(part["nano_rho"])
    first = name not in fold.declared
    if (first and (body["nano_epsilon"], body["atto_delta"]) != astuple(CEILING)) or (
        not first and name not in fold.rho
    ):
        fold.problems.append(f"budget {seq} changes how its dataset composes")
    if rho < 0 or spent_epsilon(rho, total.delta) > total.epsilon:
        fold.problems.append(f"budget {seq} states more rho than it is worth")
    fold.declared[name], fold.rho[name] = total, rho


def _spend_rho(fold: _Fold, seq: int, entry: Entry, body: dict[str, Any]) -> None:
    name = entry.key.dataset
    if name not in fold.rho:
        if "nano_rho" in body:
            fold.problems.append(f"debit {seq} counts rho in a dataset that does not")
        return
    spent = _integer(body["nano_rho"])
    if spent != nano_rho(entry):
        fold.problems.append(f"debit {seq} costs less or more rho than its loss")


def _version(db: Connection, fold: _Fold) -> list[str]:
    """The newest one that something in the ledger needs, and no other."""
    needed = {
        SCHEMA_VERSION: True,
        VERSION: fold.rho,
        period_cap.VERSION: fold.caps.cap,
        MOVED: fold.moved,
        TIMED: any(dataset.declared[2] for dataset in fold.timed.datasets.values()),
        approval.VERSION: fold.approvals.known,
        population.VERSION: fold.populations.known,
        UNSUMMED: fold.unsummed,
    }
    if schema_version(db) == max(version for version, found in needed.items() if found):
        return []
    return ["the ledger's schema version is not the one of its budgets"]


def _projections(db: Connection, fold: _Fold) -> list[str]:
    return [
        f"table {table} does not match the chain"
        for table, query in _QUERIES.items()
        if Counter(db.execute(query).fetchall()) != Counter(fold.rows[table])
    ]


def _bytes(db: Connection, fold: _Fold) -> list[str]:
    return [
        said.format(*place)
        for said, kind, query in _STORED
        for *place, data in db.execute(query)
        if digest(data) != fold.digests[kind, *place]
    ]


def _known(fold: _Fold, body: dict[str, Any]) -> str:
    name = str(body["dataset"])
    if name not in fold.timed.datasets:
        raise LookupError(name)
    return name


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("integer")
    return value
