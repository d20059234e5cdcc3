"""The stages of a release that spend or hold private values; `flow` puts all of them in order.

    charge      plan -> Receipt                          durable, before any random bit
    draw        exact integers -> noisy integers         behind the wall, in the ledger's transaction
    validated   table -> Verdict                         a failure withholds, never redraws
    commit      bytes of every file -> the ledger        then they are published

Data flows one way; a stage is a function of the values before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dprelease.budget import refusals
from dprelease.budget.approval import ApprovalRequest
from dprelease.budget.approval_words import apart
from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.budget.person import PersonLoss, person_at
from dprelease.core.codec import encode
from dprelease.core.errors import ConfigError, DpreleaseError, LedgerError, WithheldError
from dprelease.core.numeric import plain
from dprelease.core.strict_json import canonical_json, read_json
from dprelease.engines.engine import Engine
from dprelease.engines.source import Source
from dprelease.planning.again import plan_again
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.release_plan.identity import former_hash, is_hash_of, plan_hash
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import counted_for, declared_by, ledger_window
from dprelease.results.draw import KEYS_END, Draw, decode, width
from dprelease.results.fitted import noised_of
from dprelease.results.formats.json_ import FILE
from dprelease.results.formats.over_time import ledger_over_time, over_tables
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.publish import LATEST
from dprelease.results.receipt import Receipt, summed_by
from dprelease.results.validate.rules import check
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.about import About
from dprelease.schema.read_column import read_lists
from dprelease.schema.table import TableSchema, declared_time
from dprelease.schema.unit import describe
from dprelease.wall import execute

_HISTORY = 24
"""Debits in the report's burn-down: the newest ones."""


@dataclass(frozen=True, slots=True)
class Request:
    """Where a charged release is written down: the ledger and its idempotency key.

    Attributes:
        approved: whether only an approved plan may be charged, whatever the ledger holds; clock: for the
            last day of an approval.
    """

    ledger: Ledger
    key: Key
    approved: bool = False
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def charge(
    plan: ReleasePlan, request: Request, *, again: bool = False, early: str | None = None
) -> Receipt:
    """Check the plan's price again, then debit it durably (T1).

    Args:
        again: pay once more where a run ended between its debit and its stored draw.
        early: when the period closes, if that lies ahead.

    Raises:
        BudgetError: it does not fit or is not approved; LedgerError: its schema's population is not charged for
            it (DPR429), it takes a size for public (DPR430), or as `Ledger.charge`; InternalError: the plan claims too little.
    """
    execute.check(plan)
    ledger, key = request.ledger, request.key
    stated = None if plan.request is None else plan.request.schema.population
    here = ledger.populations().member.get(key.dataset)
    if stated not in (None, here) and key.dataset in ledger.datasets():
        raise refusals.other_population(ledger.path, key.dataset, here, f"its schema says {stated}")
    entry = _entry(plan, request, early)
    try:
        got = ledger.charge(entry, again=again, wanted=_approval_request(plan, request))
    except LedgerError as refused:
        raise _line_by_line(refused, plan, request) from None
    return replace(
        unledgered(plan),
        ledger=str(ledger.path),
        **asdict(got.anchor),
        **asdict(key),
        spent=str(plain(got.spent)),
        budget=str(plain(got.budget)),
        fresh=got.fresh,
        early=got.early,
        approval=got.approval,
        plan_hash=entry.plan_hash,
        over_time=_over_time(plan, request, None if got.fresh else got.anchor.seq),
        counted=counted_for(plan, key.period)
        + summed_by(ledger.composition(key.dataset), ledger.budget(key.dataset).delta),
    )


_ABOUT = frozenset(About.model_fields)


def _line_by_line(refused: LedgerError, plan: ReleasePlan, request: Request) -> LedgerError:
    """Return DPR410 with the differences of the two requests, where the files of the first are committed."""
    files = request.ledger.files(request.key) if refused.code == "DPR410" else None
    if files is None or plan.request is None:
        return refused
    here = read_json(canonical_json(request_to_json(plan.request)))
    stated = read_json(files[FILE])
    lines = apart(_decided(stated["request"], here), _decided(here, here), word="recorded")
    why, fix = "in the published release (recorded) and here (asked)", refused.fix
    if not lines:
        why = f"the requests are equal: dprelease {stated['software']['dprelease']} planned the release otherwise"
        fix = "its folder holds the release; that version runs it again"
    why = "\n         ".join((why, *lines))
    return refused.from_error(refused, why=why, fix=fix)


