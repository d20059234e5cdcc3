"""The wall's own sensitivity: from what the engine really sums and the declared unit, nothing else.

A plan is priced by the sensitivity that a measurement states of itself. Here the same numbers are made again from the
bounded query alone (invariant 4); the wall uses these, whatever a plan states. What has no proved bound is refused.

Units: integer grid steps. Source: `docs/theory/sensitivities-and-contribution-bounding.md#the-second-proof`.
"""

from __future__ import annotations

from dataclasses import replace

from dprelease.core.errors import InternalError
from dprelease.query.bounded import BoundedQuery, Label, Primitive, codes_of
from dprelease.query.intervals import Intervals
from dprelease.schema.unit import Adjacency, EdgeUnit, RowUnit, Unit, UserUnit
from dprelease.statistics import bin_sensitivity as bins
from dprelease.statistics import spectrum
from dprelease.statistics.exact import OF_SUMS, Merge
from dprelease.statistics.graph_sensitivity import GRAPH_FORMS, graph_sensitivity
from dprelease.statistics.measurement import BY_RANK, Measurement
from dprelease.statistics.sensitivity import (
    Bounds,
    Sensitivity,
    between_limits,
    sensitivity,
    sensitivity_of_levels,
    unit_bounds,
)
from dprelease.statistics.types_of_change import (
    Classes,
    added_cells,
    corners,
    keeps_every_row,
    types_of_change,
)
from dprelease.wall import form_sensitivity as forms
from dprelease.wall.code_sensitivity import (
    cells_apart,
    code_range,
    code_sensitivity,
    coefficients,
    corner_sensitivity,
    pair_sensitivity,
    polynomial,
)
from dprelease.wall.sums_of_groups import PERSONS, bounds_of_sums

_ADDITIVE = ("rows", *PERSONS, "power", "between", "distinct", "product")
_MOST_LINEAR = 3
"""Cells that are linear in up to so many codes are tried at all ends of these, with and without each code."""


def row_sensitivity(
    query: BoundedQuery, measurement: Measurement, primitives: tuple[int, ...]
) -> tuple[int, ...]:
    """Return (l1_added_row, l1_replaced_row) of `measurement`, recomputed from what the engine really sums.

    A cell of one code is a polynomial of degree at most 2, which `code_sensitivity` bounds over the code's range;
    `pair_sensitivity` bounds products of two codes, `corner_sensitivity` sums of several, `bins` counts of ranges.
    Different codes are bounded one by one, as are rows beside a code that may be null, and these bounds add up.

    Raises:
        InternalError: a primitive has no proved bound (DPR902).
    """
    used = [query.primitives[i] for i in primitives]
    if measurement.form == "scatter":
        low, high = _quadratic(query, used)
        return ((high - low) ** 2 * max(0, (measurement.public_rows or 0) - 1),) * 2
    if measurement.form == "cross":
        return (_cross(query, used) * max(0, (measurement.public_rows or 0) - 1),) * 2
    if measurement.form in ("spectrum", "matrix", "pairs"):
        return _spectral(query, measurement, used)
    if measurement.form in (*BY_RANK, "rank_interval", "winsorised", "binned_tree", "table_set"):
        try:
            return forms.form_sensitivity(query, measurement, used)
        except ValueError as problem:
            raise unproved(str(problem)) from None
    if measurement.form != "linear":
        raise unproved(f"its cells are `{measurement.form}`, which has no proved bound")
    if measurement.alone:
        if (alone := bins.lone_bins(used, len(measurement.cells))) is None:
            raise unproved("its cells have no weights and are not bins of one column")
        return alone
    if {*map(len, measurement.weights)} - {len(used)}:
        raise unproved("its cells have other weights than one for each sum")
    apart: dict[tuple[str, int | None, int | None], list[int]] = {}
    for place, p in enumerate(used):
        known = p.kind in ("rows", *PERSONS) or (p.code is not None and p.power in (0, 1, 2))
        crossed = p.kind != "product" or (p.other is not None and p.other_power in (0, 1, 2))
        if not (known and crossed) or p.kind not in _ADDITIVE:
            raise unproved(f"it sums `{p.kind}`, which has no proved bound")
        apart.setdefault((p.kind, p.code, p.other), []).append(place)
    l1_added_row, l1_replaced_row = _linear_sensitivity(query, measurement, used, apart)
    absent = measurement.public_rows is None
    for (kind, code, other), places in apart.items():
        weights = [[row[place] for place in places] for row in measurement.weights]
        part = [used[place] for place in places]
        if kind == "between":
            added = bins.bin_sensitivity(weights, [(p.low, p.high) for p in part])
            replaced = 2 * added
        elif kind == "distinct":  # a replaced row takes one value away and brings another one
            added = replaced = sum(abs(w) for row in weights for w in row)
        elif kind == "product" and code is not None and other is not None:
            top = _top(query, code), _top(query, other)
            added, replaced = pair_sensitivity(weights, part, top, absent=absent)
        else:
            span = (0, 0) if code is None else codes_of(query.codes[code])
            cells = [polynomial(row, part) for row in weights]
            added, replaced = code_sensitivity(cells, span, absent=absent)
        l1_added_row, l1_replaced_row = l1_added_row + added, l1_replaced_row + replaced
    return l1_added_row, l1_replaced_row


