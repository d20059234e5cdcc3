"""Cumulative distribution function of a clamped column: the share of rows of at most each declared edge.

F(e) = rows with a value of at most e, over all rows whose value is known. The edges cut the column's range into
bins that hold every row, (e, e'] between two edges, which are measured as a tree (`statistics.ranges`). Published
is the quotient of fitted counts: it never falls from one edge to the next, lies in [0, 1], and is 1 from the
column's upper end on. Edges come from the schema, never from the data.

Source: `docs/theory/publications-that-add-up.md#trees-over-bins`.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from dprelease.core.errors import PlanError
from dprelease.core.numeric import plain
from dprelease.fitting.estimate import ONE
from dprelease.intervals.quotient import middle
from dprelease.query.arguments import Syntax
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Form, Planned, Reading, StatisticKind
from dprelease.statistics.histogram import ColumnAndEdges
from dprelease.statistics.measurement import Context, Measure, Measurement
from dprelease.statistics.ranges import noisy_of, prefix_weights, tree_measurements, tree_notes
from dprelease.statistics.tree_fit import fitted_prefixes, noise_of, share_ends
from dprelease.statistics.tree_shape import published


class Cdf(StatisticKind):
    name = "cdf"
    syntax = Syntax(2, 2, "cdf(income, [10, 20, 50])", ColumnAndEdges(), ("CDF",))
    heading = "Cumulative distribution of {0}"
    measure = ""
    by_spread = False

    def domain(self, context: Context) -> Domain:
        del context
        return Domain(0, 1)

    def columns(self, context: Context) -> tuple[str, ...]:
        return tuple(f"{context.spec.name}[{plain(e)}]" for e in context.edges)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        bins, labels = _bins(context)
        return tree_measurements(
            context, "tree_of_shares", bins, labels, context.cap, len(context.edges)
        )

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        noisy = noisy_of(measurement, cells)
        prefixes = fitted_prefixes(noisy, measurement.upper).astype(np.float64)
        bins = noisy.tree.bins
        evenly = np.arange(1, bins + 1) / bins  # no row: as if all bins were alike
        whole = prefixes[:, -1:]
        shares = np.divide(prefixes, whole, out=np.tile(evenly, (noisy.groups, 1)), where=whole > 0)
        return self._at_edges(measurement, shares)

    def _at_edges(self, measurement: Measurement, shares: Floats) -> Floats:
        """Return the prefixes that end at an edge: a last bin beyond the last edge ends at none."""
        return shares[:, : published(measurement)]

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        noisy = noisy_of(measurement, reading.raw)
        low, high = share_ends(noisy, noise_of(reading), reading.level)
        return self._at_edges(measurement, low), self._at_edges(measurement, high)

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        """Return the median-unbiased quotient of the estimates, NaN where no signal is left."""
        noisy = noisy_of(measurement, reading.raw)
        prefixes = np.asarray(np.cumsum(noisy.bins(), axis=1) / ONE, dtype=np.float64)
        whole = prefixes[:, -1:] if noisy.rows is None else np.full((len(prefixes), 1), noisy.rows)
        return self._at_edges(measurement, middle(prefixes, whole, (0.0, 1.0)))

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        """Return the quotients of least-squares coefficients; none where the sum is public."""
        if measurement.public_rows is not None:
            return None
        rows = prefix_weights(measurement)
        return tuple(Form(top, rows[-1]) for top in rows[: published(measurement)])

    def stated_for(self, planned: Planned) -> str:
        del planned
        return "on average over the edges"

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`, or release each share as `proportion(...)` with `spikes: forbid`"

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        return (*super().notes(planned, measurement), *tree_notes(measurement))


def _bins(context: Context) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """Return the bins that the edges cut the column's codes into, and their labels.

    Raises:
        PlanError: a bin can hold no allowed value (DPR204).
    """
    column, code = context.column, context.code
    assert column is not None
    assert isinstance(code, Fixed)
    grid, step, edges = column.grid, context.step, context.edges
    ends = [math.floor(e / step) for e in edges]
    last = max(run[1] for run in grid.runs)
    names = [f"({plain(a)},{plain(b)}]" for a, b in pairwise(edges)]
    labels, highs = [f"(...,{plain(edges[0])}]", *names], [*ends]
    if ends[-1] < last:
        labels, highs = [*labels, f"({plain(edges[-1])},...)"], [*ends, last]
    lows = [grid.lower, *(high + 1 for high in highs[:-1])]
    for label, low, high in zip(labels, lows, highs, strict=True):
        if not any(max(low, a) <= min(high, b) for a, b in grid.runs):
            raise PlanError(
                f"no allowed value lies in {label}, between two edges of {context.spec.text}",
                where=context.spec.origin,
                why=f"the domain of `{column.name}` is {column.domain}",
                fix="remove one of the two edges, or widen the column's domain",
                code="DPR204",
            )
    default = 0 if code.default is None else code.default
    lows[0] = min(grid.lower, grid.lower + default)
    highs[-1] = max(last, grid.lower + default)
    measures = (
        Measure("between", code, low=low - grid.lower, high=high - grid.lower)
        for low, high in zip(lows, highs, strict=True)
    )
    return tuple(measures), tuple(labels)


statistic = Cdf()
