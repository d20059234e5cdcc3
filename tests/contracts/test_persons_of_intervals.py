"""Persons whose unit is their rows of one interval: whoever is in other groups in the next one is one person still.

Bounding is within intervals, so a cap of one group holds in each of them. Counted as a sum of groups, a person of a
year's twelve months would be twelve in the nation, and no noise would show it.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.statistics.exact import exact_cells, summed
from tests.contracts.test_own_values import PLACES, schema

PERSONS = ["count(persons)"]


def each_month(per: str) -> dict[str, Any]:
    tables = [
        {"name": "nation", "by": [], "statistics": PERSONS},
        {"name": "districts", "by": ["district"], "statistics": PERSONS},
    ]
    made = schema(
        {"user": "id", "max_groups": 1, "max_rows_per_group": 1, "per": per}, tables=tables
    )
    made["time"] = {"column": "at", "timezone": "UTC"}
    made["columns"]["at"] = {"kind": "timestamp"}
    return made  # type: ignore[no-any-return]


MOVING = pa.table(
    {
        "id": [str(i) for i in range(10) for _ in range(3)],
        "district": [PLACES[(i + month) % 3] for i in range(10) for month in range(3)],
        "income": [0] * 30,
        "at": [
            dt.datetime(2024, month, 3, tzinfo=dt.UTC) for _ in range(10) for month in (4, 5, 6)
        ],
    }
)
"""Ten persons, who are somewhere else every month."""


@pytest.mark.parametrize(
    ("per", "during", "one"),
    [
        ("month", "2024-05", True),
        ("month", "2024-Q2", False),
        ("quarter", "2024-Q2", True),
        ("quarter", "2024-05", True),
        ("day", "2024-05-03", True),
        ("week", "2024-05", False),
        ("month", None, False),
    ],
)
@pytest.mark.parametrize("engine", [DuckDBEngine(), ReferenceEngine()], ids=["duckdb", "reference"])
def test_a_person_of_several_intervals_is_one_in_every_cell(
    engine: Any, per: str, during: str | None, one: bool
) -> None:
    plan = dp.plan(each_month(per), during=during)
    assert plan.tables is not None
    fits = {tuple(part.table for part in fit.tables) for fit in plan.tables.fits}
    assert fits == ({("nation", "districts")} if one else {("nation",), ("districts",)})
    said = "a person may be in other groups in other intervals, and counts once in each"
    assert (said in " ".join(plan.notes)) != one
    answer = engine.compute(as_source(MOVING), plan.query, b"salt").reveal_to_mechanism()
    frame = MOVING.to_pandas()
    within = frame if during is None else frame[[_in(at, during) for at in frame["at"]]]
    for block in plan.blocks:
        merge = plan.tables.sums(block.table)
        assert merge is not None
        finest = exact_cells(
            block.measurement, block.measurement.primitives, answer, len(plan.keys)
        )
        cells = summed(finest, *merge).ravel().astype(int).tolist()
        if block.table == "nation":
            assert cells == [within["id"].nunique()]
        elif one:  # bounded to one group of the interval
            assert sum(cells) == within["id"].nunique()
        else:
            assert cells == within.groupby("district")["id"].nunique().tolist()


def _in(at: pd.Timestamp, during: str) -> bool:
    return during.endswith("Q2") or at.strftime("%Y-%m-%d").startswith(during)


@pytest.mark.parametrize(("per", "one"), [("month", False), ("quarter", True)])
@pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
def test_what_is_computed_of_them_supposes_no_single_interval(per: str, one: bool) -> None:
    """Neither that regions add up, nor that a person has no more rows than one interval's cap."""
    made = each_month(per)
    made["release"] = {"epsilon": 4, "by": ["district"], "statistics": ["count", "count(persons)"]}
    made["unit"]["max_rows_per_group"] = 2
    release = dp.release(MOVING, made, during="2024-Q2")
    quotient = release.derive("count / count_persons")
    assert quotient.domain == ((1, 2) if one else (0, float("inf")))
    if one:
        assert release.derive("count_persons", by=[]).table.num_rows == 1
        return
    with pytest.raises(dp.errors.ArgumentError, match="does not follow") as caught:
        release.derive("count_persons", by=[])
    assert caught.value.code == "DPR663"
