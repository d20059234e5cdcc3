"""What a statistic does whose noisy cells are its values already: nothing.

Most aggregates have one cell and one column, and publish the cell as it was drawn. They take these
functions as their methods: `columns = staticmethod(own_name)`.

Units: the statistic's own. Shapes: cells, values and ends of intervals `(groups, columns)`.
"""

from __future__ import annotations

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.encoding import Context, Encoding

__all__ = ["cell_bounds", "cells_themselves", "own_name"]


def own_name(context: Context) -> tuple[str, ...]:
    """Return the one column of a statistic of one number: its published name."""
    return (context.spec.name,)


def cells_themselves(encoding: Encoding, cells: Floats) -> Floats:
    """Return the noisy cells: they are the statistic."""
    del encoding
    return cells


def cell_bounds(encoding: Encoding, reading: Reading) -> tuple[Floats, Floats]:
    """Return the bounds of the cells: they are those of the statistic."""
    del encoding
    return reading.low, reading.high
