r"""A stored PostgreSQL cell as an expression of its declared type; none of them raises for any cell.

PostgreSQL has no TRY_CAST: a cast that fails ends the statement and quotes the cell. So each cast
stands behind a condition that lets through only what it reads:

| from            | to         | condition                                                          |
|-----------------|------------|--------------------------------------------------------------------|
| numeric         | double     | not NaN; beyond the largest double infinite; below half the least 0 |
| text            | double     | a pattern of at most `LONGEST` characters; then by numeric; or true, false |
| all of these    | boolean    | the double 1 or 0, or a word                                        |
| text            | date, time | a pattern, then a day that the month has                 |
| date, timestamp | the same   | in the years 1 to 9999                                              |

The texts of cells are those that `engines.postgres` reads: numerics without zeros at the end where
their column has no scale, times in UTC, ISO dates. Doubles are written as Python's `repr` does.

PostgreSQL evaluates the branches of a CASE over columns in their order and one only; it computes
before a CASE only what is constant, and no constant here raises.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from dprelease.engines.physical import Physical
from dprelease.engines.postgres import PostgresType
from dprelease.engines.typed_sql import FALSE_TEXTS, MOMENT, TRUE_TEXTS
from dprelease.schema.column import NUMERIC, TEXTS, Kind

LONGEST = 1_000
"""Characters of a number's or a moment's text at most; a longer text is none."""

LARGEST_CELL = 2**24
"""Bytes of a text at most; a longer one is a missing value."""

LARGEST = "1.7976931348623157e308"

_YEARS = ("0001-01-01", "10000-01-01")
"""The first day and the day after the last one."""

_NONE_HALF_WAY = "1e40"
"""From here on no decimal of 17 digits, d 10^k, is half-way between doubles: that is 54 bits times a power of two, so 5^k < 2^54."""
_HALF_LEAST = str(Fraction(1, 2**1075).numerator * 5**1075)
"""2**-1075 without its point: 1,075 places behind it."""
_BEYOND = str(2**1024 - 2**970)
"""What is at least this far from zero rounds to an infinite double."""

_SPACE = r"E' \t\n\x0b\f\r'"
_NUMBER = r"^[+-]?([0-9]+(_[0-9]+)*\.?([0-9]+(_[0-9]+)*)?|\.[0-9]+(_[0-9]+)*)([eE][+-]?[0-9]+(_[0-9]+)*)?$"
_PLAIN = r"^ *[+-]?[0-9]{1,15}(\.[0-9]{0,15})? *$"
_NEGATIVE = r"^-[0-9]+\.?[0-9]*$"
_FAR = r"[eE][+-]?0*[1-9][0-9]{3,}$"
_ZERO = r"^[+-]?[0.]*([eE]|$)"


class SqlColumn(NamedTuple):
    """How a column comes into the statement.

    Attributes:
        sql: its expression.
        physical: the storage class that the statement reads it as.
        typed: of a unit's id that is also read as a number or a time: that value's expression.
    """

    sql: str
    physical: Physical
    typed: str | None = None


def quoted(name: str) -> str:
    """Return an identifier; a per cent sign is doubled, as psycopg reads one."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def cell(name: str, stored: PostgresType, kind: Kind, *, unit: bool) -> SqlColumn:
    """Return the column `name`, read as `kind`.

    Args:
        unit: it identifies the unit, so that its canonical text is needed too.
    """
    raw = quoted(name)
    if stored.physical is Physical.whole:
        return SqlColumn(f"{raw}::int8", Physical.whole)
    if stored.physical is Physical.boolean:
        return SqlColumn(raw, Physical.boolean)
    if unit and kind not in TEXTS:
        # of a truth value, the number that it may be: its words are read of the text
        typed = _typed(raw, stored, Kind.number if kind is Kind.boolean else kind)
        return SqlColumn(_text(raw, stored), Physical.text, None if typed is None else typed.sql)
    if kind in TEXTS:
        return SqlColumn(_text(raw, stored), Physical.text)
    return _typed(raw, stored, kind) or SqlColumn(_text(raw, stored), Physical.text)


def _typed(raw: str, stored: PostgresType, kind: Kind) -> SqlColumn | None:
    """Return the value of the declared kind; None where a text is it."""
    if kind in NUMERIC:
        return SqlColumn(_double(raw, stored), Physical.float)
    if kind is Kind.boolean:
        return SqlColumn(_boolean(raw, stored), Physical.boolean)
    if kind is Kind.date:
        return SqlColumn(_date(raw, stored), Physical.date)
    if kind is Kind.timestamp:
        return SqlColumn(_timestamp(raw, stored), Physical.timestamp)
    return None


