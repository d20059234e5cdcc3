"""Histogram of a clamped column: one count per declared bin, half-open, the last one closed.

A row falls into at most one bin, so adding a row moves the vector by 1 in L1 and replacing one by
2 (`docs/theory/sensitivities-and-contribution-bounding.md#scalars`). Values outside the edges are
counted nowhere. Bins come from the schema, never from the data. Domain of every bin: {0..N}.
"""

from __future__ import annotations

import math

from dprelease.aggregates.direct import cell_bounds, cells_themselves
from dprelease.aggregates.encoding import Context, Encoding, Measure
from dprelease.aggregates.scalar import require_cap
from dprelease.errors import PlanError
from dprelease.numeric import plain
from dprelease.schema.domain import Domain

__all__ = ["Histogram", "aggregate", "bin_labels"]


def bin_labels(context: Context) -> tuple[str, ...]:
    """Return `[5,9)`, ..., the last one closed."""
    edges = [str(plain(e)) for e in context.edges]
    last = len(edges) - 2
    return tuple(f"[{edges[i]},{edges[i + 1]}{']' if i == last else ')'}" for i in range(last + 1))


class Histogram:
    name = "histogram"

    def domain(self, context: Context) -> Domain:
        return Domain(0, require_cap(context))

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        column, edges, labels = context.column, context.edges, bin_labels(context)
        assert column is not None
        grid = column.grid
        measures = []
        for i, label in enumerate(labels):
            low = math.ceil(edges[i] / context.step)
            last = i == len(labels) - 1
            high = (
                math.floor(edges[i + 1] / context.step)
                if last
                else math.ceil(edges[i + 1] / context.step) - 1
            )
            if not any(max(low, a) <= min(high, b) for a, b in grid.runs):
                raise PlanError(
                    f"the bin {label} of {context.spec.text} can hold no allowed value",
                    where=context.spec.origin,
                    why=f"the domain of `{column.name}` is {column.domain}",
                    fix="remove the bin, or widen the column's domain",
                    code="DPR204",
                )
            measures.append(
                Measure("between", context.code, low=low - grid.lower, high=high - grid.lower)
            )
        n = len(labels)
        return (
            Encoding(
                family="bins",
                key=("bins", context.subject, *labels, context.spec.name),
                cells=labels,
                measures=tuple(measures),
                weights=tuple(tuple(int(i == j) for j in range(n)) for i in range(n)),
                per_row=1,
                per_swap=2,
                upper=require_cap(context),
                public_rows=context.public_rows,
            ),
        )

    def columns(self, context: Context) -> tuple[str, ...]:
        return tuple(f"{context.spec.name}{label}" for label in bin_labels(context))

    finish = staticmethod(cells_themselves)
    interval = staticmethod(cell_bounds)


aggregate = Histogram()
