"""One declared column: its kind, valid values, null policy and fixed-point grid.

Everything here is public metadata. A row value is mapped to an integer number of steps by a total
function (`docs/theory/domains-and-grids.md#rows-are-clamped`): not-a-number and null follow the
null policy, infinities and
out-of-range values clamp, the value is rounded to the step, and values inside a forbidden interval
go to its nearer edge, ties to the lower one. Everything reads the value so cleaned
(`query.cleaning`). A single row may be snapped to the nearest allowed value, because any total map of rows
keeps neighbouring tables neighbours; an exact *statistic* may not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dprelease.core.errors import ConfigError
from dprelease.schema.domain import Domain, GridSet

if TYPE_CHECKING:
    from dprelease.query.nodes import Expression


class Kind(StrEnum):
    """What a column holds."""

    identifier = "identifier"
    category = "category"
    boolean = "boolean"
    integer = "integer"
    number = "number"
    date = "date"
    timestamp = "timestamp"
    node = "node"


NUMERIC = (Kind.integer, Kind.number)
TEXTS = (Kind.category, Kind.identifier, Kind.node)


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column.

    Attributes:
        domain: allowed values, in the column's unit; integer and number columns only.
        step: the fixed-point step g_x; every finite edge of `domain` is a multiple of it.
        stepped: whether the declaration names that step; else the range gave it (`read_column`).
        measure: the unit's name, for labels ("minutes").
        values: the public values of a category column, in declared order.
        other: the key that undeclared values go to; None drops their rows from grouped results.
        nulls: "drop" leaves the row out of statistics of this column; "default" replaces a null
            by `null_default`; "as" makes a null the key `null_label`.
        expected_sd: a public guess of the values' standard deviation, in the column's unit; for
            pricing only.
        derived: the expression over this row's other columns that makes the value; None: stored.
        days: the first and the last day whose parts are keys, of a date or timestamp; it moves no value.
        title, description: for public pages; they decide nothing.
        made: that expression's tree, once the schema's columns are known.
        origin: `file:line` of the declaration.
        lists: the published lists that the values are from, as pipeline/period@SHA-256 of `release.json`;
            folders: where these stand; unread: why they give no values.
    """

    name: str
    kind: Kind
    domain: Domain | None = None
    step: Fraction | None = None
    measure: str | None = None
    values: tuple[str, ...] = ()
    other: str | None = None
    nulls: Literal["drop", "default", "as"] = "drop"
    null_default: Fraction | None = None
    null_label: str | None = None
    expected_sd: Fraction | None = None
    derived: str | None = None
    days: tuple[date, date] | None = None
    title: str | None = field(default=None, compare=False)
    description: str | None = field(default=None, compare=False)
    origin: str = ""
    stepped: bool = field(default=True, compare=False, repr=False)
    made: Expression | None = field(default=None, compare=False, repr=False)
    lists: tuple[str, ...] = ()
    folders: tuple[Path, ...] = field(default=(), compare=False, repr=False)
    unread: ConfigError | None = field(default=None, compare=False, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every public key of a category or boolean column, once: values, then other, then null."""
        keys = ("false", "true") if self.kind is Kind.boolean else self.values
        extra = [k for k in (self.other, self.null_label) if k is not None]
        return tuple(dict.fromkeys((*keys, *extra)))

    @property
    def null_key(self) -> str | None:
        """The key that a null goes to; None drops its row from grouped results."""
        if self.kind is Kind.boolean and self.null_default is not None:
            return self.keys[int(self.null_default)]
        return self.null_label

    def finer_step(self, value: Fraction) -> Fraction | None:
        """Return the greatest step on which `value` lies too; None where it lies on one, or beyond the range."""
        domain, step = self.domain, self.step
        if self.kind is not Kind.number or domain is None or step is None or not value % step:
            return None
        bottom = math.lcm(step.denominator, value.denominator)
        both = Fraction(math.gcd(int(step * bottom), int(value * bottom)), bottom)
        return both if domain.lower < value < domain.upper else None

    @property
    def grid(self) -> GridSet:
        """Allowed values in steps; the column has a finite domain and a step."""
        assert self.domain is not None
        assert self.step is not None
        return self.domain.on_grid(self.step)
