"""Where a published name may be broken into lines, and where its direction ends.

A name breaks after its underscores, not in the middle of a word. Words from right to left are set apart from
the page's own: else a number or a colon behind them is drawn before them (Unicode Standard Annex 9).
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_FIRST, _LAST = "\u2068", "\u2069"
_LEFTWARDS = re.compile(
    "[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""The blocks of scripts from right to left, those to come among them: the same in every version of Unicode."""


def breaks(name: str) -> Markup:
    """Return the name as HTML, escaped, with a possible line break after each underscore.

    >>> str(breaks("mean_age<"))
    'mean_<wbr>age&lt;'
    """
    made = Markup("_<wbr>").join(name.split("_"))
    return Markup("<bdi>{}</bdi>").format(made) if _leftwards(name) else made


def isolated(text: str) -> Markup:
    """Return a publisher's words as HTML, escaped, with their own direction where they run from right to left.

    >>> str(isolated("Wages")), str(isolated("\u05e9"))
    ('Wages', '<bdi>\u05e9</bdi>')
    """
    return Markup("<bdi>{}</bdi>").format(text) if _leftwards(text) else escape(text)


def isolated_text(text: str) -> str:
    """Return the words with the same effect where no HTML can stand: inside a sentence made of text."""
    return f"{_FIRST}{text}{_LAST}" if _leftwards(text) else text


def _leftwards(text: str) -> bool:
    return _LEFTWARDS.search(text) is not None
