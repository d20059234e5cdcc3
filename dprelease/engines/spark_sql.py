r"""The one statement of `bounded_sql` in Spark SQL: the same tree, its DuckDB leaves exchanged.

What differs between the dialects, and what stands for it here:

    $name                         :name
    TRY_CAST(TRIM(text) AS …)     a pattern first: Spark reads '1d' as a number and '2020' as a date
    TRY_CAST(double AS VARCHAR)   Java writes 1.0E-5 where DuckDB writes 1e-05
    floor, ceil                   BIGINT in Spark, and the greatest one for 1e300: through a CASE
    HUGEINT                       DECIMAL(38, 0)
    SUM                           of BIGINT or DECIMAL(38, 0), by what one row can add
    the order of a hash           the digits of the MD5 reversed (`hash_sql`)
    isfinite, epoch_us, isodow    IS NOT NULL, unix_micros, weekday + 1
    make_timestamp                timestamp_micros
    COLLATE "BINARY"              nothing: the columns come without a collation
    TIMESTAMP                     Spark's own, an instant; the engine sets the session to UTC

Exactness. BIGINT sums wrap silently and DECIMAL sums become null past 10**38, so each statement
also counts its rows per group and the engine refuses groups of `MOST_ROWS` = 2**48 or more. Below
that, a summand of at most 2**15 - 1 keeps a BIGINT sum below 2**63, and one below 2**64 (wider
ones `digits` takes apart) keeps a DECIMAL sum below 2**112 < 10**38. Summands are never
negative, so what holds for a whole holds for every partial sum.

Nothing here raises for any cell with ANSI mode off, which the engine sets. The patterns repeat
character classes only, never groups: Java's matcher recurses into those, and a long cell would
overflow its stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from sqlglot import exp

from dprelease.core.errors import SourceError
from dprelease.engines.bounded_sql import Statement
from dprelease.engines.code_sql import aliased, not_null
from dprelease.engines.digits import widest
from dprelease.engines.hash_sql import hashed_text
from dprelease.engines.request import is_graph
from dprelease.engines.spark_days import look_up_days
from dprelease.engines.tally import SETS, Tallies
from dprelease.engines.typed_sql import MOMENT, case, number, try_cast
from dprelease.query.bounded import BoundedQuery

MOST_ROWS = 2**48
_NARROW = 2**15 - 1
_DEEPEST = 8

PATTERNS: Mapping[str, str] = {
    "space": " \t\n\v\f\r",
    "infinite": r"(?i)\A[+-]?inf(?:inity)?\z",
    "stray": r"(?:\A|[^0-9])_|_(?:[^0-9]|\z)",
    "number": r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z",
    "moment": rf"\A{MOMENT[1:-1]}\z",
    "minute": r"\A([^ T]+[ T][0-9]+:[0-9]+)(?=\z|[Z +-])",
    "offset": r"([+-][0-9]{2})([0-9]{2})\z",
}
"""Bound as `text_space`, `text_infinite`, …: no pattern passes through a string literal's escapes."""


def spark_statement(
    statement: Statement, query: BoundedQuery, names: Mapping[str, str]
) -> tuple[str, dict[str, object]]:
    """Return `statement` as Spark SQL, and what it binds; its tree is used up.

    Rows are (group, primitive 0, …, rows of the group), with tallies what `tally.Counted` reads; of a graph
    (smaller node, greater node). Dates and times are bound as ISO texts, which the statement casts.

    Args:
        query: what the statement computes.
        names: table of the statement -> temporary view.

    Raises:
        SourceError: floor() or ceil() nested more than eight deep (DPR519).
    """
    tree = statement.tree
    _check_depth(tree)
    if not is_graph(query):
        assert isinstance(tree, exp.Select)
        tree = _grouped(tree, query)
    return translated(tree, statement.parameters, names)


def translated(
    tree: exp.Expression, parameters: Mapping[str, object], names: Mapping[str, str]
) -> tuple[str, dict[str, object]]:
    """Return a tree of DuckDB's leaves as Spark SQL, and what it binds; the tree is used up.

    Args:
        names: table of the tree -> temporary view.
    """
    look_up_days(tree)
    # bottom up, so that a rule meets children that are Spark's already
    nodes = cast("list[exp.Expression]", list(tree.walk(bfs=False)))
    for node in reversed(nodes):
        _rewrite(node, names)
    for node in tree.find_all(exp.TryCast):
        node.set("safe", True)  # or sqlglot drops TRY_ where it does not see the operand's type
    bound = {**parameters, **{f"text_{k}": v for k, v in PATTERNS.items()}}
    used = {n.name for n in tree.find_all(exp.Placeholder)}
    sql = tree.sql("spark", copy=False)
    return sql, {k: _plain(v) for k, v in bound.items() if k in used}


