"""A statistic as it was asked for becomes one whose columns, codes and condition are known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dprelease.query.bounded import Code
    from dprelease.query.graph import Graph
    from dprelease.query.nodes import Expression
    from dprelease.query.weight import Weight
    from dprelease.schema.column import Column
    from dprelease.schema.release_spec import StatisticSpec


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic with its arguments resolved.

    `function` is the statistic's registered name (`count(persons)` is `count_persons`).
    `columns` and `codes` are of a statistic of several columns, in the order of the columns'
    names: covariance(b, a) is covariance(a, b). `column` and `code` are None then.
    `public_rows` is n when the rows that enter this statistic are publicly many.
    `weight` says how much a row counts, in a weighted statistic.
    """

    spec: StatisticSpec
    function: str
    column: Column | None = None
    condition: Expression | None = None
    code: Code | None = None
    edges: tuple[Fraction, ...] = ()
    public_rows: int | None = None
    columns: tuple[Column, ...] = ()
    codes: tuple[Code, ...] = ()
    graph: Graph | None = None
    weight: Weight | None = None

    @property
    def read(self) -> list[Column]:
        """Its columns."""
        weight = None if self.weight is None else self.weight.column
        return [c for c in (self.column, weight, *self.columns) if c is not None]
