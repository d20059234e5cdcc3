"""Every error dprelease raises, in one tree.

An error says what, where, why, fix and code, and its class says what was already spent.
Messages hold public facts only (names, declared bounds, file positions), never a value
derived from private rows. Codes never change their meaning; a new meaning gets a new code.
A message is at most 2 kB, whatever names it repeats: a longer one loses the middle of its parts.

| codes  | class                | spent    | exit status |
|--------|----------------------|----------|-------------|
| DPR1xx | ConfigError          | nothing  | 2           |
| DPR2xx | PlanError            | nothing  | 1           |
| DPR3xx | BudgetError          | nothing  | 1           |
| DPR4xx | LedgerError          | nothing  | 1           |
| DPR5xx | SourceError          | nothing  | 1           |
| DPR6xx | ArgumentError        | nothing  | 2           |
| DPR7xx | WithheldError        | charged  | 3           |
| DPR8xx | VerificationError    | nothing  | 1           |
| DPR9xx | InternalError        | unknown  | 3           |
"""

from __future__ import annotations

import traceback
from functools import partial
from typing import Any, ClassVar, Self
from unicodedata import category

NOT_READ = "your frame was not read"


class DpreleaseError(Exception):
    """Base of the tree.

    Attributes:
        what: one line, what went wrong.
        where: `file:line` or the argument, if known.
        why: the reason, in one sentence.
        fix: what to do about it.
        code: stable, `DPR###`.
        spent: "nothing", "charged" or "unknown": the state of the privacy budget.
        exit_status: the command line's exit status for this error.
    """

    default_code: ClassVar[str] = "DPR900"
    spent: ClassVar[str] = "unknown"
    exit_status: ClassVar[int] = 3

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        fix: str | None = None,
        code: str | None = None,
    ) -> None:
        parts = {
            "what": printable(what),
            "where": where and printable(where),
            "why": why and printable(why, lines=True),
            "fix": fix and printable(fix, lines=True),
        }
        if sum(len(text.encode()) for text in parts.values() if text) > sum(_ROOM.values()):
            parts = {name: text and shortened(text, _ROOM[name]) for name, text in parts.items()}
        self.what = parts["what"] or ""
        self.where, self.why, self.fix = parts["where"], parts["why"], parts["fix"]
        self.code = code or self.default_code
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.what] + [f"  {label:<6} {text}" for label, text in self.parts.items() if text]
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows instead of a traceback: the five parts and what is spent.

        The frames in between say nothing that `where` does not, and hide the fix below a page.
        """
        name = type(self).__name__
        said = f"  spent  {self.spent_in_words()}"
        return [*f"{name}: {self}".splitlines(), *getattr(self, "__notes__", ()), said]

    def frame_not_read(self) -> None:
        """Say, before the charge, that the caller's frame was not read; two codes are of counted rows."""
        if self.spent == "nothing" and self.code not in ("DPR502", "DPR508"):
            self.add_note(f"  rows   {NOT_READ}")

    def spent_in_words(self, state: str | None = None) -> str:
        """Return what is said of the budget; `state` overrides what the class says."""
        if self.code in _SPENT:
            return f"the budget is spent{_SPENT[self.code]}"
        return {
            "nothing": "nothing was spent",
            "charged": "the budget is spent; nothing is published",
            "unknown": "the budget may be spent: `dprelease ledger show` tells",
        }[state or self.spent]

    @property
    def parts(self) -> dict[str, Any]:
        """All that is said beside `what`."""
        return {"where": self.where, "why": self.why, "fix": self.fix, "code": self.code}

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.parts), (self.what,), self.__dict__  # notes, too

    @classmethod
    def from_error(cls, error: DpreleaseError, **other: Any) -> Self:
        """Return what another error says, of this class and with other parts."""
        return cls(error.what, **{**error.parts, **other})

    def as_dict(self) -> dict[str, str | None]:
        """Return the five parts and `spent`, for `--json`."""
        return {"error": self.what, **self.parts, "spent": self.spent}


