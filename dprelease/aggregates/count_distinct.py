"""Number of different values of a column, among those that are publicly possible.

A category's declared values (undeclared ones and null are none of them), true and false, or the
whole numbers of a declared range (a row outside it counts as the nearest one). Domain: {0..number
of possible values}. Adding a row adds at most one value; replacing one removes at most one and
adds at most one, so the count moves by 1 either way; m rows move it by at most m
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).
"""

from __future__ import annotations

from dprelease.aggregates.direct import cell_bounds, cells_themselves, own_name
from dprelease.aggregates.encoding import Context, Encoding, Measure
from dprelease.errors import PlanError
from dprelease.query.bounded import Fixed, Label
from dprelease.schema.column import Kind
from dprelease.schema.domain import Domain

__all__ = ["CountDistinct", "aggregate"]

_MOST = 2**16


class CountDistinct:
    name = "count_distinct"

    def domain(self, context: Context) -> Domain:
        return Domain(0, len(_possible(context)))

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        return (
            Encoding(
                family="scalar",
                key=("scalar", "distinct", context.spec.name),
                cells=(f"different values of {context.subject}",),
                measures=(Measure("distinct", context.code),),
                weights=((1,),),
                per_row=1,
                per_swap=1,
                upper=len(_possible(context)),
            ),
        )

    columns = staticmethod(own_name)
    finish = staticmethod(cells_themselves)
    interval = staticmethod(cell_bounds)


def _possible(context: Context) -> range:
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


aggregate = CountDistinct()
