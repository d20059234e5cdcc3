"""Ledgers and entries of datasets whose losses are added up by time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.core.periods import every_of, instant_text, parse_period

ROW = '"row"'
WEEKLY = '{"user": "who", "per": "week", "max_groups": 1, "max_rows_per_group": 1}'


def time(*, immutable: bool = True, column: str = "at", timezone: str = "UTC") -> str:
    said = {"column": column, "timezone": timezone, "dates": False, "immutable": immutable}
    return json.dumps(said)


def timed_ledger(
    place: Any, *, unit: str = ROW, adjacency: str = "add_remove", **more: Any
) -> Ledger:
    asked: dict[str, Any] = {"epsilon": 1, "time": time(), **more}
    return Ledger.create(place, dataset="visits", adjacency=adjacency, unit=unit, **asked)


def entry(
    name: str,
    *,
    pipeline: str = "weekly",
    unit: str = ROW,
    adjacency: str = "add_remove",
    epsilon: Fraction = Fraction(1),
    open_window: bool = False,
    **more: Any,
) -> Entry:
    """Return the entry of the period `name`, whatever its length."""
    window = (None, None)
    if not open_window:
        ends = parse_period(name, every_of(name), "UTC")
        window = (instant_text(ends[0]), instant_text(ends[1]))
    given: dict[str, Any] = {"time": time(), "window": window, **more}
    key = Key("visits", pipeline, name)
    return Entry(key, "a" * 64, adjacency, unit, ({"family": "test"},), epsilon, **given)


def weeks(count: int = 52) -> list[str]:
    start = datetime(2013, 1, 7, tzinfo=UTC)
    names = []
    for k in range(count):
        year, week, _ = (start + timedelta(weeks=k)).isocalendar()
        names.append(f"{year}-W{week:02d}")
    return names
