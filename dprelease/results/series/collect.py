"""All periods of one pipeline, read from its published folders alone.

    <to>/<pipeline>/<period>/   release.json and a table: what was released
    <to>/<pipeline>/status.json what was withdrawn or superseded since

Nothing else is looked at, no ledger, no clock: the same folders give the same series. A folder
that does not hold a release, or whose table is not the one its manifest hashes, is left out and
named, so that one bad folder does not hide the others. This is not a verification: `dprelease verify`
looks at one folder in full.

A statistic is followed over time as long as it is asked for in the same words under the same
name; a changed definition begins a new track.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.budget.citation import folders_in
from dprelease.core.errors import UNREADABLE, DpreleaseError, printable
from dprelease.core.strict_json import read_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic
from dprelease.results import fitted
from dprelease.results.corrections import FILE as STATUS
from dprelease.results.corrections import Correction, current, parse
from dprelease.results.draw import Draw
from dprelease.results.formats import csv_, json_, parquet
from dprelease.results.formats.format import table_file
from dprelease.results.formats.html import FILE as REPORT
from dprelease.results.formats.plain_words import group_name
from dprelease.results.publish import period_order
from dprelease.results.published_folder import Listing, listing, read_small, record_at
from dprelease.results.receipt import Receipt
from dprelease.results.series.foreign import Place, Stated, stated
from dprelease.results.series.lines import COLUMNS, NUMBERS, Key, Lines, PeriodColumn, released
from dprelease.results.signature_file import FILE as SIGNATURE
from dprelease.results.signature_file import signed_by

PAGE = "index.html"
"""The page of all periods, beside their folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period(Stated):
    """One published period: what its manifest states, and how it stands.

    Attributes:
        release: SHA-256 of its `release.json`.
        report: whether the folder holds one. signed_by: the key that signed it, 64 hex digits; None: unsigned.
        correction: the entry that withdrew or superseded it, if there is one.
    """

    name: str
    release: str
    report: bool
    signed_by: str | None
    correction: Correction | None

    @property
    def stands(self) -> bool:
        """Whether it was neither corrected nor released early: what `latest` may name."""
        return self.correction is None and self.early is None

    @property
    def word(self) -> str:
        """How it stands, in one word; "" for the ordinary case."""
        if self.correction is not None:
            return self.correction.word
        return "" if self.early is None else "early"


MOST_BYTES = 256 * 2**20
"""Most that is read of one table."""
_FEW_BYTES = 2**15
"""What is read of files of at most so many is remembered, by their bytes: a process that publishes often reads each once."""

_ReceiptOf = Callable[[Mapping[str, Any], ReleasePlan], Receipt]

Columns = Mapping[Place, PeriodColumn]
"""Released values of one period, by published column."""


@dataclass(frozen=True, slots=True)
class Track:
    """One published column over time: `lines[group][i]` belongs to the i-th period.

    `title`, `measure`, `by` and `mixed` are the newest period's: words, key columns of its table, and whether its
    rows stand at several levels.
    """

    table: str | None
    column: str
    statistic: PlannedStatistic
    lines: Lines
    title: str
    measure: str
    by: tuple[str, ...]
    mixed: bool = False

    def group(self, key: Key) -> str:
        """Return what a group is called."""
        return group_name(key, mixed=self.mixed)


@dataclass(frozen=True, slots=True)
class PublishedSeries:
    """Everything that is published of one pipeline; periods in order, oldest first."""

    pipeline: str
    by: tuple[str, ...]
    periods: tuple[Period, ...]
    tracks: tuple[Track, ...]
    corrections: tuple[Correction, ...]
    unreadable: tuple[str, ...]


def collect(folder: Path, files: Mapping[str, bytes] | None = None) -> PublishedSeries:
    """Return the series of the pipeline folder `folder`.

    Args:
        files: the files beside the periods, if they are read already.

    Raises:
        VerificationError: the record of corrections is broken (DPR830).
        LedgerError: a period is signed, and the extra that checks that is missing (DPR422).
        OSError: the folder cannot be listed.
    """
    data = (files or {}).get(STATUS)
    if files is None and os.path.lexists(folder / STATUS):
        data = record_at(folder / STATUS)
    entries = parse(data)
    stands = current(entries)
    found: list[tuple[Period, Columns]] = []
    unreadable = []
    for name in sorted((path.name for path in folders_in(folder)), key=period_order):
        try:
            found.append(_read(folder / name, name, stands.get(name)))
        except (*UNREADABLE, MemoryError, csv.Error, pa.ArrowException, DpreleaseError) as problem:
            if getattr(problem, "code", "") == "DPR422":  # nothing is wrong with the folder
                raise
            unreadable.append(printable(name))  # a folder's name may not be text at all
    return PublishedSeries(
        pipeline=folder.name,
        by=found[-1][0].by if found else (),
        periods=tuple(period for period, _ in found),
        tracks=_tracks(found),
        corrections=entries,
        unreadable=tuple(unreadable),
    )


def noised_of(manifest: Mapping[str, Any], receipt: _ReceiptOf | None = None) -> Draw:
    """Return the release made again from a manifest's plan and noisy integers, with its receipt if it is asked for."""
    plan = ReleasePlan.from_json(manifest["plan"])
    cells = json_.cells_from_json(manifest["draw"]["cells"], plan)
    paid = Receipt("0", "0", "") if receipt is None else receipt(manifest, plan)
    return fitted.noised_of(plan, cells, paid, manifest["draw"].get("fits"))


