"""What a bounded query asks of a source, and the guards that make failure impossible.

Both engines use the same double operations for a code, so their constants are made once here:

    floor(min(max(x, l), u) * den / num + 1/2),   step = num / den,   l, u = hull of the grid.

Overflow raises in SQL and would be a failure that depends on data, so it is excluded here for
every table: with codes in 0..K, a sum of K**p over fewer than 2**63 rows stays below 2**127 when
2**63 * K**p < 2**127 (semantics 2.2). Grid points beyond 2**53 are refused because doubles no
longer tell neighbouring steps apart.

Units: codes in steps of their column; `max_rows` in rows per (unit, group).
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.errors import PlanError
from dprelease.numeric import plain
from dprelease.query.bounded import BoundedQuery, Condition, Fixed, Primitive
from dprelease.schema.column import Column, Kind

__all__ = [
    "Rounding",
    "check_query",
    "declared_labels",
    "rounding",
    "row_cap",
    "used_columns",
]

_EXACT_DOUBLE = 2**53
_NUMERIC = (Kind.integer, Kind.number, Kind.boolean)


@dataclass(frozen=True, slots=True)
class Rounding:
    """The doubles of one `Fixed`: clip to [low, high], times `den`, over `num`."""

    low: float
    high: float
    den: float
    num: float


def rounding(code: Fixed) -> Rounding:
    """Return the doubles both engines compute `code` with.

    Raises:
        PlanError: an end or the step is out of the range of doubles (DPR231).
    """
    try:
        out = Rounding(
            float(code.grid.lower * code.step),
            float(code.grid.upper * code.step),
            float(code.step.denominator),
            float(code.step.numerator),
        )
    except OverflowError:
        out = None
    if out is None or code.step <= 0:
        raise PlanError(
            f"the step {plain(code.step)} of {code.column} cannot be used",
            why="it or an end of the range is not positive and finite as a double",
            fix="choose a step and a range of ordinary size",
            code="DPR231",
        )
    return out


def used_columns(query: BoundedQuery) -> tuple[Column, ...]:
    """Return the columns that `query` reads, each once, in order of first use.

    Raises:
        PlanError: a used column is not declared (DPR232).
    """
    known = {c.name: c for c in (*query.groups.columns, *query.columns)}
    names = [query.user] if query.user is not None else []
    names += [c.name for c in query.groups.columns]
    for code in query.codes:
        if isinstance(code, Fixed):
            names.append(code.column)
        else:
            names += sorted(code.expression.columns)
    if query.where is not None:
        names += sorted(query.where.columns)
    if query.window is not None:
        names.append(query.window.column)
    missing = next((n for n in names if n not in known and n != query.user), None)
    if missing is not None:
        raise PlanError(
            f"the query reads {missing!r}, which is not declared",
            fix="declare the column in the schema",
            code="DPR232",
        )
    undeclared_user = Column(query.user or "", Kind.identifier)
    return tuple(known.get(n, undeclared_user) for n in dict.fromkeys(names))


def row_cap(query: BoundedQuery, primitive: Primitive) -> int:
    """Return the largest row number per (unit, group) that `primitive` counts."""
    if primitive.kind == "persons":
        return 1
    return query.max_rows if primitive.max_rows is None else primitive.max_rows


def declared_labels(query: BoundedQuery, place: int) -> tuple[str, ...]:
    """Return the values of the group column at `place` that map to themselves.

    A category declared without values (its keys come from a key table) maps to itself exactly the
    labels that the keys name.
    """
    column = query.groups.columns[place]
    if column.kind is Kind.boolean:
        return ("false", "true")
    if column.values:
        return tuple(dict.fromkeys(column.values))
    special = {column.other, column.null_label}
    return tuple(dict.fromkeys(k[place] for k in query.groups.keys if k[place] not in special))


def check_query(query: BoundedQuery) -> None:
    """Refuse a query that some table could make fail or that would count a row twice.

    Raises:
        PlanError: sums may overflow (DPR230), a step or a grid is unusable (DPR231), a column is
            undeclared or of a kind without codes (DPR232), keys repeat or a cap is below 1 (DPR233).
    """
    kinds = {c.name: c.kind for c in used_columns(query)}
    for code in query.codes:
        if isinstance(code, Condition):
            continue
        rounding(code)
        if kinds[code.column] not in _NUMERIC:
            raise PlanError(
                f"{code.column} is a {kinds[code.column].value} and has no numeric code",
                fix="use an integer, number or boolean column",
                code="DPR232",
            )
        if max(abs(code.grid.lower), abs(code.grid.upper)) > _EXACT_DOUBLE:
            raise PlanError(
                f"the step {plain(code.step)} of {code.column} is too fine for its range",
                why="its ends lie more than 2**53 steps from zero, where doubles skip steps",
                fix="choose a larger step",
                code="DPR231",
            )
    for primitive in query.primitives:
        _check_overflow(query, primitive)
    caps = [
        query.max_groups,
        query.max_rows,
        *(row_cap(query, p) for p in query.primitives),
    ]
    if query.max_rows_total is not None:
        caps.append(query.max_rows_total)
    if min(caps) < 1:
        raise PlanError("every contribution bound is at least 1", code="DPR233")
    width = len(query.groups.columns)
    keys = query.groups.keys
    if len(set(keys)) != len(keys) or any(len(k) != width for k in keys):
        raise PlanError(
            "the group keys repeat, or do not have one label per column",
            why="a repeated key would count its rows twice",
            fix="list every key once",
            code="DPR233",
        )


def _check_overflow(query: BoundedQuery, primitive: Primitive) -> None:
    if primitive.kind != "power" or primitive.code is None:
        return
    code = query.codes[primitive.code]
    if not isinstance(code, Fixed):
        return
    widest = max(code.grid.hull_steps, code.default or 0)
    if 2**63 * widest**primitive.power >= 2**127:
        raise PlanError(
            f"sums of {code.column} to the power {primitive.power} may overflow",
            why=f"the range has {widest} steps, and 2**63 rows of it pass 2**127",
            fix="choose a larger step",
            code="DPR230",
        )
