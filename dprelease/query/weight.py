"""A column that says how much its row counts: the second argument of a weighted statistic.

A weight is a declared column with a range and a step, stored or derived from its own row. It is never
negative. It is cleaned and clamped like any column, and its nulls follow its own declaration: a row
without a weight is left out, or has the declared default.

Units: weights in steps of their column, counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.core.errors import ConfigError, PlanError
from dprelease.query.arguments import (
    NUMERIC,
    Arguments,
    RequestContext,
    Written,
    find_column,
    no_range,
    unquoted,
)
from dprelease.query.bounded import Fixed
from dprelease.query.cleaning import code_of
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column
from dprelease.schema.release_spec import StatisticSpec
from dprelease.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight's column and its code: the weight is `least` plus the code, in steps."""

    column: Column
    code: Fixed

    @property
    def least(self) -> int:
        return self.code.grid.lower

    @property
    def most(self) -> int:
        return self.code.grid.upper

    @property
    def step(self) -> Fraction:
        return self.code.step


class WithWeight(Arguments):
    """The arguments of an unweighted statistic, and the column that weighs its rows at last."""

    def __init__(self, of: Arguments) -> None:
        self.of = of

    @property
    def sql(self) -> Written:  # type: ignore[override]
        """As the unweighted statistic's arguments are written."""
        return self.of.sql

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        return (*self.of.read(texts[:-1], origin), unquoted(texts[-1]))

    def named(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return arguments[:-1]

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        found = self.of.check(replace(spec, arguments=spec.arguments[:-1]), schema)
        column = find_column(schema, spec.arguments[-1], spec.origin)
        if column.kind not in NUMERIC or column.name == spec.arguments[0]:
            raise ConfigError(
                f"`{spec.text}` needs a column of weights, another one than what it weighs",
                where=spec.origin,
                why=f"`{column.name}` is of kind {column.kind}"
                if column.kind not in NUMERIC
                else f"`{column.name}` would weigh itself",
                fix="declare the weight as integer or number with a range that starts at 0 or above",
                code="DPR133",
            )
        return replace(found, arguments=spec.arguments)

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        found = self.of.resolve(spec, context)
        weight = weight_of(spec, context.schema.columns[spec.arguments[-1]])
        size = None if weight.code.default is None else found.public_rows
        return replace(found, weight=weight, public_rows=size)


def weight_of(spec: StatisticSpec, column: Column) -> Weight:
    """Return the weight in `column`.

    Raises:
        PlanError: it has no finite range (DPR202), may be negative, or is the same for all rows (DPR223).
    """
    code = code_of(column)
    if code is None:
        raise no_range(spec, column)
    if code.grid.lower < 0:
        raise PlanError(
            f"{spec.text} needs weights of 0 and above: `{column.name}` may be negative",
            where=spec.origin,
            why="a negative weight would let one row take others away, and a weighted mean leave its range",
            fix=f"give `{column.name}` a range that starts at 0 or above",
            code="DPR223",
        )
    if code.grid.hull_steps == 0:
        raise PlanError(
            f"{spec.text} weighs nothing: `{column.name}` can hold one value only",
            where=spec.origin,
            why="every row would have the same weight",
            fix="ask for the statistic without `weighted_by`",
            code="DPR223",
        )
    return Weight(column, code)
