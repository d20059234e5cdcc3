"""What a plan and a report say of a choice by rank: its aim and its error, in rows.

The rank error holds for all data; an error in the column's unit would need the data's density.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.encoding import Encoding
from dprelease.measurements.ranks import ChoiceDraw

__all__ = ["aim", "choice_notes", "rank_error_text"]

_LEVEL = 0.95


def aim(encoding: Encoding) -> str:
    """Return which rank is aimed at: "the value with 19 rows above it"."""
    a, b, shift = encoding.weights[0]
    if len(encoding.weights) > 1:
        return f"{len(encoding.weights)} values chosen together, in order"
    if a not in (0, b):
        return f"the value at {float(Fraction(a, b)):.6g} of the rows"
    end, beyond = ("first", "below") if a == 0 else ("last", "above")
    if not shift:
        return f"the {end} row's value or any value beyond"
    if abs(shift) == 1:
        return f"the {end} row's value"
    return f"the value with {_rows(_beyond(shift))} {beyond} it"


def rank_error_text(draw: ChoiceDraw, encoding: Encoding) -> str:
    """Return the rank error for a plan's table: "±23 rows in rank (95 %)"."""
    a, b, shift = encoding.weights[0]
    reach = draw.rank_error(b, _LEVEL)
    if reach is None:
        return "any rank"
    if a not in (0, b):
        return f"±{_rows(reach)} in rank (95 %)"
    if not shift:
        return f"0 to {_rows(reach)} from the end (95 %), or beyond the data"
    return f"{_beyond(shift):,} ±{_rows(reach)} from the end (95 %)"


def choice_notes(draw: ChoiceDraw, encoding: Encoding) -> tuple[str, ...]:
    """Return the report's sentences: aim, error, what is not known."""
    a, b, shift = encoding.weights[0]
    reach = draw.rank_error(b, _LEVEL)
    data = f"any data of at least {_rows(_beyond(shift) + 1)}" if shift else "any data"
    many = f", together with {draw.many - 1} others" if draw.many > 1 else ""
    notes = [
        f"chosen by rank among {len(draw.allowed):,} allowed values{many}; it aims at {aim(encoding)}",
        "nothing is known of its rank at this epsilon"
        if reach is None
        else f"with 95 % probability its rank is at most {_rows(reach)} from that aim, for {data}",
        "no interval: how far some rows are in values depends on how dense the data are",
        "a group without rows gives any allowed value, and that cannot be seen from the value",
    ]
    if draw.many > 1:
        notes.append(
            "one choice for all of them: their values never fall, and the bound holds for all at once; "
            "some rows more where many share one value"
        )
    if a in (0, b) and abs(shift) > 1:
        notes.append(
            "aiming at the very end would land anywhere beyond the data; "
            "the distance is chosen by public numbers only"
        )
    elif a in (0, b) and not shift:
        notes.append("if the declared range reaches far beyond the data, so may this value")
    elif a not in (0, b):
        notes.append(
            "inverse distribution function: between two equally good rows any value may come"
        )
    return tuple(notes)


def _beyond(shift: int) -> int:
    """Return the rows beyond the one that is aimed at; see `aggregates.ranks.aimed`."""
    return abs(shift) // 2


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