def _read(path: Path, name: str, correction: Correction | None) -> tuple[Period, Columns]:
    found = listing(path)
    data = read_small(path / json_.FILE) or b""
    said = _once(_stated, data, name)
    period = Period(
        **{part.name: getattr(said, part.name) for part in fields(Stated)},
        name=name,
        release=hashlib.sha256(data).hexdigest(),
        report=REPORT in found,
        signed_by=signed_by(read_small(path / SIGNATURE) or b"", data)
        if SIGNATURE in found
        else None,
        correction=correction,
    )
    values = _values(path, found, data, said)
    if not set(values) <= set(said.statistics):
        raise ValueError("values that the plan does not have")
    return period, values


def _once(read: Callable[..., Any], data: bytes, *more: object) -> Any:
    """Return what `read`, which remembers, makes of a file; it makes large ones anew, as they would fill the memory."""
    return read(data, *more) if len(data) <= _FEW_BYTES else read.__wrapped__(data, *more)  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _stated(data: bytes, name: str) -> Stated:
    manifest = read_json(data)
    if manifest["dprelease"] != json_.VERSION or manifest["period"] != name:
        raise ValueError("not this period")
    return stated(manifest)


def _values(path: Path, found: Listing, manifest: bytes, said: Stated) -> Columns:
    """Return the released values: from a data file, else from the noisy integers."""
    rows = None if said.sparse else said.groups * len(said.statistics)
    shapes: dict[str | None, tuple[int, int | None]] = {None: (len(said.by), rows)}
    if said.tables:
        shapes = {shape.name: (len(shape.by), shape.rows) for shape in said.tables}
    tables = {name: _table(path, found, said, name, *shape) for name, shape in shapes.items()}
    if any(table is None for table in tables.values()):
        made = noised_of(read_json(manifest))
        parts = {n: made.parts[n].table if n else made.published.table for n in shapes}
        tables = {n: released(part, shapes[n][0]) for n, part in parts.items()}
    return {(n, c): values for n, table in tables.items() for c, values in (table or {}).items()}


def _table(
    path: Path,
    found: Listing,
    said: Stated,
    table: str | None,
    keys: int,
    rows: int | None,
) -> Mapping[str, PeriodColumn] | None:
    """Return a table's values from the smaller of its hashed data files; None where it has none."""
    files = {table_file(f, table) if table else f: f for f in (parquet.FILE, csv_.TIDY_FILE)}
    name = min((name for name in files if name in found), key=found.__getitem__, default=None)
    if name is None:
        return None
    data = read_small(path / name, MOST_BYTES) or b""
    if hashlib.sha256(data).hexdigest() != said.files[name][1]:
        raise ValueError("not the hashed table")
    return _once(_columns, data, files[name], keys, rows)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _columns(data: bytes, file: str, keys: int, rows: int | None) -> Mapping[str, PeriodColumn]:
    read = _from_parquet if file == parquet.FILE else _from_csv
    return released(read(data, keys, rows), keys)


def _from_parquet(data: bytes, keys: int, rows: int | None) -> pa.Table:
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        other = rows is not None and file.metadata.num_rows != rows
        if other or sum(g.total_byte_size for g in groups) > MOST_BYTES:
            raise ValueError("not the table of the plan")
        names = file.schema_arrow.names
        # A key column may be called like one of ours, and columns are read by name.
        apart = not set(names[:keys]) & set(names[keys:])
        known = (name for name in COLUMNS if name in names)
        columns = [*names[:keys], "statistic", *known] if apart else None
        return file.read(
            columns, use_threads=False
        )  # a few rows: threads would wait for each other


def _from_csv(data: bytes, keys: int, count: int | None) -> pa.Table:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    if count is not None and len(rows) != count + 1:
        raise ValueError("not the table of the plan")
    columns = []
    for i, name in enumerate(rows[0]):
        cells = [row[i] for row in rows[1:]]
        if i >= keys and name in (*NUMBERS, *CERTAIN_NAMES):
            columns.append(pa.array([float(c) if c else None for c in cells], pa.float64()))
        else:
            columns.append(pa.array([csv_.unguarded(c) for c in cells]))
    return pa.table(columns, names=rows[0])


def _tracks(found: Sequence[tuple[Period, Columns]]) -> tuple[Track, ...]:
    """Return one track per (table, column, definition); the newest period's come first, in its order."""
    newest: dict[tuple[Place, str], tuple[PlannedStatistic, Period]] = {}
    for period, _ in reversed(found):
        for place, statistic in period.statistics.items():
            newest.setdefault((place, _definition(statistic)), (statistic, period))
    return tuple(
        _track(
            place,
            statistic,
            period,
            [values if _asks(p, place, text) else {} for p, values in found],
        )
        for (place, text), (statistic, period) in newest.items()
    )


def _track(
    place: Place, statistic: PlannedStatistic, newest: Period, values: Sequence[Columns]
) -> Track:
    table, column = place
    shape = next((s for s in newest.tables if s.name == table), None)
    title, measure = newest.words.titled(statistic)
    return Track(
        table=table,
        column=column,
        statistic=statistic,
        lines=Lines([columns.get(place) for columns in values]),
        title=title,
        measure=measure,
        by=newest.by if shape is None else shape.by,
        mixed=shape is not None and shape.mixed,
    )


def _definition(statistic: PlannedStatistic) -> str:
    return f"{statistic.text}\n{statistic.measure}"


def _asks(period: Period, place: Place, text: str) -> bool:
    statistic = period.statistics.get(place)
    return statistic is not None and _definition(statistic) == text