def _written(raw: str) -> str:
    """Return a cell as text, compared by its bytes; null beyond `LARGEST_CELL`.

    Patterns, trimming and joining take up to eight bytes for each of a text's, and PostgreSQL raises
    above a gibibyte: one long cell would end every release of its table.
    """
    short = f"octet_length({raw}::text) <= {LARGEST_CELL}"
    return f'(CASE WHEN {short} THEN {raw}::text END COLLATE "C")'


def _text(raw: str, stored: PostgresType) -> str:
    """Return the canonical text of a cell (`identity`)."""
    if stored.physical is Physical.float:
        return _text_of_double(f"{raw}::float8")
    return _written(f"trim_scale({raw})" if stored.scaled else raw)


def _text_of_double(value: str) -> str:
    """Return a double's text as Python writes it.

    PostgreSQL's digits are nearly those: from 1e15 on with an exponent, Python's from 1e16; and from
    there on with one more where fewer digits lie exactly half-way between two doubles. That ends at
    `_NONE_HALF_WAY`, long before digits that were cut could read as a double too large, which raises.
    """
    digits = f"replace(split_part(abs({value})::text, 'e', 1), '.', '')"
    sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
    fraction = f"coalesce(nullif(substr({digits}, 17), ''), '0')"
    shorter = (
        "(SELECT CASE WHEN c::float8 <> x THEN x::text "
        "WHEN c ~ '^-?10e' THEN replace(split_part(c, 'e', 1), '0', '') || 'e+' || (e::int + 1) ELSE c END FROM ("
        "SELECT x, trim_scale(round(m::numeric, greatest(length(split_part(m, '.', 2)) - 1, 0)))::text"
        " || 'e' || e AS c, e FROM (SELECT x, split_part(x::text, 'e', 1) AS m, split_part(x::text, 'e', 2) AS e"
        f" FROM (SELECT {value} AS x OFFSET 0) AS t1 OFFSET 0) AS t2 OFFSET 0) AS t3)"
    )
    written = (
        f"CASE WHEN {value} = 'NaN'::float8 THEN NULL "
        f"WHEN abs({value}) = 'Infinity'::float8 THEN {sign} || 'inf' "
        f"WHEN abs({value}) < 9007199254740992 AND {value} = floor({value}) THEN {value}::int8::text "
        f"WHEN abs({value}) >= 1e15 AND abs({value}) < 1e16 "
        f"THEN {sign} || left(rpad({digits}, 16, '0'), 16) || '.' || {fraction} "
        f"WHEN abs({value}) >= 1e16 AND abs({value}) < {_NONE_HALF_WAY} THEN {shorter} ELSE {value}::text END"
    )
    return f'(({written}) COLLATE "C")'


def _double(raw: str, stored: PostgresType) -> str:
    if stored.physical is Physical.float:
        return f"nullif({raw}::float8, 'NaN'::float8)"
    if stored.physical is Physical.exact:
        return _double_of_numeric(raw)
    return _number_of(raw)


