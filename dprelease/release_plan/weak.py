"""What is said of an epsilon so large that its promise is weak: wherever one is stated."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["WEAK_ABOVE", "weak_promise"]

WEAK_ABOVE = Fraction(10)
"""At this epsilon a result may be 22,000 times as likely with one person's data as without them."""


def weak_promise(epsilon: Fraction) -> str | None:
    """Return a warning for an epsilon above `WEAK_ABOVE`, None below.

    >>> weak_promise(Fraction(1)) is None, weak_promise(Fraction(20))[:16]
    (True, 'weak: at epsilon')
    """
    if epsilon <= WEAK_ABOVE:
        return None
    digits = math.floor(float(epsilon) / math.log(10)) if epsilon < 10**6 else None
    factor = "" if digits is None else f": a result may be 10^{digits} times as likely with one"
    return (
        f"weak: at epsilon {float(epsilon):,.6g} the promise says next to nothing{factor}"
        + ("" if digits is None else " unit's data as without them")
        + "; usual are 0.1 to 10"
    )
