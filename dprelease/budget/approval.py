"""What a privacy officer approved, and which debits need it.

Law      a debit that needs an approval is made under one of the same request, before its last day is over
         and within its limits. This is looked at inside the debit's own transaction, so neither another
         debit nor a later approval comes between.
Needs    every debit of a pipeline whose file says `approval: required`; and, whatever a file says, of one
         that the ledger holds an approval of. A debit that stands needs none: what is paid for is drawn.
Counts   the newest approval of a request. A later one replaces it, also to end it.
Request  what was asked (`query.request`) without the name of its period: one approval is for all periods.
Record   an event "approval" holds the whole request; a debit under it says which, and when it was made.
         A ledger with such an event has schema version 6: software that would overlook it refuses it.
Signed   where one approval of a dataset is signed, only approvals by the same key count from then on, and
         no other can be recorded. What is signed names the event before it, so it cannot be put elsewhere.
Units    epsilon in nats, exact; days and instants in UTC.
Limits   without a key anybody who can write the ledger can approve. A pipeline under a new name, whose file
         says nothing of approvals, is held back by the dataset's budget alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Annotated, Any

from dprelease.budget.approval_words import apart
from dprelease.budget.connection import Connection, Place, debits, events, schema_version
from dprelease.budget.period_cap import counted_period
from dprelease.budget.record import Entry, canonical
from dprelease.budget.signature import Signer, signed_text, verifies
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Note
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from dprelease.core.numeric import fraction_from_json, plain
from dprelease.core.periods import instant_text, is_instant

VERSION = 6
"""Schema version of a ledger that holds an approval."""

_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
_NOTE = 1000


def request_hash(request: object) -> str:
    """Return SHA-256 of a request's canonical text, as hex."""
    return hashlib.sha256(canonical(request).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Approval(Stored):
    """One decision.

    Attributes:
        request: what may be released, without the name of a period.
        per_period: epsilon that all debits of one period of the pipeline may cost; total: that all debits
            under this approval may cost, None for no limit of its own.
        until: the last day on which a debit may be made, 2027-12-31; None for no end.
        by, at: who approved, by the name that the system gives them, and when.
        after: the hash of the chain's event before this one.
        public_key, signature: hex, of one that is signed.

    Raises:
        ArgumentError: a limit, day, instant or text is malformed (DPR656).
    """

    dataset: str
    pipeline: str
    request: Mapping[str, Any] = field(repr=False)
    per_period: Fraction
    by: str
    at: str
    total: Fraction | None = None
    until: str | None = None
    note: str | None = None
    after: Annotated[str, Note.always] = ""
    public_key: str | None = None
    signature: str | None = None

    def __post_init__(self) -> None:
        wrong = "; ".join(self._malformed())
        if wrong:
            raise ArgumentError(
                "an approval is malformed",
                why=wrong,
                fix="e.g. --per-period 1 --total 52 --until 2027-12-31",
                code="DPR656",
            )

    def _malformed(self) -> Iterator[str]:
        """Yield which parts are wrong, as the officer calls them."""
        for limit, name in ((self.per_period, "per period"), (self.total, "in all")):
            if limit is not None and not (isinstance(limit, Fraction) and limit > 0):
                yield f"its limit {name} is not above 0"
        if self.until is not None and _day(self.until) is None:
            yield f"its last day, {str(self.until)[:40]!r}, is not a date such as 2027-12-31"
        for text, name in ((self.by, "the name of who approves"), (self.note or "", "its note")):
            if not (isinstance(text, str) and len(text) <= _NOTE):
                yield f"{name} is longer than {_NOTE:,} characters, or no text"
        if not is_instant(self.at):
            yield "its instant is not one such as 2027-01-31T08:00:00Z"
        signed = (self.public_key, self.signature)
        if signed != (None, None) and not all(_HEX.fullmatch(part or "") for part in signed):
            yield "its key and signature are not both in hexadecimal digits"

    def __str__(self) -> str:
        """Return who approved what, and its limits, in one line."""
        limits = [f"epsilon {plain(self.per_period)} per period"]
        limits += [] if self.total is None else [f"{plain(self.total)} in all"]
        limits += [] if self.until is None else [f"until {self.until}"]
        key = "not signed" if self.public_key is None else f"signed by {self.public_key[:16]}…"
        note = "" if self.note is None else f"; {self.note}"
        return (
            f"pipeline {self.pipeline}, request {self.hash[:12]}, {', '.join(limits)}; {self.at} by"
            f" {self.by}, {key}{note}"
        )

    @property
    def hash(self) -> str:
        """The hash of the request."""
        return request_hash(self.request)

    @classmethod
    def of_event(cls, body: Mapping[str, Any]) -> Approval:
        """Return the approval of an event's body; ConfigError (DPR180) if it is none."""
        return cls.from_json({k: part for k, part in body.items() if k not in ("kind", "nonce")})

    def signed(self, signer: Signer) -> Approval:
        """Return it with the signer's key and signature."""
        named = replace(self, public_key=signer.public_key, signature="0")
        return replace(named, signature=signer.sign(_signed_text(named)))

    def is_signed(self) -> bool:
        """Return whether it bears the signature of the key that it names.

        Raises:
            LedgerError: the extra is not installed (DPR422).
        """
        if self.public_key is None or self.signature is None:
            return False
        return verifies(_signed_text(self), self.public_key, self.signature)


def _signed_text(approval: Approval) -> bytes:
    body = {name: part for name, part in approval.to_json().items() if name != "signature"}
    return signed_text("approval", body)


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval and the event that records it."""

    event: int
    approval: Approval

    def among(self, known: Iterable[Approved]) -> str:
        """Return it in one line, with the last approval of its request, which replaces it."""
        own = self.approval.pipeline, self.approval.hash
        by = max(a.event for a in known if (a.approval.pipeline, a.approval.hash) == own)
        replaced = f"; replaced by event {by}" * (by != self.event)
        return f"approval, event {self.event}: {self.approval}{replaced}"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a run asks to have debited, where an approval may be needed.

    Attributes:
        request: makes the request, without the name of a period; called where it is needed.
        required: whether the pipeline's file says so.
        clock: what the time is, aware; asked inside the transaction, which may have waited for its lock.
        lists: by column, the published lists that its values are from; a debit fixes them.
    """

    request: Callable[[], Mapping[str, Any]]
    required: bool = False
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    lists: Mapping[str, Any] = field(default_factory=dict)


def approvals(
    db: Connection, dataset: str | None = None, pipeline: str | None = None
) -> list[Approved]:
    """Return the approvals of a ledger, a dataset or a pipeline, in order."""
    if schema_version(db) < VERSION:  # it never held one: no event is looked at
        return []
    return [
        Approved(seq, Approval.of_event(body))
        for seq, body in events(db, "approval")
        if dataset in (None, body["dataset"]) and pipeline in (None, body["pipeline"])
    ]


def signing_key(known: list[Approved]) -> str | None:
    """Return the key that approvals of a dataset must be signed by: that of its first signed one."""
    return next((a.approval.public_key for a in known if a.approval.public_key), None)


def must_cover(
    db: Connection, entry: Entry, wanted: ApprovalRequest | None, period: str, place: Place
) -> dict[str, object] | None:
    """Return what the debit's event says of its approval; None if it needs none.

    Args:
        period: the period that it counts towards, as in `period_cap.must_fit`.

    Raises:
        BudgetError: there is none of this request (DPR306), its last day is over (DPR307), or it does not
            cover the debit's epsilon (DPR308).
        LedgerError: the approval is not signed by the dataset's key (DPR428), or the extra that checks it
            is not installed (DPR422).
    """
    key = entry.key
    everything = approvals(db, key.dataset)
    known = [a for a in everything if a.approval.pipeline == key.pipeline]
    if not known and (wanted is None or not wanted.required):
        return None
    request = {} if wanted is None else wanted.request()
    same = [a for a in known if a.approval.hash == request_hash(request)]
    if wanted is None or not same:
        raise _not_approved(entry, known, request, place)
    newest = same[-1]
    _must_be_signed(newest, signing_key(everything), place)
    now = wanted.clock()
    if _is_over(newest.approval, now):
        raise _over(newest, place)
    _must_fit(db, entry, newest, period, place)
    return {"event": newest.event, "request": newest.approval.hash, "at": instant_text(now)}


def _must_fit(db: Connection, entry: Entry, under: Approved, period: str, place: Place) -> None:
    in_period, in_all = Fraction(0), Fraction(0)
    periods: dict[int, str] = {}
    for seq, body in debits(db, entry.key.dataset):
        periods[seq] = counted_period(body, periods)
        stated = body["entry"]
        if stated["pipeline"] != entry.key.pipeline:
            continue
        cost = fraction_from_json(stated["epsilon"])
        in_period += cost if periods[seq] == period else 0
        in_all += cost if body.get("approval", {}).get("event") == under.event else 0
    limits = under.approval
    for what, used, most in (
        (f"period {period}", in_period, limits.per_period),
        ("all releases under it", in_all, limits.total),
    ):
        if most is not None and used + entry.epsilon > most:
            raise BudgetError(
                f"the approval of pipeline {entry.key.pipeline} does not cover this release: {what} may cost"
                f" epsilon {plain(most)}, {plain(used)} is spent, {plain(entry.epsilon)} is asked",
                where=f"event {under.event} of {place}",
                why="a limit of an approval holds beside the dataset's budget",
                fix="ask for less, or have it approved again: `dprelease approve plan.json --pipeline PIPELINE`",
                code="DPR308",
            )


def _must_be_signed(newest: Approved, key: str | None, place: Place) -> None:
    if key is None or (newest.approval.public_key == key and newest.approval.is_signed()):
        return
    raise LedgerError(
        "the approval of this request is not signed by the key that approves for its dataset",
        where=f"event {newest.event} of {place}",
        why=f"an approval of the dataset was signed by {key[:16]}…: from then on only that key approves",
        fix="have it approved with --signing-key",
        code="DPR428",
    )


def _is_over(approval: Approval, now: datetime) -> bool:
    last = None if approval.until is None else _day(approval.until)
    return last is not None and now.astimezone(UTC).date() > last


def _day(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text else None


def _not_approved(
    entry: Entry, known: list[Approved], request: Mapping[str, Any], place: Place
) -> BudgetError:
    name = entry.key.pipeline
    if known and request:
        newest = known[-1]
        lines = apart(newest.approval.request, request)
        said = [f"approved {newest.approval.at[:10]} by {newest.approval.by}; now", *lines]
        why = "\n         ".join(said)
    elif known:
        why = f"the ledger holds an approval of pipeline {name}, and this debit does not say what it asks"
    else:
        why = "its budget says `approval: required`, and the ledger holds no approval of it"
    return BudgetError(
        f"what pipeline {name} asks for is not approved",
        where=str(place),
        why=why,
        fix="`dprelease plan PIPELINE --out plan.json`, then the privacy officer:"
        " `dprelease approve plan.json --pipeline PIPELINE`",
        code="DPR306",
    )


def _over(under: Approved, place: Place) -> BudgetError:
    return BudgetError(
        f"the approval of pipeline {under.approval.pipeline} ended on {under.approval.until}",
        where=f"event {under.event} of {place}",
        why="no debit is made under it from the next day on, UTC",
        fix="have it approved again: `dprelease approve plan.json --pipeline PIPELINE --until DATE`",
        code="DPR307",
    )