def _linear_sensitivity(
    query: BoundedQuery,
    measurement: Measurement,
    used: list[Primitive],
    apart: dict[tuple[str, int | None, int | None], list[int]],
) -> tuple[int, int]:
    """Return the sensitivity of what is linear in several codes, and remove it from `apart`; (0, 0) where nothing is.

    A row may lack any of the codes and have the others. One code alone is left in `apart`.
    """
    linear = {
        key: places
        for key, places in apart.items()
        if key[0] == "power" and max(used[place].power for place in places) <= 1
    }
    if not 2 <= len(linear) <= _MOST_LINEAR:
        return 0, 0
    at = [place for key in linear for place in apart.pop(key)]
    weights = [[row[place] for place in at] for row in measurement.weights]
    rows = corners(query, [code for _, code, _ in linear if code is not None])
    cells = [added_cells(weights, [used[place] for place in at], row) for row in rows]
    return corner_sensitivity(cells, absent=True)


def _spectral(
    query: BoundedQuery, measurement: Measurement, used: list[Primitive]
) -> tuple[int, int]:
    """Return the sensitivity of a covariance matrix's measurement, made of its columns' own moments."""
    axes, n = measurement.axes, measurement.public_rows
    shape = tuple((p.kind, p.code, p.power, p.other, p.other_power) for p in used)
    singles = dict.fromkeys(p.code for p in used if p.kind == "power" and p.code is not None)
    if tuple(_top(query, c) for c in singles) != tuple(a.scale for a in axes) or len(axes) < 2:
        raise unproved("its columns are not those of its measurement")
    if any(a.step_size <= 0 or a.scale < 1 for a in axes) or measurement.step_size <= 0:
        raise unproved("its steps are not positive")
    private = measurement.form == "pairs"
    shaped = spectrum.pair_shape if private else spectrum.scatter_shape
    if shape != shaped(tuple(singles)) or private != (n is None):
        raise unproved("its matrix is not made of its columns' own moments")
    if n is None:
        parts = zip(spectrum.factors(axes), spectrum.pair_parts(axes), strict=True)
        total = sum(f * part for f, part in parts)
        return total, 2 * total
    if measurement.form == "spectrum":
        return (forms.eigenvalue_sensitivity(axes, n, measurement.step_size),) * 2
    return (forms.entry_sensitivity(axes, n, measurement.step_size),) * 2


def _cross(query: BoundedQuery, used: list[Primitive]) -> int:
    """Return Ka Kb of a cross product n S(ab) - S(a) S(b) over exactly the rows it counts."""
    shape = [(p.kind, p.code, p.power, p.other, p.other_power) for p in used]
    a, b = (used[0].code, used[0].other) if used else (None, None)
    powers = ((1, 1), (1, 0), (0, 1), (0, 0))
    if a is None or b is None or shape != [("product", a, p, b, q) for p, q in powers]:
        raise unproved("its cross product is not made of two columns' own moments")
    return _top(query, a) * _top(query, b)


def _top(query: BoundedQuery, code: int) -> int:
    """Return the greatest code, the least being 0."""
    low, high = codes_of(query.codes[code])
    if low or isinstance(query.codes[code], Label):
        raise unproved("a factor of its products is not a number's code from 0 upwards")
    return high


def _quadratic(query: BoundedQuery, used: list[Primitive]) -> tuple[int, int]:
    """Return the code range of a scatter n S(k^2) - S(k)^2 over exactly the rows it counts."""
    shape = [(p.kind, p.code, p.power) for p in used]
    code = used[0].code if used else None
    if code is None or shape != [("power", code, 1), ("power", code, 2), ("power", code, 0)]:
        raise unproved("its scatter is not made of one column's own moments")
    return codes_of(query.codes[code])


