"""The frozen values that enter and leave the ledger, and their one canonical text.

Everything that is hashed goes through `canonical`: sorted keys, no spaces, ASCII, no floats that
JSON cannot hold. Exact numbers are "p/q" strings; a float epsilon is refused by construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

from dprelease.budget.accountant import BASIC, Cost
from dprelease.budget.timeline import Instants, timeline, window_of_texts
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Note, WrittenAs
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.periods import is_instant

OPEN: tuple[str | None, str | None] = (None, None)
"""The window of an entry that reads rows of all times."""

Declaration = tuple[str, str, str | None]
"""A dataset's adjacency, protected unit, and the time that losses are added up by, if they are."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_HASH = re.compile(r"[A-Za-z0-9:_-]{8,128}", re.ASCII)


def canonical(value: object) -> str:
    """Return the canonical JSON text of `value`.

    Raises:
        ArgumentError: `value` holds something JSON cannot say exactly (DPR651).
    """
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
    except (TypeError, ValueError):
        raise ArgumentError(
            "a ledger record must be plain JSON",
            why="a Fraction, NaN or an object has no canonical text",
            fix='write exact numbers as "p/q" strings',
            code="DPR651",
        ) from None


def check_identifier(value: str, name: str) -> str:
    """Return `value` if it may become a file name and a ledger key.

    Raises:
        ConfigError: it is not 1 to 64 of A-Z a-z 0-9 _ - (DPR150).
    """
    said = str(value)[:60]
    if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
        return value
    what = f"the {name} name `{said}` is not usable"
    fix = "use 1 to 64 of the characters A-Z a-z 0-9 _ -"
    if isinstance(value, str) and not value:
        what = f"the {name} name `` is empty"
        fix = "name it with 1 to 64 of A-Z a-z 0-9 _ -; a variable that is not set gives an empty text"
    elif not isinstance(value, str) and _IDENTIFIER.fullmatch(said):
        what, fix = f"the {name} `{said}` is not a text", f'write it in quotes: "{said}"'
    elif not isinstance(value, str):
        what = f"the {name} is of type {type(value).__name__}, not a text"
        fix = f"give a text; {fix}"
    raise ConfigError(what, why="it becomes a folder name and a ledger key", fix=fix, code="DPR150")


def protected_unit(unit: str) -> str:
    """Return the part of a unit's JSON that says who is protected.

    Contribution limits (`max_groups`, ...) bound what one release uses of a unit; they do not
    change whom its epsilon speaks about, so pipelines that differ in them share one budget.
    """
    value = json.loads(unit)
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if not name.startswith("max_")}
        # One level down as well: {"user": {"column": ..., "max_groups": ...}}.
        for name, part in value.items():
            if isinstance(part, dict):
                value[name] = {k: v for k, v in part.items() if not k.startswith("max_")}
    return canonical(value)


