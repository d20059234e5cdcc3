"""Contribution bounding as SQL: which rows of a unit count, and in which place of its order.

    many      rows of the units that could exceed a cap (`light_apart`; else all rows)
    numbered  rows of one (unit, group) in the order of a salted hash; one of them where they are `alike`
    ranked    groups of one unit in the order of a salted hash
    capped    the groups that a unit keeps; rows of one unit over its groups, under a total cap
    bounded   `capped`, and the rows of the other units as they are (`light_apart`)
    placed    where persons are counted in cells of several groups: a row of each user and cell that is
              the first, of all that count

Stability. The windows order rows of one unit by values of that unit's rows alone, so another unit's
rows never move its choice; a unit keeps at most `max_groups` groups (ties of the hash are broken by
the group, so DENSE_RANK cannot keep more), `max_rows` rows in each and `max_rows_total` in all. Rows
are never ordered by table order: it would let a release depend on how a file was written. No
tie-breaker follows a row's hash: equal hashes are equal rows. The total cap counts a unit's first
rows of all groups before its second rows, so it cuts the same rows for every `max_rows` and always
leaves row 1 of a (unit, group) in before row 2.

Light units. A unit of at most `least_cap` rows exceeds no cap: every primitive counts all its rows,
whatever their order, so they need none, and where most units are light the sorting is gone. A unit
is light or not by its own rows alone. The rows are counted and taken from one materialised table:
of a source read twice, the second reading could hold more rows of a unit than were counted.

With `per` the unit is a pair: the user `u` and the interval `i`, which stand together wherever a unit
does. Persons are then counted as different users among the kept rows: a pair that comes or goes moves
that count by at most one in each of its groups.

The hash is the MD5 of salt, unit, group (and codes) joined by bars; its digits count from the last on (`hash_sql`).
Codes and groups pass the windows in the narrowest type that holds them, and leave them as BIGINT.

Not chosen: a list aggregate of the first rows (`arg_min(…, n)`), which cannot spill; COUNT over
each unit's window, which sorts everything once more.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#contribution-bounding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dprelease.engines.code_sql import aliased, all_of, column, first_row, named_table
from dprelease.engines.hash_sql import hash_order
from dprelease.engines.request import row_cap
from dprelease.engines.typed_sql import number, try_cast
from dprelease.query.bounded import BoundedQuery

CELLS = "group_cells"
"""The public table of every group `g` and, per map of the groups, its cell m0, m1, ..."""

INTERVAL = "i"
"""The column of a row's interval, where the unit has one."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One named SELECT of a statement; a `materialized` one is computed once, however often it is read."""

    name: str
    tree: exp.Query
    materialized: bool = False


def narrow(largest: int) -> str:
    """Return the narrowest type of both engines that holds 0..largest."""
    return next(
        (
            kind
            for kind, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INT", 31))
            if largest < 2**bits
        ),
        "BIGINT",
    )


