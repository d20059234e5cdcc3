"""A mapping of a foreign contract that remembers what became of each of its keys.

A key is taken over, asked about (an ANSWER of the draft), or left: the draft names those that nobody
took. So no declaration is understood in part in silence, whatever a newer version of a standard adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dprelease.core.strict_json import json_text


class TableKeys:
    """One mapping of a contract; anything else is an empty one.

    Attributes:
        questions: what the draft has to ask, in words.
    """

    def __init__(self, found: object) -> None:
        self._found: dict[str, Any] = dict(found) if isinstance(found, Mapping) else {}
        self._within: dict[str, TableKeys] = {}
        self.questions: list[str] = []

    def take(self, key: str) -> Any:
        """Return the value of a key, which the draft takes over; None if it is not there."""
        return self._found.pop(key, None)

    def peek(self, key: str) -> Any:
        """Return the value of a key, of which nothing is decided yet."""
        return self._found.get(key)

    def within(self, key: str) -> TableKeys:
        """Return the mapping under a key; what is left of it is left of this one."""
        if isinstance(self._found.get(key), Mapping):
            self._within[key] = TableKeys(self._found.pop(key))
        return self._within.get(key, TableKeys({}))

    def usual(self, key: str, *values: str) -> None:
        """Take a key that says what holds anyway: nothing, or one of `values`, in any case if it is in small letters."""
        found = self.peek(key)
        said = written(found) or "\0"
        if found in (None, []) or {said, said.lower()} & set(values):
            self.take(key)

    def ask(self, key: str, why: str) -> None:
        """Ask about a key that is still there, in one line: `key` VALUE: why."""
        if key in self._found:
            self.questions.append(f"{key} {_shown(self.take(key))}: {why}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that nobody took, as they are written; without those of inner mappings."""
        return tuple(key for key, value in self._found.items() if value not in (None, [], {}))

    @property
    def left(self) -> tuple[str, ...]:
        """The keys that nobody took, in order; those of inner mappings with a dot."""
        inner = (f"{named(key)}.{one}" for key, keys in self._within.items() for one in keys.left)
        return (*map(named, self.keys), *inner)


def items(value: object) -> list[Any]:
    """Return a list, and none for anything else."""
    return list(value) if isinstance(value, list) else []


def written(value: object) -> str | None:
    """Return a scalar as its text; None for a null, a list or a mapping."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else None


def true(value: object) -> bool:
    """Return whether a scalar says true."""
    return (written(value) or "").lower() == "true"


def named(key: str) -> str:
    """Return a key for a comment of one line."""
    return key if re.fullmatch(r"[\w$.-]{1,60}", key) else json_text(key[:60])


def _shown(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
