"""`diff`: what changed between two releases beyond their noise, over all that is compared.

Every published column and group that both releases have is one comparison: its difference, with a
p-value for "nothing changed". With `adjust="holm"` a difference is called a change where Holm's
step-down test rejects it: the chance that one is called so wrongly, anywhere in the table, is at
most 1 - level. The intervals hold for all rows together too (level 1 - alpha / comparisons each).
With "none" every row stands for itself.

Sources: Holm 1979; `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import counted
from dprelease.reading.called import TABLE, called, named_release
from dprelease.reading.derive import finished
from dprelease.reading.derived import Derived, keyed
from dprelease.reading.interval import chance_of_zero
from dprelease.reading.publication import read
from dprelease.reading.quantity import Quantity, combined
from dprelease.reading.released import ONE_TABLE, Released
from dprelease.reading.released_values import Key, ReleasedValues
from dprelease.reading.table_values import values_of
from dprelease.results.formats.word_breaks import isolated_text
from dprelease.results.rules import SUPPRESSED

_NAMES = ("before", "after", "value", "lower", "upper", "p", "status", "method")
Adjust = Literal["holm", "none"]
LEVEL = 0.95

Labels = tuple[str | None, ...]

Compared = tuple[Quantity, float | None, float | None]
"""A difference, and both published values."""


def diff(a: Released | str | Path, b: Released | str | Path, *, adjust: Adjust = "holm") -> Derived:
    """Return b - a for everything that both published, and which differences are more than noise.

    The table has the key columns and `statistic` (of releases of several tables `table` first, and no
    label in key columns that a table does not have), then before, after, value (the difference), lower,
    upper, p (adjusted), status (changed | within_noise | uninformative) and method. Values that say nothing
    are null.

    Raises:
        VerificationError: a folder does not verify (DPR806).
        ArgumentError: nothing can be compared (DPR679), `adjust` is unknown (DPR689), or it is no release (DPR694).
    """
    if adjust not in ("holm", "none"):
        raise ArgumentError(
            f"`adjust` is {adjust!r}", fix='use "holm" or "none"', where="diff(...)", code="DPR689"
        )
    first, second = (_values(which) for which in (a, b))
    keys, places, found, left_out = _all_compared(first, second)
    if not found:
        raise ArgumentError(
            "the two releases publish nothing in common",
            where="diff(...)",
            why="columns are compared that have one name and definition, in groups that both have",
            fix="compare two periods of one pipeline, by a key that is no part of the date: of `month(…)` each"
            " period has groups of its own",
            code="DPR679",
        )
    how = f"adjusted by {adjust}" if adjust == "holm" else "each by itself"
    return Derived(
        expression="after - before",
        table=keyed(keys, places, _NAMES, _rows(found, adjust)),
        name="What changed",
        level=LEVEL,
        domain=(min(q.domain[0] for q, _, _ in found), max(q.domain[1] for q, _, _ in found)),
        source=f"{_named(a)} and {_named(b)}",
        keys=keys,
        called=called(
            second,
            many_tables=keys[0] == TABLE and list(second) != [ONE_TABLE],
            read=_both(first, second),
        ),
        notes=(f"{counted(len(found), 'comparison')}, {how}", *left_out),
    )


def _said(quantity: Quantity) -> float | None:
    """Return a published value; None if it says nothing."""
    return None if quantity.weak else quantity.value


def _rows(found: list[Compared], adjust: Adjust) -> Iterator[tuple[object, ...]]:
    """Yield the numbers and words of each comparison, in the order of `_NAMES`."""
    level = 1 - (1 - LEVEL) / len(found) if adjust == "holm" else LEVEL
    chances = [chance_of_zero(q) for q, _, _ in found]
    adjusted = holm(chances) if adjust == "holm" else chances
    rows = finished([q for q, _, _ in found], level)
    for (q, before, after), (value, *ends, status, method), p in zip(
        found, rows, adjusted, strict=True
    ):
        shown = None if q.weak else value
        yield before, after, shown, *ends, p, _word(status, p, q.weak), method


def _word(status: str, p: float, weak: bool) -> str:
    """Return the status: of values that say nothing, too, the noise may show that they differ."""
    if status == SUPPRESSED:
        return status
    if p <= 1 - LEVEL and status != "uninformative":
        return "changed"
    return "uninformative" if weak or status == "uninformative" else "within_noise"


def holm(chances: list[float]) -> list[float]:
    """Return Holm's adjusted p-values.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    out, running = [0.0] * len(chances), 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, (len(chances) - place) * chances[i]))
        out[i] = running
    return out


