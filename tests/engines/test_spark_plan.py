"""What Spark's plan of the statement shuffles: the table of 10^12 rows in ARCHITECTURE.md, line by line."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines.digits import apart
from dprelease.engines.source import Source, as_source
from dprelease.engines.spark import SparkEngine
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Near, Primitive
from dprelease.query.intervals import Intervals
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.engines.spark_session import needs_spark, session
from tests.sizes import FULL

pytestmark = needs_spark

REGION = Column("region", Kind.category, values=("n", "s", "e", "w"))
CODES = tuple(Fixed(name, Domain(0, 60).on_grid(Fraction(1)), Fraction(1)) for name in ("x", "y"))
COUNT, SUM, PERSONS = Primitive("rows"), Primitive("power", 0, 1), Primitive("persons")
ROW = BoundedQuery(
    (REGION, Column("who", Kind.identifier), Column("x", Kind.integer), Column("y", Kind.integer),
     Column("at", Kind.timestamp)),
    GroupKeys((REGION,), tuple((v,) for v in REGION.values)), CODES, (COUNT, SUM),
)  # fmt: skip
FREE = replace(ROW, user="who", max_groups=4, max_rows=3, primitives=(COUNT, SUM, PERSONS))
USER = replace(FREE, max_groups=2)
HALVES = Primitive("persons_in_cells", cells=(0, 0, 1, 1))
WHOLE = Primitive("persons_in_cells", cells=(0, 0, 0, 0))
BOUNDS = ["u, g", "u"]
"""The keys of the shuffles that bound what a unit adds, rows first."""

SHUFFLES: dict[str, tuple[BoundedQuery, list[str]]] = {
    "row": (ROW, ["g"]),
    "row, tallies": (
        replace(ROW, primitives=(COUNT, *(Primitive("tally", j, near=Near(1, 2, 0, 9)) for j in (0, 1)))),
        ["g, t0, t1, spark_grouping_id", "g, tally"],
    ),
    "row, distinct": (replace(ROW, primitives=(COUNT, Primitive("distinct", 0))), ["g, v0", "g"]),
    "row, two distinct": (
        replace(ROW, primitives=(COUNT, Primitive("distinct", 0), Primitive("distinct", 1))),
        ["g, t.v0, t.v1, gid", "g"],
    ),
    "user, no group is dropped": (FREE, ["u, g", "g"]),
    "user": (USER, [*BOUNDS, "g"]),
    "user, a total": (replace(USER, max_rows_total=4), [*BOUNDS, "g"]),
    "user, many rows": (replace(USER, max_rows=1001), [*BOUNDS, "g"]),
    "user per day": (
        replace(USER, per=Intervals("at", "day", "UTC")),
        ["u, i, g", "u, i", "g, CASE WHEN (n <= 1) THEN u END", "g"],
    ),
    "user, coarser tables": (
        replace(USER, primitives=(*USER.primitives, HALVES, WHOLE)), [*BOUNDS, "g"],
    ),
    "user, no group is dropped, coarser tables": (
        replace(FREE, primitives=(*FREE.primitives, HALVES, WHOLE)),
        ["u, g", "u, m0", "u, m1", "g"],
    ),
}  # fmt: skip
"""Query -> the keys of its shuffles, first to last."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Source:
    place = tmp_path_factory.mktemp("plan") / "rows.parquet"
    one: dict[str, Any] = {"who": ["a"], "region": ["n"], "x": [1], "y": [2], "unused": [3]}
    pq.write_table(pa.table({**one, "at": pa.array([0], pa.timestamp("us"))}), place)
    return as_source(session().read.parquet(f"file://{place}"))


def plan(rows: Source, query: BoundedQuery) -> str:
    """Return Spark's plan of the statement of a query, without the numbers of its columns."""
    engine = SparkEngine()
    with (
        engine._session(rows) as spark,
        engine._prepared(spark, rows, apart(query)[0], b"salt", rows=True) as frame,
    ):
        text: str = frame._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"#\d+L?", "", text)


def shuffles(found: str) -> list[str]:
    return re.findall(r" Exchange hashpartitioning\((.*), \d+\), ENSURE", found)[::-1]


def limits(found: str) -> int:
    return len(re.findall(r"WindowGroupLimit .* Partial\b", found))


OFTEN = (
    "row, tallies",
    "user, many rows",
    "user per day",
    "user, no group is dropped, coarser tables",
)


@pytest.mark.parametrize("name", SHUFFLES if FULL else OFTEN)
def test_rows_are_shuffled_as_the_paper_plan_says(name: str, rows: Source) -> None:
    query, expected = SHUFFLES[name]
    found = plan(rows, query)
    assert shuffles(found) == expected
    # read once, without the columns that are not used
    assert [len(re.findall(word, found)) for word in ("FileScan", "unused")] == [1, 0]
    # public tables go to every task; no Python stands beside an executor
    assert "SortMergeJoin" not in found and "ExistingRDD" not in found
    # labels are met as they stand, then as they are spelt: two joins of one table that is sent once
    assert found.count("BroadcastHashJoin") == 2 + bool(query.cell_maps)
    assert found.count("BroadcastExchange") - found.count("ReusedExchange") == 1 + bool(
        query.cell_maps
    )
    assert found.count("Expand") == ("tallies" in name or "two distinct" in name)
    # what a task keeps of a unit is cut before it is shuffled, where Spark's limit of 1,000 allows
    cut = sum(key in ("u, g", "u", "u, i, g", "u, i") for key in expected)
    assert limits(found) == cut - (name == "user, many rows")
