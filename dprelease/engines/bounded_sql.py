"""A bounded query as one SELECT that returns every primitive of every group.

    viewed    the curator's view, where the query has one (`view_sql`)
    typed     declared types, NaN and unparsable cells null
    derived   columns made from the row's typed ones, where the query has any
    labelled  window, filter, unit not null; key labels by joins with public tables
    stepped   group index; codes as steps on the grid's hull, or 1/0 of a condition
    coded     nearest allowed step, ties to the lower; nulls to their default
    numbered  user units: rows of one (unit, group) in the order of a salted hash
    ranked    user units: groups of one unit in the order of a salted hash
    capped    user units with a total cap: rows of one unit over its groups
    (last)    GROUP BY group; of a graph, its different edges

One key column and the row as unit: rows may be summed by the key's text first (`summed`), and the
few sums labelled and summed again: the same sums in two thirds of the time, because DuckDB keeps a
Parquet file's dictionary of texts through a GROUP BY, and loses it in a join. Texts that are not
declared are then summed as well before they are dropped: many different ones need memory, and
spill like the rows of a user unit.

Stability. Up to `coded` each row maps to at most one row by a function of itself and public
constants. `numbered`, `ranked`, `capped` order rows of one unit by values of that unit's rows
alone, so another unit's rows never move its choice; a unit keeps at most max_groups groups (ties
of the hash are broken by the group, so DENSE_RANK cannot keep more), `max_rows` rows in each and
`max_rows_total` in all. Rows are never ordered by table order: it would let a release depend on
how a file was written. No tie-breaker follows a row's hash: equal hashes are equal rows.

The total cap counts a unit's first rows of all groups before its second rows, so it cuts the same
rows for every `max_rows` and always leaves row 1 of a (unit, group) in before row 2.

Sums are of integers (BIGINT into HUGEINT): exact, independent of order and of threads.
Identifiers are ours or quoted; salt, filter constants and window ends are bound parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from functools import partial

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.code_sql import (
    aggregated,
    code_of_steps,
    column,
    is_null,
    not_null,
    stepped_by_one,
    steps,
    whole_steps,
)
from dprelease.engines.physical import Physical
from dprelease.engines.request import declared_labels, row_cap, used_columns
from dprelease.engines.typed_sql import case, number, try_cast, typed
from dprelease.engines.view_sql import ViewStatement
from dprelease.query.bounded import BoundedQuery, Fixed, Label, Primitive
from dprelease.query.expression import Expression, to_sql
from dprelease.schema.column import Kind

__all__ = ["Statement", "build", "build_counting"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT over the rows and public tables.

    Attributes:
        tree: sqlglot tree; its rows are (group index, primitive 0, primitive 1, …), a tally as a
            map from code to rows; of a graph, (smaller node, greater node).
        parameters: bound by name.
        tables: public key tables to register under their names.
    """

    tree: exp.Expression
    parameters: Mapping[str, object]
    tables: Mapping[str, pa.Table]


def build(
    query: BoundedQuery,
    stored: Mapping[str, tuple[str, Physical]],
    salt: bytes,
    *,
    rows_table: str = "source_rows",
    view: ViewStatement | None = None,
    texts_first: bool = False,
) -> Statement:
    """Return the statement that computes `query`.

    Args:
        query: checked by `request.check_query`.
        stored: declared column name -> (identifier in `rows_table`, storage class).
        salt: orders rows and groups of a user unit.
        rows_table: the table or view with the rows.
        view: the query's view, which the rows come from instead.
        texts_first: sum by the key's text before labelling, where that gives the same.
    """
    builder = _Builder(query, stored, salt, rows_table)
    builder.texts_first = texts_first and _adds_up(query)
    if view is not None:
        builder.parameters.update(view.parameters)
        builder.stages.append(("viewed", view.tree))
        builder.last = "viewed"
    return builder.build()


