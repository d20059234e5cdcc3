"""From a query to what the engine computes, and what one unit can do to it.

`bounded_query` makes clamps and contribution bounds explicit (a `BoundedQuery`); `sensitivity` states how
far one unit can move a measurement's cells. It is a function of the bounded query and the declared
adjacency only, never of a promise about the data (invariant 5).

Let m rows per (unit, group), G groups per unit, K declared groups, and for one measurement

    a = l1_added_row       L1 distance when a row is added or removed
    s = l1_replaced_row    L1 distance when a row's contribution is replaced by another's, or by none

Then one unit moves the cells, in L1 and in grid steps, by at most

                       l1_per_group    l1_over_groups          changed_groups    chain_length
    add_remove         m a             G m a                   min(K, G)         G
    substitution       m s             min(K m s, 2 G m a)     min(K, 2 G)       2 G
    public n (row)     s               s                       1                 1

and all groups together, squared and in L2, by at most `l2_squared`.

An *elementary change* adds or removes at most m rows in one group; any change of one unit is a chain
of at most that many (leaving and entering i + j groups, changing h inside: i + j + 2h <= 2G).

Proof. Adding a unit adds at most m rows to each of at most G groups. Replacing one removes at most
G m rows and adds at most G m: 2 G m a in all; and it changes a group's rows from at most m to at
most m, which is at most m replacements (s covers "by none"): m s in each of at most K groups. A
total cap T of rows per unit replaces G m by min(G m, T). `per_unit` measurements (persons) have m = 1.
The contract tests enumerate all of this.

The squared L2 sensitivity over all groups (for Gaussian noise). Let A = m a bound a group that appears or
vanishes, and C a group that changes inside: C^2 = (m s)^2, or 2 A^2 if that is less and no cell is
ever negative, because then |u - v|^2 <= |u|^2 + |v|^2.

    add_remove         G A^2; under a total cap floor(T/m) A^2 + (T mod m)^2 a^2
    substitution       the largest of min(2 (G - h), K - h) A^2 + h C^2 over 0 <= h <= min(G, K)
    public n (row)     C^2 with m = 1

Where the cells of a row are bounded one by one, a^2 and s^2 here are the sums of their squares (`Measurement.squares`).

Proof. The L2 norm is at most the L1 norm, so A bounds |u| in a group. With r_g rows in group g,
sum (r_g a)^2 is convex in r, largest at an extreme point of {r_g <= m, sum r_g <= T}: full groups
and one rest. Replacing a unit leaves i groups, enters j, changes h inside, i + h <= G, j + h <= G,
i + j + h <= K; for fixed h the rest counts A^2 each. The total is piecewise linear in h, so its
largest value is at one of three points (`_replaced`). A total cap there replaces G by the number of
groups that T rows can fill, ceil(T/m): the cells' squares are convex in the rows again.

Scalars whose law is not linear in the sensitivity lose their epsilon once per changed group (sequential
composition over the groups that one unit changes), see `measurements.scalar`.

Units: integer grid steps.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#what-one-unit-can-change`, `#l2-norms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from dprelease.query.bounded import BoundedQuery, Code, Condition, Cross, Primitive
from dprelease.query.derived import DerivedColumn, derived_columns
from dprelease.query.shortcuts import MISSING_COLUMN
from dprelease.schema.unit import Adjacency, Unit, UserUnit
from dprelease.statistics.clipped import limit_spreads
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Measure, Measurement

if TYPE_CHECKING:
    from dprelease.query.spec import Query


@dataclass(frozen=True, slots=True)
class Bounds:
    """Contribution bounds: `rows` per (unit, group), `groups` per unit, `total` rows per unit."""

    rows: int
    groups: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one unit moves a measurement's cells, in grid steps.

    Attributes:
        l1_per_group: within any one group; l1_over_groups: over all of them together.
        changed_groups: how many one unit can change.
        chain_length: additions or removals of one group's rows that make up any change.
        l2_squared: the squared L2 sensitivity over all groups and cells together, None where it is
            not proved.
        linf_per_component: of every single cell by itself, where the measurement states it.
        in_a_cell: within any one cell of one group; 0 where it is not stated, which means `l1_per_group`.
        sum_is_fixed: no unit can change the sum of the cells.
        one_sided_half: of each group take the larger of what one unit raises and what it lowers: these
            add up to at most half of `l1_over_groups`.
        types: (L1, squared L2) for each class of each type of change of a replaced unit (`statistics.types_of_change`);
            () where every type may move it by the whole. They depend on all blocks of a release: not compared.
        one_row: a unit has one row at most, so that every change is of one type alone.
        score_spread: of the scores by rank of both limits that are drawn before the cells; 0 if there
            are none.
    """

    l1_per_group: int
    l1_over_groups: int
    changed_groups: int
    chain_length: int
    l2_squared: int | None = field(default=None, repr=False)
    linf_per_component: tuple[int, ...] = field(default=(), repr=False)
    in_a_cell: int = field(default=0, repr=False)
    sum_is_fixed: bool = field(default=False, repr=False)
    one_sided_half: bool = field(default=False, repr=False)
    score_spread: int = field(default=0, repr=False)
    types: tuple[tuple[tuple[int, int], ...], ...] = field(default=(), repr=False, compare=False)
    one_row: bool = field(default=False, repr=False)


