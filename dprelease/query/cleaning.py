"""How a row is read: clean first, then everything. One rule, for every engine.

A cell is read as its declared kind (what cannot be read so is null), and then cleaned:

| kind            | null                           | any other value                                     |
|-----------------|--------------------------------|-----------------------------------------------------|
| integer, number | its default, else null         | clamped to the range, rounded to the step (a half   |
|                 |                                | goes up), moved out of a forbidden interval to the  |
|                 |                                | nearer end (the lower of two)                       |
| boolean         | its default, else null         | itself                                              |
| category        | its key (`as`), else null      | itself if declared, else `other`, else null         |
| others          | null                           | itself                                              |

The cleaned value is what all of them read: statistics, `by`, `where`, conditions of `proportion`,
and the expressions of derived columns, whose values are cleaned in turn by their own declaration.
So `proportion(b)` is `mean(b)`, a filter keeps the rows of a group, and the share of a histogram's
bins is the proportion of their range. A value that is still null keeps its row in the table: it is
left out of statistics of its column, of groups by it, and a condition on it may be null.

`count_distinct` counts a category's declared values alone: `other` and the key of null are none of
them. A unit's id and the period are not cleaned: who a row is of, and when, is the source's word. Nor
are cells that a view's own SELECT reads: a view is a source, its columns are cleaned.

Cleaning is a map of one row by public constants, so it moves no sensitivity. A number is a double,
and goes up from the double nearest to the half-way point on: 1.005 in steps of 0.01 goes up. Without a finite
range, or with steps beyond 2**53 from zero, where doubles skip some, there is no grid: the value
is clamped and moved as a double.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dprelease.core.errors import PlanError
from dprelease.core.numeric import plain
from dprelease.query.bounded import BoundedQuery, Condition, Fixed
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet

EXACT_DOUBLE = 2**53
"""Whole numbers up to it are doubles, all of them."""

_LARGEST = 10**150


def code_of(column: Column) -> Fixed | None:
    """Return the fixed-point code of a column, None for one without numbers or a finite range."""
    if column.kind is Kind.boolean:
        default = None if column.null_default is None else int(column.null_default)
        return Fixed(column.name, GridSet(((0, 1),)), Fraction(1), default)
    if column.domain is None or not column.domain.is_finite or column.step is None:
        return None
    grid = column.grid
    default = None
    if column.null_default is not None:
        default = int(column.null_default / column.step) - grid.lower
    return Fixed(column.name, grid, column.step, default)


def must_be_exact(code: Fixed, origin: str | None = None) -> None:
    """Refuse a grid whose points are no doubles, or their squares none; PlanError DPR231."""
    far = max(abs(code.grid.lower), abs(code.grid.upper))
    if far > EXACT_DOUBLE:
        raise PlanError(
            f"the step {plain(code.step)} of {code.column} is too fine for its range",
            where=origin,
            why="its ends lie more than 2**53 steps from zero, where doubles skip steps",
            fix="declare a larger `step` for the column, or a narrower range",
            code="DPR231",
        )
    if far * code.step > _LARGEST:
        raise PlanError(
            f"the range of {code.column} is too wide to compute with",
            where=origin,
            why="the squares of its ends are no doubles",
            fix="declare a range within 1e150, or a column in a larger unit",
            code="DPR231",
        )


@lru_cache(maxsize=64)  # asked for every cell
def snapping(column: Column) -> Fixed | None:
    """Return the code whose grid the column's cleaned numbers lie on, None where there is no grid."""
    if column.kind not in (Kind.integer, Kind.number):
        return None
    code = code_of(column)
    if code is None:
        return None
    sizes = (code.grid.lower, code.grid.upper, code.step.numerator, code.step.denominator)
    return code if max(map(abs, sizes)) <= EXACT_DOUBLE else None


def is_cleaned(column: Column) -> bool:
    """Return whether cleaning may change a cell of the column."""
    keyed = column.kind is Kind.category and (bool(column.values) or column.null_label is not None)
    return keyed or column.domain is not None or column.null_default is not None


def read_by_expressions(query: BoundedQuery) -> tuple[str, ...]:
    """Return the columns, stored or derived, that a condition or a derived column reads, sorted."""
    expressions = [c.expression for c in query.codes if isinstance(c, Condition)]
    expressions += [d.expression for d in query.derived]
    expressions += [query.where] if query.where is not None else []
    return tuple(sorted({name for e in expressions for name in e.columns}))


def cleaning_json(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Return, for each column that cleaning may change, what decides its cleaned value."""
    return [_one(column) for column in columns if is_cleaned(column)]


def _one(column: Column) -> dict[str, Any]:
    out: dict[str, Any] = {"column": column.name}
    if column.kind is Kind.category:
        return out | {
            "values": list(column.values),
            "other": column.other,
            "null": column.null_label,
        }
    if column.domain is not None:
        out |= column.domain.to_json() | {"step": None if column.step is None else str(column.step)}
    return out | {"default": None if column.null_default is None else str(column.null_default)}
