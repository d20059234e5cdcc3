"""Sentences of a plan in a reader's words: its errors, its condition, who is protected, names of groups.

A plan speaks to those who make it ("±6.19 units at n=400"); pages speak to those who read the numbers. What has no
reader's form is left as it is, so nothing is said that the plan does not say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from dprelease.core.errors import ConfigError
from dprelease.query.tokens import Token, TokenReader
from dprelease.release_plan.detail import ALL

_FITTED = re.compile(r" fitted \([^()]*\)")
_ALONE = re.compile(r" \([^()]* if every table were measured alone\)$")
_SIZE = re.compile(r",? at n=([\d,]+)")
_MEASURE = re.compile(r"(?<=[\d∞] )(units|rows)\b")
_SPREADS = (
    (re.compile(r"\bsd\b"), "the standard deviation"),
    (re.compile(r"\bthe sds\b"), "the standard deviations"),
    (re.compile(r"\beach the standard"), "each standard"),
)
_COMPARED = {
    ">=": "at least", "<=": "at most", ">": "above", "<": "below",
    "=": "is", "==": "is", "!=": "is not", "<>": "is not",
}  # fmt: skip
_MARK = "\ue000"
_PLACE = re.compile(f"{_MARK}(\\d+){_MARK}")
_JOINED = frozenset({"and", "or", "not", "in", "is", "between"})
_CLAUSES = (
    (re.compile(r"\bis null\b"), "is missing"),
    (re.compile(r"\bis not null\b"), "is known"),
    (re.compile(r"\bnot in \(([^()]*)\)"), r"is none of \1"),
    (re.compile(r"\bin \(([^()]*)\)"), r"is one of \1"),
)
_ONE_CLAUSE = re.compile(r"(?<!not )\(((?:(?! and | or )[^()])*)\)")


def plain_error(text: str, called: Mapping[str, str]) -> str:
    """Return a plan's words for an expected error without its shorthand.

    Args:
        called: what the publisher calls `units` and `rows`, where the error is a number of them; `group`: rows
            of a group.

    >>> plain_error("±6.2 units", {"units": "patients", "rows": "visits"})
    '±6.2 patients'
    >>> plain_error("±2.5 years if sd is 5 % of it, at n=400", {"group": "visits"})
    '±2.5 years if the standard deviation is 5 % of it, in a group of 400 visits'
    >>> plain_error("±3.1 fitted (±4 as measured; ±9 if every table were measured alone)", {})
    '±3.1'
    """
    text = _ALONE.sub("", _FITTED.sub("", text))
    text = _MEASURE.sub(lambda found: called.get(found[1], found[1]), text)
    text = _SIZE.sub(
        lambda found: f", in a group of {found[1]} {called.get('group', 'rows')}", text
    )
    for pattern, words in _SPREADS:
        text = pattern.sub(words, text)
    return text


def plain_condition(text: str, title: Callable[[str], str]) -> str | None:
    """Return a condition as a reader says it; None where it is more than comparisons of columns.

    Args:
        title: what a column is called within a sentence.

    >>> plain_condition("(age >= 18) AND (sex = 'f')", str)
    'age at least 18 and sex is “f”'
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    said: list[str] = []
    names: list[str] = []  # put in at the end: what they hold is not part of the sentence

    def named(name: str) -> str:
        names.append(name)
        return f"{_MARK}{len(names) - 1}{_MARK}"

    for token, after in pairwise(tokens):
        word = token.text.lower()
        negative = token.text == "-" and said and said[-1] in _COMPARED.values()
        if token.kind == "word" and word in _JOINED | {"null", "true", "false"}:
            said.append(word)
        elif token.kind == "word" and after.text != "(":
            said.append(named(title(token.text)))
        elif token.kind == "quoted":
            said.append(named(title(token.text[1:-1].replace('""', '"'))))
        elif token.kind == "text":
            said.append(named("“" + token.text[1:-1].replace("''", "'") + "”"))
        elif token.kind == "number" or token.text in ("(", ")", ",") or negative:
            said.append(token.text)
        elif token.text in _COMPARED:
            said.append(_COMPARED[token.text])
        else:
            return None
    return _PLACE.sub(lambda found: names[int(found[1])], _joined(said))


@lru_cache(maxsize=16)
def _tokens(text: str) -> tuple[Token, ...] | None:
    """Return the tokens of a published condition, which several files of one release say; None: it has none."""
    try:
        return tuple(TokenReader(text, "where").tokens)
    except ConfigError:
        return None


def _joined(said: Sequence[str]) -> str:
    """Return words as a sentence: brackets around one comparison say nothing."""
    text = re.sub(r" ([),])", r"\1", " ".join(said).replace("( ", "(").replace("- ", "-"))
    for pattern, words in _CLAUSES:
        text = pattern.sub(words, text)
    before = ""
    while before != text:
        before, text = text, _ONE_CLAUSE.sub(r"\1", text)
    return text


def group_name(key: Sequence[str | None], *, mixed: bool = False) -> str:
    """Return a group's labels in one line.

    Args:
        mixed: the key is of a table whose rows stand at several levels: its last label names the level, which
            the other labels say too.

    >>> group_name(("north", "all", "regions"), mixed=True), group_name(())
    ('north', 'All rows')
    """
    labels = [label for label in key[:-1] if label != ALL] if mixed else key
    return " · ".join(label for label in labels if label) or "All rows"