def unit_bounds(unit: Unit, max_rows: int | None, groups: int) -> Bounds:
    """Return the contribution bounds of `unit`; `max_rows` overrides m."""
    if isinstance(unit, UserUnit):
        return Bounds(
            max_rows or unit.max_rows_per_group, min(unit.max_groups, groups), unit.max_rows
        )
    return Bounds(1, 1)


def merged(bounds: Bounds, cells: int) -> Bounds:
    """Return the bounds of a table of `cells` whose every cell is the sum of some groups.

    All rows that a unit keeps, min(G m, T), may lie in one cell
    (`docs/theory/sensitivities-and-contribution-bounding.md#sums-of-groups`).

    >>> merged(Bounds(rows=2, groups=3, total=5), 50)
    Bounds(rows=5, groups=3, total=5)
    """
    most = bounds.groups * bounds.rows
    most = most if bounds.total is None else min(most, bounds.total)
    return Bounds(most, min(bounds.groups, cells), most)


def sensitivity(
    measurement: Measurement,
    bounds: Bounds,
    adjacency: Adjacency,
    groups: int,
    *,
    positive: bool = False,
) -> Sensitivity:
    """Return the sensitivity of `measurement` (module docstring; K = `groups`).

    Args:
        positive: whether no cell can be negative. This lowers the L2 sensitivity of several cells, and what
            a unit raises and what it lowers in a group are then at most m a each.

    >>> from dprelease.statistics.count import statistic as count
    >>> from dprelease.statistics.measurement import Context
    >>> from dprelease.schema.release_spec import StatisticSpec
    >>> of_rows = Context(StatisticSpec("count", "count", (), "count"), "count", cap=9)
    >>> sensitivity(count.measurements(of_rows)[0], Bounds(rows=3, groups=2), Adjacency.add_remove, 5)
    Sensitivity(l1_per_group=3, l1_over_groups=6, changed_groups=2, chain_length=2)
    """
    added, replaced = measurement.l1_added_row, measurement.l1_replaced_row
    squared = form_of(measurement).squared
    square, inside = measurement.squares or (added**2, replaced**2)
    if positive and len(measurement.cells) > 1:
        inside = min(inside, 2 * square)
    if measurement.public_rows is not None:
        half = _one_sided_half(measurement, 1, groups, replaced, positive=positive)
        alone = inside if squared else None
        one = min(added, replaced) if positive else replaced
        return Sensitivity(replaced, replaced, 1, 1, alone, in_a_cell=one, one_sided_half=half)
    m = 1 if measurement.per_unit else bounds.rows
    everywhere = bounds.groups * m
    if bounds.total is not None:
        everywhere = min(everywhere, bounds.total)
        m = min(m, bounds.total)
    if adjacency is Adjacency.add_remove:
        square *= everywhere // m * m * m + (everywhere % m) ** 2
        return Sensitivity(
            l1_per_group=m * added,
            l1_over_groups=everywhere * added,
            changed_groups=min(groups, bounds.groups),
            chain_length=bounds.groups,
            l2_squared=square if squared else None,
            linf_per_component=measurement.linf_per_component,
        )
    total = min(groups * m * replaced, 2 * everywhere * added)
    most = min(groups, -(-everywhere // m))
    return Sensitivity(
        l1_per_group=m * replaced,
        l1_over_groups=total,
        changed_groups=min(groups, 2 * bounds.groups),
        chain_length=2 * bounds.groups,
        l2_squared=m * m * _replaced(square, inside, most, groups) if squared else None,
        linf_per_component=measurement.linf_per_component,
        in_a_cell=m * (min(added, replaced) if positive else replaced),  # from 0 to m a
        one_sided_half=_one_sided_half(measurement, m, groups, total, positive=positive),
        one_row=everywhere == 1,
    )


def between_limits(
    measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
) -> Sensitivity:
    """Return the sensitivity of a winsorised measurement: of two drawn limits, and of cells of the rows between.

    Its `score_spread` is that of both drawn limits together, over all groups.

    Raises:
        ValueError: its targets are not two limits.
    """
    added, replaced = limit_spreads(measurement.weights)
    ranked = replace(measurement, l1_added_row=added, l1_replaced_row=replaced)
    spread = sensitivity(ranked, bounds, adjacency, groups).l1_over_groups
    cells = replace(measurement, form="linear")
    worst = sensitivity(cells, bounds, adjacency, groups, positive=True)
    return replace(worst, score_spread=spread)


def _one_sided_half(
    measurement: Measurement, m: int, groups: int, total: int, *, positive: bool
) -> bool:
    """Return `Sensitivity.one_sided_half` of replaced units with at most m rows in each of all groups.

    What comes and what goes in one group is at most m a each where no cell is negative.
    """
    return positive and 2 * groups * m * measurement.l1_added_row <= total


def _replaced(outside: int, inside: int, most: int, groups: int) -> int:
    """Return the squared L2 sensitivity of a replaced unit with at most `most` groups before and after."""
    changed = {0, max(0, 2 * most - groups), min(most, groups)}
    return max(min(2 * (most - h), groups - h) * outside + h * inside for h in changed)


def stacked(level: Sensitivity, count: int) -> Sensitivity:
    """Return the sensitivity of `count` histograms of the same rows side by side, each of which moves like `level`.

    `docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`. `in_a_cell` and `one_sided_half` are not
    stated of several: no law of a tree needs them.
    """
    if count == 1:
        return level
    square = None if level.l2_squared is None else count * level.l2_squared
    return replace(
        level,
        l1_per_group=count * level.l1_per_group,
        l1_over_groups=count * level.l1_over_groups,
        l2_squared=square,
        in_a_cell=0,
        one_sided_half=False,
    )


def sensitivity_of_levels(
    measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int, count: int
) -> Sensitivity:
    """Return the sensitivity of `count` levels of a tree, each a histogram of disjoint bins, whatever it states."""
    level = replace(
        measurement,
        form="linear",
        l1_added_row=1,
        l1_replaced_row=2,
        per_unit=False,
        squares=(),
        linf_per_component=(),
    )
    return stacked(sensitivity(level, bounds, adjacency, groups, positive=True), count)


def bounded_query(
    query: Query, measurements: tuple[tuple[Measurement, int | None], ...]
) -> BoundedQuery:
    """Return the engine's task: the primitives of all `measurements`, each with its own m in place of the unit's.

    Equal primitives are computed once. Units: codes in steps above each column's lower end.
    """
    schema = query.schema
    codes: dict[Code, int] = {}
    known: dict[int, int] = {}
    primitives: dict[Primitive, None] = {}  # in order, each once
    for measurement, override in measurements:
        m = unit_bounds(schema.unit, override, query.groups.count).rows
        for measure in measurement.measures:
            primitive = _primitive(measure, codes, known, m)
            primitives.setdefault(primitive)
    unit = schema.unit
    return BoundedQuery(
        columns=tuple(query.columns.values()),
        groups=query.groups,
        codes=tuple(codes),
        primitives=tuple(primitives),
        where=query.where,
        window=query.window,
        user=unit.column if isinstance(unit, UserUnit) else None,
        max_groups=min(unit.max_groups, query.groups.count) if isinstance(unit, UserUnit) else 1,
        max_rows=max((p.max_rows or 1 for p in primitives), default=1),
        max_rows_total=unit.max_rows if isinstance(unit, UserUnit) else None,
        derived=_derived(query, tuple(codes)),
        view=query.view,
        per=query.intervals,
        missing=MISSING_COLUMN in query.spec.allow,
    )


def _derived(query: Query, codes: Sequence[Code]) -> tuple[DerivedColumn, ...]:
    """Return the derived columns that the query reads, each after those it is made from."""
    names = list(map(attrgetter("name"), query.groups.columns))
    for code in codes:
        if not isinstance(code, Cross):
            of = code.expression.columns if isinstance(code, Condition) else {code.column}
            names += sorted(of)
    names += sorted(query.where.columns) if query.where is not None else []
    names += [query.window.column] if query.window is not None else []
    return derived_columns(names, query.columns)


def _primitive(
    measure: Measure, codes: dict[Code, int], known: dict[int, int], max_rows: int
) -> Primitive:
    """Return the measure's primitive; codes that are new get the next places in `codes`.

    Args:
        known: places by object, which many measures share: the hash of a code takes long.
    """
    for code in (measure.code, measure.other):
        if code is not None and id(code) not in known:
            known[id(code)] = codes.setdefault(code, len(codes))
    return Primitive(
        kind=measure.kind,
        code=known.get(id(measure.code)),
        power=measure.power,
        low=measure.low,
        high=measure.high,
        max_rows=max_rows,
        other=known.get(id(measure.other)),
        other_power=measure.other_power,
        near=measure.near,
        cells=measure.cells,
    )


class PrimitivePlaces:
    """Where each measure's primitive is in a task: made once, and asked for every measurement."""

    def __init__(self, task: BoundedQuery) -> None:
        self._codes = {code: i for i, code in enumerate(task.codes)}
        self._places = {p: i for i, p in enumerate(task.primitives)}

    def find(self, measurement: Measurement, max_rows: int) -> tuple[int, ...]:
        """Return the indices of `measurement`'s measures among the task's primitives."""
        known: dict[int, int] = {}
        wanted = (_primitive(m, self._codes, known, max_rows) for m in measurement.measures)
        return tuple(self._places[primitive] for primitive in wanted)