UNREADABLE = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError, RecursionError, StopIteration,
)  # fmt: skip
"""What a document that somebody else wrote can make its reader raise."""

PUBLISHED = "DPR716"
_SPENT = {
    PUBLISHED: ", and the release is published",
    "DPR713": "; the folder that is there is left as it is",
}
"""The code of the one failure that comes after publication."""

_ROOM = {"what": 600, "where": 300, "why": 500, "fix": 400}
"""Bytes of UTF-8 that the parts of a long message get; with labels, at most 2 kB on a terminal."""


def shortened(text: str, size: int) -> str:
    """Return `text` in at most `size` bytes of UTF-8, whole characters; the middle goes first."""
    data = text.encode()
    if len(data) <= size:
        return text
    half = (size - 5) // 2  # the mark takes five bytes
    ends = data[:half], data[len(data) - half :]
    return " … ".join(end.decode(errors="ignore") for end in ends)


def printable(text: str, *, lines: bool = False) -> str:
    """Return `text` with characters that a terminal obeys, or that hide others, spelled out.

    Messages repeat names from files and arguments, and a name must not be able to clear the
    screen, forge a line of the message, or fail to be encoded.
    """
    return "".join(
        c if category(c) not in _OBEYED or (lines and c == "\n") else ascii(c)[1:-1] for c in text
    )


_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, direction marks, lone surrogates


class ConfigError(DpreleaseError):
    """A file or a declaration is faulty (schema, pipeline, expression)."""

    default_code = "DPR100"
    spent = "nothing"
    exit_status = 2


class PlanError(DpreleaseError):
    """The request is well-formed but no proved, useful plan exists for it."""

    default_code = "DPR200"
    spent = "nothing"
    exit_status = 1


class BudgetError(DpreleaseError):
    """The release would exceed the declared budget."""

    default_code = "DPR300"
    spent = "nothing"
    exit_status = 1


class LedgerError(DpreleaseError):
    """The ledger is missing, unreadable, foreign, older than a manifest, or corrupt."""

    default_code = "DPR400"
    spent = "nothing"
    exit_status = 1


class SourceError(DpreleaseError):
    """The source does not open or its public metadata does not fit the schema."""

    default_code = "DPR500"
    spent = "nothing"
    exit_status = 1


class ArgumentError(DpreleaseError):
    """An argument of a public function is invalid."""

    default_code = "DPR600"
    spent = "nothing"
    exit_status = 2


class WithheldError(DpreleaseError):
    """The budget was charged but nothing is published (validation failed, or disk full)."""

    default_code = "DPR700"
    spent = "charged"
    exit_status = 3


class VerificationError(DpreleaseError):
    """A published folder or a ledger does not verify."""

    default_code = "DPR800"
    spent = "nothing"
    exit_status = 1


class InternalError(DpreleaseError):
    """A failure inside dprelease; details go to the restricted log, values stripped."""

    default_code = "DPR900"

    @classmethod
    def unforeseen(cls, error: Exception) -> InternalError:
        """Return what may be said of an exception that is not ours.

        Only its type and the place in our code: its text, and a traceback's, may quote a row.
        """
        place = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            if (module := frame.f_globals.get("__name__", "")).startswith("dprelease"):
                place = f"{module}:{line}"
        reason = error.strerror if isinstance(error, OSError) else None
        return cls(
            "the system refused to read or write a file"
            if reason
            else f"something failed that should not: {type(error).__name__}",
            where=place,
            why=reason or "details are not shown, they could quote a row",
            fix="check disk space and access rights; otherwise please report it, with this place",
        )


class UnledgeredWarning(UserWarning):
    """A release was drawn without a ledger: nothing records what it spent."""


class NotReadWarning(UserWarning):
    """The values are those that the ledger holds of an earlier call: the table of this call was not read."""
