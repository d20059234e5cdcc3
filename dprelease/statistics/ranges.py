"""Histograms whose sums of neighbouring bins are accurate: `accurate_for: ranges`.

Beside the bins, counts of runs of bins are measured, and least squares fits all of them (`statistics.tree_fit`).
The published bins are whole counts of at least 0. One bin by itself is less accurate than in a plain histogram;
a sum of many is more accurate: of a reader who adds published bins, and of `derive`, which gives the interval.
The plan takes the tree with the least variance of prefixes, or the bins alone where no tree is better: where rows
are replaced, few bins have noise that adds up to zero.

Source: `docs/theory/publications-that-add-up.md#trees-over-bins`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dprelease.fitting.estimate import ONE
from dprelease.statistics.base import Floats, Form, Planned, Reading, Rule
from dprelease.statistics.bin_sensitivity import every_row
from dprelease.statistics.histogram import Histogram
from dprelease.statistics.measurement import Context, Family, Measure, Measurement
from dprelease.statistics.scalar import require_cap
from dprelease.statistics.tree_fit import Noisy, bin_ends, fitted_bins, noise_of
from dprelease.statistics.tree_shape import Tree, best_tree, tree_of


def tree_measurements(
    context: Context,
    family: Family,
    bins: Sequence[Measure],
    labels: Sequence[str],
    cap: int | None,
    prefixes: int,
) -> tuple[Measurement, ...]:
    """Return the trees over `bins` worth pricing: the best by L1 sensitivities, by L2 sensitivities, and the bins alone.

    Args:
        prefixes: how many of them are published; 0 where the bins are.
    """
    rows = context.public_rows if every_row(bins) else None
    known, count = rows is not None, len(bins)
    trees = [
        best_tree(count, known=known, gaussian=gaussian, shares=prefixes > 0)
        for gaussian in (False, True)
    ]
    trees.append(Tree(count, (1,), known))
    return tuple(
        Measurement(
            family=family,
            key=(family, context.subject, *labels, *map(str, tree.widths), context.spec.name),
            cells=tuple(_label(tree, labels, *part) for part in tree.parts()),
            measures=tuple(bins),
            weights=(tree.widths, (count, prefixes)),
            form="binned_tree",
            l1_added_row=len(tree.widths),
            l1_replaced_row=2 * len(tree.widths),
            upper=cap,
            public_rows=rows,
        )
        for tree in dict.fromkeys(trees)
    )


def _label(tree: Tree, labels: Sequence[str], level: int, first: int, after: int) -> str:
    if level == len(tree.widths) - 1:
        return labels[first]
    return f"bins {first + 1} to {after}"


def noisy_of(measurement: Measurement, cells: Floats) -> Noisy:
    """Return a block's cells, `(groups, cells)`, as noisy counts of its tree."""
    return Noisy.from_cells(tree_of(measurement), cells, measurement.public_rows)


def prefix_weights(measurement: Measurement) -> list[tuple[Fraction, ...]]:
    """Return what the estimate of every prefix takes of every cell, to 48 binary digits.

    A public sum is not a cell: what a prefix takes of it is not part of them.
    """
    found = tree_of(measurement).weights()
    return [tuple(Fraction(round(w * 2.0**48), 1 << 48) for w in row) for row in found.tolist()]


class HistogramOfRanges(Histogram):
    """A histogram with `accurate_for: ranges`."""

    name = "histogram_of_ranges"
    syntax = None  # written histogram(...) with the option `accurate_for`
    rules: tuple[Rule, ...] = ()  # its bins are fitted to each other already

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        (plain,), cap = super().measurements(context), require_cap(context)
        return tree_measurements(context, "tree_of_bins", plain.measures, plain.cells, cap, 0)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        return fitted_bins(noisy_of(measurement, cells), measurement.upper).astype(np.float64)

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        assert measurement.upper is not None
        noisy = noisy_of(measurement, reading.raw)
        return bin_ends(noisy, noise_of(reading), reading.level, measurement.upper)

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        """Return the least-squares estimates: their noise is symmetric."""
        return np.asarray(noisy_of(measurement, reading.raw).bins() / ONE, dtype=np.float64)

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        """Return the least-squares coefficients; none where a public sum is a part of them."""
        if measurement.public_rows is not None:
            return None
        rows = [(Fraction(0),) * len(measurement.cells), *prefix_weights(measurement)]
        pairs = pairwise(rows)
        return tuple(Form(tuple(b - a for a, b in zip(*pair, strict=True))) for pair in pairs)

    def stated_for(self, planned: Planned) -> str:
        del planned
        return "for sums from the first bin on, on average"

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`, or leave out `accurate_for`"

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del planned
        return tree_notes(measurement)


def tree_notes(measurement: Measurement) -> tuple[str, ...]:
    """Return the report's sentence on what is measured."""
    tree = tree_of(measurement)
    if len(tree.widths) == 1:
        return (
            f"the {tree.bins:,} bins alone are measured: no hierarchy of them is more accurate",
        )
    runs = ", ".join(f"{w:,}" for w in tree.widths[:-1])
    return (
        f"measured are {tree.bins:,} bins and their sums over runs of {runs} bins; least squares fits them to each other",
    )


statistic = HistogramOfRanges()
