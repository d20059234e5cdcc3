"""What the brute-force contracts share: settings, their bounded queries, and a row's codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.measurements.base import family_of
from dprelease.planning.layout import layout
from dprelease.query.bounded import BoundedQuery, Fixed
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import (
    PrimitivePlaces,
    Sensitivity,
    bounded_query,
    unit_bounds,
)
from dprelease.wall.recompute import recompute

__all__ = ["COLUMNS", "UNITS", "Case", "built", "matrix", "obvious_code"]

COLUMNS: dict[str, dict[str, Any]] = {
    "odd width across zero": {"range": [-3, 4], "step": 1},
    "from zero": {"range": [0, 5], "step": 1},
    "up to zero": {"range": [-5, 0], "step": 1},
    "above zero": {"range": [2, 5], "step": 1},
    "below zero": {"range": [-7, -4], "step": 1},
    "with a gap": {"range": [-2, 6], "forbidden": [[0, 3]], "step": 1},
    "half steps": {"range": [-0.5, 1], "step": 0.5},
}
UNITS: dict[str, Any] = {
    "row": "row",
    **{
        f"m={m} G={g}": {"user": "who", "max_rows_per_group": m, "max_groups": g}
        for m in (1, 2)
        for g in (1, 2)
    },
    "m=2 G=2 T=3": {"user": "who", "max_rows_per_group": 2, "max_groups": 2, "max_rows": 3},
}


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One statistic in one setting, its bounded query, and what a row may hold, raw."""

    query: Query
    measurements: tuple[Measurement, ...]
    task: BoundedQuery
    values: tuple[Any, ...] = ()

    @property
    def groups(self) -> int:
        return len(self.query.groups.keys)

    @property
    def adjacency(self) -> Adjacency:
        return self.query.schema.adjacency

    @property
    def m(self) -> int:
        return unit_bounds(self.query.schema.unit, None, self.groups).rows

    def claimed(self, measurement: Measurement) -> Sensitivity:
        bounds = unit_bounds(self.query.schema.unit, None, self.groups)
        kind = family_of(measurement)
        return kind.sensitivity(measurement, bounds, self.adjacency, self.groups)

    def places(self, measurement: Measurement) -> tuple[int, ...]:
        return PrimitivePlaces(self.task).find(measurement, self.m)

    def proved(
        self, measurement: Measurement, places: tuple[int, ...] | None = None
    ) -> Sensitivity:
        """Return what the wall finds from the primitives, at their places or at stated ones."""
        return recompute(
            self.task,
            measurement,
            self.places(measurement) if places is None else places,
            None,
            unit=self.query.schema.unit,
            adjacency=self.adjacency,
            groups=self.groups,
            whole=True,
            per=self.query.intervals,
        )

    def ends(self, column: str) -> list[float]:
        """Return the ends of a column's allowed intervals, in order."""
        domain = self.query.schema.columns[column].domain
        assert domain is not None
        return [float(end) for piece in domain.exact_pieces for end in piece]


@cache
def _declared(data: str) -> Schema:
    """Return the schema of JSON, which the cases of many statistics share."""
    return Schema.from_dict(json.loads(data))


def built(
    columns: Mapping[str, Mapping[str, Any]],
    text: str | Mapping[str, Any],
    unit: str,
    adjacency: str,
    groups: int,
    public: int | None,
) -> Case:
    """Return the case of one statistic over declared columns, nothing held yet."""
    data: dict[str, Any] = {
        "dprelease": "schema/1",
        "name": "brute",
        "unit": UNITS[unit],
        "adjacency": adjacency,
        "rows": {"max": 50} if public is None else {"exact": public},
        "columns": {
            "who": {"kind": "identifier"},
            **columns,
            "g": {"kind": "category", "values": list("abc"[:groups])},
        },
    }
    release = {"epsilon": 1, "statistics": [text]} | ({"by": ["g"]} if groups > 1 else {})
    schema = _declared(json.dumps(data))
    query = resolve(schema, merge_release(schema, release))
    measurements = tuple(e for b in layout(query) for e in b.options)
    return Case(query, measurements, bounded_query(query, tuple((e, None) for e in measurements)))


def matrix(measurement: Measurement) -> npt.NDArray[np.int64]:
    """Return what every measure adds to every cell, `(cells, measures)`; a tree's by its widths."""
    if measurement.form != "binned_tree":
        return np.array(measurement.weights, dtype=np.int64)
    widths, (bins, _) = measurement.weights
    runs = [
        [int(first <= i < first + width) for i in range(bins)]
        for width in widths
        for first in range(0, bins, width)
    ]
    return np.array(runs, dtype=np.int64)


def obvious_code(code: Fixed, value: float | None) -> int | None:
    """Return the nearest allowed step above the lowest one, the lower of two as near."""
    if value is None:
        return code.default
    allowed = [k for low, high in code.grid.runs for k in range(low, high + 1)]
    at, whole = (Fraction(value) / code.step).as_integer_ratio()
    return min(allowed, key=lambda k: (abs(k * whole - at), k)) - code.grid.lower
