"""Small plans and noised tables, made by hand: what formats and validation consume."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dprelease.measurements.candidate import Option
from dprelease.measurements.cells import CellLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.query.bounded import BoundedQuery, GroupKeys
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import TIDY, Draw
from dprelease.results.receipt import Receipt
from dprelease.schema.domain import Domain
from dprelease.schema.unit import Adjacency, UserUnit
from dprelease.statistics.measurement import Measurement

LEDGER = Receipt(
    epsilon="1/2",
    delta="0",
    protects="one patient_id (at most 3 rows in each of 2 groups), added or removed",
    ledger="ledger.db",
    ledger_id="0f" * 16,
    seq=17,
    head_hash="ab" * 32,
    dataset="clinic",
    pipeline="clinic_weekly",
    period="2026-W46",
    spent="17/2",
    budget="12",
)
SOFTWARE = {"dprelease": "0.1.0", "python": "3.11", "pyarrow": "26.0.1"}


def statistic(
    name: str,
    text: str,
    domain: Domain,
    step: str,
    *,
    block: str,
    columns: Sequence[str] = (),
    measure: str = "",
    mechanism: str = "discrete_laplace",
    error: float | None = None,
    notes: tuple[str, ...] = (),
    options: tuple[Option, ...] = (),
) -> PlannedStatistic:
    return PlannedStatistic(
        name=name,
        text=text,
        function=text.partition("(")[0],
        block=block,
        columns=tuple(columns) or (name,),
        domain=domain,
        step=Fraction(step),
        measure=measure,
        mechanism=mechanism,
        chosen=options or (Option(mechanism, error),),
        planned_error=error,
        error_text="no error known" if error is None else f"±{error:g}",
        sensitivity="1 row",
        notes=notes,
    )


def block(
    name: str,
    *,
    family: str = "scalar",
    epsilon: str = "1/4",
    measurement: Mapping[str, Any] | None = None,
) -> Block:
    return Block(
        name=name,
        epsilon=Fraction(epsilon),
        measurement=Measurement.from_json({**_measurement(family), **(measurement or {})}),
        law=CellLaw(CellNoise.calibrate(1, Fraction(epsilon)), 1),
        certificate={"epsilon_upper": epsilon},
    )


def _measurement(family: str) -> dict[str, Any]:
    made = Measurement(
        family,  # type: ignore[arg-type]
        (family,),
        ("cell",),
        (),
        l1_added_row=1,
        l1_replaced_row=1,
        primitives=(),
        max_rows=None,
        data={},
        sensitivity={},
    )
    return made.to_json()


def plan(
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[Block],
    *,
    by: tuple[str, ...] = ("region",),
    keys: Sequence[tuple[str, ...]] = (("north",), ("south",), ("east",)),
    notes: tuple[str, ...] = (),
    where: str | None = None,
) -> ReleasePlan:
    return ReleasePlan(
        schema="clinic",
        adjacency=Adjacency.add_remove,
        unit=UserUnit("patient_id", 2, 3),
        epsilon=Fraction(1, 2),
        delta=Fraction(0),
        loss="absolute",
        by=by,
        keys=tuple(keys),
        where=where,
        statistics=tuple(statistics),
        blocks=tuple(blocks),
        query=BoundedQuery((), GroupKeys((), tuple(keys)), (), ()),
        notes=notes,
    )


Row = tuple[float, float, float, str]
"""value, lower, upper, status."""


def noised(
    plan: ReleasePlan, values: Mapping[str, Sequence[Row]], receipt: Receipt = LEDGER
) -> Draw:
    """Return the release whose published column `c` has `values[c][g]` in group g."""
    rows = []
    for g, key in enumerate(plan.keys):
        for s in plan.statistics:
            epsilon = float(plan.block(s.block).epsilon)
            for column in s.columns:
                value, lower, upper, status = values[column][g]
                rows.append(
                    (
                        *key,
                        column,
                        value,
                        lower,
                        upper,
                        value,
                        None,
                        value,
                        s.mechanism,
                        s.block,
                        epsilon,
                        status,
                    )
                )
    schema = pa.schema([*((name, pa.utf8()) for name in plan.by), *TIDY])
    arrays = [pa.array([row[i] for row in rows], schema.field(i).type) for i in range(len(schema))]
    cells = {b.name: tuple((g,) for g, _ in enumerate(plan.keys)) for b in plan.blocks}
    return Draw(plan, pa.Table.from_arrays(arrays, schema=schema), cells, receipt)


def replaced(release: Draw, column: str, row: int, value: object) -> Draw:
    """Return `release` with one cell of the tidy table changed."""
    table = release.table
    at = table.column_names.index(column)
    cells = table.column(at).to_pylist()
    cells[row] = value
    array = pa.array(cells, table.schema.field(at).type)
    changed = table.set_column(at, table.schema.field(at), array)
    return Draw(release.plan, changed, release.cells, release.receipt)


def clinic() -> Draw:
    """Return three regions; a gap, a count, a histogram, mean + variance + std of one block."""
    bernstein = {"offset": "10", "scale": "700", "step_size": "1/10"}
    statistics = (
        statistic(
            "count", "count", Domain(0, 50000, forbidden=[(0, 10)]), "1", block="rows", error=4.5
        ),
        statistic(
            "mean_bmi", "mean(bmi)", Domain(10, 80), "0.01", block="bmi", measure="kg/m2", error=0.3
        ),
        statistic("bmi_variance", "variance(bmi)", Domain(0, 1225), "0.1", block="bmi", error=2.0),
        statistic(
            "std_bmi", "std(bmi)", Domain(0, 35), "0.01", block="bmi", measure="kg/m2", error=0.2
        ),
        statistic(
            "histogram_age",
            "histogram(age, [0, 40, 80, 120])",
            Domain(0, 50000),
            "1",
            block="ages",
            columns=[f"histogram_age{b}" for b in ("[0,40)", "[40,80)", "[80,120]")],
        ),
    )
    blocks = (
        block("rows"),
        block("bmi", family="bernstein2", measurement=bernstein, epsilon="1/8"),
        block("ages", family="bins", epsilon="1/8"),
    )
    values: dict[str, list[Row]] = {
        "count": [
            (1204.0, 1180.0, 1228.0, "ok"),
            (10.0, 0.0, 34.0, "at_bound"),
            (0.0, 0.0, 12.0, "ok"),
        ],
        "mean_bmi": [
            (26.4, 25.9, 26.9, "ok"),
            (31.05, 12.0, 78.0, "ok"),
            (45.0, 10.0, 80.0, "uninformative"),
        ],
        "bmi_variance": [
            (30.5, 20.0, 45.0, "ok"),
            (120.0, 0.0, 900.0, "ok"),
            (0.0, 0.0, 1225.0, "empty_signal"),
        ],
        "std_bmi": [
            (round(math.sqrt(30.5), 2), 4.4, 6.8, "ok"),
            (round(math.sqrt(120.0), 2), 0.0, 30.0, "ok"),
            (0.0, 0.0, 35.0, "empty_signal"),
        ],
        "histogram_age[0,40)": [(400.0, 380.0, 420.0, "ok")] * 3,
        "histogram_age[40,80)": [(700.0, 680.0, 720.0, "ok")] * 3,
        "histogram_age[80,120]": [(104.0, 84.0, 124.0, "ok")] * 3,
    }
    return noised(plan(statistics, blocks, where="age >= 18"), values)
