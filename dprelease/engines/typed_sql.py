"""A stored column as SQL of its declared type; total on every cell.

| declared                   | SQL type  | notes                                            |
|----------------------------|-----------|--------------------------------------------------|
| integer, number            | DOUBLE    | true is 1, false 0; NaN is null; infinities stay |
| boolean                    | BOOLEAN   | the numbers 1 and 0, and the words true, false, t, f, yes, no, y, n; else null |
| category, identifier, node | VARCHAR   | the canonical text (`identity`), without collation |
| date                       | DATE      | the day of the timestamp                         |
| timestamp                  | TIMESTAMP | UTC, cut to microseconds; of a text by `MOMENT`, which is UTC without an offset |

A day or moment lies in the years 1 to 9999, as one in a text does; any other is null.

Every cast is TRY_CAST: CAST raises, and quotes the cell. Of timestamps that is not enough: DuckDB
2.0 stops with an internal error where it writes or takes apart one that is out of range, so those
are null first. NaN is tested by name: `x > u` is true for it and `LEAST(GREATEST(NULL, l), u)` is
`l` (`docs/theory/domains-and-grids.md#rows-are-clamped`).

A text column keeps the collation that its table declares, which no description shows; through a
cast, too. `COLLATE "BINARY"` takes it off, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from sqlglot import exp

from dprelease.engines.identity import ESCAPE
from dprelease.engines.physical import Physical
from dprelease.schema.column import Kind
from dprelease.schema.labels import BLANK

TRUE_TEXTS = ("true", "t", "yes", "y")
FALSE_TEXTS = ("false", "f", "no", "n")
"""Of texts that are no number."""

MOMENT = (
    "^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0?[1-9]|1[0-2])-(0?[1-9]|[12][0-9]|3[01])"
    "([ T]([01]?[0-9]|2[0-3]):([0-5]?[0-9])(:([0-5]?[0-9])([.]([0-9]*))?)?"
    "(Z| UTC|([-+])(0[0-9]|1[0-7])(:?([0-5][0-9]))?)?)?$"
)
"""A written day or moment, between blanks: what every engine reads, where the month has the day."""

_INSTANTS = (-9_223_372_022_400_000_000, 2**63 - 2)
"""The first and last microsecond that DuckDB reads as an instant; the next one is its infinity."""

_YEARS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond of the years 1 to 9999."""

Make = Callable[[], exp.Expression]
"""Makes a fresh tree of the stored column: a sqlglot node has one parent only."""


def number(value: int) -> exp.Expression:
    """Return an integer literal."""
    literal = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal


def try_cast(this: exp.Expression, kind: str) -> exp.Expression:
    """Return `TRY_CAST(this AS kind)`."""
    return exp.TryCast(this=this, to=data_type(kind))


def data_type(kind: str, dialect: str = "duckdb") -> exp.DataType:
    """Return a type as a tree of its own; parsed once, which takes twenty times as long as a copy."""
    return _parsed(kind, dialect).copy()


@cache
def _parsed(kind: str, dialect: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect=dialect)


def trimmed(text: exp.Expression) -> exp.Expression:
    """Return a text without blanks at its ends; DuckDB's TRIM alone takes every space of Unicode off."""
    return exp.Trim(this=text, expression=exp.Literal.string(BLANK))


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
        case Kind.category | Kind.identifier | Kind.node:
            return canonical(stored, make)
        case Kind.integer | Kind.number:
            return _double(*_readable(stored, make))
        case Kind.boolean:
            return _boolean(*_readable(stored, make))
        case Kind.date:
            return _date(*_readable(stored, make))
        case Kind.timestamp:
            return _timestamp(*_readable(stored, make))


def canonical(stored: Physical, make: Make) -> exp.Expression:
    """Return the canonical text of a stored cell (`identity`) as VARCHAR, whatever its declared kind."""
    match stored:
        case Physical.text:
            return _uncollated(make())
        case Physical.bytes:
            escape = exp.Chr(expressions=[number(ord(ESCAPE))])
            begins = exp.StartsWith(this=_decoded(make()), expression=escape)
            escaped = exp.DPipe(this=escape.copy(), expression=exp.LowerHex(this=make()), safe=True)
            return case((exp.Not(this=begins), _decoded(make())), default=escaped)
        case Physical.float:
            return _text_of_double(make)
        case Physical.timestamp | Physical.instant:
            # the cast outside: an optimizer may move what is inside a CASE before its condition
            inside = _between(try_cast(make(), "TIMESTAMP"), _INSTANTS)
            return try_cast(case((inside, make())), "VARCHAR")
        case Physical.seconds:
            return try_cast(_instant(stored, make), "VARCHAR")
        case Physical.nanoseconds | Physical.nanosecond_instant:
            finite = exp.Not(this=exp.Is(this=_epoch_ns(make()), expression=exp.Null()))
            return case((finite, try_cast(make(), "VARCHAR")))
        case _:
            return try_cast(make(), "VARCHAR")


def _readable(stored: Physical, make: Make) -> tuple[Physical, Make]:
    """Return a column of bytes as one of text, null where they are not UTF-8; text without collation."""
    if stored is Physical.bytes:
        return Physical.text, lambda: _decoded(make())
    if stored is Physical.text:
        return stored, lambda: _uncollated(make())
    return stored, make