def _plain(value: object) -> object:
    """Return dates and times as text: py4j would shift a naive one by the machine's time zone."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _check_depth(tree: exp.Expression) -> None:
    """Each floor() repeats its operand in Spark, so a nest of them doubles the text per level."""
    for node in tree.find_all(exp.Floor, exp.Ceil):
        depth, above = 1, node.parent
        while above is not None:
            depth += isinstance(above, exp.Floor | exp.Ceil)
            above = above.parent
        if depth > _DEEPEST:
            raise SourceError(
                "an expression nests floor() and ceil() too deeply for Spark",
                why=f"more than {_DEEPEST} levels",
                fix="simplify the expression, or use `engine: duckdb`",
                code="DPR519",
            )


# -- the last SELECT ---------------------------------------------------------------------------


def _grouped(tree: exp.Select, query: BoundedQuery) -> exp.Select:
    """Return the statement with exact sums and the number of rows per group."""
    tallied = bool(Tallies.of_query(query).places)
    summing = (
        next((c.this for c in tree.find_all(exp.CTE) if c.alias == SETS), tree) if tallied else tree
    )
    for j, primitive in enumerate(query.primitives):
        if primitive.kind == "tally":
            continue
        if (added := summing.expressions[j + 1].find(exp.Sum)) is not None:
            kind = "BIGINT" if widest(query, primitive) <= _NARROW else "DECIMAL(38, 0)"
            added.set("this", try_cast(added.this, kind))
    return tree if tallied else tree.select(aliased(exp.Count(this=number(1)), "rows"), copy=False)


# -- leaves ------------------------------------------------------------------------------------


def _rewrite(node: exp.Expression, names: Mapping[str, str]) -> None:
    match node:
        case exp.Table() if node.name in names:
            node.set("this", exp.to_identifier(names[node.name], quoted=True))
        case exp.Parameter():
            node.replace(exp.Placeholder(this=node.this.name))
        case exp.DataType():
            _retype(node)
        case exp.TryCast():
            _recast(node)
        case exp.Floor() | exp.Ceil() if not isinstance(node.parent, exp.Greatest):
            # within GREATEST the value is clipped to the grid right away
            _whole(node)
        case exp.DayOfWeekIso():
            monday = _call("WEEKDAY", node.this)
            node.replace(exp.Paren(this=exp.Add(this=monday, expression=number(1))))
        case exp.Year() | exp.Quarter() | exp.Month() | exp.Day() | exp.Hour() | exp.Minute():
            node.replace(_call(node.key.upper(), node.this))
        case exp.WeekOfYear():
            node.replace(_call("WEEKOFYEAR", node.this))
        case exp.Sum() if isinstance(node.this, exp.Order):
            listed = _call("ARRAY_SORT", _call("COLLECT_LIST", node.this.this))
            a, b = exp.to_identifier("a"), exp.to_identifier("b")
            added = exp.Lambda(this=exp.Add(this=a, expression=b), expressions=[a.copy(), b.copy()])
            node.replace(_call("AGGREGATE", listed, try_cast(number(0), "DOUBLE"), added))
        case exp.Collate():  # Spark's columns are projected without one (`spark_tables`)
            node.replace(node.this)
        case exp.Anonymous() if node.name == "make_timestamp":
            node.replace(_call("TIMESTAMP_MICROS", node.expressions[0]))
        case exp.Anonymous() if node.name == "isfinite":
            node.replace(not_null(node.expressions[0]))
        case exp.Bracket() if (text := hashed_text(node)) is not None:
            node.replace(_call("REVERSE", exp.MD5(this=text)))
        case exp.Anonymous() if node.name == "epoch_us":
            moment = exp.TryCast(this=node.expressions[0], to=_timestamp())
            node.replace(_call("UNIX_MICROS", moment))
        case _:
            pass


def _timestamp() -> exp.DataType:
    return exp.DataType.build("TIMESTAMP", dialect="spark")


_TIMES = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.TIMESTAMPTZ,
)


def _retype(node: exp.DataType) -> None:
    if node.this in _TIMES:
        node.replace(_timestamp())
    elif node.this == exp.DataType.Type.INT128:
        node.replace(exp.DataType.build("DECIMAL(38, 0)", dialect="spark"))


def _recast(node: exp.TryCast) -> None:
    """Exchange casts from and to text; every other TRY_CAST means the same in both dialects."""
    kind, inner = node.to.this, node.this
    text = exp.DataType.Type.TEXT
    if isinstance(inner, exp.Trim):
        if kind == exp.DataType.Type.DOUBLE:
            node.replace(_number_of(inner))
        elif kind in _TIMES:
            node.replace(_moment_of(inner))
    elif (
        kind == text
        and isinstance(inner, exp.TryCast)
        and inner.to.this == exp.DataType.Type.DOUBLE
    ):
        node.replace(_text_of(inner))


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _pattern(name: str) -> exp.Expression:
    return exp.Cast(this=exp.Placeholder(this=f"text_{name}"), to=exp.DataType.build("TEXT"))


def _matches(text: exp.Expression, pattern: str) -> exp.Expression:
    return exp.RegexpLike(this=text, expression=_pattern(pattern))


def _stripped(cell: exp.Expression) -> Callable[[], exp.Expression]:
    """Return a maker of the cell without white space at its ends."""
    return lambda: _call("BTRIM", cell.copy(), _pattern("space"))


def _text(value: str) -> exp.Expression:
    return exp.Literal.string(value)


def _number_of(cell: exp.Expression) -> exp.Expression:
    text = _stripped(cell)
    infinity = case(
        (
            exp.EQ(this=_call("LEFT", text(), number(1)), expression=_text("-")),
            try_cast(_text("-Infinity"), "DOUBLE"),
        ),
        default=try_cast(_text("Infinity"), "DOUBLE"),
    )

    def digits() -> exp.Expression:
        return _call("REPLACE", text(), _text("_"), _text(""))

    plain = exp.And(
        this=exp.Not(this=_matches(text(), "stray")), expression=_matches(digits(), "number")
    )
    return case((_matches(text(), "infinite"), infinity), (plain, try_cast(digits(), "DOUBLE")))


def _instant(text: exp.Expression) -> exp.Expression:
    """Return a text of the pattern `moment` as TIMESTAMP; Spark wants seconds and `+02:00`."""
    full = _call("REGEXP_REPLACE", text, _pattern("minute"), _text("$1:00"))
    full = _call("REGEXP_REPLACE", full, _pattern("offset"), _text("$1:$2"))
    return exp.TryCast(this=full, to=_timestamp())


def _moment_of(cell: exp.Expression) -> exp.Expression:
    return case((_matches(cell.copy(), "moment"), _instant(cell.copy())))


def _whole(node: exp.Expression) -> None:
    """Keep floor and ceil in doubles: beyond 2**53 a double is whole already."""
    inner = node.this.copy()
    rounded = type(node)(this=node.this)
    small = exp.LT(this=exp.Abs(this=inner), expression=number(2**53))
    node.replace(case((small, try_cast(rounded, "DOUBLE")), default=inner.copy()))


def _text_of(double: exp.Expression) -> exp.Expression:
    """Return a double's text as DuckDB writes it.

    Java's digits are kept and written out by DECIMAL from 1e-4 on; beyond, 1.0E-5 is respelt
    1e-05. Before Java 19 a few doubles have one digit too many; that renames a unit's rows in
    their salted order and nothing else.
    """

    def value() -> exp.Expression:
        return double.copy()

    def text() -> exp.Expression:
        return try_cast(value(), "STRING")

    size = exp.Abs(this=value())
    middle = exp.And(
        this=exp.GTE(this=size, expression=try_cast(_text("1e-4"), "DOUBLE")),
        expression=exp.LT(this=size.copy(), expression=number(10**16)),
    )
    decimal = try_cast(try_cast(value(), "DECIMAL(38, 22)"), "STRING")
    # DECIMAL has 22 digits after the point here, so the zeros at the end are never of the integer
    trimmed = exp.Trim(this=decimal, expression=_text("0"), position="TRAILING")
    written = _call("REGEXP_REPLACE", trimmed, _text("[.]$"), _text(".0"))
    spelt = _call("REPLACE", text(), _text(".0E"), _text("E"))
    for old, new in (("E-", "e-"), ("E", "e+")):
        spelt = _call("REPLACE", spelt, _text(old), _text(new))
    spelt = _call("REGEXP_REPLACE", spelt, _text("([+-])([0-9])$"), _text("$10$2"))
    infinite = exp.EQ(this=exp.Abs(this=value()), expression=try_cast(_text("Infinity"), "DOUBLE"))
    sign = case((exp.LT(this=value(), expression=number(0)), _text("-inf")), default=_text("inf"))
    return case((infinite, sign), (middle, written), default=spelt)
