r"""The one statement of `bounded_sql` in PostgreSQL's SQL: the same tree, its DuckDB leaves exchanged.

What differs between the dialects, and what stands for it here:

    $name                     %(name)s, a parameter of the server's own
    TRY_CAST(cell AS …)       the projection under `source_rows` (`postgres_cells`)
    a + b, a * b, a / b       of doubles, which raise: behind conditions on their size (`postgres_arithmetic`)
    a % b                     of doubles, exactly (`postgres_remainder`)
    isnan, isfinite           = 'NaN', and isfinite() as it is
    epoch_us                  EXTRACT(EPOCH FROM …) * 1000000, exact in numeric
    HUGEINT                   numeric, exact without an end; SUM of BIGINT is numeric already
    TINYINT                   SMALLINT
    the order of a hash       the digits of the MD5 reversed (`hash_sql`), compared by their bytes
    COLLATE "BINARY"          COLLATE "C", as all texts come from the projection
    a table of public labels  unnest() of array parameters: a role that may only read makes no table
Results of arithmetic that are not finite are null at once. In DuckDB they may pass through further sums
and products first and are null then (`query.sql`), so the value of an expression is the same. Results
between 2.4704e-324 and 2.4776e-324, which round up to the least double, count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.bounded_sql import Statement
from dprelease.engines.code_sql import column
from dprelease.engines.hash_sql import hashed_text
from dprelease.engines.postgres_arithmetic import DoubleArithmetic, double
from dprelease.engines.postgres_stages import Projection, fence
from dprelease.engines.typed_sql import case, data_type, number

_DOUBLE = exp.DataType.Type.DOUBLE
_TIMES = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.TIMESTAMPTZ,
)
_ARRAYS = {
    pa.string(): "TEXT",
    pa.float64(): "FLOAT8",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}
_THROUGH = (exp.Paren, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Least, exp.Greatest, exp.Coalesce)


def postgres_statement(
    statement: Statement,
    projections: Mapping[str, Projection | str],
    *,
    booleans: frozenset[str],
    doubles: frozenset[str],
    typed: frozenset[str] = frozenset(),
) -> tuple[str, dict[str, object]]:
    """Return `statement` as text for psycopg, and what it binds by name, lists as arrays; its tree is used up.

    Rows are as those of `bounded_sql.Statement`, numbers as integers or Decimals.

    Args:
        projections: by name, the tables of rows; each may read those before it.
        booleans, doubles: columns of the stages that hold conditions, and doubles.
        typed: columns of `projections` that have their value as `n…` beside their text `c…`.
    """
    translator = _Translator(booleans, doubles, typed, statement)
    tree = translator.translated(statement.tree)
    fence(tree, {n: dict(p.sizes) for n, p in projections.items() if isinstance(p, Projection)})
    sql = tree.sql("postgres", copy=False)
    for name, rows in reversed(list(projections.items())):
        own = f"{name} AS ({rows.sql if isinstance(rows, Projection) else rows})"
        sql = f"WITH {own}, {sql[5:]}" if sql.startswith("WITH ") else f"WITH {own} {sql}"
    bound: dict[str, object] = {**statement.parameters, **translator.arrays}
    return sql, {k: v for k, v in bound.items() if f"%({k})s" in sql}


class _Translator:
    def __init__(
        self,
        booleans: frozenset[str],
        doubles: frozenset[str],
        typed: frozenset[str],
        statement: Statement,
    ) -> None:
        self.booleans = booleans
        self.doubles = doubles
        self.typed = typed
        self.tables = statement.tables
        self.constants = statement.parameters
        self.arrays: dict[str, object] = {}
        self.arithmetic = DoubleArithmetic(self._most)

    def translated(self, tree: exp.Expression) -> exp.Expression:
        # bottom up, so that a rule meets children that are PostgreSQL's already
        nodes = cast("list[exp.Expression]", list(tree.walk(bfs=False)))
        for node in reversed(nodes):
            self._rewrite(node)
        return tree

    def _rewrite(self, node: exp.Expression) -> None:
        match node:
            case exp.Table() if node.name in self.tables:
                node.replace(self._unnested(node))
            case exp.Parameter():
                node.replace(exp.Placeholder(this=node.this.name))
            case exp.DataType():
                self._retype(node)
            case exp.TryCast():
                self._recast(node)
            case exp.Collate():
                node.set("expression", exp.to_identifier("C", quoted=True))
            case exp.Bracket() if (text := hashed_text(node)) is not None:
                node.replace(_backwards(text))
            case exp.IsNan():
                node.replace(self._nan_test(node.this))
            case exp.Year() | exp.Quarter() | exp.Month() | exp.Day() | exp.Hour() | exp.Minute():
                node.replace(_extracted(node.key.upper(), node.this))
            case exp.DayOfWeekIso() | exp.WeekOfYear():
                part = "WEEK" if isinstance(node, exp.WeekOfYear) else "ISODOW"
                node.replace(_extracted(part, node.this))
            case exp.Anonymous():
                self._call(node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                if self._is_double(node):
                    node.replace(exp.Null()).replace(self.arithmetic.guarded(node))
            case _:
                pass

    # -- public tables -----------------------------------------------------------------------

    def _unnested(self, node: exp.Table) -> exp.Expression:
        """Return a public table as rows of array parameters, under its alias."""
        table, parts = self.tables[node.name], []
        for field in table.schema:
            name = f"{node.name}_{field.name}"
            self.arrays[name] = table.column(field.name).to_pylist()
            kind = f"{_ARRAYS.get(field.type, 'BIGINT')}[]"
            parts.append(exp.Cast(this=exp.Placeholder(this=name), to=data_type(kind, "postgres")))
        names = [exp.to_identifier(f.name, quoted=True) for f in table.schema]
        alias = exp.TableAlias(this=exp.to_identifier(node.alias), columns=names)
        return exp.Table(this=exp.Anonymous(this="UNNEST", expressions=parts), alias=alias)

    # -- types -------------------------------------------------------------------------------

    @staticmethod
    def _retype(node: exp.DataType) -> None:
        if node.this in _TIMES:
            node.replace(data_type("TIMESTAMP", "postgres"))
        elif node.this == exp.DataType.Type.INT128:
            node.replace(data_type("NUMERIC", "postgres"))
        elif node.this == exp.DataType.Type.TINYINT:
            node.replace(data_type("SMALLINT", "postgres"))
        elif node.this == exp.DataType.Type.VARCHAR:
            node.replace(data_type("TEXT", "postgres"))

    def _recast(self, node: exp.TryCast) -> None:
        """Make a cast that cannot fail of one that may: of cells, the projection has done it."""
        kind, inner = node.to.this, node.this
        cell = next((c for c in inner.find_all(exp.Column) if c.name in self.typed), None)
        if isinstance(inner, exp.Trim) and cell is not None:
            node.replace(column(f"n{cell.name[1:]}"))
        elif kind == _DOUBLE and self._is_boolean(inner):
            node.replace(_of_boolean(inner))
        elif kind in _TIMES and not isinstance(inner, exp.Placeholder):
            node.replace(_moment(inner, node.to))
        else:
            node.replace(exp.Cast(this=inner, to=node.to))

    def _nan_test(self, tree: exp.Expression) -> exp.Expression:
        """Return whether a double is NaN: none is that the projection made, and the server drops the test."""
        cell = tree.this if isinstance(tree, exp.Cast) else tree
        if isinstance(cell, exp.Column) and cell.name in self.doubles:
            return exp.false()
        return exp.EQ(this=tree, expression=_nan())

    def _is_boolean(self, node: exp.Expression) -> bool:
        return isinstance(node, exp.Predicate) or (
            isinstance(node, exp.Column) and node.name in self.booleans
        )

    def _is_double(self, node: exp.Expression | None) -> bool:
        """Return whether a value is a double; literals alone say nothing."""
        match node:
            case exp.Cast():
                return bool(node.to.this == _DOUBLE)
            case exp.Column():
                return node.name in self.doubles
            case exp.Case():
                values = [branch.args["true"] for branch in node.args["ifs"]]
                return any(map(self._is_double, [*values, node.args.get("default")]))
            case exp.Subquery():
                return True  # of this module: guarded arithmetic
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._is_double(node.this) or self._is_double(node.expression)
            case _ if isinstance(node, _THROUGH):
                return any(map(self._is_double, [node.this, *node.expressions]))
            case _:
                return False

    def _most(self, node: exp.Expression) -> float:
        """Return a bound of the size of a double, infinite where none is known."""
        constant = self._constant(node)
        if constant is not None:
            return abs(constant)
        match node:
            case exp.Paren() | exp.Neg() | exp.Abs():
                return self._most(node.this)
            case exp.Floor():
                return self._most(node.this) + 1
            case exp.Add() | exp.Sub():
                return self._most(node.this) + self._most(node.expression)
            case exp.Cast() if not self._is_double(node.this):
                return 2.0**63  # of a whole number
            case exp.Least() if isinstance(node.this, exp.Greatest):
                ends = [self._constant(one.expressions[0]) for one in (node, node.this)]
                return max(math.inf if end is None else abs(end) for end in ends)
            case exp.Mul():
                return self._most(node.this) * self._most(node.expression)
            case _:
                return math.inf

    def _constant(self, node: exp.Expression) -> float | None:
        if not isinstance(node, exp.Cast) or node.to.this != _DOUBLE:
            return None
        if isinstance(node.this, exp.Placeholder):
            return float(cast("float", self.constants[node.this.name]))
        return float(node.this.name) if isinstance(node.this, exp.Literal) else None

    # -- calls -------------------------------------------------------------------------------

    @staticmethod
    def _call(node: exp.Anonymous) -> None:
        match node.name:
            case (
                "make_timestamp"
            ):  # the ends of DuckDB's timestamps, beyond those of the projection
                low = node.expressions[0].find(exp.Neg) is not None
                end = "4714-11-24 00:00:00 BC" if low else "294276-12-31 23:59:59.999999"
                node.replace(_literal(end, "TIMESTAMP"))
            case "epoch_us":
                seconds = _extracted("EPOCH", node.expressions[0])
                node.replace(exp.Paren(this=exp.Mul(this=seconds, expression=number(10**6))))
            case _:
                pass


def _nan() -> exp.Expression:
    return exp.Cast(this=exp.Literal.string("NaN"), to=data_type("DOUBLE"))


def _of_boolean(tree: exp.Expression) -> exp.Expression:
    return case((tree, double("1")), (exp.Not(this=tree.copy()), double("0")))


def _extracted(part: str, moment: exp.Expression) -> exp.Expression:
    """Return a part of a moment; null where it is infinite, of which PostgreSQL extracts infinity."""
    found = exp.Extract(this=exp.Var(this=part), expression=moment)
    return case((exp.Anonymous(this="isfinite", expressions=[moment.copy()]), found))


def _moment(tree: exp.Expression, kind: exp.DataType) -> exp.Expression:
    """Return a date or timestamp as TIMESTAMP, null beyond what that holds."""
    finite = exp.Anonymous(this="isfinite", expressions=[tree.copy()])
    last = exp.LTE(this=tree.copy(), expression=_literal("294246-12-31", "DATE"))
    inside = exp.And(this=finite, expression=last)
    return case((inside, exp.Cast(this=tree, to=kind)))


def _literal(text: str, kind: str) -> exp.Expression:
    return exp.Cast(this=exp.Literal.string(text), to=data_type(kind, "postgres"))


def _backwards(text: exp.Expression) -> exp.Expression:
    """Return the digits of the MD5 from the last to the first, compared by their bytes."""
    digits = exp.Anonymous(this="REVERSE", expressions=[exp.MD5(this=text)])
    return exp.Collate(this=digits, expression=exp.to_identifier("C", quoted=True))
