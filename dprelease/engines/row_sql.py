"""The first stages of a bounded query's statement: rows as typed, cleaned and derived columns.

    viewed    the curator's view, where the query has one (`view_sql`)
    typed     declared types, NaN and unparsable cells null; the unit's canonical text
    stepped0  of columns that expressions read: their steps, where they lie on a grid
    cleaned0  and their cleaned values (`clean_sql`), the only ones that expressions read
    derived1  columns made from those; then stepped1, cleaned1, derived2 where more stand on them

A row is read by itself and public constants alone. Derived columns of one level share a stage, so
that an expression stands over named columns and is written once, however often it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from functools import partial

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.bounding_sql import Stage
from dprelease.engines.clean_sql import (
    boolean_cleaned,
    label_cleaned,
    number_cleaned,
    snapped_cleaned,
    spelt,
)
from dprelease.engines.code_sql import (
    aliased,
    column,
    is_null,
    named_table,
    not_null,
    steps,
    whole_steps,
)
from dprelease.engines.interval_sql import first_day, stretches_of
from dprelease.engines.physical import Physical
from dprelease.engines.request import used_columns
from dprelease.engines.typed_sql import Make, canonical, case, data_type, number, try_cast, typed
from dprelease.engines.view_sql import ViewStatement
from dprelease.query.bounded import BoundedQuery, Code, Fixed, Label
from dprelease.query.cleaning import is_cleaned, read_by_expressions, snapping
from dprelease.query.nodes import Expression
from dprelease.query.sql import to_sql
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import texts_of

_WHOLE = (Physical.whole, Physical.unsigned)
UNIT = "unit"
"""The column of the unit's id: what is stored, never what its declared kind makes of it."""


