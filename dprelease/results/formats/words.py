"""Plain words for the report: statistics, mechanisms, periods and privacy losses.

Public texts only: everything here is a function of the plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from dprelease.core import registry
from dprelease.core.errors import ConfigError
from dprelease.core.numeric import short
from dprelease.query.arguments import unquoted
from dprelease.query.statistic import split_arguments, split_where
from dprelease.statistics.base import kind_named

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def heading(text: str, function: str, titles: Mapping[str, str] | None = None) -> str:
    """Return a title for a statistic as it was asked for.

    Args:
        titles: what columns are called, where they have a title.

    >>> heading("mean(age)", "mean"), heading("count(persons)", "count")
    ('Mean of age', 'Number of units')
    """
    if function not in registry.names("aggregates"):
        return text
    text, where = split_where(text)
    listed = text.partition("(")[2].rstrip().removesuffix(")")
    try:
        arguments = split_arguments(listed, text)
    except ConfigError:
        return text
    named = tuple(
        inside(titles[a]) if titles and a in titles else a for a in map(unquoted, arguments)
    )
    return (kind_named(function).title(named) or text) + (where and f", where {where}")


def inside(title: str) -> str:
    """Return a title within a sentence.

    >>> inside("Airline"), inside("US state"), inside("Länder")
    ('airline', 'US state', 'länder')
    """
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def mechanism_words(name: str) -> str:
    """Return `discrete Laplace` for `discrete_laplace`."""
    words = name.replace("_", " ")
    for proper in ("laplace", "gaussian", "bernstein"):
        words = words.replace(proper, proper.capitalize())
    return words


def name_words(name: str) -> str:
    """Return a pipeline's name as a title: `clinic_weekly` is `Clinic weekly`."""
    words = re.sub(r"[_\s]+", " ", name).strip()
    return words[:1].upper() + words[1:] if words else name


def period_words(period: str) -> str:
    """Return `week 46 of 2026`, `November 2026`, `3 November 2026`, or the period itself."""
    if match := re.fullmatch(r"(\d{4})-W(\d{2})", period):
        return f"week {int(match[2])} of {match[1]}"
    if match := re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])(?:-(\d{2}))?", period):
        day = f"{int(match[3])} " if match[3] else ""
        return f"{day}{MONTHS[int(match[2]) - 1]} {match[1]}"
    return "" if period == "once" else period


def odds(epsilon: Fraction) -> tuple[str, str]:
    """Return e^epsilon and the highest certainty from even odds, as text, rounded up; "" above 99.99 %.

    >>> odds(Fraction(1, 2))
    ('1.65', '63')
    """
    if epsilon > 20:
        return f"e^{short(epsilon)}", ""
    factor = math.exp(float(epsilon))
    certainty = 100 * factor / (1 + factor)
    top = math.ceil(certainty) if certainty < 99 else math.ceil(certainty * 100) / 100
    return (
        f"{math.ceil(factor * 100) / 100:,.2f}" if factor < 100 else f"{math.ceil(factor):,}",
        f"{top:g}" if top < 100 else "",
    )


def loss_text(loss: str) -> str:
    return "expected squared error" if loss == "squared" else "expected error"
