"""A typed column as SQL of its cleaned value (`query.cleaning`); total on every cell.

A number on a grid passes two stages, so that each is one expression over a named column:

    s = its steps (`code_sql.steps`)
    z = (nearest allowed step) * num / den      a double, one rounding where the product is below 2**53

A category's cell meets a declared value by the text that `spelt` makes of it (`schema.labels`).

`clean_rows` does the same operations in plain Python. Null is tested first: LEAST and GREATEST skip it.
"""

from __future__ import annotations

import math

from sqlglot import exp

from dprelease.engines.code_sql import Bind, code_of_steps, is_null
from dprelease.engines.request import rounding
from dprelease.engines.typed_sql import Make, case, number, trimmed, try_cast
from dprelease.query.bounded import Fixed
from dprelease.schema.column import Column
from dprelease.schema.labels import TRUTHS, compared_by_value


def snapped_cleaned(code: Fixed, name: str, bind: Bind) -> exp.Expression:
    """Return z as DOUBLE from the column `name` that holds s."""
    doubles = rounding(code)
    place: exp.Expression = exp.Paren(this=code_of_steps(code, name))
    if code.grid.lower:
        place = exp.Paren(this=exp.Add(this=place, expression=number(code.grid.lower)))
    value = try_cast(place, "DOUBLE")
    if doubles.num != 1:
        value = exp.Mul(this=value, expression=bind(doubles.num, "DOUBLE"))
    if doubles.den != 1:
        value = exp.Div(this=value, expression=bind(doubles.den, "DOUBLE"))
    return value


def number_cleaned(declared: Column, make: Make, bind: Bind) -> exp.Expression:
    """Return z of a number without a grid: clamped to finite ends and moved out of gaps, in doubles."""
    default = declared.null_default
    branches = [
        (is_null(make()), exp.null() if default is None else bind(float(default), "DOUBLE"))
    ]
    if declared.domain is not None:
        low, high = declared.domain.hull
        for compare, end in ((exp.LT, low), (exp.GT, high)):
            if math.isfinite(end):
                branches.append(
                    (compare(this=make(), expression=bind(end, "DOUBLE")), bind(end, "DOUBLE"))
                )
        for left, right in declared.domain.forbidden:
            ends = [bind(end, "DOUBLE") for end in (left, right)]
            inside = exp.And(
                this=exp.GT(this=make(), expression=ends[0]),
                expression=exp.LT(this=make(), expression=ends[1]),
            )
            below = exp.Paren(this=exp.Sub(this=make(), expression=ends[0].copy()))
            above = exp.Paren(this=exp.Sub(this=ends[1].copy(), expression=make()))
            nearer = case(
                (exp.LTE(this=below, expression=above), ends[0].copy()), default=ends[1].copy()
            )
            branches.append((inside, nearer))
    return case(*branches, default=make())


def boolean_cleaned(declared: Column, make: Make) -> exp.Expression:
    """Return a boolean, null at its default."""
    assert declared.null_default is not None
    return exp.Coalesce(
        this=make(), expressions=[exp.true() if declared.null_default else exp.false()]
    )


def label_cleaned(declared: Column, make: Make, known: Make, bind: Bind) -> exp.Expression:
    """Return a category's key; `known` makes the declared value that a join found, null for none."""

    def key(label: str | None) -> exp.Expression:
        return exp.null() if label is None else bind(label, "VARCHAR")

    return case(
        (is_null(make()), key(declared.null_label)),
        (is_null(known()), key(declared.other)),
        default=known(),
    )


def spelt(declared: Column, make: Make) -> exp.Expression:
    """Return the text by which a cell meets the column's declared values; `make` gives its text.

    The patterns have no escapes and no group that repeats: they mean the same in every engine.
    """
    if not declared.values:
        return make()

    def text() -> exp.Expression:
        return trimmed(make())

    def fits(pattern: str) -> exp.Expression:
        return exp.RegexpLike(this=text(), expression=exp.Literal.string(pattern))

    if not compared_by_value(declared.values, declared.lists):
        return text()
    word = exp.Lower(this=text())
    truth = exp.In(this=word, expressions=[exp.Literal.string(t) for t in TRUTHS])
    written = exp.And(
        this=exp.Not(this=fits("[^-+.0-9]")),
        expression=fits("^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)$"),
    )
    return case((written, _number_spelt(text, fits("[.]"))), (truth, word.copy()), default=text())


def _number_spelt(text: Make, has_point: exp.Expression) -> exp.Expression:
    """Return a written number without a plus and without zeros that say nothing."""

    def stripped(this: exp.Expression, letters: str, position: str) -> exp.Expression:
        return exp.Trim(this=this, expression=exp.Literal.string(letters), position=position)

    def literal(letters: str) -> exp.Expression:
        return exp.Literal.string(letters)

    def begins(this: exp.Expression, letter: str) -> exp.Expression:
        return exp.EQ(this=exp.Left(this=this, expression=number(1)), expression=literal(letter))

    digits = stripped(text(), "+-0", "LEADING")
    short = stripped(stripped(digits.copy(), "0", "TRAILING"), ".", "TRAILING")
    digits = case((has_point, short), default=digits)
    zero = exp.EQ(this=digits.copy(), expression=literal(""))
    sign = case((begins(text(), "-"), literal("-")), default=literal(""))
    first = case((begins(digits.copy(), "."), literal("0")), default=literal(""))
    number_text = exp.Concat(expressions=[sign, first, digits.copy()])
    return case((zero, literal("0")), default=number_text)