def declaration_of(event: Mapping[str, Any]) -> Declaration:
    """Return what the event of a dataset declares it as."""
    return str(event["adjacency"]), protected_unit(str(event["unit"])), event.get("time")


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key: one entry and one payload per (dataset, pipeline, period).

    Raises:
        ConfigError: a part is not 1 to 64 of A-Z a-z 0-9 _ - (DPR150).
    """

    dataset: str
    pipeline: str
    period: str

    def __post_init__(self) -> None:
        for name in ("dataset", "pipeline", "period"):
            check_identifier(getattr(self, name), name)

    def __str__(self) -> str:
        return f"{self.dataset}/{self.pipeline}/{self.period}"


@dataclass(frozen=True, slots=True)
class Entry(Stored):
    """What is to be debited, before any row is read: public by construction.

    Attributes:
        unit: JSON of the privacy unit, kept in its canonical text.
        mechanisms: one descriptor per draw, plain JSON, exact losses as "p/q" strings, so that
            a better accountant can re-evaluate the past; `public_size` where it takes a number of rows for public.
        epsilon, delta: the whole release's guarantee, exact.
        accountant: the version whose sum enforces the budget ("basic/1").
        rho: what the release costs under zCDP, for datasets whose budget composes that way.
        early: when the period closes, for a debit made before that; else None.
        time: JSON of the declared time, in its canonical text, for datasets that add up losses by it.
        window: the first instant of the rows it reads and the first one after them, UTC, as
            2013-01-28T05:00:00Z; None for no end.

    Raises:
        ArgumentError: a field is malformed (DPR644, DPR650, DPR651).
    """

    key: Annotated[Key, Note.inline]
    plan_hash: str
    adjacency: str
    unit: str
    mechanisms: Annotated[
        Sequence[Mapping[str, object]], WrittenAs(tuple, tuple, tuple[Mapping[str, object], ...])
    ]
    epsilon: Fraction
    delta: Annotated[Fraction, Note.always] = Fraction(0)
    accountant: Annotated[str, Note.always] = BASIC
    rho: Fraction | None = None
    early: str | None = None
    time: str | None = None
    window: tuple[str | None, str | None] = OPEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", declaration_text(self.adjacency, self.unit))
        object.__setattr__(self, "time", time_text(self.time))
        self._check_window()
        if not isinstance(self.plan_hash, str) or not _HASH.fullmatch(self.plan_hash):
            raise ArgumentError(
                "the plan hash is malformed", fix="pass its hex digest", code="DPR644"
            )
        if self.accountant != BASIC:
            raise ArgumentError(
                "the entry names an accountant this version does not have",
                fix=f"use {BASIC!r}",
                code="DPR644",
            )
        if not isinstance(self.epsilon, Fraction) or not isinstance(self.delta, Fraction):
            raise ArgumentError(
                "epsilon and delta must be exact",
                fix="pass Fractions; floats round both ways",
                code="DPR650",
            )
        if self.early is not None and not is_instant(self.early):
            raise ArgumentError(
                "the instant at which the period closes is malformed",
                fix="write it as 2013-02-06T11:00:00Z",
                code="DPR644",
            )
        if self.rho is not None and (not isinstance(self.rho, Fraction) or self.rho < 0):
            raise ArgumentError(
                "rho must be exact and at least 0", fix="pass a Fraction", code="DPR650"
            )
        Cost.rounded_up(self.epsilon, self.delta)
        canonical([dict(mechanism) for mechanism in self.mechanisms])

    def _check_window(self) -> None:
        """Refuse a window without a declared time, or one that is not written as `instant_text` does."""
        try:
            start, end = window_of_texts(self.window)
        except (TypeError, ValueError):
            start = end = datetime.min.replace(tzinfo=UTC)
        backwards = start is not None and end is not None and start >= end
        if backwards or (self.time is None and self.window != OPEN):
            raise ArgumentError(
                "the window of an entry is malformed",
                why="it is two instants in order, of the declared time, or open",
                fix="write them as 2013-01-28T05:00:00Z",
                code="DPR644",
            )

    @property
    def instants(self) -> Instants:
        """The instants whose units it may have read; all of them without a window."""
        line = timeline(self.adjacency, self.unit, self.time)
        return line.instants(window_of_texts(self.window))

    @property
    def cost(self) -> Cost:
        return Cost.rounded_up(self.epsilon, self.delta)


def time_text(time: str | None) -> str | None:
    """Check a declared time and return its one text; None for none.

    Raises:
        ArgumentError: it is not JSON of column, timezone, dates and immutable (DPR644).
    """
    if time is None:
        return None
    try:
        value = json.loads(time)
        kinds = {name: type(part) for name, part in value.items()}
    except (TypeError, ValueError, AttributeError, RecursionError):
        kinds = {}
    if kinds != {"column": str, "timezone": str, "dates": bool, "immutable": bool}:
        raise ArgumentError(
            "the declared time is malformed",
            fix="pass what `dprelease.schema.table.declared_time` writes",
            code="DPR644",
        )
    return canonical(value)


def declaration_text(adjacency: str, unit: str) -> str:
    """Check the two words without which an epsilon says nothing; return the unit's one text.

    Raises:
        ArgumentError: unknown adjacency, or a unit that is not JSON (DPR644, DPR651).
    """
    if adjacency not in ("add_remove", "substitution"):
        raise ArgumentError(
            "unknown adjacency", fix="use add_remove or substitution", code="DPR644"
        )
    try:
        return canonical(json.loads(unit))
    except (TypeError, ValueError, RecursionError):
        raise ArgumentError(
            "the unit is not JSON", fix='write it as JSON text, e.g. "row" in quotes', code="DPR651"
        ) from None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The ledger's head right after a debit: what a manifest cites to expose a rollback."""

    ledger_id: str
    seq: int
    head_hash: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A durable debit.

    Attributes:
        anchor: the head right after the debit, the same on every later request of this key.
        spent, budget: epsilon of the most charged unit that this debit can have read, this debit included, and
            what the dataset allows each: of the whole dataset where losses are not told apart over time.
        fresh: whether this call paid; False means the key existed already and cost 0 now.
        early: the recorded entry's: when the period closes, if the key was debited before that.
        approval: the recorded debit's: the event of the approval that it was made under.
    """

    anchor: Anchor
    spent: Fraction
    budget: Fraction
    fresh: bool
    early: str | None = None
    approval: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """A declared budget and what is left of it; less than nothing only of a ledger that does not stand.

    `rho` and `spent_rho` are set where the budget composes by zCDP; then `spent` is what the rho
    spent is worth at the dataset's delta, and all of that delta counts as spent with the first
    debit.
    """

    epsilon: Fraction
    delta: Fraction
    spent: Fraction
    left: Fraction
    spent_delta: Fraction
    left_delta: Fraction
    rho: Fraction | None = None
    spent_rho: Fraction | None = None

    @property
    def over(self) -> bool:
        """Whether more is spent than there is."""
        return self.left < 0 or self.left_delta < 0 or (self.spent_rho or 0) > (self.rho or 0)


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One debit as `ledger show` prints it. Salts and payloads are never part of it.

    Attributes:
        anchor: the head right after the debit.
        state: charged, drawn, ready, published or failed.
        code: why it failed (an error code), or None.
        origin: for a debit made by `reconcile`, the anchor its manifest cited; else None.
        approval: the event of the approval that it was made under, or None.
        lists: by column, the published lists that its values are from.
    """

    entry: Entry
    anchor: Anchor
    state: str
    code: str | None = None
    origin: Anchor | None = None
    approval: int | None = None
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What `verify` found; `problems` is empty exactly if `ok`."""

    ok: bool
    problems: tuple[str, ...]
    entries: int
    head: Anchor | None = field(default=None)