def _uncollated(text: exp.Expression) -> exp.Expression:
    """Return a column of texts, UUIDs or an ENUM as VARCHAR that is compared by its bytes."""
    text = try_cast(text, "VARCHAR")
    return exp.Collate(this=text, expression=exp.to_identifier("BINARY", quoted=True))


def _decoded(cell: exp.Expression) -> exp.Expression:
    """Return bytes as text, null where they are not UTF-8; DuckDB's own cast would escape them."""
    return exp.Anonymous(this="TRY", expressions=[exp.Anonymous(this="decode", expressions=[cell])])


def _epoch_ns(moment: exp.Expression) -> exp.Expression:
    """Return a timestamp in nanoseconds as BIGINT, null for an infinite one."""
    return exp.Anonymous(this="epoch_ns", expressions=[moment])


def _make_timestamp(microseconds: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this="make_timestamp", expressions=[microseconds])


def _between(moment: exp.Expression, ends: tuple[int, int]) -> exp.Expression:
    """Return whether a TIMESTAMP lies between two of microseconds; in `_INSTANTS` DuckDB can write it and take it apart."""
    low, high = (_make_timestamp(number(end)) for end in ends)
    above = exp.GTE(this=moment, expression=low)
    return exp.And(this=above, expression=exp.LTE(this=moment.copy(), expression=high))


def _is_nan(this: exp.Expression) -> exp.Expression:
    return exp.IsNan(this=this)


def _double(stored: Physical, make: Make) -> exp.Expression:
    if stored in (Physical.whole, Physical.unsigned, Physical.exact, Physical.boolean):
        return try_cast(make(), "DOUBLE")

    def value() -> exp.Expression:
        # TRIM keeps DuckDB 2.0 from moving the cast into the CSV reader of a caller's relation, which
        # drops the whole row where TRY_CAST yields null (duckdb issue 23818)
        this = trimmed(make()) if stored is Physical.text else make()
        return try_cast(this, "DOUBLE")

    if stored is not Physical.text:
        return case((_is_nan(value()), exp.null()), default=value())
    word = exp.Lower(this=trimmed(make()))
    truth = case(
        (exp.EQ(this=word, expression=exp.Literal.string("true")), number(1)),
        (exp.EQ(this=word.copy(), expression=exp.Literal.string("false")), number(0)),
    )
    read = exp.Not(this=exp.Is(this=value(), expression=exp.null()))
    # most cells are numbers, and take one of the first two branches
    return case((_is_nan(value()), exp.null()), (read, value()), default=try_cast(truth, "DOUBLE"))


def _boolean(stored: Physical, make: Make) -> exp.Expression:
    if stored is Physical.boolean:
        return make()
    value = _double(stored, make)
    branches: list[tuple[exp.Expression, exp.Expression]] = [
        (exp.EQ(this=value, expression=number(1)), exp.true()),
        (exp.EQ(this=value.copy(), expression=number(0)), exp.false()),
    ]
    if stored is Physical.text:
        word = exp.Lower(this=trimmed(make()))
        yes, no = ([exp.Literal.string(t) for t in ts] for ts in (TRUE_TEXTS, FALSE_TEXTS))
        branches += [
            (exp.In(this=word, expressions=yes), exp.true()),
            (exp.In(this=word.copy(), expressions=no), exp.false()),
        ]
    return case(*branches)


def _text_of_double(make: Make) -> exp.Expression:
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
    if stored is not Physical.date:
        return try_cast(_timestamp(stored, make), "DATE")
    first, last = (
        exp.Cast(this=exp.Literal.string(day), to=data_type("DATE"))
        for day in ("0001-01-01", "9999-12-31")
    )
    return case((exp.Between(this=make(), low=first, high=last), make()))


def _timestamp(stored: Physical, make: Make) -> exp.Expression:
    moment = partial(_instant, stored, make)
    return case((_between(moment(), _YEARS), moment()))


def _instant(stored: Physical, make: Make) -> exp.Expression:
    if stored is Physical.text:
        written = exp.RegexpLike(this=trimmed(make()), expression=exp.Literal.string(MOMENT))
        # through TIMESTAMPTZ: a cast straight to TIMESTAMP ignores a written offset (observed)
        instant = try_cast(trimmed(make()), "TIMESTAMPTZ")
        return case((written, try_cast(instant, "TIMESTAMP")))
    if stored in (Physical.nanoseconds, Physical.nanosecond_instant):
        # down to the microsecond: a cast would round 23:59:59.9999999 into the next day
        whole = exp.IntDiv(this=_epoch_ns(make()), expression=number(1000))
        rest = exp.Mod(this=_epoch_ns(make()), expression=number(1000))
        below = case((exp.LT(this=rest, expression=number(0)), number(1)), default=number(0))
        return _make_timestamp(exp.Sub(this=exp.Paren(this=whole), expression=below))

    def moment() -> exp.Expression:
        return try_cast(make(), "TIMESTAMP")  # TIMESTAMPTZ: the session's time zone is UTC

    return case((_between(moment(), _INSTANTS), moment()))
