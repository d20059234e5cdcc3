"""How numbers are written: for machines by their step, for readers by their error.

A published value is a multiple of its statistic's step. Files print it with exactly the decimals
that the step needs (step 0.05: two), so that a column has one width of fraction and the text reads
back as the same double. Steps that are not finite decimals (1/3), or need more than 12, use the
shortest text that reads back. The report rounds further, to the digit that the error allows.
"""

from __future__ import annotations

import math
from fractions import Fraction

MOST_DECIMALS = 12


def decimals_of(step: Fraction) -> int | None:
    """Return the fewest decimals that write every multiple of `step` exactly, or None.

    >>> decimals_of(Fraction(1, 20)), decimals_of(Fraction(10)), decimals_of(Fraction(1, 3))
    (2, 0, None)
    """
    for places in range(MOST_DECIMALS + 1):
        if (step * 10**places).denominator == 1:
            return places
    return None


def machine_text(value: float, decimals: int | None) -> str:
    """Return `value` with fixed decimals, or in its shortest form when `decimals` is None.

    >>> machine_text(0.1, 2), machine_text(-0.0, 1), machine_text(0.1, None)
    ('0.10', '0.0', '0.1')
    """
    value = value + 0.0  # -0.0 is 0: a released zero has no sign
    return repr(value) if decimals is None else f"{value:.{decimals}f}"


def reading_decimals(step: Fraction, error: float | None) -> int:
    """Return decimals for readers, never beyond the step: rounding stays below half the error.

    >>> reading_decimals(Fraction(1, 1000), 0.3), reading_decimals(Fraction(1, 10), 4.5)
    (1, 0)
    """
    exact = decimals_of(step)
    most = 6 if exact is None else exact
    if error is None or not math.isfinite(error) or error <= 0:
        return most
    return min(most, max(0, math.ceil(-math.log10(error / 2))))


def reading_text(value: float, decimals: int) -> str:
    """Return `value` with thousands separators and a true minus sign.

    >>> reading_text(-12345.678, 1)
    '\u221212,345.7'
    """
    text = f"{value:,.{decimals}f}"
    if text.startswith("-"):
        text = text[1:] if not text.strip("-0.,") else "\u2212" + text[1:]
    return text


def figure_text(value: float) -> str:
    """Return three significant digits, thousands separated.

    >>> figure_text(0.01234), figure_text(45678.0)
    ('0.0123', '45,678')
    """
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
