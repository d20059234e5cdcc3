"""A table's public declaration: columns, privacy unit, adjacency, size and default release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.core.strict_json import canonical_json
from dprelease.schema.about import About
from dprelease.schema.column import Column
from dprelease.schema.hierarchy import Hierarchy
from dprelease.schema.release_spec import ReleaseSpec
from dprelease.schema.time import Time, time_to_json
from dprelease.schema.unit import Adjacency, RowUnit, Unit, UserUnit

if TYPE_CHECKING:
    from dprelease.query.nodes import Expression


@dataclass(frozen=True, slots=True)
class Rows:
    """Public sizes.

    Attributes:
        maximum: cap N of a count's domain; a declaration, exceeding it clamps.
        expected: public guess of rows per group, for pricing only.
        expected_by_key: guesses per group key (joined with "/"), for pricing only.
        exact: the public number of rows, under substitution only.
    """

    maximum: int | None = None
    expected: int | None = None
    expected_by_key: Mapping[str, int] = field(default_factory=dict)
    exact: int | None = None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Everything public about one private table; what users hold is its child `query.load.Schema`.

    Attributes:
        population: whom the units are, by the name that other tables of the same people give them too.
        time: the column that says when a row happened, if one is declared.
        about: words for public pages, which decide nothing.
        hierarchies: coarser levels of columns, by the hierarchy's name.
        release: the default release, if the schema's block is complete.
        conditions: the filter of that block and its statistics' conditions, read.
        release_raw: that block as written, for merging a pipeline's or a caller's over it;
            `release_lines` is the `file:line` of each place in it.
        root: the project's root; paths in files may not leave it.
    """

    name: str
    unit: Unit
    adjacency: Adjacency
    columns: Mapping[str, Column]
    rows: Rows = Rows()
    population: str | None = None
    time: Time | None = None
    about: About = field(default=About(), compare=False)
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    release: ReleaseSpec | None = None
    conditions: tuple[Expression, ...] = field(default=(), compare=False, repr=False)
    release_raw: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    release_lines: Mapping[tuple[str | int, ...], str] = field(
        default_factory=dict, compare=False, repr=False
    )
    origin: str = ""
    root: Path | None = field(default=None, compare=False)


def declared_time(unit: Unit, time: Time | None) -> str | None:
    """Return what a ledger records of the time, JSON: of a unit with `per`, or of rows that keep theirs."""
    person = isinstance(unit, UserUnit) and unit.per is not None
    if time is None or not (person or (isinstance(unit, RowUnit) and time.immutable)):
        return None
    return canonical_json({**time_to_json(time), "dates": time.dates})
