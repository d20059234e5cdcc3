"""Who is protected, which two worlds are compared, and how well anybody can tell them apart."""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.core.numeric import exp_upper
from dprelease.results.formats.public_words import PublicWords
from dprelease.schema.unit import EdgeUnit, RowUnit, UserUnit


def promise(words: PublicWords, adjacency: str) -> dict[str, str]:
    """Return who is protected and which two worlds are compared, for the first paragraph."""
    unit, named = words.unit, words.about.unit_name is not None
    many = isinstance(unit, EdgeUnit) and unit.k > 1
    who, what = f"any {words.one}", "those" if many else "that"
    if isinstance(unit, UserUnit) and unit.per is None and not named:
        who, what = "any one participant", "their data"
    elif isinstance(unit, UserUnit):
        what = f"those {words.rows}"
    elif isinstance(unit, RowUnit):
        what += f" {words.about.unit_name.one if words.about.unit_name else 'row'}"
    else:
        what += " connections" if many else " connection"
    plural = what.startswith("those")
    other = "as without them" if plural else "as without it"
    if adjacency == "substitution":
        other = "as with others instead" if plural else "as with anything else in its place"
    return {"who": who, "what": what, "other": other}


def guesses(epsilon: Fraction, delta: Fraction = Fraction(0)) -> str:
    """Return in how many cases at most an even guess becomes right, rounded up; "" where that is all of them.

    Source: `docs/theory/composition.md#an-even-guess`.

    >>> guesses(Fraction(1)), guesses(Fraction(8)), guesses(Fraction(1), Fraction(1, 20)), guesses(Fraction(12))
    ('74 of 100', '9,997 of 10,000', '75 of 100', '')
    """
    if epsilon > 20:
        return ""
    most = 1 - (1 - delta) / (1 + exp_upper(epsilon))
    rounded = ((math.ceil(most * cases), cases) for cases in (100, 10_000))
    return next((f"{right:,} of {cases:,}" for right, cases in rounded if right < cases), "")