def _boolean(raw: str, stored: PostgresType) -> str:
    words = ""
    if stored.physical is Physical.text:
        yes, no = (", ".join(f"'{text}'" for text in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
        word = f"lower(btrim({_written(raw)}, ' '))"
        words = f" ELSE CASE WHEN {word} IN ({yes}) THEN true WHEN {word} IN ({no}) THEN false END"
    return f"CASE {_double(raw, stored)} WHEN 1 THEN true WHEN 0 THEN false{words} END"


def _double_of_numeric(value: str) -> str:
    """Return a numeric as the nearest double; the cast itself raises where that is 0 or infinite."""
    least = f"({_HALF_LEAST}::numeric * 1e-1075)"
    return (
        f"CASE WHEN {value} = 'NaN'::numeric THEN NULL "
        f"WHEN {value} >= {_BEYOND} THEN 'Infinity'::float8 "
        f"WHEN {value} <= -{_BEYOND} THEN '-Infinity'::float8 "
        f"WHEN abs({value}) >= 1e-300 THEN {value}::float8 "
        f"WHEN abs({value}) > {least} THEN {value}::float8 "
        f"WHEN {value} IS NOT NULL THEN 0::float8 END"
    )


def _with(names: dict[str, str], body: str) -> str:
    """Return `body` over named expressions, each computed once (OFFSET keeps the planner's hands off)."""
    parts = ", ".join(f"{sql} AS {name}" for name, sql in names.items())
    return f"(SELECT {body} FROM (SELECT {parts} OFFSET 0) AS q)"


def _number_of(raw: str) -> str:
    """Return a cell of text as the nearest double; null where it is not a number."""
    text = _written(raw)
    negative = "left(w, 1) = '-'"
    infinity = f"CASE WHEN {negative} THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END"
    far = f"CASE WHEN w ~ '{_ZERO}' OR w ~ '[eE]-' THEN 0::float8 ELSE {infinity} END"
    by_numeric = f"(SELECT {_double_of_numeric('m')} FROM (SELECT w::numeric AS m OFFSET 0) AS r)"
    read = _with(
        {"w": "replace(v, '_', '')"},
        f"CASE WHEN w ~ '{_FAR}' THEN {far} ELSE {by_numeric} END",
    )
    body = (
        f"CASE WHEN length(v) > {LONGEST} THEN NULL "
        f"WHEN v ~* '^[+-]?inf(inity)?$' THEN CASE WHEN left(v, 1) = '-' "
        "THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END "
        f"WHEN v ~ '{_NUMBER}' THEN {read.replace(' AS q)', ' AS q2)')} END"
    )
    body = body.removesuffix(" END") + (
        f" WHEN lower(btrim({text}, ' ')) = 'true' THEN 1::float8"
        f" WHEN lower(btrim({text}, ' ')) = 'false' THEN 0::float8 END"
    )
    slow = _with({"v": f"btrim({text}, {_SPACE})"}, body)
    return (
        f"CASE WHEN {_few_digits(raw)} THEN {raw}::text::float8 "
        f"WHEN {text} ~ '{_PLAIN}' THEN {text}::float8 WHEN {text} IS NOT NULL THEN {slow} END"
    )


def _few_digits(raw: str) -> str:
    """Return whether a cell is at most 16 characters of a number without an exponent, as most texts are.

    Bytes are told apart in half the time of characters. The cast to bytes reads a backslash as the start
    of an escape, and may raise then; without one it copies. No byte of a longer character is a digit.
    Bytes have no collation: others than "C" may hold different texts equal, or search in none.
    """
    size, cell = f"octet_length({raw}::text)", f'{raw}::text COLLATE "C"'
    return (
        f"CASE WHEN {size} <= 16 AND strpos({cell}, E'\\\\') = 0 "
        f"THEN CASE btrim({raw}::text::bytea, '0123456789') "
        f"WHEN '' THEN {size} > 0 WHEN '.' THEN {size} > 1 ELSE {cell} ~ '{_NEGATIVE}' END END"
    )


def _parts(text: str, body: str) -> str:
    """Return `body` over the parts of a written moment, null where they are none.

    Parts: y, mo, d; h, mi, s; us (microseconds); o (offset in minutes).
    """
    inner = _with(
        {"p": f"regexp_match(v, '{MOMENT}')"},
        "p",
    )
    found = f"CASE WHEN length(v) <= {LONGEST} THEN {inner} END"
    number = "coalesce(p[{}], '0')::int"
    names = {
        "y": "p[1]::int",
        "mo": "p[2]::int",
        "d": "p[3]::int",
        "h": number.format(5),
        "mi": number.format(6),
        "s": number.format(8),
        "us": "rpad(left(coalesce(p[10], ''), 6), 6, '0')::int",
        "o": "CASE WHEN p[12] = '-' THEN -1 ELSE 1 END * (coalesce(p[13], '0')::int * 60 + coalesce(p[15], '0')::int)",
    }
    parts = ", ".join(f"{sql} AS {name}" for name, sql in names.items())
    leap = "(y % 4 = 0 AND (y % 100 <> 0 OR y % 400 = 0))".replace("%", "%%")
    days = f"CASE WHEN mo IN (4, 6, 9, 11) THEN 30 WHEN mo <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
    return (
        f"(SELECT CASE WHEN d <= {days} THEN {body} END FROM "
        f"(SELECT {parts} FROM (SELECT {found} AS p FROM "
        f"(SELECT btrim({text}, ' ') AS v OFFSET 0) AS m1 OFFSET 0) AS m2 OFFSET 0) AS m3)"
    )


_MOMENT_OF_PARTS = "make_date(y, mo, d) + (h * 3600 + mi * 60 + s) * interval '1 second' + us * interval '1 microsecond' - o * interval '1 minute'"


def _date(raw: str, stored: PostgresType) -> str:
    if stored.physical is Physical.date:
        return _in_years(raw, raw)
    return f"({_timestamp(raw, stored)})::date"


def _timestamp(raw: str, stored: PostgresType) -> str:
    if stored.physical is Physical.text:
        moment = _with({"at": _parts(_written(raw), _MOMENT_OF_PARTS)}, _in_years("at", "at"))
        return moment.replace(" AS q)", " AS q3)")
    value = (
        f"({raw} AT TIME ZONE 'UTC')"
        if stored.physical is Physical.instant
        else f"{raw}::timestamp"
    )
    return _in_years(raw, value)


def _in_years(raw: str, value: str) -> str:
    """Return `value` where the day or moment `raw` lies in the years 1 to 9999; the session's zone is UTC."""
    first, end = _YEARS
    return f"CASE WHEN {raw} >= '{first}' AND {raw} < '{end}' THEN {value} END"
