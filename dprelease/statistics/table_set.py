"""From tallies of crosses to the exact integers behind a set of tables (`fitting.margin_sets`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dprelease.fitting.margin_sets import drawn_for
from dprelease.query.answer import Objects
from dprelease.statistics.exact import CellForm
from dprelease.statistics.measurement import Measurement


def _cells(measurement: Measurement, tallies: Sequence[Any]) -> Objects:
    design, tables = measurement.margins, []
    assert design is not None
    for level, tally in zip(design.counted, tallies, strict=True):
        sizes = (len(a[-1]) for a, k in zip(design.axes, level, strict=True) if k)
        cells = np.zeros(math.prod(sizes), dtype=object)
        cells[tally[:, 1]] = (tally[:, 3] - tally[:, 2]).astype(object)
        tables.append(cells)
    return np.array([drawn_for(design, tables)], dtype=object)


exact = CellForm(_cells, squared=True)