def _values(which: Released | str | Path) -> dict[str, ReleasedValues]:
    released = read(which) if isinstance(which, str | Path) else which
    if not isinstance(released, Released):
        raise ArgumentError(
            f"cannot compare an object of type {type(released).__name__}",
            where="diff(...)",
            fix="pass folders, or what dp.read and dp.release return",
            code="DPR694",
        )
    return {table: values_of(released.noised, table) for table in released.tables}


def _named(which: Released | str | Path) -> str:
    return (
        str(which) if isinstance(which, str | Path) else (which.receipt.period or which.plan.schema)
    )


def _both(first: Mapping[str, ReleasedValues], second: Mapping[str, ReleasedValues]) -> str:
    """Return what is compared: one title with two periods, or two titles."""
    (a, before), (b, after) = (
        named_release(next(iter(tables.values()))) for tables in (first, second)
    )
    if a == b and before and after:
        return f"{isolated_text(a)}: {before} and {after}"
    pairs = ((isolated_text(a), before), (isolated_text(b), after))
    return " and ".join(", ".join(filter(None, pair)) for pair in pairs)


def _all_compared(
    first: Mapping[str, ReleasedValues], second: Mapping[str, ReleasedValues]
) -> tuple[tuple[str, ...], list[Labels], list[Compared], list[str]]:
    """Return (key columns, labels, comparisons, what has none) over all tables of both."""
    if list(first) == list(second) == [ONE_TABLE]:
        places, found, left_out = _compared(first[ONE_TABLE], second[ONE_TABLE])
        return (*second[ONE_TABLE].by, "statistic"), list(places), found, left_out
    columns = tuple(dict.fromkeys(k for values in second.values() for k in values.by))
    labels: list[Labels] = []
    every: list[Compared] = []
    notes = [f"{table}: not in both" for table in second if table not in first]
    for table in (t for t in second if t in first):
        places, found, left_out = _compared(first[table], second[table])
        by = second[table].by
        for place in places:
            known = dict(zip(by, place, strict=False))
            labels.append((table, *(known.get(k) for k in columns), place[-1]))
        every += found
        notes += [f"{table}: {text}" for text in left_out]
    return ("table", *columns, "statistic"), labels, every, notes


def _compared(
    first: ReleasedValues, second: ReleasedValues
) -> tuple[list[Key], list[Compared], list[str]]:
    """Return (labels, (difference, before, after)) of every comparison, and what has none."""
    places: list[Key] = []
    found: list[Compared] = []
    left_out: list[str] = []
    same_keys = first.by == second.by
    apart = len(first.groups.keys() ^ second.groups.keys()) if same_keys else 0
    if apart:
        left_out.append(
            f"{apart:,} {'group is' if apart == 1 else 'groups are'} in one of both alone"
        )
    for column, (statistic, _) in second.columns.items():
        other = first.columns.get(column)
        if other is None or other[0].text != statistic.text or not same_keys:
            left_out.append(f"{column}: not in both under one definition")
            continue
        if not second.has_interval(statistic):
            left_out.append(f"{column}: a choice by rank has no interval in its own unit")
            continue
        for key in second.keys:
            if key in first.groups:
                before = first.quantity(column, first.groups[key])
                after = second.quantity(column, second.groups[key])
                places.append((*key, column))
                found.append((combined("-", after, before), _said(before), _said(after)))
    return places, found, left_out