class RowStages:
    """Adds one stage after the other; `self.last` is the newest stage's name.

    Trees are put together in place (`copy=False`): sqlglot's copies would make the time grow
    with the square of the number of codes.
    """

    def __init__(
        self,
        query: BoundedQuery,
        stored: Mapping[str, tuple[str, Physical]],
        rows_table: str,
        view: ViewStatement | None,
        carried: str | None,
    ) -> None:
        self.query = query
        self.carried = carried
        self.stored = stored
        self.columns = used_columns(query)
        self.kinds = {
            c.name: c.kind for c in (*query.groups.columns, *query.columns, *self.columns)
        }
        self.place = {c.name: f"x{i}" for i, c in enumerate(self.columns)}
        self.clean: dict[str, str] = {}
        self.snapped: dict[Code, str] = {}
        self.whole = {
            c.name: f"i{i}"
            for i, c in enumerate(self.columns)
            if c.name in stored and stored[c.name][1] in _WHOLE and c.kind is not Kind.boolean
        }
        self.parameters: dict[str, object] = {}
        self.tables: dict[str, pa.Table] = {}
        self.stages: list[Stage] = []
        self.last = rows_table
        if view is not None:
            self.parameters.update(view.parameters)
            self._stage("viewed", view.tree)

    # -- pieces ------------------------------------------------------------------------------

    def _select(self, *columns: exp.Expression) -> exp.Select:
        """Return a SELECT over the newest stage, which is called `t`."""
        return exp.Select(expressions=list(columns)).from_(named_table(self.last, "t"), copy=False)

    def _stage(self, name: str, select: exp.Query, *, materialized: bool = False) -> None:
        self.stages.append(Stage(name, select, materialized))
        self.last = name

    def _bind(self, value: object, kind: str, name: str = "") -> exp.Expression:
        name = name or f"c{len(self.parameters)}"
        self.parameters[name] = value
        parameter = exp.Parameter(this=exp.Var(this=name))
        return exp.Cast(this=parameter, to=data_type(kind))

    def _value(self, name: str) -> exp.Expression:
        return column(self.place[name], "t")

    def _clean(self, name: str) -> exp.Expression:
        """Return a column's cleaned value, for which a stage has been made if it has any."""
        return column(self.clean.get(name, self.place[name]), "t")

    def _meeting(
        self, select: exp.Select, name: str, alias: str, declared: Column | None, cell: Make
    ) -> tuple[exp.Select, Callable[[str], exp.Expression]]:
        """Join the public table `name` with the cells whose text is its `value`, as `schema.labels` says.

        By the text as it stands, then what met none by its spelling: patterns take longer than joins.

        Returns:
            The joined rows, and what makes a column of the table, null where a cell met no row.
        """
        same = exp.EQ(this=column("value", alias), expression=cell())
        select = select.join(named_table(name, alias), on=same, join_type="left", copy=False)
        if declared is None or not declared.values:
            return select, lambda place: column(place, alias)
        other = f"{alias}_spelt"
        unmet = case((is_null(column("value", alias)), spelt(declared, cell)))
        same = exp.EQ(this=column("value", other), expression=unmet)
        select = select.join(named_table(name, other), on=same, join_type="left", copy=False)
        return select, lambda place: exp.Coalesce(
            this=column(place, alias), expressions=[column(place, other)]
        )

    def _met(self, declared: Column) -> exp.Expression:
        """Return one text of all cells that meet the same declared value."""
        return spelt(declared, partial(self._value, declared.name))

    def _expression(self, expression: Expression, prefix: str) -> exp.Expression:
        tree, parameters = to_sql(expression, self._clean, prefix=prefix)
        self.parameters.update(parameters)
        return tree

    # -- stages ------------------------------------------------------------------------------

    def _typed(self, *, nulls: bool = False) -> None:
        """Add the declared types; `nulls` adds whether each stored cell is null."""
        parts = [] if self.carried is None else [column(self.carried, "t")]
        for declared in self.columns:
            identifier, physical = self.stored[declared.name]

            def make(identifier: str = identifier) -> exp.Expression:
                return column(identifier)

            parts.append(aliased(typed(declared.kind, physical, make), self.place[declared.name]))
            if nulls:
                parts.append(aliased(is_null(make()), f"r{self.place[declared.name][1:]}"))
            if declared.name == self.query.user:
                unit = make() if self._whole_unit else canonical(physical, make)
                parts.append(aliased(unit, UNIT))
            if declared.name in self.whole:
                parts.append(aliased(self._whole(declared.name, make), self.whole[declared.name]))
        # with no column at all the rows still have to come through
        self._stage("typed", self._select(*(parts or [aliased(number(1), "row")])))

    def _whole(self, name: str, make: Callable[[], exp.Expression]) -> exp.Expression:
        """Return a stored whole number, as BIGINT if codes are made of it and it always fits.

        Cast first and clipped then, a code takes less time than the other way round.
        """
        return try_cast(make(), "BIGINT") if self.stored[name][1] is Physical.whole else make()

    def _cleaned_and_derived(self) -> None:
        """Clean what is stored; make what is derived from it, clean that, and so on upwards."""
        self._cleaned([c.name for c in self.columns], 0)
        waiting = dict(enumerate(self.query.derived))
        level = 0
        while waiting:
            level += 1
            made = {
                i: d
                for i, d in waiting.items()
                if not any(w.column in d.expression.columns for w in waiting.values())
            }
            parts = [
                aliased(self._expression(d.expression, f"d{i}_"), f"y{i}") for i, d in made.items()
            ]
            self._stage(f"derived{level}", self._select(self._every(), *parts))
            self.place |= {d.column: f"y{i}" for i, d in made.items()}
            waiting = {i: d for i, d in waiting.items() if i not in made}
            self._cleaned([d.column for d in made.values()], level)

    @staticmethod
    def _every() -> exp.Expression:
        return exp.Column(this=exp.Star(), table=exp.to_identifier("t"))

    def _cleaned(self, names: list[str], level: int) -> None:
        """Add the cleaned values of those columns whose cleaning changes what reads them."""
        read = set(read_by_expressions(self.query))
        read |= {c.column for c in self.query.codes if isinstance(c, Label) and self._renamed(c)}
        declared = {c.name: c for c in self.query.columns}
        wanted = [
            declared[n] for n in names if n in read and n in declared and is_cleaned(declared[n])
        ]
        if not wanted:
            return
        grids = {c.name: code for c in wanted if (code := snapping(c)) is not None}
        if grids:
            steps_of = [
                aliased(self._steps(code), f"s_{self.place[n]}") for n, code in grids.items()
            ]
            self._stage(f"stepped{level}", self._select(self._every(), *steps_of))
            self.snapped |= {
                replace(c, default=None): f"s_{self.place[n]}" for n, c in grids.items()
            }
        select = self._select(self._every())
        for one in wanted:
            place = self.place[one.name]
            make = partial(column, place, "t")
            if one.name in grids:
                value = snapped_cleaned(grids[one.name], f"s_{place}", self._bind)
            elif one.kind is Kind.boolean:
                value = boolean_cleaned(one, make)
            elif one.kind is Kind.category:
                select, known = self._join_declared(select, one)
                value = label_cleaned(one, make, known, self._bind)
            else:
                value = number_cleaned(one, make, self._bind)
            select = select.select(aliased(value, f"z_{place}"), copy=False)
            self.clean[one.name] = f"z_{place}"
        self._stage(f"cleaned{level}", select)

    def _renamed(self, code: Label) -> bool:
        """Return whether another cell than a declared value may count as one."""
        found = next((c for c in self.query.columns if c.name == code.column), None)
        return found is not None and bool({found.other, found.null_label} & set(code.values))

    def _join_declared(
        self, select: exp.Select, declared: Column
    ) -> tuple[exp.Select, Callable[[], exp.Expression]]:
        """Join a category's declared values; a column without them has any value."""
        make = partial(column, self.place[declared.name], "t")
        if not declared.values:
            return select, make
        name = alias = f"known_{self.place[declared.name]}"
        texts = texts_of(declared.values, declared.lists)
        columns = {"value": texts.keys(), "label": texts.values()}
        self.tables[name] = pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})
        select, found = self._meeting(select, name, alias, declared, make)
        return select, partial(found, "label")

    def _interval(self) -> exp.Expression:
        """Return the first day of the row's interval; see `interval_sql`."""
        per = self.query.per
        assert per is not None
        return first_day(per, stretches_of(self.query), partial(self._value, per.column))

    def _inside(self) -> list[exp.Expression]:
        """Return what holds of the rows in the query's window; of all rows that have a time, with `per`."""
        window = self.query.window
        out: list[exp.Expression] = []
        for compare, end in (
            () if window is None else ((exp.GTE, window.start), (exp.LT, window.end))
        ):
            assert window is not None
            moment = try_cast(self._value(window.column), "TIMESTAMP")
            naive = end if end.tzinfo is None else end.astimezone(UTC).replace(tzinfo=None)
            out.append(compare(this=moment, expression=self._bind(naive, "TIMESTAMP")))
        if self.query.per is not None:
            out.append(not_null(try_cast(self._value(self.query.per.column), "TIMESTAMP")))
        return out

    @property
    def _whole_unit(self) -> bool:
        """Return whether units are stored as whole numbers: equal where their texts are, and sorted faster."""
        user = self.query.user
        return user is not None and user in self.stored and self.stored[user][1] in _WHOLE

    def _steps(self, code: Fixed) -> exp.Expression:
        made = self.snapped.get(replace(code, default=None))
        if made is not None:
            return column(made, "t")
        whole = self.whole.get(code.column)
        if whole is not None and code.step == 1:
            return whole_steps(code, partial(column, whole, "t"))
        return steps(code, partial(self._double, code.column), self._bind)

    def _double(self, name: str) -> exp.Expression:
        boolean = self.kinds[name] is Kind.boolean
        return try_cast(self._value(name), "DOUBLE") if boolean else self._value(name)