def build_counting(
    query: BoundedQuery,
    stored: Mapping[str, tuple[str, Physical]],
    *,
    rows_table: str = "source_rows",
    view: ViewStatement | None = None,
) -> Statement:
    """Return the statement of the rows that count, before contributions are bounded.

    Its rows are (group index `g`, unit `u`), one per source row in the window that passes the
    filter and has a unit and a declared key. For the curator's checks: no release runs it.

    Args:
        query: of a user unit, checked by `request.check_query`.
        stored, rows_table, view: as `build`.
    """
    builder = _Builder(query, stored, b"", rows_table)
    if view is not None:
        builder.parameters.update(view.parameters)
        builder.stages.append(("viewed", view.tree))
        builder.last = "viewed"
    return builder.build_counting()


def _adds_up(query: BoundedQuery) -> bool:
    """Return whether sums by the text of the one key can be added up to the sums by its label."""
    added = ("rows", "power", "product", "between")
    alone = query.user is None and len(query.groups.columns) == 1
    return alone and all(p.kind in added for p in query.primitives)


def _as(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def _table(name: str, alias: str) -> exp.Expression:
    as_name = exp.TableAlias(this=exp.to_identifier(alias))
    return exp.Table(this=exp.to_identifier(name), alias=as_name)


class _Builder:
    """Adds one stage after the other; `self.last` is the newest stage's name.

    Trees are put together in place (`copy=False`): sqlglot's copies would make the time grow
    with the square of the number of codes.
    """

    def __init__(
        self,
        query: BoundedQuery,
        stored: Mapping[str, tuple[str, Physical]],
        salt: bytes,
        rows_table: str,
    ) -> None:
        self.query = query
        self.stored = stored
        self.salt = salt.hex()
        self.columns = used_columns(query)
        self.kinds = {c.name: c.kind for c in (*query.groups.columns, *query.columns, *self.columns)}
        self.place = {c.name: f"x{i}" for i, c in enumerate(self.columns)}
        self.whole = {
            c.name: f"i{i}"
            for i, c in enumerate(self.columns)
            if c.name in stored and stored[c.name][1] is Physical.whole and c.kind is not Kind.boolean
        }
        self.texts_first = False
        self.most_rows = max((row_cap(query, p) for p in query.primitives), default=1)
        self.parameters: dict[str, object] = {}
        self.tables: dict[str, pa.Table] = {}
        self.stages: list[tuple[str, exp.Expression]] = []
        self.last = rows_table

    def build(self) -> Statement:
        self._rows()
        self._coded()
        if self.query.user is not None:
            self._numbered()
            self._ranked()
            self._capped()
        if self.texts_first:
            return self._finished(self._sums_of_texts())
        edges = next((p for p in self.query.primitives if p.kind == "edges"), None)
        return self._finished(self._sums() if edges is None else self._edges(edges))

    def build_counting(self) -> Statement:
        self._rows()
        return self._finished(self._select(column("g"), column("u")))

    def _rows(self) -> None:
        self._typed()
        self._derived()
        self._labelled()
        self._stepped()

    def _finished(self, tree: exp.Select) -> Statement:
        for name, stage in self.stages:
            tree = tree.with_(exp.to_identifier(name), as_=stage, copy=False)
        return Statement(tree, self.parameters, self.tables)

    # -- pieces ------------------------------------------------------------------------------

    def _select(self, *columns: exp.Expression) -> exp.Select:
        """Return a SELECT over the newest stage, which is called `t`."""
        return exp.Select(expressions=list(columns)).from_(_table(self.last, "t"), copy=False)

    def _stage(self, name: str, select: exp.Select) -> None:
        self.stages.append((name, select))
        self.last = name

    def _bind(self, value: object, kind: str) -> exp.Expression:
        name = f"c{len(self.parameters)}"
        self.parameters[name] = value
        parameter = exp.Parameter(this=exp.Var(this=name))
        return exp.Cast(this=parameter, to=exp.DataType.build(kind, dialect="duckdb"))

    def _value(self, name: str) -> exp.Expression:
        return column(self.place[name], "t")

    def _expression(self, expression: Expression, prefix: str) -> exp.Expression:
        tree, parameters = to_sql(expression, self._value, prefix=prefix)
        self.parameters.update(parameters)
        return tree

    # -- stages ------------------------------------------------------------------------------

    def _typed(self) -> None:
        parts = []
        for declared in self.columns:
            identifier, physical = self.stored[declared.name]

            def make(identifier: str = identifier) -> exp.Expression:
                return column(identifier)

            parts.append(_as(typed(declared.kind, physical, make), self.place[declared.name]))
            if declared.name in self.whole:
                parts.append(_as(make(), self.whole[declared.name]))
        # with no column at all the rows still have to come through
        self._stage("typed", self._select(*(parts or [_as(number(1), "row")])))

    def _derived(self) -> None:
        made = self.query.derived
        if not made:
            return
        parts = [
            _as(self._expression(d.expression, f"d{i}_"), f"y{i}") for i, d in enumerate(made)
        ]
        self._stage("derived", self._select(exp.Column(this=exp.Star(), table=exp.to_identifier("t")), *parts))
        self.place |= {d.column: f"y{i}" for i, d in enumerate(made)}

    def _labelled(self) -> None:
        query = self.query
        every = exp.Column(this=exp.Star(), table=exp.to_identifier("t"))
        select = self._select(every)
        for i in range(0 if self.texts_first else len(query.groups.columns)):
            select = self._with_label(select, i)
        if query.user is not None:
            select = select.where(not_null(self._unit(query.user)), copy=False)
        if query.window is not None:
            for compare, end in (
                (exp.GTE, query.window.start),
                (exp.LT, query.window.end),
            ):
                moment = try_cast(self._value(query.window.column), "TIMESTAMP")
                naive = end if end.tzinfo is None else end.astimezone(UTC).replace(tzinfo=None)
                inside = compare(this=moment, expression=self._bind(naive, "TIMESTAMP"))
                select = select.where(inside, copy=False)
        if query.where is not None:
            select = select.where(self._expression(query.where, "w"), copy=False)
        ends = self._ends()
        if ends:  # self-loops, as texts: comparing node numbers would cross both node tables
            one, other = (self._value(name) for name in ends)
            select = select.where(exp.NEQ(this=one, expression=other), copy=False)
        self._stage("labelled", select)

    def _ends(self) -> list[str]:
        """Return the two columns of a graph's nodes; equal labels are equal texts, as none repeats."""
        edges = [p for p in self.query.primitives if p.kind == "edges"]
        codes = [self.query.codes[at] for p in edges for at in (p.code, p.other) if at is not None]
        return [c.column for c in codes if isinstance(c, Label)]

    def _with_label(self, select: exp.Select, i: int) -> exp.Select:
        """Join key column `i` with its public labels and select the label's number as `g{i}`."""
        declared = self.query.groups.columns[i]
        numbers = self._label_numbers(i)
        own = declared_labels(self.query, i)
        name, alias = f"labels_{i}", f"l{i}"
        values = pa.array(own, pa.string())
        labels = pa.array([numbers.get(v) for v in own], pa.int32())
        self.tables[name] = pa.table({"value": values, "label": labels})
        text = self._value(declared.name)
        if declared.kind is Kind.boolean:
            text = try_cast(text, "VARCHAR")

        def fixed(label: str | None) -> exp.Expression:
            found = None if label is None else numbers.get(label)
            return exp.Null() if found is None else number(found)

        # an undeclared text that happens to spell `other` or the null label is not that key
        label = case(
            (is_null(self._value(declared.name)), fixed(declared.null_label)),
            (is_null(column("value", alias)), fixed(declared.other)),
            default=column("label", alias),
        )
        same = exp.EQ(this=column("value", alias), expression=text)
        select = select.join(_table(name, alias), on=same, join_type="left", copy=False)
        return select.select(_as(label, f"g{i}"), copy=False)

    def _label_numbers(self, place: int) -> dict[str, int]:
        """Return a number per label that occurs in a key at `place`, in order of occurrence."""
        return {v: i for i, v in enumerate(dict.fromkeys(k[place] for k in self.query.groups.keys))}

    def _stepped(self) -> None:
        query = self.query
        width = len(query.groups.columns)
        group = (number(0), column("g0", "t"), column("g", "k"))[min(width, 2)]
        parts = [_as(group, "g")]
        if self.texts_first:
            parts = [self._key()]
        if query.user is not None:
            parts.append(_as(self._unit(query.user), "u"))
        for j, code in enumerate(query.codes):
            if isinstance(code, Fixed):
                value = self._steps(code)
            elif isinstance(code, Label):
                value = column("code", f"d{j}")
            else:
                condition = self._expression(code.expression, f"q{j}_")
                negated = exp.Not(this=exp.Paren(this=condition.copy()))
                value = case((condition, number(1)), (negated, number(0)))
            parts.append(_as(value, f"s{j}"))
        select = self._select(*parts)
        if width == 1 and not self.texts_first:
            select = select.where(not_null(column("g0", "t")), copy=False)
        elif width > 1:
            select = self._join_keys(select, width)
        for j, code in enumerate(query.codes):
            if isinstance(code, Label):
                select = self._join_values(select, j, code)
        self._stage("stepped", select)

    def _join_values(self, select: exp.Select, j: int, code: Label) -> exp.Select:
        """Join the rows with the public values behind code `j`, each value once."""
        name, alias = f"values_{j}", f"d{j}"
        values = pa.array(code.values, pa.string())
        self.tables[name] = pa.table({"value": values, "code": pa.array(range(len(values)), pa.int64())})
        same = exp.EQ(this=column("value", alias), expression=self._value(code.column))
        return select.join(_table(name, alias), on=same, join_type="left", copy=False)

    def _key(self) -> exp.Expression:
        """Return the one key column under its own name."""
        name = self.place[self.query.groups.columns[0].name]
        return _as(column(name, "t"), name)

    def _unit(self, name: str) -> exp.Expression:
        """Return the unit's id: equal where its text is, and a whole number is sorted faster."""
        return column(self.whole[name], "t") if self._is_whole_text(name) else self._value(name)

    def _unit_text(self) -> exp.Expression:
        assert self.query.user is not None
        whole = self._is_whole_text(self.query.user)
        return try_cast(column("u"), "VARCHAR") if whole else column("u")

    def _is_whole_text(self, name: str) -> bool:
        """Return whether a text column stores whole numbers: each is spelt in one way."""
        return name in self.whole and self.kinds[name] not in (Kind.integer, Kind.number)

    def _steps(self, code: Fixed) -> exp.Expression:
        whole = self.whole.get(code.column)
        if whole is not None and stepped_by_one(code):
            return whole_steps(code, partial(column, whole, "t"))
        return steps(code, partial(self._double, code.column), self._bind)

    def _double(self, name: str) -> exp.Expression:
        boolean = self.kinds[name] is Kind.boolean
        return try_cast(self._value(name), "DOUBLE") if boolean else self._value(name)

    def _join_keys(self, select: exp.Select, width: int) -> exp.Select:
        keys = self.query.groups.keys
        table = {"g": pa.array(range(len(keys)), pa.int32())}
        on: exp.Expression = exp.true()
        for i in range(width):
            numbers = self._label_numbers(i)
            table[f"k{i}"] = pa.array([numbers[k[i]] for k in keys], pa.int32())
            same = exp.EQ(this=column(f"k{i}", "k"), expression=column(f"g{i}", "t"))
            on = same if i == 0 else exp.And(this=on, expression=same)
        self.tables["group_keys"] = pa.table(table)
        return select.join(_table("group_keys", "k"), on=on, copy=False)

    def _coded(self) -> None:
        parts = [self._key() if self.texts_first else column("g")]
        if self.query.user is not None:
            parts.append(column("u"))
        for j, code in enumerate(self.query.codes):
            if isinstance(code, Fixed):  # labels and conditions are codes already
                value = code_of_steps(code, f"s{j}")
            else:
                value = try_cast(column(f"s{j}"), "BIGINT")
            parts.append(_as(value, f"v{j}"))
        self._stage("coded", self._select(*parts))

    def _hash(self, parts: list[exp.Expression]) -> exp.Expression:
        joined = self._bind(self.salt, "VARCHAR")
        for part in parts:
            bar = exp.DPipe(this=joined, expression=exp.Literal.string("|"), safe=True)
            joined = exp.DPipe(this=bar, expression=part, safe=True)
        return exp.MD5(this=joined)

    @staticmethod
    def _ordered(
        function: exp.Expression, within: list[str], by: list[exp.Expression]
    ) -> exp.Expression:
        order = exp.Order(expressions=[exp.Ordered(this=key) for key in by])
        return exp.Window(this=function, partition_by=[column(c) for c in within], order=order)

    def _numbered(self) -> None:
        cells: list[exp.Expression] = [
            exp.Coalesce(
                this=try_cast(column(f"v{j}"), "VARCHAR"),
                expressions=[exp.Literal.string("-")],
            )
            for j in range(len(self.query.codes))
        ]
        key = self._hash([self._unit_text(), try_cast(column("g"), "VARCHAR"), *cells])
        row = self._ordered(exp.RowNumber(), ["u", "g"], [key])
        self._stage("numbered", self._select(exp.Star(), _as(row, "n")))

    @property
    def _drops_groups(self) -> bool:
        return len(self.query.groups.keys) > self.query.max_groups

    def _ranked(self) -> None:
        select = self._select(exp.Star())
        # rows before groups: every (unit, group) keeps its row 1, so the ranks are the same, and
        # the window sees fewer rows
        if self._drops_groups or self.query.max_rows_total is not None:
            key = self._hash([self._unit_text(), try_cast(column("g"), "VARCHAR")])
            rank = self._ordered(exp.DenseRank(), ["u"], [key, column("g")])
            select = select.select(_as(rank, "r"), copy=False)
        few = exp.LTE(this=column("n"), expression=number(self.most_rows))
        self._stage("ranked", select.where(few, copy=False))

    def _capped(self) -> None:
        select = self._select(exp.Star())
        if self._drops_groups:
            few = exp.LTE(this=column("r"), expression=number(self.query.max_groups))
            select = select.where(few, copy=False)
        if self.query.max_rows_total is not None:
            row = self._ordered(exp.RowNumber(), ["u"], [column("n"), column("r")])
            select = select.select(_as(row, "c"), copy=False)
        self._stage("capped", select)

    def _edges(self, primitive: Primitive) -> exp.Select:
        """Return the graph's edges: ends known, the smaller first, each once (self-loops are gone)."""
        ends = [column(f"v{place}") for place in (primitive.code, primitive.other)]
        low = exp.Least(this=ends[0].copy(), expressions=[ends[1].copy()], ignore_nulls=True)
        high = exp.Greatest(this=ends[0].copy(), expressions=[ends[1].copy()], ignore_nulls=True)
        select = self._select(_as(low, "low"), _as(high, "high")).distinct(copy=False)
        for end in ends:  # first: LEAST and GREATEST skip nulls
            select = select.where(not_null(end.copy()), copy=False)
        return select.order_by(exp.to_identifier("low"), exp.to_identifier("high"), copy=False)

    def _sums_of_texts(self) -> exp.Select:
        """Return the sums by label of the sums by text."""
        key = self._key()
        places = [f"p{j}" for j in range(len(self.query.primitives))]
        sums = [
            _as(aggregated(self.query, p, self.most_rows), place)
            for p, place in zip(self.query.primitives, places, strict=True)
        ]
        by_text = self._select(key, *sums).group_by(key.this.copy(), copy=False)
        self._stage("summed", by_text)
        every = exp.Column(this=exp.Star(), table=exp.to_identifier("t"))
        self._stage("keyed", self._with_label(self._select(every), 0))
        again = [_as(exp.Sum(this=column(place)), place) for place in places]
        select = self._select(_as(column("g0"), "g"), *again)
        return select.where(not_null(column("g0")), copy=False).group_by(column("g0"), copy=False)

    def _sums(self) -> exp.Select:
        query = self.query
        sums = [
            _as(aggregated(query, p, self.most_rows), f"p{j}")
            for j, p in enumerate(query.primitives)
        ]
        select = self._select(column("g"), *sums).group_by(column("g"), copy=False)
        if query.user is not None and query.max_rows_total is not None:
            few = exp.LTE(this=column("c"), expression=number(query.max_rows_total))
            select = select.where(few, copy=False)
        return select
