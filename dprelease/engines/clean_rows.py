"""The cleaned value of a cell in plain Python (`query.cleaning`): what `clean_sql` must agree with."""

from __future__ import annotations

import math

from dprelease.engines.request import rounding
from dprelease.query.bounded import Fixed
from dprelease.query.cleaning import is_cleaned, snapping
from dprelease.schema.column import Column, Kind

__all__ = ["cleaned", "nearest_step"]


def cleaned(column: Column, value: object) -> object:
    """Return what everything reads of the typed cell `value`, None for null."""
    if not is_cleaned(column):
        return value
    if column.kind is Kind.category:
        return _key(column, value)
    default = column.null_default
    if value is None and default is None:
        return None
    if column.kind is Kind.boolean:
        return bool(default) if value is None else value
    code = snapping(column)
    if code is None:
        assert default is not None or value is not None
        return float(default or 0) if value is None else _moved(column, float(value))  # type: ignore[arg-type]
    if value is None:
        step = (code.default or 0) + code.grid.lower
    else:
        step = nearest_step(code, float(value))  # type: ignore[arg-type]
    doubles = rounding(code)
    return float(step) * doubles.num / doubles.den


def nearest_step(code: Fixed, x: float) -> int:
    """Return the nearest allowed step to `x`, the lower of two at the same distance.

    Between two steps `x` goes up from the double nearest to the half-way point on.
    """
    doubles = rounding(code)
    x = min(max(x, doubles.low), doubles.high)
    scaled = x * doubles.den / doubles.num + 0.75
    if code.step == 1:
        step = math.floor(x) + (x - math.floor(x) >= 0.5)
    elif math.isinf(scaled):
        step = code.grid.lower if scaled < 0 else code.grid.upper
    else:
        step = math.floor(scaled)
        step -= x < (step - 0.5) * doubles.num / doubles.den
    step = min(max(step, code.grid.lower), code.grid.upper)
    ends = [min(max(step, low), high) for low, high in code.grid.runs]
    return min(ends, key=lambda end: (abs(end - step), end))


def _key(column: Column, value: object) -> str | None:
    if value is None:
        return column.null_label
    text = str(value)
    return text if text in column.values or not column.values else column.other


def _moved(column: Column, x: float) -> float:
    """Clamp to the range and move out of its gaps, as a double."""
    if column.domain is None:
        return x
    low, high = column.domain.hull
    x = min(max(x, low), high)
    for left, right in column.domain.forbidden:
        if left < x < right:
            return left if x - left <= right - x else right
    return x
