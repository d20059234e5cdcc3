"""A period as it is asked for: a name on a calendar, in a time zone whose tables have a version.

closes(P) = the end of P plus `delay`, which is for rows that come late
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated
from zoneinfo import TZPATH

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Note, StoredAs, WrittenAs
from dprelease.core.errors import ArgumentError
from dprelease.core.periods import row_window
from dprelease.schema.column import Kind
from dprelease.schema.table import TableSchema

ZONE_TABLES = re.compile(r"unknown|[0-9]{4}[0-9A-Za-z.+-]{0,16}", re.ASCII)
"""A version of the time zone tables: published with a release, so no place for other words."""


_MINUTES = {"w": 7 * 24 * 60, "d": 24 * 60, "h": 60, "m": 1}


def delay_text(delay: timedelta) -> str:
    """Return a delay of whole minutes as pipeline files write it: `2d`, `6h`, `30m`."""
    minutes = delay // timedelta(minutes=1)
    unit = next(u for u in ("d", "h", "m") if minutes % _MINUTES[u] == 0)
    return f"{minutes // _MINUTES[unit]}{unit}"


def delay_from_text(text: str) -> timedelta | None:
    """Return the delay that `text` says (`30m`, `6h`, `2d`, `1w`); None if it says none."""
    found = re.fullmatch(r"(\d{1,7})([mhdw])", text, re.ASCII)
    return None if found is None else timedelta(minutes=int(found[1]) * _MINUTES[found[2]])


def _delay(text: str) -> timedelta:
    found = delay_from_text(text)
    if found is None or delay_text(found) != text:
        raise ValueError("delay")
    return found


@dataclass(frozen=True, slots=True)
class Calendar(Stored):
    """Which period of which calendar.

    Attributes:
        column: the date or timestamp column; every: day, week, month, quarter or year.
        name: `2013-W05`; zones: the version of the time zone tables that its window was made by.
        delay: whole minutes between its end and its close.
    """

    column: str
    every: str
    timezone: str
    name: str
    zones: Annotated[str, StoredAs("zone_tables")]
    delay: Annotated[timedelta, WrittenAs(delay_text, _delay, str), Note.always] = timedelta(0)

    def completed(self) -> Calendar:
        """Refuse a version of time zone tables that none has."""
        if not ZONE_TABLES.fullmatch(self.zones):
            raise ArgumentError("the time zone tables have no version like that", fix="e.g. 2025b")
        return self


@cache
def zone_tables() -> str:
    """Return the version of the time zone tables in use, `2025b`; "unknown" if they do not say."""
    found = _found()
    return found if ZONE_TABLES.fullmatch(found) else "unknown"


def _found() -> str:
    for folder in TZPATH:
        try:
            with Path(folder, "tzdata.zi").open(encoding="ascii", errors="replace") as file:
                first = file.readline(80).split()
        except OSError:
            continue
        if first[:2] == ["#", "version"] and len(first) == 3:
            return first[2]
    try:
        version = metadata.version("tzdata")
    except metadata.PackageNotFoundError:
        return "unknown"
    year, _, number = version.partition(".")
    return (
        f"{year}{chr(ord('a') + int(number) - 1)}" if number.isdigit() and int(number) else version
    )


def window_of(schema: TableSchema, calendar: Calendar) -> tuple[datetime, datetime]:
    """Return the first instant of a period and the first one after it, UTC.

    Raises:
        ArgumentError: not a period of this calendar (DPR640), unknown time zone (DPR641).
    """
    column = schema.columns.get(calendar.column)
    dates = column is not None and column.kind is Kind.date
    return row_window(calendar.name, calendar.every, calendar.timezone, dates=dates)  # type: ignore[arg-type]
