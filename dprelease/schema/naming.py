"""Names: which characters they may have; the nearest declared one, for "did you mean"; one of plain letters for a name of any."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

LONGEST_KEY = 200
UNFIT = (
    "[^ -~\u00a0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd"
    + "".join(f"{chr(plane)}-{chr(plane + 0xFFFD)}" for plane in range(1 << 16, 17 << 16, 1 << 16))
    + "]"
)
"""Control characters, ends of lines and paragraphs, what turns the direction of all that follows,
lone surrogates, and what Unicode will never assign. The same in every version of Unicode, and a pattern that every
engine reads, as it has no escapes."""

_WRITTEN = {
    "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "oe", "å": "aa",
    "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i", "ŋ": "ng",
    "€": " euro ", "£": " pound ", "°": " deg ", "µ": "u", "²": "2", "³": "3", "№": " no ",
}  # fmt: skip
"""How letters and signs without a decomposition that would do are written in A to Z."""


def is_shown(text: str) -> bool:
    r"""Return whether every character may stand in a label, a name or a title.

    >>> is_shown("10\u00a0000"), is_shown("a\u202eb")
    (True, False)
    """
    return re.search(UNFIT, text) is None


def found_key(text: str | None, other: str | None, null: str | None) -> str | None:
    """Return the key of a cell where keys are found: its text, `other` if that may be no label; None: its row is left out."""
    if text is None:
        return null
    text = text.strip(" ")
    return text if 0 < len(text) <= LONGEST_KEY and is_shown(text) else other


def nearest(name: str, candidates: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return the candidate most like `name`, case ignored, or None when nothing is so much `alike`, in [0, 1]."""
    pool = list(candidates)
    folded = {c.casefold(): c for c in reversed(pool)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    found = difflib.get_close_matches(name.casefold()[:200], list(folded), n=1, cutoff=alike)
    return folded[found[0]] if found else None


def texts_given(given: object) -> tuple[str, ...]:
    """Return what a caller names, one text or several; of anything else its type, never its text: a column's is of rows."""
    several = given if isinstance(given, list | tuple | set | frozenset) else (given,)
    return tuple(
        x if isinstance(x, str) else f"an object of type {type(x).__name__}" for x in several
    )


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str) -> str:
    """Return what to do about an unknown name: write the candidate most like it, or `otherwise`."""
    near = nearest(name, candidates)
    return otherwise if near is None else f"did you mean `{near}`?"


def plain_letters(text: str) -> str:
    """Return a text in ASCII: letters of other alphabets are written as they are usually, else by their number.

    What is not a letter and no digit stays, if it is ASCII, or is a space.

    >>> plain_letters("Größe"), plain_letters("café, ÅRHUS"), plain_letters("年")
    ('Groesse', 'cafe, AaRHUS', ' u5e74 ')
    """
    return "".join(map(_written, unicodedata.normalize("NFC", text)))


def _written(letter: str) -> str:
    if letter.isascii():
        return letter
    usual = _WRITTEN.get(letter) or _WRITTEN.get(letter.lower())
    if usual is not None:
        return usual if letter in _WRITTEN else usual.capitalize()
    bare = "".join(c for c in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(c))
    if bare.isascii():
        return bare
    return f" u{ord(letter):x} " if letter.isalnum() else " "


def quoted(name: str) -> str:
    """Return a column's name as statistics write it: plain where it can be."""
    plain = re.fullmatch(r"[^\W\d]\w*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'
