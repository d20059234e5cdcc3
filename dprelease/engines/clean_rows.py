"""The cleaned value of a cell in plain Python (`query.cleaning`): what `clean_sql` must agree with."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.engines.request import rounding
from dprelease.query.bounded import Fixed
from dprelease.query.cleaning import is_cleaned, snapping
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import compared_by_value

_WRITTEN = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)|-?\d(\.\d+)?e-\d{2,3}", re.ASCII)
"""A number, and how Python writes a small one."""


def cleaned(column: Column, value: object) -> object:
    """Return what everything reads of the typed cell `value`, None for null."""
    if not is_cleaned(column):
        return value
    if column.kind is Kind.category:
        return key_of(column, value)
    default = column.null_default
    if value is None and default is None:
        return None
    if column.kind is Kind.boolean:
        return bool(default) if value is None else value
    code = snapping(column)
    if code is None:
        assert default is not None or value is not None
        return float(default or 0) if value is None else _into_domain(column, float(value))  # type: ignore[arg-type]
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


def key_of(column: Column, value: object) -> str | None:
    """Return the key of a category that a cell's canonical text belongs to, None for none."""
    if value is None:
        return column.null_label
    text = str(value)
    if not column.values:
        return text
    if column.lists:
        text = text.strip(" ")
        return text if text in column.values else column.other
    by_value = compared_by_value(column.values)
    return _meanings(column.values).get(_meaning(text, by_value), column.other)


@lru_cache(maxsize=64)
def _meanings(values: tuple[str, ...]) -> dict[object, str]:
    by_value = compared_by_value(values)
    found: dict[object, str] = {_meaning(value, by_value): value for value in values}
    single: dict[object, list[str]] = {}
    for meaning, value in found.items():
        number = meaning if isinstance(meaning, Fraction) and meaning.denominator > 1 else None
        if number is None and re.fullmatch(r"-?\d(\.\d+)?e[-+]\d+", value, re.ASCII) is None:
            continue
        with np.errstate(over="ignore"):
            stored = (
                float(np.float32(float(value)))
                if number is None or abs(number) < 2**64
                else math.inf
            )
        if math.isfinite(stored):
            single.setdefault(_meaning(repr(stored), by_value), []).append(value)
    # the single nearest to two declared values is none of them
    return {m: values[0] for m, values in single.items() if len(values) == 1} | found


def _meaning(text: str, by_value: bool) -> object:
    text = text.strip(" ")
    if by_value and _WRITTEN.fullmatch(text):
        return Fraction(text.removesuffix("."))
    if by_value and text.lower() in ("true", "false"):
        return text.lower()
    return text.removesuffix(" 00:00:00") if re.match(r"\d+-\d\d-\d\d", text) else text


def _into_domain(column: Column, x: float) -> float:
    """Clamp to the range and move out of its gaps, as a double."""
    if column.domain is None:
        return x
    low, high = column.domain.hull
    x = min(max(x, low), high)
    for left, right in column.domain.forbidden:
        if left < x < right:
            return left if x - left <= right - x else right
    return x
