"""The order of a salted hash, which says which rows and groups of a unit count.

An MD5 is ordered as its hexadecimal digits from the last to the first, read as a text:

    PostgreSQL, Spark   reverse(md5(text))
    Python              md5(text).hexdigest()[::-1]
    DuckDB              a number of 16 bytes, which it sorts in half the time and space of 32 digits

DuckDB's `md5_number` counts the last byte most, but of each byte the first digit. Both digits are
exchanged, at a hundredth of the cost of the hash itself. The number is read twice for that; it is named as the
one element of a list, as DuckDB would compute it twice within a window and carry a column of its own through it.
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from dprelease.engines.typed_sql import number

_HASHED = "hashed"
_DIGITS = int("0F" * 16, 16)


def hash_order(text: exp.Expression) -> exp.Expression:
    """Return what rows are ordered by, of the text that is hashed."""
    digest = exp.Anonymous(this="md5_number", expressions=[text])
    least = exp.BitwiseAnd(this=_name(), expression=_wide(_DIGITS))
    up = exp.BitwiseLeftShift(this=exp.Paren(this=least), expression=_wide(4))
    down = exp.BitwiseRightShift(this=_name(), expression=_wide(4))
    low = exp.BitwiseAnd(this=exp.Paren(this=down), expression=_wide(_DIGITS))
    swapped = exp.BitwiseOr(this=exp.Paren(this=up), expression=exp.Paren(this=low))
    each = exp.Lambda(this=swapped, expressions=[exp.to_identifier("h")])
    listed = exp.Transform(this=exp.Array(expressions=[digest]), expression=each)
    order = exp.Bracket(this=listed, expressions=[number(1)], offset=1)
    order.meta[_HASHED] = True
    return order


def hashed_text(node: exp.Expression) -> exp.Expression | None:
    """Return the text that is hashed where `node` is an order of `hash_order`, for another dialect."""
    if not isinstance(node, exp.Bracket) or not node.meta.get(_HASHED):
        return None
    digest = next(a for a in node.find_all(exp.Anonymous) if a.name == "md5_number")
    return cast("exp.Expression", digest.expressions[0])


def _name() -> exp.Expression:
    return exp.to_identifier("h")


def _wide(value: int) -> exp.Expression:
    return exp.Cast(this=number(value), to=exp.DataType.build("UHUGEINT", dialect="duckdb"))
