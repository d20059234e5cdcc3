"""One guard of the library and how it is broken: text that is replaced, tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Guard"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard, broken by one replacement.

    Attributes:
        broken: what no longer holds, in a few words; unique.
        file: in `dprelease/`.
        old: its text, which occurs exactly once in that file.
        new: what stands there instead.
        tests: files or folders of tests, one of which must fail.
    """

    broken: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
