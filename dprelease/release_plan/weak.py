"""The warning of a weak promise, where a reader may take it for more."""

from __future__ import annotations

import math
from fractions import Fraction

WEAK_ABOVE = Fraction(10)
"""At this epsilon a result may be 22,000 times as likely with one person's data as without them."""


def weak_promise(epsilon: Fraction, one: str = "one unit's data") -> str | None:
    """Return a warning for an epsilon above `WEAK_ABOVE`, None below.

    Args:
        one: what is protected: one row, one patient's visits.

    >>> weak_promise(Fraction(1)) is None, weak_promise(Fraction(20))[:16]
    (True, 'weak: at epsilon')
    """
    if epsilon <= WEAK_ABOVE:
        return None
    digits = math.floor(float(epsilon) / math.log(10)) if epsilon < 10**6 else None
    factor = (
        ""
        if digits is None
        else f": a result may be 10^{digits} times as likely under one of two tables that differ in {one}"
    )
    return (
        f"weak: at epsilon {float(epsilon):,.6g} the promise says next to nothing{factor}"
        "; usual are 0.1 to 10"
    )


def weak_of(*epsilons: str | None) -> str | None:
    """Return the warning for the largest of some losses written as exact numbers; None is not a loss."""
    return weak_promise(max(Fraction(e or 0) for e in epsilons))


def weak_sentence(epsilon: Fraction, one: str = "one unit's data") -> str:
    """Return the warning as a sentence that follows another, "" where there is none."""
    weak = weak_promise(epsilon, one)
    return f" {weak[:1].upper()}{weak[1:]}." if weak else ""


def weak_note(epsilon: Fraction) -> str:
    """Return the warning in a few words, to stand behind an epsilon within a line.

    >>> weak_note(Fraction(10)), weak_note(Fraction(12))
    ('', ' (weak: above 10 a promise says next to nothing)')
    """
    return (
        f" (weak: above {WEAK_ABOVE} a promise says next to nothing)"
        if epsilon > WEAK_ABOVE
        else ""
    )
