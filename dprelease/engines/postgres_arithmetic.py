"""Sums, products, quotients and remainders of doubles as PostgreSQL's SQL that raises for no operands.

PostgreSQL raises where finite operands give an infinite result, or operands that are not 0 a result
of 0. Operands of ordinary size take the first branch; where constants alone bound the operands there
is not a branch at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

from sqlglot import exp

from dprelease.engines.code_sql import aliased, all_of, column
from dprelease.engines.postgres_cells import LARGEST
from dprelease.engines.postgres_remainder import remainder
from dprelease.engines.typed_sql import case, data_type

_SIMPLE = 40
"""Nodes of an operand that is written again rather than named by a subquery of its own."""


class DoubleArithmetic:
    """Sums, products and quotients of doubles that raise for none; null where not finite.

    Sums       half of each added tells whether the sum of two large ones is finite.
    Products   the sum of the logarithms tells, within 1e-13; between 308.2 and 308.3 the product of one
               scaled by 2**-600 does, exactly. Quotients likewise, by the difference.
    Remainders `postgres_remainder`.
    """

    def __init__(self, most: Callable[[exp.Expression], float]) -> None:
        self._most = most
        self._names = count()

    def guarded(self, node: exp.Expression) -> exp.Expression:
        """Return `node`, which is in no tree, behind its conditions."""
        if self._is_safe(node):
            return exp.Paren(this=node)
        with_names, left, right = self._named(node.this, node.expression)
        if isinstance(node, exp.Mod):
            return with_names(remainder(left, right))
        made: dict[type[exp.Expression], Callable[..., exp.Expression]] = {
            exp.Add: self._sum,
            exp.Sub: self._sum,
            exp.Mul: self._product,
            exp.Div: self._quotient,
        }
        return with_names(made[type(node)](type(node), left, right))

    def _is_safe(self, node: exp.Expression) -> bool:
        """Return whether the sizes of the operands alone say that the operation does not raise."""
        left, right = self._most(node.this), self._most(node.expression)
        if isinstance(node, exp.Add | exp.Sub):
            return min(left, right) < 1e290
        by_whole = (
            isinstance(node.expression, exp.Cast) and right >= 1 and right == math.floor(right)
        )
        return isinstance(node, exp.Mul) and by_whole and left * right <= float(LARGEST)

    def _named(
        self, left: exp.Expression, right: exp.Expression
    ) -> tuple[
        Callable[[exp.Expression], exp.Expression],
        Callable[[], exp.Expression],
        Callable[[], exp.Expression],
    ]:
        """Return makers of both operands, and what puts the subquery that names them around a tree."""
        name = f"q{next(self._names)}"
        named: list[exp.Expression] = []

        def builder(tree: exp.Expression, own: str) -> Callable[[], exp.Expression]:
            if sum(1 for _ in tree.walk()) <= _SIMPLE:
                return lambda: exp.Paren(this=tree.copy())
            named.append(aliased(tree, own))
            return lambda: column(own, name)

        one, other = builder(left, "a"), builder(right, "b")

        def around(tree: exp.Expression) -> exp.Expression:
            if not named:
                return exp.Paren(this=tree)
            inner = exp.Select(expressions=named).offset(0, copy=False)
            source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(name)))
            return exp.Subquery(this=exp.Select(expressions=[tree]).from_(source, copy=False))

        return around, one, other

    def _sum(
        self,
        operation: type[exp.Expression],
        a: Callable[[], exp.Expression],
        b: Callable[[], exp.Expression],
    ) -> exp.Expression:
        whole = operation(this=a(), expression=b())
        halves = operation(this=_half(a()), expression=_half(b()))
        small = exp.Or(this=_less(_abs(a()), "1e290"), expression=_less(_abs(b()), "1e290"))
        fits = exp.LTE(
            this=_abs(exp.Paren(this=halves)), expression=double(repr(float(LARGEST) / 2))
        )
        return case((small, whole), (fits, whole.copy()))

    def _product(
        self,
        operation: type[exp.Expression],
        a: Callable[[], exp.Expression],
        b: Callable[[], exp.Expression],
    ) -> exp.Expression:
        sizes = exp.Add(this=_log(a()), expression=_log(b()))
        larger = exp.Greatest(this=_abs(a()), expressions=[_abs(b())], ignore_nulls=True)
        lesser = exp.Least(this=_abs(a()), expressions=[_abs(b())], ignore_nulls=True)
        scaled = exp.Mul(this=exp.Mul(this=larger, expression=_scale()), expression=lesser)
        zero = case(
            (_zero(a()), case((_finite(b()), double("0")))),
            (_zero(b()), case((_finite(a()), double("0")))),
        )
        either = exp.Or(this=_zero(a()), expression=_zero(b()))
        return case(
            (_ordinary(a(), b()), operation(this=a(), expression=b())),
            (either, zero),
            default=_by_size(sizes, operation(this=a(), expression=b()), scaled),
        )

    def _quotient(
        self,
        operation: type[exp.Expression],
        a: Callable[[], exp.Expression],
        b: Callable[[], exp.Expression],
    ) -> exp.Expression:
        sizes = exp.Sub(this=_log(a()), expression=_log(b()))
        scaled = exp.Div(this=exp.Mul(this=_abs(a()), expression=_scale()), expression=_abs(b()))
        return case(
            (_zero(b()), exp.null()),
            (_ordinary(a(), b()), operation(this=a(), expression=b())),
            (_zero(a()), case((exp.Not(this=_zero(b())), double("0")))),
            (exp.Not(this=_finite(b())), case((_finite(a()), double("0")))),
            default=_by_size(sizes, operation(this=a(), expression=b()), scaled),
        )


def _by_size(
    sizes: exp.Expression, result: exp.Expression, scaled: exp.Expression
) -> exp.Expression:
    """Return a result whose decimal logarithm is about `sizes`: 0, itself, or null if it is infinite."""
    largest = exp.Mul(this=double(LARGEST), expression=_scale())
    near = case((exp.LTE(this=scaled, expression=largest), result.copy()))
    return case(
        (exp.LT(this=sizes, expression=double("-323.606")), double("0")),
        (exp.LTE(this=sizes.copy(), expression=double("308.2")), result),
        (exp.LTE(this=sizes.copy(), expression=double("308.3")), near),
    )


def double(text: str) -> exp.Expression:
    """Return a constant that is a double, not a numeric, which would be slower and wider."""
    literal: exp.Expression = exp.Literal.number(text.removeprefix("-"))
    if text.startswith("-"):
        literal = exp.Paren(this=exp.Neg(this=literal))
    return exp.Cast(this=literal, to=data_type("DOUBLE"))


def _scale() -> exp.Expression:
    return double(repr(2.0**-600))


def _half(tree: exp.Expression) -> exp.Expression:
    return exp.Mul(this=tree, expression=double("0.5"))


def _abs(tree: exp.Expression) -> exp.Expression:
    return exp.Abs(this=tree)


def _log(tree: exp.Expression) -> exp.Expression:
    """Return the decimal logarithm of the size of a double that is not 0."""
    return exp.Anonymous(this="LOG", expressions=[_abs(tree)])


def _less(tree: exp.Expression, text: str) -> exp.Expression:
    return exp.LT(this=tree, expression=double(text))


def _zero(tree: exp.Expression) -> exp.Expression:
    return exp.EQ(this=tree, expression=double("0"))


def _finite(tree: exp.Expression) -> exp.Expression:
    return exp.LTE(this=_abs(tree), expression=double(LARGEST))


def _ordinary(*operands: exp.Expression) -> exp.Expression:
    return all_of(
        exp.Between(this=_abs(tree), low=double("1e-150"), high=double("1e150"))
        for tree in operands
    )
