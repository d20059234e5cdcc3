"""What the engine is asked to compute: integers per group, and nothing else.

A `BoundedQuery` makes every clamp and every contribution bound explicit. The sensitivity is a
function of this value alone (invariant 5), and both engines implement exactly this:

1. Keep the rows with `start <= period column < end` (if a window is given) whose filter is true,
   whose unit id is not null and whose key columns map to a declared group; with `per`, whose time
   is not null.
2. Per row, compute the vector of *codes*: group index, then one integer or null per `Code`.
3. If the unit is a user, bound contributions: order a user's groups by
   md5(salt | unit | group) and keep `max_groups`; within (unit, group) order rows by
   md5(salt | unit | group | codes) and number them 1, 2, ...; a primitive counts the rows whose
   number is at most its `max_rows`. The hash is read as hexadecimal digits, from the last to the first.
   Rows with equal code vectors are interchangeable, so ties do not matter, and table order never
   does. With `per`, all of this is done for each pair of a user and an interval (`query.intervals`)
   by itself, and the hashes begin with salt | unit | first day of the interval, as 2013-01-28.
4. Per group, sum the primitives: exact integers.

Rows are those of the source, or of `BoundedQuery.view` over it, which gives at most one per row of
the private table. Cells are cleaned before anything reads them (`query.cleaning`); derived columns
(`BoundedQuery.derived`, each after those it is made from) are computed next, and cleaned in turn.

Units: codes are in steps of their column, offset by `Fixed.low`, so they lie in 0..K.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from dprelease.core.codec_notes import AtLeast, Digits, Note, StoredAs, WrittenAs
from dprelease.schema.column import Column
from dprelease.schema.domain import LongRuns

if TYPE_CHECKING:
    from dprelease.query.derived import DerivedColumn
    from dprelease.query.intervals import Intervals
    from dprelease.query.nodes import Expression
    from dprelease.query.view import View


@dataclass(frozen=True, slots=True)
class Fixed:
    """Column value -> integer code in `0..K` (steps above the lower end), or null.

    x -> nearest run of `grid` to floor(clip(x, l, u) / step + 1/2), minus `grid.lower`;
    null and NaN -> `default` (a code) or null. Booleans are 0/1.
    """

    column: str
    grid: Annotated[LongRuns, StoredAs("runs")]
    step: Fraction
    default: Annotated[Digits | None, Note.always] = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Row -> 1 (true), 0 (false) or null (unknown)."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class Label:
    """Category value -> its place in `values`, counted from 0; undeclared values and null -> null."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cross:
    """Cell of the cross of some key columns, of rows that are all one group; the last column's labels are fastest.

    sizes: how many labels each has.
    """

    crossed: tuple[str, ...]
    sizes: tuple[Annotated[int, AtLeast(1)], ...]


Code = Fixed | Condition | Label | Cross


def largest_code(code: Code) -> int:
    """Return the largest code that a row can have, a null's default included; the least is 0."""
    if isinstance(code, Fixed):
        return max(code.grid.hull_steps, code.default or 0)
    if isinstance(code, Cross):
        return math.prod(code.sizes) - 1
    return len(code.values) - 1 if isinstance(code, Label) else 1


def codes_of(code: Code) -> tuple[int, int]:
    """Return the least and greatest code of a row, a null's default included."""
    default = code.default if isinstance(code, Fixed) else None
    return min(0, default or 0), largest_code(code)


