"""Pointing at a place of a text, in an error: the text around it, and a caret below."""

from __future__ import annotations

from typing import Protocol

_AROUND = 40
"""Characters shown before the place, and from it."""


class Span(Protocol):
    """A stretch of the text, for pointing at."""

    @property
    def start(self) -> int:
        """First character, from 0."""

    @property
    def end(self) -> int:
        """One past the last character."""


def pointed(
    flat: str, at: Span, why: str | None, *, first: int = 0, stop: int | None = None
) -> str:
    """Return an error's reason with a caret under `at`.

    Args:
        flat: the text, one printable character per character.
        why: what stands above; None for nothing.
        first, stop: the part of the text that may be shown, such as its line.
    """
    left = max(first, at.start - _AROUND)
    shown = flat[left : min(len(flat) if stop is None else stop, at.start + _AROUND)]
    width = max(1, min(at.end, left + len(shown)) - at.start)
    caret = f"{shown}\n         {' ' * (at.start - left)}{'^' * width}"
    return f"{why}\n         {caret}" if why else caret
