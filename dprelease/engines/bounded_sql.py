"""A bounded query as one SELECT that returns every primitive of every group.

    (rows)    viewed, typed, cleaned and derived columns (`row_sql`)
    filtered  window, filter, unit not null
    labelled  key labels by joins with public tables
    stepped   group index; codes as steps on the grid's hull, or 1/0 of a condition
    coded     nearest allowed step, ties to the lower; nulls to their default
    (bounded) user units: the rows that count, and their numbers (`bounding_sql`)
    (last)    GROUP BY group; of a graph, its different edges; codes near a rank (`tally`)

Two forms are quicker in DuckDB and give the same sums (`quick`). Light units are spared the windows
(`bounding_sql`). With one key column and the row as unit, rows are summed by the key's text first
(`summed`), and the few sums labelled and summed again, in two thirds of the time: DuckDB keeps a
Parquet file's dictionary of texts through a GROUP BY, and loses it in a join. Texts that are not
declared are then summed as well before they are dropped: many different ones need memory, and
spill like the rows of a user unit.

Stability. Up to `coded` each row maps to at most one row by a function of itself and public
constants; what follows bounds each unit by its own rows alone.

Sums are of integers (BIGINT into HUGEINT): exact, independent of order and of threads.
Identifiers are ours or quoted; salt, filter constants and window ends are bound parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.bounding_sql import CELLS, INTERVAL, Bounding, alike, narrow
from dprelease.engines.code_sql import (
    aggregated,
    aliased,
    code_of_steps,
    column,
    not_null,
)
from dprelease.engines.label_sql import LabelStages
from dprelease.engines.physical import Physical
from dprelease.engines.row_sql import UNIT
from dprelease.engines.tally import SETS, Tallies
from dprelease.engines.typed_sql import case, number, try_cast
from dprelease.engines.view_sql import ViewStatement
from dprelease.query.bounded import BoundedQuery, Cross, Fixed, Label, Primitive, largest_code

SALT = "salt"
"""The name that the salt is bound by."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT over the rows and public tables.

    Attributes:
        tree: sqlglot tree; its rows are (group index, primitive 0, primitive 1, …), with tallies
            what `tally.Counted` reads; of a graph, (smaller node, greater node).
        parameters: bound by name.
        tables: public key tables to register under their names.
    """

    tree: exp.Expression
    parameters: Mapping[str, object]
    tables: Mapping[str, pa.Table]

    def in_duckdb(self) -> tuple[str, dict[str, object]]:
        """Return the text and what it binds. The tree is used up: nobody reads it again."""
        sql = self.tree.sql(dialect="duckdb", copy=False)
        return sql, {k: v for k, v in self.parameters.items() if f"${k}" in sql}


def _adds_up(query: BoundedQuery) -> bool:
    """Return whether sums by the text of the one key can be added up to the sums by its label."""
    # digit products have the kind they are made of
    added = ("rows", "persons", "power", "product", "between")
    alone = query.user is None and len(query.groups.columns) == 1
    return alone and all(p.kind in added for p in query.primitives)


class BoundedSelect(LabelStages):
    """The statements of one bounded query: the stages from the filter to the sums, behind those of the rows.

    Of each only one is made.

    Args:
        query: checked by `request.check_query`.
        stored: declared column name -> (identifier in `rows_table`, storage class).
        salt: orders rows and groups of a user unit.
        rows_table: the table or view with the rows.
        view: the query's view, which the rows come from instead.
        quick: take the forms that are quicker in DuckDB, and for row units and light ones in PostgreSQL; they give the same.
        carried: a column of `rows_table` that `passing` returns.
    """

    def __init__(
        self,
        query: BoundedQuery,
        stored: Mapping[str, tuple[str, Physical]],
        salt: bytes = b"",
        *,
        rows_table: str = "source_rows",
        view: ViewStatement | None = None,
        quick: bool = False,
        carried: str | None = None,
    ) -> None:
        super().__init__(query, stored, rows_table, view, carried)
        self.salt = salt.hex()
        self.quick = quick
        self.texts_first = quick and _adds_up(query)
        apart = quick and query.user is not None and not alike(query)
        self.bounding = Bounding(query, self._unit_text, self._salt, light_apart=apart)

    def sums(self) -> Statement:
        """Return the statement that computes the query."""
        self._rows()
        self._coded()
        if self.query.user is not None:
            self._bounded()
        if self.texts_first:
            return self._finished(self._sums_of_texts())
        edges = next((p for p in self.query.primitives if p.kind == "edges"), None)
        return self._finished(self._sums() if edges is None else self._edges(edges))

    def counting(self) -> Statement:
        """Return the statement of the rows that count, before contributions are bounded; the query is of a user unit.

        Its rows are (group index `g`, unit `u`, with `per` its interval `i`), one per source row in the window that passes
        the filter and has a unit and a declared key. For the curator's checks: no release runs it.
        """
        self._rows()
        return self._finished(self._select(column("g"), *map(column, self.bounding.keys)))

    def seen(self) -> Statement:
        """Return the statement of the window's rows as a release reads them, filtered or not.

        Its rows have, in the order of `request.used_columns`, whether the stored cell is null (`r0`, …)
        and the typed value (`x0`, …), the values of the derived columns (`y0`, …), and the filter's
        (`passes`, true where there is none). For the curator's checks: no release runs it.
        """
        self._typed(nulls=True)
        self._cleaned_and_derived()
        where = self.query.where
        passes = exp.true() if where is None else self._expression(where, "w")
        select = self._select(self._every(), aliased(passes, "passes"))
        return self._finished(select.where(*self._inside(), copy=False))

    def passing(self) -> Statement:
        """Return the statement of what `carried` has in the window's rows that pass the filter, each once; the query is of rows."""
        assert self.carried is not None
        self._typed()
        self._cleaned_and_derived()
        self._filtered()
        return self._finished(self._select(column(self.carried)).distinct(copy=False))

    def _rows(self) -> None:
        self._typed()
        self._cleaned_and_derived()
        self._filtered()
        self._labelled()
        self._stepped()

    def _finished(self, tree: exp.Select) -> Statement:
        for stage in self.stages:
            name, materialized = exp.to_identifier(stage.name), stage.materialized or None
            tree = tree.with_(name, as_=stage.tree, materialized=materialized, copy=False)
        return Statement(tree, self.parameters, self.tables)

    # -- stages ------------------------------------------------------------------------------

    def _filtered(self) -> None:
        """Keep the rows that count: before the labels are joined, as DuckDB moves no filter here."""
        query = self.query
        conditions = self._inside()
        if query.user is not None:
            conditions.append(not_null(column(UNIT, "t")))
        if query.where is not None:
            conditions.append(self._expression(query.where, "w"))
        ends = self._ends()
        if ends:  # self-loops, as texts: comparing node numbers would cross both node tables
            declared = {c.name: c for c in (*query.columns, *query.groups.columns)}
            one, other = (self._met(declared[name]) for name in ends)
            conditions.append(exp.NEQ(this=one, expression=other))
        if conditions:
            self._stage("filtered", self._select(self._every()).where(*conditions, copy=False))

    def _labelled(self) -> None:
        columns = self.query.groups.columns
        if self.texts_first or not columns:
            return
        select = self._select(self._every())
        for i in range(len(columns)):
            select = self._with_label(select, i)
        self._stage("labelled", select)

    def _ends(self) -> list[str]:
        """Return the two columns of a graph's nodes; equal labels are equal texts, as none repeats."""
        edges = [p for p in self.query.primitives if p.kind == "edges"]
        codes = [self.query.codes[at] for p in edges for at in (p.code, p.other) if at is not None]
        return [c.column for c in codes if isinstance(c, Label)]

    def _stepped(self) -> None:
        query = self.query
        width = 0 if query.groups.whole else len(query.groups.columns)
        group = (number(0), column("g0", "t"), column("g", "k"))[min(width, 2)]
        parts = [aliased(group, "g")]
        if self.texts_first:
            parts = [self._key()]
        if query.user is not None:
            parts.append(aliased(column(UNIT, "t"), "u"))
        if query.per is not None:
            parts.append(aliased(self._interval(), INTERVAL))
        for j, code in enumerate(query.codes):
            if isinstance(code, Fixed):
                value = self._steps(code)
            elif isinstance(code, Label):
                continue
            elif isinstance(code, Cross):
                value = self._cell(code)
            else:
                condition = self._expression(code.expression, f"q{j}_")
                negated = exp.Not(this=exp.Paren(this=condition.copy()))
                value = case((condition, number(1)), (negated, number(0)))
            parts.append(aliased(value, f"s{j}"))
        select = self._select(*parts)
        if width == 1 and not self.texts_first:
            select = select.where(not_null(column("g0", "t")), copy=False)
        elif width > 1:
            select = self._join_keys(select, width)
        elif query.groups.whole:
            for i in range(len(query.groups.columns)):
                select = select.where(not_null(column(f"g{i}", "t")), copy=False)
        for j, code in enumerate(query.codes):
            if isinstance(code, Label):
                select, value = self._join_values(select, j, code)
                select = select.select(aliased(value, f"s{j}"), copy=False)
        self._stage("stepped", select)

    def _cell(self, code: Cross) -> exp.Expression:
        """Return the row's cell of a cross: its labels' numbers, the last one fastest."""
        places = {c.name: i for i, c in enumerate(self.query.groups.columns)}
        value: exp.Expression = number(0)
        for name, size in zip(code.crossed, code.sizes, strict=True):
            above = exp.Mul(this=exp.Paren(this=value), expression=number(size))
            value = exp.Add(this=above, expression=column(f"g{places[name]}", "t"))
        return value

    def _unit_text(self) -> exp.Expression:
        return try_cast(column("u"), "VARCHAR") if self._whole_unit else column("u")

    def _coded(self) -> None:
        group = self._key() if self.texts_first else column("g")
        user = self.query.user is not None
        if user:  # rows of a user unit are sorted, and may spill: narrow ones take less of both
            groups = self.query.groups
            kind = "VARCHAR" if groups.found else narrow(len(groups.keys))
            group = aliased(try_cast(column("g"), kind), "g")
        parts = [group, *(column(name) for name in self.bounding.keys)] if user else [group]
        for j, code in enumerate(self.query.codes):
            kind = narrow(largest_code(code)) if user else "BIGINT"
            # labels and conditions are codes already
            value = code_of_steps(code, f"s{j}") if isinstance(code, Fixed) else column(f"s{j}")
            parts.append(aliased(try_cast(value, kind), f"v{j}"))
        self._stage("coded", self._select(*parts), materialized=self.bounding.light_apart)

    def _bounded(self) -> None:
        if maps := self.query.cell_maps:
            places = pa.array(range(len(self.query.groups.keys)), pa.int32())
            cells = {f"m{j}": pa.array(of, pa.int32()) for j, of in enumerate(maps)}
            self.tables[CELLS] = pa.table({"g": places, **cells})
        for stage in self.bounding.stages(self.last):
            self._stage(stage.name, stage.tree, materialized=stage.materialized)

    def _salt(self) -> exp.Expression:
        return self._bind(self.salt, "VARCHAR", SALT)

    def _edges(self, primitive: Primitive) -> exp.Select:
        """Return the graph's edges: ends known, the smaller first, each once (self-loops are gone)."""
        ends = [column(f"v{place}") for place in (primitive.code, primitive.other)]
        low = exp.Least(this=ends[0].copy(), expressions=[ends[1].copy()], ignore_nulls=True)
        high = exp.Greatest(this=ends[0].copy(), expressions=[ends[1].copy()], ignore_nulls=True)
        select = self._select(aliased(low, "low"), aliased(high, "high")).distinct(copy=False)
        for end in ends:  # first: LEAST and GREATEST skip nulls
            select = select.where(not_null(end.copy()), copy=False)
        return select.order_by(exp.to_identifier("low"), exp.to_identifier("high"), copy=False)

    def _sums_of_texts(self) -> exp.Select:
        """Return the sums by label of the sums by text."""
        key = self._key()
        places = [f"p{j}" for j in range(len(self.query.primitives))]
        sums = [
            aliased(aggregated(self.query, p, self.bounding.most_rows), place)
            for p, place in zip(self.query.primitives, places, strict=True)
        ]
        by_text = self._select(key, *sums).group_by(key.this.copy(), copy=False)
        self._stage("summed", by_text)
        self._stage("keyed", self._with_label(self._select(self._every()), 0))
        again = [aliased(exp.Sum(this=column(place)), place) for place in places]
        select = self._select(aliased(column("g0"), "g"), *again)
        return select.where(not_null(column("g0")), copy=False).group_by(column("g0"), copy=False)

    def _sums(self) -> exp.Select:
        query = self.query
        sums = [
            aliased(aggregated(query, p, self.bounding.most_rows), f"p{j}")
            for j, p in enumerate(query.primitives)
        ]
        few = None
        if query.user is not None and query.max_rows_total is not None:
            few = exp.LTE(this=column("c"), expression=number(query.max_rows_total))
        tallies = Tallies.of_query(query)
        if tallies.places:
            return self._tallied(tallies, sums, few)
        select = self._select(column("g"), *sums).group_by(column("g"), copy=False)
        return select if few is None else select.where(few, copy=False)

    def _tallied(
        self, tallies: Tallies, sums: list[exp.Expression], few: exp.Expression | None
    ) -> exp.Select:
        """Return the sums of each group and the codes that tallies are asked for."""
        every = exp.Column(this=exp.Star(), table=exp.to_identifier("t"))
        select = self._select(every, *tallies.values(self.bounding.most_rows))
        self._stage("tallied", select if few is None else select.where(few, copy=False))
        if self.quick and tallies.many:
            self._stage("stacked", tallies.stacked(self._select(column("g"))))
            self._stage("by_code", tallies.counted(self._select()))
        else:
            self._stage(SETS, tallies.grouped(self._select(column("g"), *sums)))
            self._stage("by_code", tallies.by_code(self._select()))
        self._stage("cumulated", tallies.cumulated(self._select(every.copy())))
        return tallies.chosen(self._select())