@dataclass(frozen=True, slots=True)
class Near:
    """The ranks around t = (a n + offset) / b, kept to [0, n], of n rows with a code.

    A code is near if the ranks it has, from the rows below it to the rows at or below it, come within
    `last` / b rows of t. At most 2 last / b + 3 codes of a group are, whatever the rows.
    """

    a: int
    b: int
    offset: int
    last: int

    @property
    def most(self) -> int:
        """Codes of one group that can be near."""
        return 2 * (self.last // self.b) + 3


_Near = Annotated[
    Near, WrittenAs(astuple, lambda four: Near(*four), tuple[Digits, Digits, Digits, Digits])
]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A per-group sum over the kept rows numbered at most `max_rows`.

    kind:
        "rows": 1 per row. "persons": 1 per user who has a row numbered 1, in whichever interval.
        "persons_in_cells": groups are put together in `cells`. 1 per user and cell, in the first of the
            cell's groups of which the user has a row numbered 1: the sum over a cell's groups is the
            number of its different users. Of the row unit, 1 per row.
        "power": code(`code`) ** `power`, null codes left out (power 0 counts them).
        "between": 1 if `low` <= code <= `high`, null codes left out.
        "product": code(`code`) ** `power` * code(`other`) ** `other_power`, rows where either is
            null left out.
        "distinct": the number of different codes, null codes left out.

    Table primitives (`query.answer`):
        "tally": rows per code, null codes left out: of the codes within `near` of a rank, all codes
            without one. Columns: group, code, rows of the group below the code, rows at or below
            it, rows with a code; shape `(codes, 5)`, sorted by group and code.
        "edges": the graph's edges as pairs of node numbers below n, the smaller one first, each
            edge once, sorted, no self-loop; shape `(edges, 2)`.
    """

    kind: str
    code: Annotated[int | None, AtLeast(0), Note.always] = None
    power: Annotated[int, AtLeast(0), Note.always] = 0
    low: Annotated[Digits, Note.always] = 0
    high: Annotated[Digits, Note.always] = 0
    max_rows: Annotated[int | None, AtLeast(1), Note.always] = None
    other: Annotated[int | None, AtLeast(0)] = None
    other_power: Annotated[int, AtLeast(0)] = 0
    near: _Near | None = None
    cells: tuple[int, ...] = field(default=(), repr=False)


MOST_FOUND = 2**48
"""Keys that can be found: no less than rows of any table that engines read."""


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The public groups. `keys[i]` is group i's labels, one per column of `columns`.

    A value maps to its own label, else to the column's `other`, else the row is dropped; null maps
    to `null_key`, else the row is dropped. No columns: one group with the empty key. Columns and only the
    empty key: rows with a label in every column are one group (`whole`).

    Where keys are `found` every text of the one column is a key (`schema.naming.found_key`), and hashes take the
    text where they take a group's index otherwise. Which keys there are is private: the engine's answer alone has them.
    """

    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...]
    found: bool = False

    @property
    def count(self) -> int:
        """How many there are, or can be at most."""
        return MOST_FOUND if self.found else len(self.keys)

    @property
    def whole(self) -> bool:
        return bool(self.columns) and self.keys == ((),)

    def labels(self, place: int) -> tuple[str, ...]:
        """Return the labels of the column at `place` that keys have, in their order."""
        if self.whole:
            return tuple(dict.fromkeys(self.columns[place].keys))
        return tuple(dict.fromkeys(map(itemgetter(place), self.keys)))


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of one period: start <= column < end, both in UTC; public."""

    column: str
    start: datetime
    end: datetime


def several_met(per: Intervals | None, window: Window | None) -> bool:
    """Return whether a window meets several intervals; one without an end does."""
    if per is None or window is None:
        return per is not None
    return per.first_day(window.start) != per.first_day(window.end - timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """The engine's whole task. `user` is None for the row unit; `per` splits a user's rows by time.

    `missing`: a file may lack a column that is read; its cells are then null.
    """

    columns: tuple[Column, ...]
    groups: GroupKeys
    codes: tuple[Code, ...]
    primitives: tuple[Primitive, ...]
    where: Expression | None = None
    window: Window | None = None
    user: str | None = None
    max_groups: int = 1
    max_rows: int = 1
    max_rows_total: int | None = None
    derived: tuple[DerivedColumn, ...] = ()
    view: View | None = None
    per: Intervals | None = None
    missing: bool = False

    @property
    def meets_several(self) -> bool:
        """Whether a person may have rows of several intervals, each of them a unit."""
        return several_met(self.per, self.window)

    @property
    def cell_maps(self) -> tuple[tuple[int, ...], ...]:
        """The different `Primitive.cells` that a user's groups are put together in."""
        if self.user is None:
            return ()
        return tuple(dict.fromkeys(p.cells for p in self.primitives if p.cells))
