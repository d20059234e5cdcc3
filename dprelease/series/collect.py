"""All periods of one pipeline, read from its published folders alone.

    <to>/<pipeline>/<period>/   release.json and a table: what was released
    <to>/<pipeline>/status.json what was withdrawn or superseded since

Nothing else is looked at, no ledger, no clock: the same folders give the same series. A folder
that does not hold a release, or whose table is not the one its manifest hashes, is left out and
named, so that one bad folder does not hide the others. This is no verification: `dprelease verify`
looks at one folder in full.

A statistic is followed over time as long as it is asked for in the same words under the same
name; a changed definition begins a new track.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.corrections import FILE as STATUS
from dprelease.corrections import Correction, parse, standing
from dprelease.errors import DpreleaseError
from dprelease.formats import csv_, json_, parquet
from dprelease.formats.html import FILE as REPORT
from dprelease.noised import Noised, assemble, cells_from_json
from dprelease.numeric import fraction_from_json
from dprelease.planning.model import PlannedStatistic, ReleasePlan
from dprelease.publish import period_order, read_folder
from dprelease.series.lines import COLUMNS, Key, Lines, Released, released

__all__ = ["Period", "Series", "Track", "collect", "noised_of"]

_FAULTS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError)


@dataclass(frozen=True, slots=True)
class Period:
    """One published period.

    Attributes:
        release: SHA-256 of its `release.json`.
        budget: (spent, total) epsilon of the dataset as of its ledger entry, if recorded.
        observed: the plan's notes on what was observed and not proved.
        correction: its standing, if it was withdrawn or superseded.
    """

    name: str
    release: str
    dataset: str | None
    window: tuple[str, str] | None
    scheduled: str | None
    epsilon: Fraction
    delta: Fraction
    adjacency: str
    unit: Any
    protects: str
    plan_hash: str
    ledger: Mapping[str, Any] | None
    budget: tuple[Fraction, Fraction] | None
    report: bool
    observed: tuple[str, ...]
    correction: Correction | None


Columns = Mapping[str, Released]
"""Released values of one period, by published column."""


@dataclass(frozen=True, slots=True)
class Track:
    """One published column over time: `lines[group][i]` belongs to the i-th period."""

    column: str
    statistic: PlannedStatistic
    lines: Lines


@dataclass(frozen=True, slots=True)
class Series:
    """Everything that is published of one pipeline; periods in order, oldest first."""

    pipeline: str
    by: tuple[str, ...]
    periods: tuple[Period, ...]
    tracks: tuple[Track, ...]
    corrections: tuple[Correction, ...]
    unreadable: tuple[str, ...]


def collect(folder: Path, beside: Mapping[str, bytes] | None = None) -> Series:
    """Return the series of the pipeline folder `folder`.

    Args:
        beside: the files beside the periods, if they are read already.

    Raises:
        VerificationError: the record of corrections is broken (DPR830).
        OSError: the folder cannot be listed.
    """
    status = (folder / STATUS) if beside is None else None
    data = beside.get(STATUS) if beside is not None else None
    if status is not None and status.is_file():
        data = status.read_bytes()
    entries = parse(data)
    stands = standing(entries)
    found: list[tuple[Period, Key, dict[str, PlannedStatistic], Columns]] = []
    unreadable = []
    with os.scandir(folder) as listed:
        names = [
            e.name
            for e in listed
            if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")
        ]
    for name in sorted(names, key=period_order):
        try:
            found.append(_read(folder / name, name, stands.get(name)))
        except (*_FAULTS, pa.ArrowException, DpreleaseError):
            unreadable.append(name)
    return Series(
        pipeline=folder.name,
        by=found[-1][1] if found else (),
        periods=tuple(period for period, *_ in found),
        tracks=_tracks([(statistics, values) for _, _, statistics, values in found]),
        corrections=entries,
        unreadable=tuple(unreadable),
    )


def noised_of(manifest: Mapping[str, Any]) -> Noised:
    """Return the release made again from a manifest's plan and noisy integers."""
    plan = ReleasePlan.from_json(manifest["plan"])
    cells = cells_from_json(manifest["draw"]["cells"], plan)
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    return Noised(plan, table, cells)


