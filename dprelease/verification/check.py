"""One check of a published folder: passed, failed, or not made, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dprelease.core.errors import UNREADABLE, DpreleaseError, printable, shortened

_MOST_SAID = 850
"""Bytes of UTF-8 that all details have together: an answer, its fixed words counted, takes at most 2 kB."""

FAULTS = (*UNREADABLE, MemoryError)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at.

    Attributes:
        ok: whether it holds; None if it was not looked at.
        detail: what was found, in public words.
    """

    name: str
    ok: bool | None
    detail: str

    @property
    def mark(self) -> str:
        return {True: "ok", False: "FAIL", None: "-"}[self.ok]


def look_in_order(checks: list[Check], *looks: tuple[str, Callable[[], tuple[bool, str]]]) -> None:
    """Run checks of which each rests on those before: after one that fails none is looked at."""
    for name, look in looks:
        failed = next((c.name for c in checks if c.ok is False), None)
        if failed is not None:
            checks.append(Check(name, None, f"not looked at: it rests on the {failed}"))
        else:
            checks.append(run_check(name, look))


def run_check(name: str, look: Callable[[], tuple[bool | None, str]]) -> Check:
    """Run one check; a manifest that breaks it is a failed check, not a traceback."""
    ok: bool | None
    try:
        ok, detail = look()
    except DpreleaseError as problem:
        ok, detail = False, _said(problem)
    except FAULTS:
        ok, detail = False, "the manifest does not hold what this check needs"
    return Check(name, ok, printable(detail))


def within_length(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks with the longest details shortened, so that the whole answer stays short."""
    sizes = [len(c.detail.encode()) for c in checks]
    most = next(n for n in range(_MOST_SAID, 0, -1) if sum(min(s, n) for s in sizes) <= _MOST_SAID)
    return tuple(replace(c, detail=shortened(c.detail, most)) for c in checks)


def _said(problem: DpreleaseError) -> str:
    why = "" if problem.why is None else f": {problem.why.splitlines()[0]}"
    return f"{problem.what}{why} ({problem.code})"
