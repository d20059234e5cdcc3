"""Have a period's rows arrived? A public fact that whoever loads them writes down, asked before the charge.

    ready: {file: "../landed/{period}.ok"}                      the file is there
    ready: {partition: "week={period}"}                         the folder above the source's first wildcard has it
    ready: {table: {database: loads.duckdb, table: loads, column: week}}    the table names the period

A period is released once, so one whose rows are still on their way would be spent on what had come so
far. The loader writes the marker *for every period that it has loaded, rows or none*: a partition that
is made by its rows alone would tell whether there are any.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any

from dprelease.core.errors import SourceError
from dprelease.core.secret import unquoted
from dprelease.engines.folders import first_pattern
from dprelease.engines.source import postgres_table
from dprelease.engines.table_names import quoted, quoted_name
from dprelease.pipeline.config import PipelineConfig
from dprelease.pipeline.timing_config import ReadyConfig


def is_ready(config: PipelineConfig, period: str) -> bool:
    """Return whether the period's rows are said to have arrived; true where nothing says it.

    Raises:
        SourceError: the table of loads does not open (DPR501, DPR502, DPR512).
    """
    ready = None if config.period is None else config.period.ready
    if ready is None:
        return True
    if ready.file is not None:
        return Path(str(ready.file).replace("{period}", period)).is_file()
    if ready.partition is not None:
        folder = _folder(str(config.source.path))
        return (folder / ready.partition.replace("{period}", period)).is_dir()
    return period in {_name(cell) for cell in _cells(ready)}


def must_be_ready(config: PipelineConfig, period: str) -> None:
    """Refuse a period whose rows have not arrived.

    Raises:
        SourceError: they have not (DPR523), or as `is_ready`.
    """
    if is_ready(config, period):
        return
    raise SourceError(
        f"the rows of {period} have not arrived",
        where=f"{config.origin}: period.ready",
        why="what says so is not there; a period is released once, and rows that come later would be"
        " missing from it for good",
        fix="let the loader write it, for periods without rows too, and run again",
        code="DPR523",
    )


def _folder(pattern: str) -> Path:
    """Return the folder of a source's files above its first wildcard."""
    path = Path(pattern)
    fixed = path.parts[: first_pattern(path.parts)]
    whole = Path(*fixed)
    return whole.parent if len(fixed) == len(path.parts) and whole.suffix else whole


def _name(cell: object) -> str:
    """Return which period a cell of the table of loads names: an instant at midnight names its day."""
    midnight = isinstance(cell, datetime) and cell.time() == time()
    return cell.date().isoformat() if isinstance(cell, datetime) and midnight else str(cell)


def _cells(ready: ReadyConfig) -> Iterator[Any]:
    if ready.dsn is not None:
        from dprelease.engines import postgres

        source = postgres_table(ready.dsn.reveal_to_source, str(ready.table))
        described = postgres.describe(source)
        if ready.column not in described:
            raise _does_not_open(f"{ready.table}.{ready.column}")
        wanted = {ready.column: described[ready.column]}
        yield from postgres.read(source, wanted).read_all().column(0).to_pylist()
        return
    import duckdb

    def named() -> list[tuple[Any]]:
        with duckdb.connect(str(ready.database), read_only=True) as connection:
            column, table = quoted(str(ready.column)), quoted_name(str(ready.table))
            return connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()  # noqa: S608 - quoted

    yield from (cell for (cell,) in unquoted(named, _does_not_open(str(ready.database))))


def _does_not_open(where: str) -> SourceError:
    return SourceError(
        "the table of loads does not open",
        where=where,
        why="it, or its column, is not there",
        fix="check `ready: {table: {database, table, column}}`",
        code="DPR502",
    )
