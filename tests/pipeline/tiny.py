"""A project so small that a run takes a tenth of a second: two groups, a count and a mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.run import init_ledger

SCHEMA = """\
dprelease: schema/1
name: visits
unit: row
adjacency: add_remove
rows: {max: 1000, expected: 20}
columns:
  at:     {kind: timestamp}
  region: {kind: category, values: ["north", "south"]}
  age:    {kind: integer, measure: years, range: [0, 100]}
release:
  epsilon: 1
  by: [region]
  statistics: [count, mean(age)]
"""
PIPELINE = """\
dprelease: pipeline/1
name: NAME
source: {parquet: ../data/visits.parquet}
schema: ../schemas/visits.yaml
period: {column: at, every: week, delay: 1d, timezone: Europe/Dublin}
budget: {ledger: ../.dprelease/ledger.db, dataset: visits, epsilon: BUDGET}
publish: {to: ../public, formats: [parquet, csv]}
schedule: {cron: "0 6 * * TUE", timezone: Europe/Dublin, catch_up: CATCH}
"""


def project(folder: Path, *, budget: int = 100, catch_up: int = 4, name: str = "weekly") -> Path:
    """Write the project, with visits from 2025-12-01 on; return the pipeline file."""
    for part in ("schemas", "pipelines", "data", ".dprelease"):
        (folder / part).mkdir(exist_ok=True)
    start = datetime(2025, 12, 1, tzinfo=UTC)
    table = pa.table(
        {
            "at": pa.array(
                [start + timedelta(hours=3 * i) for i in range(1200)], pa.timestamp("us", "UTC")
            ),
            "region": [("north", "south", "south")[i % 3] for i in range(1200)],
            "age": [20 + i % 60 for i in range(1200)],
        }
    )
    pq.write_table(table, folder / "data" / "visits.parquet")
    (folder / "schemas" / "visits.yaml").write_text(SCHEMA)
    return pipeline(folder, budget=budget, catch_up=catch_up, name=name)


def pipeline(folder: Path, *, budget: int = 100, catch_up: int = 4, name: str = "weekly") -> Path:
    """Write one more pipeline file over the same table."""
    text = PIPELINE.replace("NAME", name).replace("BUDGET", str(budget))
    path = folder / "pipelines" / f"{name}.yaml"
    path.write_text(text.replace("CATCH", str(catch_up)))
    return path


def loaded(folder: Path, **options: int) -> PipelineConfig:
    """Write the project with its ledger and return its configuration."""
    config = load_pipeline(project(folder, **options))
    init_ledger(config)
    return config
