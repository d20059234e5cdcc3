"""The differences of two requests, one line each: what an approval or a debit does not cover.

A request is public text, so its differences are. Items of a list are matched by their names where they
have one, so that a statistic that comes first does not make all others differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 12
_WIDE = 60
_NAMES = ("as", "name", "statistic")


def apart(before: object, now: object, most: int = _MOST, *, word: str = "approved") -> list[str]:
    """Return the differences as lines, `release.epsilon: approved 1, asked 2`; the first `most`.

    Args:
        word: says what the first request is.
    """
    lines = list(_lines("", before, now, word))
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"and {rest:,} more"]


def _lines(path: str, one: object, other: object, word: str) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        yield from _keys(path, one, other, word)
    elif isinstance(one, list) and isinstance(other, list) and not path.endswith(".range"):
        yield from _items(path, one, other, word)
    elif json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True):
        yield f"{path}: {word} {_text(one)}, asked {_text(other)}"


def _keys(path: str, one: Mapping[str, Any], other: Mapping[str, Any], word: str) -> Iterator[str]:
    for name in dict.fromkeys((*one, *other)):
        inner = f"{path}.{name}" if path else name
        if name not in other:
            yield f"{inner}: {word} {_text(one[name])}, not asked"
        elif name not in one:
            yield f"{inner}: not {word}, asked {_text(other[name])}"
        else:
            yield from _lines(inner, one[name], other[name], word)


def _items(path: str, one: list[Any], other: list[Any], word: str) -> Iterator[str]:
    named = [{_name(item): item for item in items} for items in (one, other)]
    if all(len(found) == len(items) for found, items in zip(named, (one, other), strict=True)):
        gone = [name for name in named[0] if name not in named[1]]
        new = [name for name in named[1] if name not in named[0]]
        yield from (f"{path}: {word} {_text(name)}, not asked" for name in gone)
        yield from (f"{path}: not {word}, asked {_text(name)}" for name in new)
        for name in named[0]:
            if name in named[1] and isinstance(named[0][name], Mapping):
                yield from _lines(f"{path}[{_text(name)}]", named[0][name], named[1][name], word)
        shared = [[name for name in found if name in both] for found, both in (named, named[::-1])]
        if shared[0] != shared[1]:
            yield f"{path}: in another order"
    elif one != other:
        yield f"{path}: {word} {_text(one)}, asked {_text(other)}"


def _name(item: object) -> str:
    """Return what an item is called, or its whole text."""
    if isinstance(item, Mapping):
        for key in _NAMES:
            if isinstance(item.get(key), str):
                return str(item[key])
    return item if isinstance(item, str) else json.dumps(item, sort_keys=True)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"
