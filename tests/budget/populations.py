"""Ledgers and entries of datasets that share a population."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.budget.population import Population
from dprelease.core.periods import every_of, instant_text, parse_period

WHOLE = '{"user": "who"}'
MEMBERS = "members"


def unit(per: str | None) -> str:
    return WHOLE if per is None else json.dumps({"user": "who", "per": per})


def time(per: str | None, *, immutable: bool = True, timezone: str = "UTC") -> str | None:
    """Return the time that a dataset with intervals is declared with; the zone "dates": a column of dates."""
    dates = timezone == "dates"
    zone = "UTC" if dates else timezone
    said = {"column": "at", "timezone": zone, "dates": dates, "immutable": immutable}
    return None if per is None else json.dumps(said)


def terms(epsilon: object = 3, **more: Any) -> Population:
    return Population.declared(MEMBERS, epsilon, **more)


def joined(
    place: Any,
    dataset: str,
    population: Population | None,
    *,
    per: str | None = None,
    adjacency: str = "add_remove",
    immutable: bool = True,
    timezone: str = "UTC",
    **more: Any,
) -> Ledger:
    """Create the dataset, or let it join."""
    return Ledger.create(
        place,
        **{
            "dataset": dataset,
            "epsilon": 10**6,
            "delta": Fraction(1, 2),
            "adjacency": adjacency,
            "unit": unit(per),
            "time": time(per, immutable=immutable, timezone=timezone),
            "population": population,
            **more,
        },
    )


def entry(
    dataset: str,
    name: str = "once",
    *,
    epsilon: Fraction = Fraction(1),
    per: str | None = None,
    adjacency: str = "add_remove",
    immutable: bool = True,
    timezone: str = "UTC",
    period: str | None = None,
    **more: Any,
) -> Entry:
    """Return a debit called `name`, of the window of `period` where its dataset has intervals."""
    window: tuple[str | None, str | None] = (None, None)
    if period is not None and per is not None:
        low, high = parse_period(
            period, every_of(period), "UTC" if timezone == "dates" else timezone
        )
        window = instant_text(low), instant_text(high)
    given: dict[str, Any] = {
        "time": time(per, immutable=immutable, timezone=timezone),
        "window": window,
        **more,
    }
    key = Key(dataset, "p", name)
    return Entry(key, "a" * 64, adjacency, unit(per), ({"family": "test"},), epsilon, **given)
