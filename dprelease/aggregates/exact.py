"""From an engine's exact answer to the exact integer cells of one measurement.

The only arithmetic between the rows and the law that is not a sum over rows. One function per
`Measurement.form`; each is total: whatever the integers are, it returns cells, and the sensitivities
of the measurements (`aggregates.scalar` and the aggregates themselves) are those of these functions.

    linear    cells = weights @ primitives
    binned_tree    counts of runs of bins, coarse first, then of the bins, see `aggregates.tree_shape`
    scatter   cell = n S(k^2) - S(k)^2, public n
    cross     cell = n S(ab) - S(a) S(b), public n
    spectrum, matrix, pairs    see `aggregates.spectrum_cells`
    joint_ranks, recursive_ranks, rank_interval, winsorised    rows per value themselves, see `aggregates.joint_ranks`, `aggregates.clipped`
    ranks     scores of stretches of candidate values from rows per value, see `aggregates.ranks`
    degree, connectivity, laplacian, ...    of a graph, see `aggregates.graph_cells`

Units: grid steps. Shapes: cells `(groups, cells)`, Python integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.aggregates.graph_cells import graph_cells
from dprelease.aggregates.graph_sensitivity import GRAPH_FORMS
from dprelease.aggregates.joint_ranks import positions
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.ranks import stretches
from dprelease.aggregates.spectrum_cells import matrix_cells, pair_cells, spectrum_cells
from dprelease.aggregates.tree_shape import level_sums
from dprelease.core.errors import WithheldError
from dprelease.query.answer import Answer, Objects


def exact_cells(
    measurement: Measurement, primitives: Sequence[int], answer: Answer, groups: int
) -> Objects:
    """Return the exact cells of `measurement`, whose measures are the primitives at `primitives`.

    Raises:
        WithheldError: a scatter is not over the declared public number of rows (DPR702).
    """
    chosen = (
        answer.sums[:, list(primitives)].astype(object)
        if len(primitives)
        else np.zeros((groups, 0), dtype=object)
    )
    match measurement.form:
        case "ranks":
            ((a, b, offset),) = measurement.weights
            return stretches(answer.tallies[primitives[0]], groups, a, b, offset)
        case "joint_ranks" | "recursive_ranks" | "rank_interval" | "winsorised":
            return positions(answer.tallies[primitives[0]], groups, measurement.weights)
        case "binned_tree":
            return level_sums(chosen, measurement.weights[0])
        case "scatter":
            return _scatter(measurement, chosen)
        case "cross":
            check_rows(measurement, chosen[:, 3])
            return np.asarray(
                (measurement.public_rows * chosen[:, 0] - chosen[:, 1] * chosen[:, 2])[:, None]
            )
        case "spectrum" | "matrix":
            check_rows(measurement, chosen[:, 0])
            made = spectrum_cells if measurement.form == "spectrum" else matrix_cells
            return made(measurement, chosen)
        case "pairs":
            return pair_cells(measurement, chosen)
        case form if form in GRAPH_FORMS:
            return graph_cells(measurement, answer.tables[primitives[0]])
        case _:
            return _linear(measurement, chosen)


def _linear(measurement: Measurement, chosen: Objects) -> Objects:
    cells = np.zeros((chosen.shape[0], max(1, len(measurement.weights))), dtype=object)
    for i, weight in enumerate(measurement.weights):
        for j, w in enumerate(weight):
            if w:
                cells[:, i] = cells[:, i] + w * chosen[:, j]
    return cells


def _scatter(measurement: Measurement, chosen: Objects) -> Objects:
    n = measurement.public_rows
    check_rows(measurement, chosen[:, 2])
    return np.asarray((n * chosen[:, 1] - chosen[:, 0] * chosen[:, 0])[:, None])


def check_rows(measurement: Measurement, counted: Objects) -> None:
    """Refuse rows that are not as many as declared; see `exact_cells`."""
    if any(int(rows) != measurement.public_rows for rows in counted):
        # Equal in all neighbours under substitution, so refusing says nothing private; a
        # scatter over any other number of rows would move further than it was priced for.
        raise WithheldError(
            "the table does not have the public number of rows that the schema declares",
            why="a variance over a public number of rows is priced for exactly that number",
            fix="correct `rows: {exact: ...}` in the schema",
            code="DPR702",
        )


def summed(cells: Objects, of: Sequence[int], count: int) -> Objects:
    """Return the cells of sums of groups: group i belongs to sum `of[i]`, `(count, cells)`."""
    out = np.zeros((count, cells.shape[1]), dtype=object)
    np.add.at(out, list(of), cells)
    return out
