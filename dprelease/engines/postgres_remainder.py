"""The remainder of two doubles as PostgreSQL's SQL: C's `fmod`, which PostgreSQL has for no double.

It is exact, as `fmod` is. By its bits a double is a whole number times a power of two; both operands
brought to the lesser of their powers are whole numerics A and B. A mod B is below 2**53, because one of
the two is, so it is a double; its product with that power is one too, as every remainder of doubles is.

| a, b                         | value                                            |
|------------------------------|--------------------------------------------------|
| a not finite, or b = 0       | null                                             |
| both whole, below 2**53      | the remainder of BIGINTs, which has the sign of a |
| the size of a less than b's  | a; b may be infinite                             |
| else                         | (A mod B) times the lesser power, with the sign of a |
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp

from dprelease.engines.code_sql import aliased, column
from dprelease.engines.typed_sql import case, data_type

_BITS = "(('x' || ENCODE(FLOAT8SEND({0}), 'hex'))::BIT(64)::BIGINT)"
_EXPONENT = f"(({_BITS} >> 52) & 2047)"
_POWER = f"(GREATEST({_EXPONENT}, 1) - 1075)::INT"
_WHOLE = (
    f"(({_BITS} & 4503599627370495) + CASE WHEN {_EXPONENT} = 0 THEN 0 ELSE 4503599627370496 END)"
)
_VALUE = """CASE
  WHEN b = 0::FLOAT8 OR NOT ABS(a) <= 1.7976931348623157e308::FLOAT8 THEN NULL
  WHEN ABS(a) < ABS(b) THEN a
  ELSE SIGN(a) * POWER(2::FLOAT8, LEAST(e, f)::FLOAT8) * MOD(
    m::NUMERIC * POWER(2::NUMERIC, GREATEST(e - f, 0)::NUMERIC),
    n::NUMERIC * POWER(2::NUMERIC, GREATEST(f - e, 0)::NUMERIC))::FLOAT8
END"""

Make = Callable[[], exp.Expression]


def remainder(a: Make, b: Make) -> exp.Expression:
    """Return the remainder of the doubles that `a` and `b` make; it raises for none."""
    parts = {"e": _POWER, "m": _WHOLE}, {"f": _POWER, "n": _WHOLE}
    named = [
        aliased(_tree(sql.format(operand)), name)
        for operand, own in zip("ab", parts, strict=True)
        for name, sql in own.items()
    ]
    both = _below([aliased(a(), "a"), aliased(b(), "b")], "r0")
    inner = _below([column("a"), column("b"), *named], "r1", both)
    exact = exp.Subquery(this=exp.Select(expressions=[_tree(_VALUE)]).from_(inner, copy=False))
    whole = exp.And(this=_is_small(a()), expression=_is_small(b()))
    divides = exp.NEQ(this=b(), expression=_tree("0::FLOAT8"))
    rest = exp.Anonymous(this="MOD", expressions=[_bigint(a()), _bigint(b())])
    quick = exp.Cast(this=rest, to=data_type("DOUBLE"))
    return case((exp.And(this=whole, expression=divides), quick), default=exact)


def _below(
    parts: list[exp.Expression], name: str, source: exp.Expression | None = None
) -> exp.Expression:
    """Return a subquery that computes each part once: OFFSET keeps the planner's hands off."""
    select = exp.Select(expressions=parts).offset(0, copy=False)
    if source is not None:
        select = select.from_(source, copy=False)
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _tree(sql: str) -> exp.Expression:
    """Return PostgreSQL's text as a tree; MOD stays a call, as psycopg would read a per cent sign."""
    tree = sqlglot.parse_one(sql, read="postgres")
    return tree.transform(
        lambda node: (
            exp.Anonymous(this="MOD", expressions=[node.this.unnest(), node.expression.unnest()])
            if isinstance(node, exp.Mod)
            else node
        )
    )


def _is_small(tree: exp.Expression) -> exp.Expression:
    below = exp.LT(this=exp.Abs(this=tree), expression=_tree("9007199254740992::FLOAT8"))
    return exp.And(
        this=below, expression=exp.EQ(this=tree.copy(), expression=exp.Floor(this=tree.copy()))
    )


def _bigint(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=data_type("BIGINT"))
