"""Number of different values of a column, among those that are publicly possible.

A category's declared values (undeclared ones and null are none of them), true and false, or the
whole numbers of a declared range (a row outside it counts as the nearest one). Domain: {0..number
of possible values}; of a public number of rows of which each has such a value, at least 1 and at
most one per row. Adding a row adds at most one value; replacing one removes at most one and
adds at most one, so the count moves by 1 either way; m rows move it by at most m
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).
"""

from __future__ import annotations

from dataclasses import replace

from dprelease.core.errors import PlanError
from dprelease.query.arguments import NumberColumn, RequestContext, Syntax, Written
from dprelease.query.bounded import Fixed, Label
from dprelease.query.cleaning import code_of
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import Planned, StatisticKind
from dprelease.statistics.measurement import Context, Measure, Measurement

_MOST = 2**16


class AnyColumn(NumberColumn):
    """One column of any kind; the statistic says what it can count."""

    sql: Written = "text"

    def fits(self, column: Column) -> bool:
        del column
        return True

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        column = context.schema.columns[spec.arguments[0]]
        found = Statistic(spec, spec.function, column=column)
        if column.kind is Kind.category:
            found = replace(found, code=Label(column.name, column.values))
        elif code_of(column) is not None:
            found = super().resolve(spec, context)
        _possible(found)
        return found


class CountDistinct(StatisticKind):
    name = "count_distinct"
    syntax = Syntax(1, 1, "count_distinct(region)", AnyColumn(), ("COUNT_DISTINCT",))
    heading = "Number of distinct {}"
    measure = "values"
    whole = counting = True

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        possible = len(_possible(planned.statistic))
        return (f"among {possible:,} possible values; other values and nulls are none",)

    def domain(self, context: Context) -> Domain:
        return Domain(*_ends(context))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        low, high = _ends(context)
        return (
            Measurement(
                family="scalar",
                key=("scalar", "distinct", context.spec.name),
                cells=(f"different values of {context.subject}",),
                measures=(Measure("distinct", context.code),),
                weights=((1,),),
                l1_added_row=1,
                l1_replaced_row=1,
                lower=low,
                upper=high,
            ),
        )


def _ends(context: Context) -> tuple[int, int]:
    """Return how few and how many different values there may be."""
    possible, rows, code = len(_possible(context)), context.public_rows, context.code
    if rows is None or not isinstance(code, Fixed) or code.default is None:
        return 0, possible
    return 1, min(possible, rows)


def _possible(context: Context | Statistic) -> range:
    """Return one code per value that can be counted.

    Raises:
        PlanError: the column has no public list of values, or too long a one (DPR216).
    """
    code, column = context.code, context.column
    assert column is not None
    count = 0
    if isinstance(code, Label):
        count = len(code.values)
    elif isinstance(code, Fixed) and column.kind in (Kind.boolean, Kind.integer):
        count = len(code.grid)
    if not 0 < count <= _MOST:
        raise PlanError(
            f"cannot bound {context.spec.text}: `{column.name}` has no short public list of values",
            where=context.spec.origin,
            why=f"how many values are possible must be public, and at most {_MOST:,}",
            fix="count a category with declared `values`, a boolean, or an integer with a short range",
            code="DPR216",
        )
    return range(count)


statistic = CountDistinct()
