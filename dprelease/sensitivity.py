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

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from dprelease.aggregates.encoding import Encoding, Measure
from dprelease.errors import InternalError, PlanError
from dprelease.query.bounded import BoundedQuery, Code, Fixed, Primitive
from dprelease.query.spec import Query
from dprelease.schema.unit import Adjacency, RowUnit, Unit, UserUnit

__all__ = [
    "Bounds",
    "Sensitivity",
    "bound",
    "cell_rows",
    "recompute",
    "row_moves",
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
    code = None
    if measure.code is not None:
        if measure.code not in codes:
            codes.append(measure.code)
        code = codes.index(measure.code)
    return Primitive(
        kind=measure.kind,
        code=code,
        power=measure.power,
        low=measure.low,
        high=measure.high,
        max_rows=max_rows,
    )


def cell_rows(
    encoding: Encoding, query: BoundedQuery, max_rows: int
) -> tuple[int, ...]:
    """Return the indices of `encoding`'s measures among the query's primitives."""
    codes = list(query.codes)
    return tuple(query.primitives.index(_primitive(m, codes, max_rows)) for m in encoding.measures)


def row_moves(query: BoundedQuery, encoding: Encoding, primitives: tuple[int, ...]) -> tuple[int, int]:
    """Return (per_row, per_swap) of `encoding`, recomputed from what the engine really sums.

    The wall calls this instead of believing the encoding (invariant 4). Measures that are functions
    of the same code are bounded together: with code k in the code's range every cell is a
    polynomial of degree at most 2, so its range is exact; for cells that are nowhere negative the
    L1 norm is their sum, again such a polynomial. Bins of one code are indicators. Measures of
    different codes, or of rows and of a code that may be null, can move apart: their bounds add up.

    Raises:
        InternalError: a primitive has no proved bound (DPR902).
    """
    used = [query.primitives[i] for i in primitives]
    if encoding.quadratic:
        low, high = _quadratic(query, used)
        return ((high - low) ** 2 * max(0, (encoding.public_rows or 0) - 1),) * 2
    apart: dict[tuple[str, int | None], list[int]] = {}
    for place, p in enumerate(used):
        known = p.kind in ("rows", "persons") or (p.code is not None and p.power in (0, 1, 2))
        if not known or p.kind not in ("rows", "persons", "power", "between"):
            raise _unproved(f"it sums `{p.kind}`, which has no proved bound")
        apart.setdefault((p.kind, p.code), []).append(place)
    per_row = per_swap = 0
    for (kind, code), places in apart.items():
        weights = [[row[place] for place in places] for row in encoding.weights]
        part = [used[place] for place in places]
        if kind == "between":
            move = _bin_move(weights, part)
            swap = 2 * move
        else:
            reach = (0, 0) if code is None else _code_range(query.codes[code])
            cells = [_polynomial(row, part) for row in weights]
            move, swap = _cell_move(cells, reach, absent=encoding.public_rows is None)
        per_row, per_swap = per_row + move, per_swap + swap
    return per_row, per_swap


def _quadratic(query: BoundedQuery, used: list[Primitive]) -> tuple[int, int]:
    """Return the code range of a scatter n S(k^2) - S(k)^2 over exactly the rows it counts."""
    shape = [(p.kind, p.code, p.power) for p in used]
    code = used[0].code if used else None
    if code is None or shape != [("power", code, 1), ("power", code, 2), ("power", code, 0)]:
        raise _unproved("its scatter is not made of one column's own moments")
    return _code_range(query.codes[code])


def _bin_move(weights: list[list[int]], bins: list[Primitive]) -> int:
    """A row lies in at most one of disjoint bins; otherwise it could lie in all of them."""
    spans = sorted((p.low, p.high) for p in bins)
    disjoint = all(a[1] < b[0] for a, b in pairwise(spans))
    each = [sum(abs(row[j]) for row in weights) for j in range(len(bins))]
    return max(each) if disjoint else sum(each)


def _cell_move(
    cells: list[tuple[int, int, int]], reach: tuple[int, int], *, absent: bool
) -> tuple[int, int]:
    ranges = [_range(c, reach) for c in cells]
    if len(cells) == 1:
        low, high = ranges[0]
        zero = Fraction(0)
        swap = max(high, zero) - min(low, zero) if absent else high - low
        return int(max(abs(low), abs(high))), int(swap)
    if all(low >= 0 for low, _ in ranges):
        total = tuple(sum(c[i] for c in cells) for i in range(3))
        most = int(_range((total[0], total[1], total[2]), reach)[1])
    else:
        most = int(sum(max(abs(low), abs(high)) for low, high in ranges))
    return most, 2 * most


def _code_range(code: Code) -> tuple[int, int]:
    """Return the least and greatest code of a row, a null's default included."""
    if not isinstance(code, Fixed):
        return 0, 1
    default = 0 if code.default is None else code.default
    return min(0, default), max(code.grid.hull_steps, default)


def _polynomial(weights: list[int], used: list[Primitive]) -> tuple[int, int, int]:
    """Return the coefficients of one cell as a function of one row's code."""
    out = [0, 0, 0]
    for weight, primitive in zip(weights, used, strict=True):
        out[primitive.power if primitive.kind == "power" else 0] += weight
    return out[0], out[1], out[2]


def _range(c: tuple[int, int, int], reach: tuple[int, int]) -> tuple[Fraction, Fraction]:
    """Return the least and greatest value of c0 + c1 x + c2 x^2 over real x in `reach`."""
    low, high = reach
    points = [Fraction(low), Fraction(high)]
    if c[2]:
        vertex = Fraction(-c[1], 2 * c[2])
        if low < vertex < high:
            points.append(vertex)
    values = [c[0] + c[1] * x + c[2] * x * x for x in points]
    return min(values), max(values)


def recompute(
    query: BoundedQuery,
    encoding: Encoding,
    primitives: tuple[int, ...],
    max_rows: int | None,
    *,
    unit: Unit,
    adjacency: Adjacency,
    groups: int,
    whole: bool,
) -> Sensitivity:
    """Return what one unit can move, from what the engine sums and the declared unit alone.

    Args:
        max_rows: the block's override of m; groups: K; whole: no filter or period takes rows away.

    Raises:
        InternalError: the query does not bound contributions as declared, or the encoding's
            cells have no proved bound (DPR902).
    """
    bounds = unit_bounds(unit, max_rows, groups)
    used = [query.primitives[i] for i in primitives]
    _check_bounds(query, used, bounds, unit, groups)
    if encoding.public_rows is not None and primitives:
        _check_public(query, used, unit, adjacency, groups, whole=whole)
    if encoding.family == "truncated_mean":  # a size and a sum for `MeanDraw`, not an L1 vector
        encoding, primitives = _size_of(query, encoding, used), primitives[:1]
    per_row, per_swap = row_moves(query, encoding, primitives)
    per_unit = bool(used) and all(p.kind == "persons" for p in used)
    honest = replace(encoding, per_row=per_row, per_swap=per_swap, per_unit=per_unit)
    return sensitivity(honest, bounds, adjacency, groups)


def _check_bounds(
    query: BoundedQuery, used: list[Primitive], bounds: Bounds, unit: Unit, groups: int
) -> None:
    caps = [query.max_rows if p.max_rows is None else p.max_rows for p in used]
    total = query.max_rows_total
    honest = (
        all(cap <= bounds.rows for cap in caps)
        and query.max_groups <= bounds.groups
        and (bounds.total is None or (total is not None and total <= bounds.total))
        and query.user == (unit.column if isinstance(unit, UserUnit) else None)
        and len(query.groups.keys) == groups
    )
    if not honest:
        raise _unproved("its rows per unit, groups per unit, unit or groups differ")


def _check_public(
    query: BoundedQuery,
    used: list[Primitive],
    unit: Unit,
    adjacency: Adjacency,
    groups: int,
    *,
    whole: bool,
) -> None:
    """Whatever can take a row out of the statistic makes n private (semantics 1.2)."""
    codes = [query.codes[p.code] for p in used if p.code is not None]
    public = (
        adjacency is Adjacency.substitution
        and isinstance(unit, RowUnit)
        and groups == 1
        and not query.groups.columns
        and whole
        and query.where is None
        and query.window is None
        and all(isinstance(c, Fixed) and c.default is not None for c in codes)
    )
    if not public:
        raise _unproved("it takes a private number of rows for a public one")


def _size_of(query: BoundedQuery, encoding: Encoding, used: list[Primitive]) -> Encoding:
    """Return the encoding of a truncated mean's size; its sum must be what `MeanDraw` bounds."""
    code = used[0].code if used else None
    shape = [(p.kind, p.code, p.power) for p in used]
    if (
        code is None
        or shape != [("power", code, 0), ("power", code, 1)]
        or encoding.weights != ((1, 0), (0, 1))
        or encoding.quadratic
        or _code_range(query.codes[code]) != (0, encoding.scale)
    ):
        raise _unproved("its mean is not a size and a sum of one column's codes")
    return replace(encoding, weights=((1,),))


def _unproved(why: str) -> InternalError:
    return InternalError(
        "the query does not measure what the plan says",
        why=why,
        fix="make the plan again with this version of dprelease",
        code="DPR902",
    )
