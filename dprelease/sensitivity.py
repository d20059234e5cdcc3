"""From a query to what the engine computes, and what one unit can do to it.

`bound` makes clamps and contribution bounds explicit (a `BoundedQuery`); `sensitivity` states how
far one unit can move an encoding's cells. It is a function of the bounded query and the declared
adjacency only, never of a promise about the data (invariant 5).

Let m rows per (unit, group), G groups per unit, K declared groups, and for one encoding

    a = per_row     L1 move when a row is added or removed
    s = per_swap    L1 move when a row's contribution is replaced by another's, or by none

Then one unit moves the cells, in L1 and in grid steps, by at most

                       in one group    over all groups         groups touched    moves
    add_remove         m a             G m a                   min(K, G)         G
    substitution       m s             min(K m s, 2 G m a)     min(K, 2 G)       2 G
    public n (row)     s               s                       1                 1

A *move* adds or removes at most m rows in one group; any change of one unit is a chain of at most
that many moves (leaving and entering i + j groups, changing h inside: i + j + 2h <= 2G).

Proof. Adding a unit adds at most m rows to each of at most G groups. Replacing one removes at most
G m rows and adds at most G m: 2 G m a in all; and it changes a group's rows from at most m to at
most m, which is at most m replacements (s covers "by none"): m s in each of at most K groups. A
total cap T of rows per unit replaces G m by min(G m, T). `per_unit` encodings (persons) have m = 1.
All rows of semantics 3.1 and 3.2 follow, and the contract tests enumerate them.

Scalars whose law is not linear in the shift are charged per touched group (sequential
composition over the groups one unit touches), see `planning.choose`.

Units: integer grid steps. Sources: semantics 1.3, 1.5, 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.aggregates.encoding import Encoding, Measure
from dprelease.errors import PlanError
from dprelease.query.bounded import BoundedQuery, Code, Primitive
from dprelease.query.spec import Query
from dprelease.schema.unit import Adjacency, Unit, UserUnit

__all__ = [
    "Bounds",
    "Sensitivity",
    "bound",
    "cell_rows",
    "sensitivity",
    "unit_bounds",
]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Contribution bounds: `rows` per (unit, group), `groups` per unit, `total` rows per unit."""

    rows: int
    groups: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one unit moves an encoding's cells, L1, in steps.

    Attributes:
        in_group: within any one group; total: over all groups; touched: groups it can move;
        moves: additions or removals of one group's rows that make up any change.
    """

    in_group: int
    total: int
    touched: int
    moves: int


def unit_bounds(unit: Unit, max_rows: int | None, groups: int) -> Bounds:
    """Return the contribution bounds of `unit`; `max_rows` overrides m."""
    if isinstance(unit, UserUnit):
        return Bounds(max_rows or unit.max_rows_per_group, min(unit.max_groups, groups), unit.max_rows)
    return Bounds(1, 1)


def sensitivity(encoding: Encoding, bounds: Bounds, adjacency: Adjacency, groups: int) -> Sensitivity:
    """Return the sensitivity of `encoding` (module docstring; K = `groups`).

    >>> from dprelease.aggregates.count import aggregate
    >>> from dprelease.aggregates.encoding import Context
    >>> from dprelease.schema.table import StatisticSpec
    >>> e = aggregate.encodings(Context(StatisticSpec("count", "count", (), "count"), cap=9))[0]
    >>> sensitivity(e, Bounds(rows=3, groups=2), Adjacency.add_remove, 5)
    Sensitivity(in_group=3, total=6, touched=2, moves=2)
    """
    if encoding.public_rows is not None:
        return Sensitivity(encoding.per_swap, encoding.per_swap, 1, 1)
    m = 1 if encoding.per_unit else bounds.rows
    everywhere = bounds.groups * m
    if bounds.total is not None:
        everywhere = min(everywhere, bounds.total)
        m = min(m, bounds.total)
    if adjacency is Adjacency.add_remove:
        return Sensitivity(
            in_group=m * encoding.per_row,
            total=everywhere * encoding.per_row,
            touched=min(groups, bounds.groups),
            moves=bounds.groups,
        )
    return Sensitivity(
        in_group=m * encoding.per_swap,
        total=min(groups * m * encoding.per_swap, 2 * everywhere * encoding.per_row),
        touched=min(groups, 2 * bounds.groups),
        moves=2 * bounds.groups,
    )


def bound(query: Query, encodings: tuple[tuple[Encoding, int | None], ...]) -> BoundedQuery:
    """Return the engine's task: the primitives of all `encodings` (each with its m override).

    Equal primitives are computed once. Units: codes in steps above each column's lower end.

    Raises:
        PlanError: a sum could overflow 127 bits for 2**63 rows (DPR230).
    """
    schema = query.schema
    codes: list[Code] = []
    primitives: list[Primitive] = []
    for encoding, override in encodings:
        m = unit_bounds(schema.unit, override, len(query.groups.keys)).rows
        for measure in encoding.measures:
            primitive = _primitive(measure, codes, m)
            if primitive not in primitives:
                primitives.append(primitive)
        power = max((m.power for m in encoding.measures), default=0)
        if encoding.scale**power >= 2**64:
            raise PlanError(
                f"the column behind {encoding.cells[0]} has too many steps",
                why=f"{encoding.scale:,} steps to the power {power}, summed over 2**63 rows, "
                "would not fit 127 bits",
                fix="declare a coarser `step` for the column",
                code="DPR230",
            )
    unit = schema.unit
    return BoundedQuery(
        columns=tuple(schema.columns.values()),
        groups=query.groups,
        codes=tuple(codes),
        primitives=tuple(primitives),
        where=query.where,
        window=query.window,
        user=unit.column if isinstance(unit, UserUnit) else None,
        max_groups=min(unit.max_groups, len(query.groups.keys)) if isinstance(unit, UserUnit) else 1,
        max_rows=max((p.max_rows or 1 for p in primitives), default=1),
        max_rows_total=unit.max_rows if isinstance(unit, UserUnit) else None,
    )


def _primitive(measure: Measure, codes: list[Code], max_rows: int) -> Primitive:
    return Primitive(
        kind=measure.kind,
        code=_number(measure.code, codes),
        power=measure.power,
        low=measure.low,
        high=measure.high,
        max_rows=max_rows,
        other=_number(measure.other, codes),
        other_power=measure.other_power,
    )


def _number(code: Code | None, codes: list[Code]) -> int | None:
    """Return the place of `code` among `codes`, adding it if it is new."""
    if code is None:
        return None
    if code not in codes:
        codes.append(code)
    return codes.index(code)


def cell_rows(
    encoding: Encoding, query: BoundedQuery, max_rows: int
) -> tuple[int, ...]:
    """Return the indices of `encoding`'s measures among the query's primitives."""
    codes = list(query.codes)
    return tuple(query.primitives.index(_primitive(m, codes, max_rows)) for m in encoding.measures)