def _decided(said: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a request what `wanted` speaks of too, without a publisher's words, which are no part of a plan."""
    found = {name: (said or {}).get(name) for name in wanted}
    words = {k: v for k, v in (found["schema"] or {}).items() if k not in _ABOUT}
    return {**found, "schema": words}


def _over_time(plan: ReleasePlan, request: Request, seq: int | None) -> str:
    """Return what one unit, a whole person and a member of a population have lost by now, in words, or ""."""
    about = About() if plan.request is None else plan.request.schema.about
    words = PublicWords(plan.schema, plan.unit, about)
    book, dataset = request.ledger, request.key.dataset
    timed = declared_time(plan.unit, plan.time) is not None
    said = [ledger_over_time(book, dataset, (words.one, words.whole), seq)] if timed else []
    return "; ".join([*said, *over_tables(book.populations(seq).loss(dataset))])


def must_be_approved(plan: ReleasePlan, request: Request) -> None:
    """Refuse a plan that the charge would refuse for want of an approval, before a source is opened.

    Raises:
        BudgetError, LedgerError: as `budget.approval.must_cover`.
    """
    request.ledger.must_be_approved(_entry(plan, request, None), _approval_request(plan, request))


def _entry(plan: ReleasePlan, request: Request, early: str | None) -> Entry:
    """Return what is to be debited for the plan under the request's key."""
    ledger, key = request.ledger, request.key
    rows = None if plan.request is None else plan.request.schema.rows.exact
    # Of a dataset whose budget is in rho, or can be that of its population.
    rho = ledger.composition(key.dataset) == "zcdp" or key.dataset in ledger.populations().member
    return Entry(
        key=key,
        plan_hash=debited_hash(plan, request),
        **declared_by(plan),
        mechanisms=tuple(
            {
                "block": b.name,
                "mechanism": b.mechanism,
                "epsilon": str(b.epsilon),
                "epsilon_upper": b.certificate["epsilon_upper"],
                **({} if rows is None else {"public_size": rows}),
            }
            for b in plan.blocks
        ),
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=execute.concentrated(plan) if rho else None,
        early=early,
        window=ledger_window(plan),
    )


def recorded(plan: ReleasePlan, request: Request) -> ReleasePlan:
    """Return the plan that was paid for, if its files are committed under the key and answer the same request.

    Another version of dprelease may split a budget or choose a law otherwise: what was released stays what it is.
    The choice is read from the files, as `verify` reads it; the charge proves its price like that of any plan.
    """
    ledger, key = request.ledger, request.key
    if plan.request is None or ledger.plan_hash(key) in (None, plan.hash):
        return plan
    manifest = (ledger.files(key) or {}).get(FILE)
    if manifest is None:
        return plan
    try:
        stated = read_json(manifest)
        here = read_json(canonical_json(request_to_json(plan.request)))
        if _decided(stated["request"], here) != _decided(here, here):
            return plan
        made = plan_again(plan.request, stated["plan"])
    except (DpreleaseError, LookupError, TypeError, ValueError, ArithmeticError):
        return plan  # no version that makes this plan: the charge refuses it
    return made if plan_hash(stated["plan"]) == made.hash else plan


def of_fixed_lists(schema: TableSchema, request: Callable[[], Request]) -> TableSchema:
    """Return the schema with the keys that the key's debit fixed, by the ledger's copy: whatever their folders are since.

    Raises:
        ConfigError: another list is named; or nothing was committed, and a folder is not there as it was then (DPR117).
    """
    if not any(column.folders for column in schema.columns.values()):
        return schema
    book = request()
    debits = book.ledger.entries(book.key.dataset)
    fixed = next((row.lists for row in debits if row.entry.key == book.key), {})
    manifest = (book.ledger.files(book.key) or {}).get(FILE) if fixed else None
    columns = dict(schema.columns)
    for name in fixed.keys() & columns.keys():
        column, lists = columns[name], tuple(fixed[name])
        if not column.folders or column.lists == lists:
            continue
        named = [one.partition("@")[0] for one in lists]
        own = column.lists or [f"{path.parent.name}/{path.name}@" for path in column.folders]
        begin = [  # whatever is the newest of a pipeline now
            one.partition("/")[0] + "/" if path.name == LATEST else one
            for path, one in zip(column.folders, own, strict=True)
        ]
        if len(begin) != len(lists) or not all(map(str.startswith, lists, begin)):
            raise ConfigError(
                f"`{name}` has the keys of other lists than the debit of {book.key}",
                where=column.origin,
                why=f"a debit fixes them: {', '.join(named)}",
                fix="name these, or release other keys under another period or name",
                code="DPR117",
            )
        if manifest is None:
            folders = map(Path.with_name, column.folders, (one.rpartition("/")[2] for one in named))
            keys = read_lists(folders, name, column.origin, lists)
        else:
            stated = read_json(manifest)["request"]["schema"]["columns"][name]
            keys = {"values": tuple(stated["values"]), "lists": lists}
        columns[name] = replace(column, unread=None, **keys)
    return replace(schema, columns=columns)


def debited_hash(plan: ReleasePlan, request: Request) -> str:
    """Return the hash to debit `plan` under: its own, or the one that its debit has by an earlier version.

    A debit names no more than a hash. One that hashed figures too is known by the same figures; where floating
    point has other last digits by now, by the plan in the files that are committed under it.
    """
    ledger, key = request.ledger, request.key
    recorded = ledger.plan_hash(key)
    if recorded in (None, plan.hash):
        return plan.hash
    if recorded == former_hash(plan.to_json()):
        return recorded
    manifest = (ledger.files(key) or {}).get(FILE)
    if manifest is not None:
        committed = read_json(manifest)["plan"]
        if is_hash_of(recorded, committed) and plan_hash(committed) == plan.hash:
            return recorded
    return plan.hash


def _approval_request(plan: ReleasePlan, request: Request) -> ApprovalRequest | None:
    if plan.request is None:
        return None
    query = plan.request
    lists = {name: list(c.lists) for name, c in query.schema.columns.items() if c.lists}
    return ApprovalRequest(
        lambda: request_for_all_periods(query), request.approved, request.clock, lists
    )


def unledgered(plan: ReleasePlan) -> Receipt:
    """Return the receipt of a release that nothing records."""
    return Receipt(
        str(plain(plan.epsilon)),
        str(plain(plan.delta)),
        plan.in_words(describe(plan.adjacency, plan.unit)),
    )


def draw(
    plan: ReleasePlan,
    source: Source,
    engine: Engine,
    *,
    request: Request | None,
    receipt: Receipt | None = None,
) -> Draw:
    """Compute, draw once, and assemble; a key that is drawn already reads no row.

    Args:
        request: None for an unledgered release, which draws at once under a fresh salt.
    """
    payload: bytes | None
    if request is None:
        execute.check(plan)
        exact = engine.compute(source, plan.query, os.urandom(32))
        payload = execute.drawn(plan, exact)
        paid = unledgered(plan)
    else:
        ledger, key = request.ledger, request.key
        if ledger.state(key) == "failed":  # its values are withheld, from everybody
            code = next(e.code for e in ledger.entries(key.dataset) if e.entry.key == key)
            raise refusals.failed_before(ledger.path, key, code)
        payload = ledger.payload(key)
        if payload is None:
            exact = engine.compute(source, plan.query, ledger.salt(key.dataset))
            payload = execute.drawn(
                plan, exact, once=lambda make: ledger.draw_once(key, make, width=width(plan))
            )
        assert receipt is not None
        paid = receipt
    if plan.query.groups.found:
        plan = plan.with_keys(read_json(payload.partition(KEYS_END)[0]))
    return noised_of(plan, decode(plan, payload), paid)


def validated(noised: Draw, *, great_expectations: bool) -> Verdict:
    """Return the verdict of the built-in rules, then of the Great Expectations suite.

    Raises:
        ConfigError: Great Expectations cannot judge (DPR173): `Release.publish` asks for it first here.
    """
    verdict = check(noised)
    if verdict.ok and great_expectations:
        # imports Great Expectations: seconds
        from dprelease.results.validate.gx import gx_validate, require_great_expectations

        require_great_expectations()
        verdict = gx_validate(noised)
    return verdict


def withhold(request: Request | None, verdict: Verdict) -> WithheldError:
    """Record the failure for good and return the error to raise; there is no redraw."""
    if request is not None:
        request.ledger.fail(request.key, "DPR701")
    broken = sorted({f"{r.name} of {r.statistic}" for r in verdict.failures})
    return WithheldError(
        "the release is withheld: a released value failed validation",
        where=str(request.key) if request is not None else "a release without a ledger",
        why=f"broken: {', '.join(broken)}; redrawing until valid would change the law",
        fix="report this as a bug; the budget stays spent, and the next period can be released",
        code="DPR701",
    )


def commit(request: Request, files: Mapping[str, bytes]) -> None:
    """Commit the files; if another process was first, its bytes stand."""
    try:
        request.ledger.commit_files(request.key, files)
    except LedgerError:
        if request.ledger.files(request.key) is None:
            raise


def day_of(moment: datetime) -> str:
    """Return the day of publication, UTC: of a moment before rows are read, which they cannot move."""
    return moment.astimezone(UTC).date().isoformat()


def spent_at(ledger: Ledger, key: Key, seq: int) -> dict[str, Any]:
    """Return the dataset's spent and total epsilon as of entry `seq`, for the report.

    `history` holds what was spent after each of the last debits, this one included; `composition`
    says how they add up; `delta` is that of the whole promise: spent like epsilon, or the one at which
    a sum of rho is worth that much; `person` is what a whole person has lost, where the unit is one of
    their intervals; `member` what a member of the dataset's population has lost by all its datasets.
    """
    debits = [row for row in ledger.entries(key.dataset) if row.anchor.seq <= seq]
    total, delta = ledger.spent_at(key.dataset, seq, debits=debits)
    last = [row.anchor.seq for row in debits[-_HISTORY:]]
    history = [str(ledger.spent_at(key.dataset, at, debits=debits)[0]) for at in last]
    budget, composition = ledger.budget(key.dataset), ledger.composition(key.dataset)
    person = {}
    if ledger.timeline(key.dataset).per is not None:
        person["person"] = encode(person_at(ledger, key.dataset, seq), PersonLoss | None)
    member = ledger.populations(seq).loss(key.dataset)
    return {
        "spent": str(total),
        "total": str(budget.epsilon),
        "history": history,
        "composition": composition,
        "delta": str(delta),
        **person,
        **({} if member is None else {"member": member.to_json()}),
    }
