"""Number of contribution-bounded rows, and number of units.

A row changes `count` by 1 (m rows of a user by at most m); a unit changes `count(persons)` by 1
per group it is in. Domain {0..N} with N the public cap, or {0..n} when n is public; then the count
is a public constant and costs nothing
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).
"""

from __future__ import annotations

import re
from fractions import Fraction

from dprelease.core.errors import ConfigError
from dprelease.query.arguments import Arguments, RequestContext, Syntax, condition_of, not_of_rows
from dprelease.query.bounded import Condition
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column
from dprelease.schema.domain import Domain
from dprelease.schema.naming import nearest, quoted
from dprelease.schema.release_spec import StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.statistics.base import StatisticKind
from dprelease.statistics.measurement import Context, Measure, Measurement
from dprelease.statistics.scalar import require_cap


class RowsOrPersons(Arguments):
    """Nothing, or `*`, for rows; `persons` for units."""

    crossed = True

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        del origin
        return () if texts == ("*",) else texts

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        if spec.arguments in ((), ("persons",)):
            return spec
        [text] = spec.arguments
        asked, column = f"count where {text}", re.sub(r"(?i)^distinct\s+", "", text)
        if re.fullmatch(r'[^\W\d]\w*|".*"|1', column):
            near = nearest(column.strip('"'), schema.columns)
            known = "count where {} is not null" if column == text else "count_distinct({})"
            asked = known.format(quoted(near)) if near else "count"
            whose = column != text and near == getattr(schema.unit, "column", "")
            asked = "count(persons)" if whose or nearest(text, ("persons",)) else asked
        else:
            condition_of(text, schema, origin=spec.origin)  # says what it cannot read
        raise ConfigError(
            f"`count({text[:40]})` is not a statistic",
            where=spec.origin,
            why="count is of rows, count(persons) of units, count_distinct of a category, a boolean or an integer with a short range",
            fix=f'write "{asked}"',
            code="DPR133",
        )

    def weighable(self, arguments: tuple[str, ...]) -> bool:
        return not arguments  # a weight is a row's, not a person's

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        kind = persons if spec.arguments == ("persons",) else statistic
        if spec.where and kind is persons:
            raise not_of_rows(spec.text, spec.origin)
        if spec.where:
            condition = condition_of(spec.where, context.schema, origin=spec.origin)
            return Statistic(spec, some_rows.name, condition=condition, code=Condition(condition))
        return Statistic(spec, kind.name, public_rows=context.size)


class Count(StatisticKind):
    """`count` or `count(persons)`."""

    whole = additive = adds_up = counting = True

    def __init__(self, name: str, kind: str, measure: str, syntax: Syntax | None) -> None:
        self.name = name
        self.measure = measure
        self.syntax = syntax
        self._kind = kind
        self.of_rows = kind == "rows"
        self.degree = 0 if self.of_rows else None

    def title(self, arguments: tuple[str, ...]) -> str:
        units = self._kind == "persons" or arguments == ("persons",)
        return "Number of units" if units else "Number of rows"

    def adds_over(self, *, several: bool) -> bool:
        return self.of_rows or not several  # a person is counted in each of their groups

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> int | None:
        del low, column
        return int(high) if high >= 1 else None

    def domain(self, context: Context) -> Domain:
        return Domain(0, require_cap(context))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        n = context.public_rows
        if n is not None:
            return (
                Measurement(
                    family="constant",
                    key=("constant", "count"),
                    cells=("rows",),
                    measures=(),
                    weights=(),
                    l1_added_row=0,
                    l1_replaced_row=0,
                    public_rows=n,
                    value=Fraction(n),
                ),
            )
        return (
            Measurement(
                family="scalar",
                key=("scalar", self._kind, context.spec.name),
                cells=(self._kind,),
                measures=(Measure(self._kind, context.code, int(context.code is not None)),),
                weights=((1,),),
                l1_added_row=1,
                l1_replaced_row=1,
                upper=require_cap(context),
                per_unit=self._kind == "persons",
            ),
        )


statistic = Count(
    "count",
    "rows",
    "rows",
    Syntax(0, 1, "count", RowsOrPersons(), ("COUNT",), certain=True, weighted="weighted_count"),
)
some_rows = Count("count_where", "power", "rows", None)  # written count where …
persons = Count("count_persons", "persons", "units", None)  # written count(persons)
