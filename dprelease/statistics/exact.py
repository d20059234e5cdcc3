"""From an engine's exact answer to the exact integer cells of one measurement.

The only arithmetic between the rows and the law that is not a sum over rows. One object per
`Measurement.form`, in the file of what it is about; each is total: whatever the integers are, it returns cells, and
the sensitivities of the measurements (`statistics.scalar` and the statistics themselves) are those of these functions.

    linear    cells = weights @ primitives
    scatter   cell = n S(k^2) - S(k)^2, public n
    cross     cell = n S(ab) - S(a) S(b), public n

Units: grid steps. Shapes: cells `(groups, cells)`, Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dprelease.core import registry
from dprelease.core.errors import WithheldError
from dprelease.query.answer import Answer, Objects
from dprelease.statistics.measurement import BY_RANK, Measurement

Merge = tuple[Sequence[int], int]
"""The cell of each of the engine's groups, and how many cells there are."""

OF_SUMS = ("linear", *BY_RANK, "rank_interval", "winsorised")
"""Forms whose cells of several groups together follow from what is counted in each."""

_COUNTED = frozenset({"rows", "power", "between", "product", "tally"})

Weights = tuple[tuple[int, ...], ...]
Moves = tuple[int, int, tuple[int, ...]]


class CellForm(NamedTuple):
    """One way to make exact cells of primitives.

    Attributes:
        made: cells of a measurement, from its sums, `(groups, measures)`; its graph; or its tally and how many
            groups there are.
        additive: they are `weights @ primitives`; squared: an L2 sensitivity is proved of them;
        ones: a row adds 1 to each cell that it moves.
        moves: of a graph's cells, how far its edges move them (`graph_sensitivity`), from weights, nodes and k.
    """

    made: Callable[[Measurement, Any], Objects]
    additive: bool = False
    squared: bool = False
    moves: Callable[[Weights, int, int], Moves] | None = None
    ones: bool = False


def form_of(measurement: Measurement) -> CellForm:
    """Return how the cells of `measurement` are made."""
    return cast("CellForm", registry.load("forms", measurement.form))


def of_sums(measurement: Measurement) -> bool:
    """Return whether it can be drawn of sums of groups, where one unit may be in several of them."""
    counted = {measure.kind for measure in measurement.measures} <= _COUNTED
    return measurement.form in OF_SUMS and measurement.public_rows is None and counted


def exact_cells(
    measurement: Measurement,
    primitives: Sequence[int],
    answer: Answer,
    groups: int,
    merge: Merge | None = None,
) -> Objects:
    """Return the exact cells of `measurement`, whose measures are the primitives at `primitives`; of sums of groups by `merge`.

    Raises:
        WithheldError: a scatter is not over the declared public number of rows (DPR702).
    """
    first = primitives[0] if primitives else -1
    sums: Any = np.zeros((groups, 0), dtype=object)
    if measurement.margins is not None:
        sums = [answer.tallies[place] for place in primitives]
    elif first in answer.tables:
        sums = answer.tables[first]
    elif first in answer.tallies and merge is not None:
        sums = _joined(answer.tallies[first], merge[0]), merge[1]
        return form_of(measurement).made(measurement, sums)
    elif first in answer.tallies:
        sums = answer.tallies[first], groups
    elif primitives:
        sums = answer.sums[:, list(primitives)].astype(object)
    made = form_of(measurement).made(measurement, sums)
    return made if merge is None else summed(made, *merge)


def _joined(tally: Any, of: Sequence[int]) -> Any:
    """Return the tally of sums of groups: of whole ones, if several groups share a cell."""
    out = tally.copy()
    out[:, 0] = np.array(of, dtype=np.int64)[tally[:, 0]]
    out = out[np.lexsort((out[:, 1], out[:, 0]))]
    if not len(out) or len(set(of)) == len(of):
        return out
    first = np.flatnonzero(np.append(True, (np.diff(out[:, :2], axis=0) != 0).any(axis=1)))
    rows = np.add.reduceat(out[:, 3] - out[:, 2], first)
    out, upto = out[first], np.cumsum(rows)
    before = (upto - rows)[np.searchsorted(out[:, 0], out[:, 0])]
    last = np.searchsorted(out[:, 0], out[:, 0], side="right") - 1
    out[:, 2:] = np.stack([upto - rows, upto, upto[last]], axis=1) - before[:, None]
    return out


def _linear(measurement: Measurement, chosen: Objects) -> Objects:
    if measurement.alone:
        return chosen
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


def _cross(measurement: Measurement, chosen: Objects) -> Objects:
    n = measurement.public_rows
    check_rows(measurement, chosen[:, 3])
    return np.asarray((n * chosen[:, 0] - chosen[:, 1] * chosen[:, 2])[:, None])


linear = CellForm(_linear, additive=True, squared=True)
scatter = CellForm(_scatter, squared=True)
cross = CellForm(_cross)


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