def _read(
    path: Path, name: str, correction: Correction | None
) -> tuple[Period, Key, dict[str, PlannedStatistic], Columns]:
    # Tables can be large, and one is enough.
    tables = (csv_.TIDY_FILE,) if (path / parquet.FILE).is_file() else ()
    files = read_folder(path, unread=(*tables, csv_.WIDE_FILE, REPORT))
    manifest = json.loads(files[json_.FILE])
    if manifest["dprelease"] != json_.VERSION or manifest["period"] != name:
        raise ValueError("not this period")
    plan, guarantee = manifest["plan"], manifest["guarantee"]
    budget = manifest.get("budget")
    period = Period(
        name=name,
        release=hashlib.sha256(files[json_.FILE]).hexdigest(),
        dataset=manifest["dataset"],
        window=tuple(plan["window"]) if plan.get("window") else None,
        scheduled=manifest.get("scheduled"),
        epsilon=fraction_from_json(guarantee["epsilon"]),
        delta=fraction_from_json(guarantee["delta"]),
        adjacency=guarantee["adjacency"],
        unit=guarantee["unit"],
        protects=guarantee["protects"],
        plan_hash=manifest["plan_hash"],
        ledger=manifest["ledger"],
        budget=None if not budget else (fraction_from_json(budget["spent"]), fraction_from_json(budget["total"])),
        report=REPORT in files,
        observed=tuple(note for note in plan["notes"] if note.startswith("observed")),
        correction=correction,
    )
    statistics = {
        column: planned
        for planned in (PlannedStatistic.from_json(s) for s in plan["statistics"])
        for column in planned.columns
    }
    return period, tuple(plan["by"]), statistics, _values(files, manifest, len(plan["by"]))


def _values(
    files: Mapping[str, bytes], manifest: Mapping[str, Any], keys: int
) -> Columns:
    """Return the released values: from a data file, else from the noisy integers."""
    for name, read in ((parquet.FILE, _from_parquet), (csv_.TIDY_FILE, _from_csv)):
        if name in files:
            if hashlib.sha256(files[name]).hexdigest() != manifest["files"][name]["sha256"]:
                raise ValueError("not the hashed table")
            return released(read(files[name], keys), keys)
    return released(noised_of(manifest).table, keys)


def _from_parquet(data: bytes, keys: int) -> pa.Table:
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        names = file.schema_arrow.names
        # A key column may be called like one of ours, and columns are read by name.
        apart = not set(names[:keys]) & set(names[keys:])
        return file.read(columns=[*names[:keys], "statistic", *COLUMNS] if apart else None)


def _from_csv(data: bytes, keys: int) -> pa.Table:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    # An apostrophe guards a label that a spreadsheet would run.
    guards = tuple("'" + start for start in csv_.FORMULA_STARTS)
    columns = []
    for i, name in enumerate(rows[0]):
        cells = [row[i] for row in rows[1:]]
        if i >= keys and name in ("value", "lower", "upper"):
            columns.append(pa.array([float(c) if c else None for c in cells], pa.float64()))
        else:
            columns.append(pa.array([c[1:] if c.startswith(guards) else c for c in cells]))
    return pa.table(columns, names=rows[0])


def _tracks(
    found: Sequence[tuple[dict[str, PlannedStatistic], Columns]],
) -> tuple[Track, ...]:
    """Return one track per (column, definition); the newest period's come first, in its order."""
    newest: dict[tuple[str, str], PlannedStatistic] = {}
    for statistics, _ in reversed(found):
        for column, statistic in statistics.items():
            newest.setdefault((column, f"{statistic.text}\n{statistic.measure}"), statistic)
    return tuple(
        Track(
            name[0],
            statistic,
            Lines([c.get(name[0]) if _asks(s, name) else None for s, c in found]),
        )
        for name, statistic in newest.items()
    )


def _asks(statistics: Mapping[str, PlannedStatistic], name: tuple[str, str]) -> bool:
    asked = statistics.get(name[0])
    return asked is not None and f"{asked.text}\n{asked.measure}" == name[1]
