"""Made-up releases for tests of reading: real plans, repeatable noise."""

from __future__ import annotations

import json
from functools import cache

import pyarrow as pa

from dprelease.reading.evaluation import Periods
from dprelease.reading.released_values import ReleasedValues
from tests.redrawn import counted

REGIONS = ("north", "south", "west")


def schema(statistics=("count", "sum(late)", "mean(x)", "variance(x)"), epsilon=2, **more):
    return {
        "dprelease": "schema/1",
        "name": "trips",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 2000, "expected": 200},
        "columns": {
            "region": {"kind": "category", "values": list(REGIONS)},
            "half": {"kind": "category", "values": ["first", "second"]},
            "late": {"kind": "integer", "range": [0, 1]},
            "x": {"kind": "number", "range": [0, 10], "step": 0.5},
        },
        "release": {
            "epsilon": epsilon,
            "by": ["region", "half"],
            "statistics": list(statistics),
            **more,
        },
    }


def table(shift=0):
    rows = [
        (region, half, i % 3 == 0, (i + shift) % 21 / 2)
        for r, region in enumerate(REGIONS)
        for h, half in enumerate(("first", "second"))
        for i in range(40 * (r + 1) + 13 * h + shift)
    ]
    region, half, late, x = zip(*rows, strict=True)
    return pa.table({"region": region, "half": half, "late": [int(v) for v in late], "x": list(x)})


@cache
def _counted(shift, asked):
    return counted(table(shift), schema(**json.loads(asked)))


def release(shift=0, **asked):
    """Return a draw of its own, by one plan for all that ask for the same."""
    return _counted(shift, json.dumps(asked))()


@cache
def pair():
    """Two periods, "1" and "2", drawn once; the second one is the current one."""
    return periods()


def periods(**asked):
    """Two periods, as in `pair`."""
    found = {name: ReleasedValues(release(i, **asked).noised) for i, name in enumerate("12")}
    return Periods(found["2"], "2", found)
