"""The expression language as one SQL expression (sqlglot tree) with bound parameters.

Columns arrive typed: DOUBLE with NaN already null (infinities may occur), BOOLEAN, VARCHAR, DATE,
TIMESTAMP in UTC. No text of the user reaches SQL: constants are parameters, operators come from
the grammar, columns from the caller. Nothing generated here can raise at run time: arithmetic is
in doubles, where DuckDB yields infinities and NaN instead of errors, and the only cast is TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dprelease.query import nodes as n
from dprelease.query.nodes import Expression, Node, Type, may_overflow

LARGEST = "1.7976931348623157e308"


def to_sql(
    expression: Expression,
    column_sql: Callable[[str], exp.Expression],
    *,
    prefix: str = "p",
) -> tuple[exp.Expression, dict[str, object]]:
    """Return a sqlglot expression and its bound parameters, `${prefix}0` and so on.

    Args:
        expression: the parsed expression.
        column_sql: column name to SQL of its cleaned value: DOUBLE (NaN already null), BOOLEAN,
            VARCHAR, DATE or TIMESTAMP (UTC). Called once per use; return a fresh tree each time.
        prefix: keeps parameters of several expressions in one statement apart.
    """
    builder = _Builder(column_sql, prefix)
    tree = builder.guarded(expression.tree)
    return tree, builder.parameters


class _Builder:
    def __init__(self, column_sql: Callable[[str], exp.Expression], prefix: str) -> None:
        self.column_sql = column_sql
        self.prefix = prefix
        self.parameters: dict[str, object] = {}

    def guarded(self, node: Node) -> exp.Expression:
        """Return SQL whose value is never a stand-in infinity or NaN."""
        inner = self.plain(node)
        if not may_overflow(node):
            return inner
        # NaN sorts above every number (DuckDB and Spark), so one comparison catches both
        finite = exp.LTE(this=exp.Abs(this=inner.copy()), expression=exp.Literal.number(LARGEST))
        return exp.Case(ifs=[exp.If(this=finite, true=inner)])

    def wrapped(self, node: Node, *, carry: bool = False) -> exp.Expression:
        """Return SQL for an operand, in parentheses unless it is a leaf."""
        inner = self.plain(node) if carry else self.guarded(node)
        return inner if isinstance(node, n.Literal) else exp.Paren(this=inner)

    def constant(self, node: n.Literal) -> exp.Expression:
        if node.value is None:
            return exp.null()
        if isinstance(node.value, bool):
            return exp.true() if node.value else exp.false()
        name = f"{self.prefix}{len(self.parameters)}"
        self.parameters[name] = node.value
        out: exp.Expression = exp.Parameter(this=exp.Var(this=name))
        types = {Type.date: "DATE", Type.timestamp: "TIMESTAMP", Type.number: "DOUBLE"}
        if node.type in types:  # the value has this type already: the cast only names it
            out = exp.Cast(this=out, to=exp.DataType.build(types[node.type], dialect="duckdb"))
        return out

    def plain(self, node: Node) -> exp.Expression:
        match node:
            case n.Literal():
                return self.constant(node)
            case n.ColumnRef():
                return self.column_sql(node.name)
            case n.Arithmetic():
                kinds: dict[str, type[exp.Expression]]
                kinds = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod}
                right = self.wrapped(node.right, carry=node.op not in "/%")
                return kinds[node.op](this=self.wrapped(node.left, carry=True), expression=right)
            case n.Negate():
                return exp.Neg(this=self.wrapped(node.operand, carry=True))
            case n.Call():
                return self._call(node)
            case n.Elapsed():
                return self._elapsed(node)
            case n.Case():
                ifs = [exp.If(this=self.guarded(c), true=self.guarded(v)) for c, v in node.branches]
                return exp.Case(ifs=ifs, default=self.guarded(node.otherwise))
            case n.Coalesce():
                first, *rest = [self.guarded(o) for o in node.options]
                return exp.Coalesce(this=first, expressions=rest)
            case _:
                return self._test(node)

    def _call(self, node: n.Call) -> exp.Expression:
        if node.name == "abs":
            return exp.Abs(this=self.plain(node.operand))
        inner = self.guarded(node.operand)
        if node.name == "timestamp":
            return exp.TryCast(this=inner, to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
        if node.name in ("floor", "ceil"):
            return exp.Floor(this=inner) if node.name == "floor" else exp.Ceil(this=inner)
        kinds: dict[str, type[exp.Expression]] = {
            "year": exp.Year,
            "quarter": exp.Quarter,
            "month": exp.Month,
            "week": exp.WeekOfYear,
            "day": exp.Day,
            "hour": exp.Hour,
            "minute": exp.Minute,
            "weekday": exp.DayOfWeekIso,
        }
        part = kinds[node.name](this=inner)
        return exp.Cast(this=part, to=exp.DataType.build("DOUBLE", dialect="duckdb"))

    def _elapsed(self, node: n.Elapsed) -> exp.Expression:
        """Return the difference in doubles: BIGINT differences and casts of infinities raise."""

        def moment(operand: Node) -> exp.Expression:
            finite = exp.Anonymous(this="isfinite", expressions=[self.guarded(operand)])
            micros = exp.Anonymous(this="epoch_us", expressions=[self.guarded(operand)])
            double = exp.TryCast(this=micros, to=exp.DataType.build("DOUBLE", dialect="duckdb"))
            return exp.Case(ifs=[exp.If(this=finite, true=double)])

        apart = exp.Paren(this=exp.Sub(this=moment(node.end), expression=moment(node.start)))
        unit = exp.Literal.number(f"{n.MICROSECONDS[node.unit]:e}")
        return exp.Div(this=apart, expression=unit)

    def _test(self, node: Node) -> exp.Expression:
        match node:
            case n.Compare():
                kinds: dict[str, type[exp.Expression]] = {
                    "=": exp.EQ,
                    "!=": exp.NEQ,
                    "<": exp.LT,
                    "<=": exp.LTE,
                    ">": exp.GT,
                    ">=": exp.GTE,
                }
                left, right = self.wrapped(node.left), self.wrapped(node.right)
                return kinds[node.op](this=left, expression=right)
            case n.Between():
                return exp.Between(
                    this=self.wrapped(node.operand),
                    low=self.wrapped(node.low),
                    high=self.wrapped(node.high),
                )
            case n.In():
                options = [self.constant(o) for o in node.options]
                return exp.In(this=self.wrapped(node.operand), expressions=options)
            case n.IsNull():
                return exp.Is(this=self.wrapped(node.operand), expression=exp.null())
            case n.Not():
                return exp.Not(this=self.wrapped(node.operand))
            case n.Logic():
                join = exp.And if node.op == "and" else exp.Or
                tree: exp.Expression
                tree, *rest = [self.wrapped(o) for o in node.operands]
                for operand in rest:
                    tree = join(this=tree, expression=operand)
                return tree
        raise AssertionError(f"unknown node {type(node).__name__}")
