"""The protected unit in plain words, for public pages: one aircraft's flights of one week.

`unit.describe` is the exact phrase; this one is for readers, with the names that the publisher gave.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dprelease.schema.about import ROWS, UnitName
from dprelease.schema.unit import RowUnit, Unit, UserUnit


def one_unit(unit: Unit, name: UnitName | None) -> str:
    """Return what one unit is: one patient's visits of one week.

    >>> one_unit(UserUnit("who", 1, 2, per="week"), UnitName(one="patient", many="patients", rows="visits"))
    "one patient's visits of one week"
    >>> one_unit(RowUnit(), None)
    'one row'
    """
    match unit:
        case RowUnit():
            return f"one {'row' if name is None else name.one}"
        case UserUnit(column=column, per=per):
            whose = column if name is None else name.one
            rows = ROWS if name is None else name.rows
            return f"one {whose}'s {rows}" + ("" if per is None else f" of one {per}")
    if unit.k == 1:
        return f"one {'connection' if name is None else name.one}"
    return f"{unit.k} {'connections' if name is None else name.many}"


def called(text: str, unit: Unit, name: UnitName | None) -> str:
    """Return a text with the publisher's word for what it calls by the column: one patient, not one patient_id."""
    if name is None or not isinstance(unit, UserUnit):
        return text
    column = rf"\b(one|per|of a|each|any) {re.escape(unit.column)}\b"
    return re.sub(column, lambda found: f"{found[1]} {name.one}", text)


def whole_unit(unit: Unit, name: UnitName | None) -> str:
    """Return what is behind all of one person's units: one patient."""
    if isinstance(unit, UserUnit):
        return f"one {unit.column if name is None else name.one}"
    return one_unit(unit, name)


def cap_in_words(unit: Unit, by: Sequence[str], groups: int) -> str:
    """Return how many of a person's rows count: at most 3 per airline and week.

    Args:
        by: what the grouping columns are called; groups: how many groups there are.
    """
    if not isinstance(unit, UserUnit):
        return ""
    per = [*by, *([] if unit.per is None else [unit.per])]
    named = f" per {', '.join(per[:-1])}{' and ' if per[:-1] else ''}{per[-1]}" if per else ""
    said = f"at most {unit.max_rows_per_group}{named}"
    if by and unit.max_groups < groups:
        said += ", in one group" if unit.max_groups == 1 else f", in {unit.max_groups} groups"
    if unit.max_rows is not None:
        said += f", {unit.max_rows} in all"
    return said