@dataclass(frozen=True, slots=True)
class Bounding:
    """The stages that bound what each unit contributes.

    Args:
        query: of a user unit.
        unit_text: makes the text of the unit `u`, for the hash.
        salt: makes the salt's text.
        light_apart: spare light units the windows; only where a stage can be kept.
    """

    query: BoundedQuery
    unit_text: Callable[[], exp.Expression]
    salt: Callable[[], exp.Expression]
    light_apart: bool

    def stages(self, rows: str) -> list[Stage]:
        """Return the stages over the kept stage `rows`: g, the `keys` of a unit, and the codes v0, v1 on.

        The last one has g, with `per` or cells of groups u, the codes as BIGINT, n (a row's number in its unit and group) and, under
        a total cap, c (its number in its unit), and f0, f1 on per map of the groups.
        """
        found = [] if not self.light_apart else [self._heavy(rows), self._many(rows)]
        found.append(self._numbered(found[-1].name if found else rows))
        found.append(self._ranked())
        found.append(self._capped())
        if self.light_apart:
            found.append(self._bounded(rows))
        if self.query.cell_maps:
            found.append(self._placed(found[-1].name))
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell units apart."""
        return ("u",) if self.query.per is None else ("u", INTERVAL)

    @property
    def most_rows(self) -> int:
        """The largest row number per (unit, group) that any primitive counts."""
        return max((row_cap(self.query, p) for p in self.query.primitives), default=1)

    def _passed(self) -> list[str]:
        """Return the columns beside the codes that the sums read."""
        return ["g", "u"] if self.query.per is not None or self.query.cell_maps else ["g"]

    def _codes(self) -> list[str]:
        return [f"v{j}" for j in range(len(self.query.codes))]

    def _wide(self) -> list[exp.Expression]:
        return [aliased(try_cast(column(v, "t"), "BIGINT"), v) for v in self._codes()]

    # -- light units -------------------------------------------------------------------------

    def _heavy(self, rows: str) -> Stage:
        """Return the units of more rows than any of them may lose."""
        many = exp.GT(this=exp.Count(this=exp.Star()), expression=number(least_cap(self.query)))
        units = _from(rows, *map(column, self.keys)).group_by(*map(column, self.keys), copy=False)
        return Stage("heavy", units.having(many, copy=False), materialized=True)

    def _split(self, select: exp.Select, kind: str) -> exp.Select:
        same = all_of(exp.EQ(this=column(k, "t"), expression=column(k, "h")) for k in self.keys)
        return select.join(named_table("heavy", "h"), on=same, join_type=kind, copy=False)

    def _many(self, rows: str) -> Stage:
        every = [column(name, "t") for name in ("g", *self.keys, *self._codes())]
        return Stage("many", self._split(_from(rows, *every), "semi"))

    def _bounded(self, rows: str) -> Stage:
        first = ["n"] if self.query.max_rows_total is None else ["n", "c"]
        light = _from(
            rows,
            *(column(name, "t") for name in self._passed()),
            *self._wide(),
            *(aliased(number(1), name) for name in first),
        )
        names = (*self._passed(), *self._codes(), *first)
        windowed = _from("capped", *map(column, names))
        both = exp.union(windowed, self._split(light, "anti"), distinct=False, copy=False)
        return Stage("bounded", both)

    # -- windows -----------------------------------------------------------------------------

    def _hash(self, parts: list[exp.Expression]) -> exp.Expression:
        joined = self.salt()
        for part in parts:
            bar = exp.DPipe(this=joined, expression=exp.Literal.string("|"), safe=True)
            joined = exp.DPipe(this=bar, expression=part, safe=True)
        return hash_order(joined)

    def _unit(self) -> list[exp.Expression]:
        """Return the texts of the unit and the group."""
        interval = () if self.query.per is None else (INTERVAL,)
        return [self.unit_text(), *(try_cast(column(n), "VARCHAR") for n in (*interval, "g"))]

    def _numbered(self, rows: str) -> Stage:
        cells: list[exp.Expression] = [
            exp.Coalesce(this=try_cast(column(v), "VARCHAR"), expressions=[exp.Literal.string("-")])
            for v in self._codes()
        ]
        if alike(self.query):
            return Stage("numbered", _from(rows, exp.Star(), aliased(number(1), "n")).distinct())
        key = self._hash([*self._unit(), *cells])
        row = _ordered(exp.RowNumber(), [*self.keys, "g"], [key])
        return Stage("numbered", _from(rows, exp.Star(), aliased(row, "n")))

    def _ranked(self) -> Stage:
        select = _from("numbered", exp.Star())
        # rows before groups: every (unit, group) keeps its row 1, so the ranks are the same, and
        # the window sees fewer rows
        if _drops_groups(self.query) or self.query.max_rows_total is not None:
            rank = _ordered(exp.DenseRank(), self.keys, [self._hash(self._unit()), column("g")])
            select = select.select(aliased(rank, "r"), copy=False)
        few = exp.LTE(this=column("n"), expression=number(self.most_rows))
        return Stage("ranked", select.where(few, copy=False))

    def _capped(self) -> Stage:
        select = _from("ranked", *map(column, self._passed()), *self._wide(), column("n"))
        if _drops_groups(self.query):
            few = exp.LTE(this=column("r"), expression=number(self.query.max_groups))
            select = select.where(few, copy=False)
        if self.query.max_rows_total is not None:
            row = _ordered(exp.RowNumber(), self.keys, [column("n"), column("r")])
            select = select.select(aliased(row, "c"), copy=False)
        return Stage("capped", select)

    def _placed(self, rows: str) -> Stage:
        """Number each user's rows in a cell by their groups; row 1 of a group comes before all others.

        A user's rows of all intervals are numbered together: the user is counted once.
        """
        select = _from(rows, exp.Column(this=exp.Star(), table=exp.to_identifier("t")))
        order = [column("n", "t"), column("g", "t")]
        for j in range(len(self.query.cell_maps)):
            apart = [column("u", "t"), column(f"m{j}", "k")]
            first = _ordered(exp.RowNumber(), apart, [key.copy() for key in order])
            select = select.select(aliased(first, first_row(j)), copy=False)
        same = exp.EQ(this=column("g", "k"), expression=column("g", "t"))
        select = select.join(named_table(CELLS, "k"), on=same, copy=False)
        if self.query.max_rows_total is not None:
            few = exp.LTE(this=column("c", "t"), expression=number(self.query.max_rows_total))
            select = select.where(few, copy=False)
        return Stage("placed", select)


def alike(query: BoundedQuery) -> bool:
    """Return whether all rows of a unit and group are equal and one of them counts: then none needs a place."""
    return not query.codes and all(row_cap(query, p) == 1 for p in query.primitives)


def least_cap(query: BoundedQuery) -> int:
    """Return the most rows of a unit that can exceed no cap."""
    caps = [row_cap(query, p) for p in query.primitives]
    if _drops_groups(query):
        caps.append(query.max_groups)
    if query.max_rows_total is not None:
        caps.append(query.max_rows_total)
    return min(caps, default=1)


def _drops_groups(query: BoundedQuery) -> bool:
    return query.groups.count > query.max_groups


def _from(stage: str, *columns: exp.Expression) -> exp.Select:
    """Return a SELECT over a stage, which is called `t`."""
    return exp.Select(expressions=list(columns)).from_(named_table(stage, "t"), copy=False)


def _ordered(
    function: exp.Expression, within: Sequence[str | exp.Expression], by: list[exp.Expression]
) -> exp.Expression:
    order = exp.Order(expressions=[exp.Ordered(this=key) for key in by])
    apart = [column(c) if isinstance(c, str) else c for c in within]
    return exp.Window(this=function, partition_by=apart, order=order)
