"""Number of contribution-bounded rows, and number of units.

A row changes `count` by 1 (m rows of a user by at most m); a unit changes `count(persons)` by 1
per group it is in. Domain {0..N} with N the public cap, or {0..n} when n is public; then the count
is a public constant and costs nothing
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.direct import cell_bounds, cells_themselves, own_name
from dprelease.aggregates.encoding import Context, Encoding, Measure
from dprelease.aggregates.scalar import require_cap
from dprelease.schema.domain import Domain

__all__ = ["Count", "aggregate", "persons"]


class Count:
    """`count` or `count(persons)`."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self._kind = kind

    def domain(self, context: Context) -> Domain:
        return Domain(0, require_cap(context))

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        n = context.public_rows
        if n is not None:
            return (
                Encoding(
                    family="constant",
                    key=("constant", "count"),
                    cells=("rows",),
                    measures=(),
                    weights=(),
                    per_row=0,
                    per_swap=0,
                    public_rows=n,
                    value=Fraction(n),
                ),
            )
        return (
            Encoding(
                family="scalar",
                key=("scalar", self._kind, context.spec.name),
                cells=(self._kind,),
                measures=(Measure(self._kind),),
                weights=((1,),),
                per_row=1,
                per_swap=1,
                upper=require_cap(context),
                per_unit=self._kind == "persons",
            ),
        )

    columns = staticmethod(own_name)
    finish = staticmethod(cells_themselves)
    interval = staticmethod(cell_bounds)


aggregate = Count("count", "rows")
persons = Count("count_persons", "persons")
