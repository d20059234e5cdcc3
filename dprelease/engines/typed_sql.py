"""A stored column as SQL of its declared type; total on every cell.

| declared                   | SQL type  | notes                                            |
|----------------------------|-----------|--------------------------------------------------|
| integer, number            | DOUBLE    | NaN is null; infinities stay                     |
| boolean                    | BOOLEAN   | 1/0, true/false, t/f, yes/no, y/n; else null     |
| category, identifier, node | VARCHAR   | whole floats read as integers                    |
| date                       | DATE      |                                                  |
| timestamp                  | TIMESTAMP | UTC; without an offset it is read as UTC         |

Every cast is TRY_CAST: CAST raises, and quotes the cell. NaN is tested by name: `x > u` is true
for it and `LEAST(GREATEST(NULL, l), u)` is `l` (semantics 2.1).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dprelease.engines.physical import Physical
from dprelease.schema.column import Kind

__all__ = ["FALSE_TEXTS", "TRUE_TEXTS", "case", "number", "try_cast", "typed"]

TRUE_TEXTS = ("true", "t", "yes", "y", "1")
FALSE_TEXTS = ("false", "f", "no", "n", "0")

Make = Callable[[], exp.Expression]
"""Makes a fresh tree of the stored column: a sqlglot node has one parent only."""


def number(value: int) -> exp.Expression:
    """Return an integer literal."""
    literal = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal


def try_cast(this: exp.Expression, kind: str) -> exp.Expression:
    """Return `TRY_CAST(this AS kind)`."""
    return exp.TryCast(this=this, to=exp.DataType.build(kind, dialect="duckdb"))


def case(
    *branches: tuple[exp.Expression, exp.Expression],
    default: exp.Expression | None = None,
) -> exp.Expression:
    """Return `CASE WHEN … THEN … ELSE default END`."""
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default or exp.null())


def typed(kind: Kind, stored: Physical, make: Make) -> exp.Expression:
    """Return the column's value as SQL of the type that `kind` stands for."""
    match kind:
        case Kind.integer | Kind.number:
            return _double(stored, make)
        case Kind.boolean:
            return _boolean(stored, make)
        case Kind.date:
            return _date(stored, make)
        case Kind.timestamp:
            return _timestamp(stored, make)
        case Kind.category | Kind.identifier | Kind.node:
            return _text(stored, make)


def _is_nan(this: exp.Expression) -> exp.Expression:
    return exp.IsNan(this=this)


def _double(stored: Physical, make: Make) -> exp.Expression:
    if stored in (Physical.whole, Physical.unsigned, Physical.exact, Physical.boolean):
        return try_cast(make(), "DOUBLE")

    def value() -> exp.Expression:
        # TRIM keeps DuckDB 2.0 from moving the cast into its CSV reader, which drops the whole
        # row where TRY_CAST yields null (duckdb issue 23818)
        this = exp.Trim(this=make()) if stored is Physical.text else make()
        return try_cast(this, "DOUBLE")

    return case((_is_nan(value()), exp.null()), default=value())


def _boolean(stored: Physical, make: Make) -> exp.Expression:
    if stored is Physical.boolean:
        return make()
    if stored is Physical.text:
        word = exp.Lower(this=exp.Trim(this=make()))
        yes, no = ([exp.Literal.string(t) for t in ts] for ts in (TRUE_TEXTS, FALSE_TEXTS))
        return case(
            (exp.In(this=word, expressions=yes), exp.true()),
            (exp.In(this=word.copy(), expressions=no), exp.false()),
        )
    return case(
        (exp.EQ(this=make(), expression=number(1)), exp.true()),
        (exp.EQ(this=make(), expression=number(0)), exp.false()),
    )


def _text(stored: Physical, make: Make) -> exp.Expression:
    if stored is not Physical.float:
        return try_cast(make(), "VARCHAR")  # UUID, ENUM and BLOB are text as well

    def double() -> exp.Expression:
        return try_cast(make(), "DOUBLE")

    whole = exp.And(
        this=exp.EQ(this=double(), expression=exp.Floor(this=double())),
        expression=exp.LT(this=exp.Abs(this=double()), expression=number(2**53)),
    )
    return case(
        (_is_nan(double()), exp.null()),
        (whole, try_cast(try_cast(double(), "BIGINT"), "VARCHAR")),
        default=try_cast(double(), "VARCHAR"),
    )


def _date(stored: Physical, make: Make) -> exp.Expression:
    if stored is Physical.date:
        return make()
    if stored is Physical.text:
        return try_cast(exp.Trim(this=make()), "DATE")
    return try_cast(_timestamp(stored, make), "DATE")


def _timestamp(stored: Physical, make: Make) -> exp.Expression:
    if stored is Physical.text:
        # through TIMESTAMPTZ: a cast straight to TIMESTAMP ignores a written offset (observed)
        instant = try_cast(exp.Trim(this=make()), "TIMESTAMPTZ")
        return try_cast(instant, "TIMESTAMP")
    return try_cast(make(), "TIMESTAMP")  # TIMESTAMPTZ: the session's time zone is UTC