def _by_cells(query: BoundedQuery, of: Measurement, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return (l1_added_row, l1_replaced_row), and their squares in L2 where each cell has a bound (`cells_apart`)."""
    spans = {i: codes_of(c) for i, c in enumerate(query.codes) if keeps_every_row(query.columns, c)}
    used = [query.primitives[i] for i in ids]
    return cells_apart(of.weights, used, spans) or row_sensitivity(query, of, ids)


def recompute(
    query: BoundedQuery,
    measurement: Measurement,
    primitives: tuple[int, ...],
    max_rows: int | None,
    *,
    unit: Unit,
    adjacency: Adjacency,
    groups: int,
    whole: bool,
    per: Intervals | None,
    merge: Merge | None = None,
) -> Sensitivity:
    """Return the sensitivity to one unit, from what the engine sums and the declared unit alone.

    Args:
        max_rows: the block's own m, or None; groups: K; whole: no filter and no period takes rows away.
        per: the intervals, of a unit that is a person within one; merge: the sums of groups, where these are drawn.

    Raises:
        InternalError: contributions are not bounded as declared, or cells have no proved bound (DPR902).
    """
    bounds = unit_bounds(unit, max_rows, groups)
    used = [query.primitives[i] for i in primitives]
    _check_bounds(query, used, bounds, unit, groups, per)
    if merge is not None:
        found = bounds_of_sums(used, bounds, groups, merge)
        if found is None or measurement.form not in OF_SUMS or measurement.public_rows is not None:
            raise unproved("its table is not made of sums of its groups")
        bounds, groups = found
    elif any(p.cells for p in used):
        raise unproved("it counts persons in cells of groups that are not put together")
    if measurement.public_rows is not None and primitives:
        _check_public(query, used, unit, adjacency, groups, whole=whole)
    if isinstance(unit, EdgeUnit) or measurement.form in GRAPH_FORMS:
        proved = _edge_sensitivity(query, measurement, used, unit)
        worst = sensitivity(proved, bounds, adjacency, groups, positive=False)
        return replace(worst, l2_squared=None)  # proved for sums over rows and for a scatter only
    mean = measurement.family == "truncated_mean"  # size and sum for `MeanLaw`, no L1 vector
    summed = _size_of(query, measurement, used) if mean else measurement
    proof = _by_cells if summed.squares and summed.form == "linear" else row_sensitivity
    row = proof(query, summed, primitives[:1] if mean else primitives)
    types: Classes = ()
    signed = measurement.form != "linear" or not _nowhere_negative(query, measurement, primitives)
    if adjacency is Adjacency.substitution:
        types = types_of_change(query, measurement, primitives, row, bounds, groups, signed=signed)
    if measurement.form == "binned_tree":
        whole = measurement.public_rows is not None and _hold_each_row(query, used)
        worst = sensitivity_of_levels(measurement, bounds, adjacency, groups, row[0])
        return replace(worst, sum_is_fixed=row[0] == 1 and whole, types=types)
    proved = replace(measurement, l1_added_row=row[0], l1_replaced_row=row[1], squares=row[2:])
    proved = replace(proved, per_unit=bool(used) and all(p.kind in PERSONS for p in used))
    if measurement.form == "winsorised":
        return replace(between_limits(proved, bounds, adjacency, groups), types=types)
    worst = sensitivity(proved, bounds, adjacency, groups, positive=not signed)
    alone = measurement.public_rows is not None and bins.each_alone(measurement.weights, len(used))
    fixed = alone and measurement.form == "linear" and _hold_each_row(query, used)
    half = worst.one_sided_half and merge is None  # a fit takes cells as independent
    return replace(worst, sum_is_fixed=fixed, one_sided_half=half, types=types)


def _hold_each_row(query: BoundedQuery, used: list[Primitive]) -> bool:
    """Return whether these are bins of one code, and each row is in one of them."""
    codes = [p.code for p in used if p.kind == "between" and p.code is not None]
    if len(codes) != len(used) or len(set(codes)) != 1:
        return False
    return bins.hold_every_code(((p.low, p.high) for p in used), codes_of(query.codes[codes[0]]))


def _edge_sensitivity(
    query: BoundedQuery, measurement: Measurement, used: list[Primitive], unit: Unit
) -> Measurement:
    """Return a graph's measurement with the sensitivity that its edges really give it.

    Under the edge unit nothing else has a proved bound: one edge may have any number of rows.
    """
    if not isinstance(unit, EdgeUnit) or measurement.form not in GRAPH_FORMS:
        raise unproved("edges are protected in statistics of the graph that they make, only there")
    ends = [(p.kind, p.code, p.other) for p in used]
    made = [("edges", p.code, p.other) for p in query.primitives if p.code is not None]
    if len(query.primitives) != 1 or ends != made or query.groups.columns:
        raise unproved("it does not measure one simple graph")
    codes = [query.codes[place] for place in ends[0][1:] if place is not None]
    labels = unit.node_labels
    if codes != [Label(unit.source, labels), Label(unit.target, labels)]:
        raise unproved("its edges do not join the declared nodes of the unit's two columns")
    try:
        found = graph_sensitivity(measurement.form, measurement.weights, unit.nodes, unit.k)
    except ValueError:
        raise unproved(f"its `{measurement.form}` of this graph has no proved bound") from None
    added, replaced, components = found
    proved = replace(measurement, l1_added_row=added, l1_replaced_row=replaced, per_unit=False)
    return replace(proved, squares=(), linf_per_component=components)


def _nowhere_negative(query: BoundedQuery, measurement: Measurement, ids: tuple[int, ...]) -> bool:
    """Return whether no row can make any cell of a linear form negative."""
    used = [query.primitives[i] for i in ids]
    places: dict[int | None, list[int]] = {}
    pairs: dict[tuple[int, int], list[int]] = {}
    for place, p in enumerate(used):
        if p.kind == "power":
            places.setdefault(p.code, []).append(place)
        elif p.kind == "product" and p.code is not None and p.other is not None:
            pairs.setdefault((p.code, p.other), []).append(place)
        elif p.kind not in ("rows", *PERSONS, "between") or any(
            row[place] < 0 for row in measurement.weights
        ):
            return False
    for code, at in places.items():
        span = (0, 0) if code is None else codes_of(query.codes[code])
        for row in measurement.weights:
            cell = polynomial([row[i] for i in at], [used[i] for i in at])
            if code_range(cell, span)[0] < 0:
                return False
    for (one, other), at in pairs.items():
        top = _top(query, one), _top(query, other)
        for row in measurement.weights:
            if min(coefficients([row[i] for i in at], [used[i] for i in at], top)) < 0:
                return False
    return True


def _check_bounds(
    query: BoundedQuery,
    used: list[Primitive],
    bounds: Bounds,
    unit: Unit,
    groups: int,
    per: Intervals | None,
) -> None:
    """Refuse a task that keeps more of a unit than `bounds`, or protects another unit (DPR902)."""
    caps = [query.max_rows if p.max_rows is None else p.max_rows for p in used]
    total = query.max_rows_total
    stated = [*caps, query.max_rows, query.max_groups, bounds.rows, bounds.groups, groups]
    stated += [cap for cap in (total, bounds.total) if cap is not None]
    fits = (
        all(type(cap) is int and cap >= 1 for cap in stated)  # less would lower the loss
        and all(cap <= bounds.rows for cap in caps)
        and query.max_groups <= bounds.groups
        and (bounds.total is None or (total is not None and total <= bounds.total))
        and query.user == (unit.column if isinstance(unit, UserUnit) else None)
        and query.groups.count == groups
    )
    if len({p.max_rows for p in used}) > 1:
        raise unproved("its sums are over different rows of a unit, which no bound is of")
    if not fits:
        raise unproved("its rows per unit, groups per unit, unit or groups differ")
    if query.per != per:
        raise unproved("it bounds contributions in other intervals than the unit has")


def _check_public(
    query: BoundedQuery,
    used: list[Primitive],
    unit: Unit,
    adjacency: Adjacency,
    groups: int,
    *,
    whole: bool,
) -> None:
    """Refuse a public n where anything can take a row out of the statistic: then n is private (DPR902)."""
    places = [place for p in used for place in (p.code, p.other) if place is not None]
    codes = [query.codes[place] for place in places]
    public = (
        adjacency is Adjacency.substitution
        and isinstance(unit, RowUnit)
        and groups == 1
        and not query.groups.columns
        and whole
        and query.where is None
        and query.window is None
        and (query.view is None or query.view.keeps_rows)
        and all(keeps_every_row(query.columns, c) for c in codes)
    )
    if not public:
        raise unproved("it takes a private number of rows for a public one")


def _size_of(query: BoundedQuery, measurement: Measurement, used: list[Primitive]) -> Measurement:
    """Return the measurement of a truncated mean's size; its sum must be what `MeanLaw` bounds."""
    code = used[0].code if used else None
    shape = [(p.kind, p.code, p.power) for p in used]
    if (
        code is None
        or shape != [("power", code, 0), ("power", code, 1)]
        or measurement.weights != ((1, 0), (0, 1))
        or measurement.form != "linear"
        or codes_of(query.codes[code]) != (0, measurement.scale)
    ):
        raise unproved("its mean is not a size and a sum of one column's codes")
    return replace(measurement, weights=((1,),), squares=())


def unproved(
    why: str, what: str = "the query does not measure what the plan says"
) -> InternalError:
    """Return the refusal of a plan whose blocks are not what it says (DPR902)."""
    return InternalError(
        what,
        why=why,
        fix="make the plan again with this version of dprelease",
        code="DPR902",
    )
