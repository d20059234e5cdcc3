"""The starter project that `dprelease init` writes: schema, pipeline, synthetic visits.

The visits are drawn from a fixed pseudo-random stream: they are made up, so repeating them gives
nothing away, and the same project looks the same everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from dprelease.core.errors import ConfigError

_SCHEMA = """\
# What is public about the visits table, and who is protected.
dprelease: schema/1
name: clinic
title: Visits to clinics
description: Made-up visits of adults to the clinics of four regions.
unit_name: {one: patient, many: patients, rows: visits}   # words of the public pages
unit: {user: patient_id, max_groups: 1, max_rows_per_group: 2}   # a patient, at most 2 visits in 1 region
adjacency: add_remove
rows: {max: 5000, expected: 400}        # public cap; public guess per region, for pricing only
columns:
  patient_id: {kind: identifier}
  region:     {kind: category, values: ["north", "south", "east", "west"], other: drop, title: Region}
  visited_at: {kind: timestamp}
  age:        {kind: integer, measure: years, range: [0, 110]}
  bmi:        {kind: number, measure: kg/m2, range: [10, 60], step: 0.1, title: Body mass index}
release:
  epsilon: 1
  by: [region]
  where: "age >= 18"
  statistics:
    - {statistic: "count", domain: {range: [0, 5000], forbidden: [[0, 10]]}}   # 0, or at least 10
    - {statistic: "count(persons)", as: patients}
    - mean(age)
    - {statistic: "mean(bmi)", as: mean_bmi}
    - {statistic: "proportion(bmi >= 30)", as: obesity, title: "Share of visits with a body mass index of 30 or more"}
"""

_PIPELINE = """\
# One week per run: dprelease run pipelines/clinic_weekly.yaml --period 2026-W46
dprelease: pipeline/1
name: clinic_weekly
source: {csv: ../data/visits.csv}
schema: ../schemas/clinic.yaml
period: {column: visited_at, every: week, delay: 1d, first: 2026-W44, last: 2026-W47}   # the weeks that the made-up visits hold
budget: {ledger: ../.dprelease/ledger.db, dataset: clinic, epsilon: 10}
publish: {to: ../public, formats: [parquet, csv, html]}
schedule: {cron: "0 6 * * TUE", timezone: Europe/Dublin, catch_up: 4}
"""

_IGNORE = """\
# The ledger is the record of what was spent: back it up, do not publish it with the code.
.dprelease/
data/
"""


def create_starter(directory: Path) -> tuple[Path, ...]:
    """Write the starter below `directory` and return its files.

    Raises:
        ConfigError: one of the files exists already (DPR160), or they cannot be written there (DPR161).
            In both cases nothing is left behind.
    """
    files = {
        "schemas/clinic.yaml": _SCHEMA,
        "pipelines/clinic_weekly.yaml": _PIPELINE,
        "data/visits.csv": _visits(),
        ".gitignore": _IGNORE,
    }
    made: list[Path] = []
    try:
        _refuse_existing(directory, files)
        _make_folder(directory / ".dprelease", made, mode=0o700)
        for name, text in files.items():
            path = directory / name
            _make_folder(path.parent, made)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as problem:
        _remove(made)
        raise ConfigError(
            "the starter cannot be written there",
            where=str(directory),
            why=problem.strerror or "the system refused a step",
            fix="name a folder that you can write to, not a file: dprelease init my-release",
            code="DPR161",
        ) from None
    return tuple(directory / name for name in files)


def _refuse_existing(directory: Path, names: Iterable[str]) -> None:
    for name in names:
        if (directory / name).exists():
            raise ConfigError(
                f"{name} exists already",
                where=str(directory / name),
                why="a starter overwrites nothing",
                fix="choose an empty folder: dprelease init my-release",
                code="DPR160",
            )


def _make_folder(path: Path, made: list[Path], *, mode: int = 0o777) -> None:
    """Make a folder, `mode` its own, and those above it that are missing; `made` gets each."""
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(mode=mode if one == path else 0o777)
        made.append(one)


def _remove(made: Iterable[Path]) -> None:
    """Take back what was made, as far as the system lets us."""
    for path in reversed([*made]):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


@cache
def _visits() -> str:
    """Return four weeks of made-up visits as CSV, a few of them faulty on purpose."""
    stream = random.Random("dprelease starter")  # noqa: S311 - made-up data, not noise
    start = datetime(2026, 10, 26)  # noqa: DTZ001 - local times without a zone, as in many exports
    lines = ["patient_id,region,visited_at,age,bmi"]
    for patient in range(2600):
        region = stream.choices(("north", "south", "east", "west"), (9, 6, 4, 1))[0]
        age = min(110, max(0, round(stream.gauss(52, 19))))
        bmi = min(75.0, max(12.0, stream.gauss(26.5, 4.8)))
        for _ in range(stream.choice((1, 1, 1, 2, 2, 3, 7))):
            moment = start + timedelta(minutes=stream.randrange(28 * 24 * 60))
            shown = "" if stream.random() < 0.02 else f"{bmi + stream.gauss(0, 0.3):.1f}"
            lines.append(f"p{patient:05d},{region},{moment:%Y-%m-%d %H:%M},{age},{shown}")
    lines.append("p00007,north,not a date,unknown,n/a")
    return "\n".join(lines) + "\n"
