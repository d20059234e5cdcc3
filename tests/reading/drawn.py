"""Made-up releases for tests of reading: real plans, repeatable noise."""

from __future__ import annotations

import warnings

import pyarrow as pa

import dprelease as dp
from dprelease.reading.evaluation import Periods
from dprelease.reading.released_values import ReleasedValues

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


def release(shift=0, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        return dp.release(table(shift), schema(**asked))


def periods(**asked):
    """Two periods, "1" and "2"; the second one is the current one."""
    found = {name: ReleasedValues(release(i, **asked).noised) for i, name in enumerate("12")}
    return Periods(found["2"], "2", found)
