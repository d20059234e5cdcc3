"""How many known values a group has, as far as noisy sums beside a quantile tell.

A value by rank says nothing of a group without known values, and it does not show that: any candidate comes.
What shows it are noisy integers that are released beside it: sums from which a mean or a variance of the same
column of the same rows is made count its known values, and so do those between two winsorising limits; a count of rows bounds them from above, and where no cell
of the column can be null it is them. Exact numbers are never asked.

Units: rows with a known value. Shapes: `(groups,)`.
Source: `docs/theory/intervals.md#values-by-rank`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.measurements.base import family_of
from dprelease.measurements.law import Law
from dprelease.statistics.base import Floats, Reading, StatisticKind
from dprelease.statistics.measurement import BY_RANK, Measurement

Read = tuple[Floats, Floats, npt.NDArray[np.object_]]
"""Lower and upper ends, and statuses, `(groups, columns)`."""

_BY_RANK = (*BY_RANK, "rank_interval", "winsorised")
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Known:
    """The least and the most rows with a known value, each at the level of the released intervals."""

    low: Floats
    high: Floats


def chosen_by_rank(measurement: Measurement, statistic_kind: StatisticKind) -> bool:
    """Return whether what is drawn for it is a value chosen by rank, and what it makes of no values is not 0."""
    return measurement.form in _BY_RANK and not statistic_kind.linear


def known_values(measurement: Measurement, reading: Reading) -> Known | None:
    """Return how many values of its column a measurement counts; None where it counts none."""
    found = family_of(measurement).known_rows(measurement, reading)
    return None if found is None else Known(*found)


def all_of(found: Sequence[Known], rows: Known | None, *, complete: bool) -> Known | None:
    """Return what all of them say together; None where nothing is released that says anything.

    Args:
        rows: the released number of rows; complete: whether each has a known value.
    """
    most = [k.high for k in (*found, *([] if rows is None else [rows]))]
    least = [k.low for k in found]
    if rows is not None and (complete or not least):  # of no rows no value is known either
        least.append(rows.low)
    return Known(np.maximum.reduce(least), np.minimum.reduce(most)) if most else None


def by_rank(
    measurement: Measurement,
    law: Law,
    view: int | None,
    known: Known | None,
    read: Read,
    *,
    hull: tuple[float, float],
    planned: bool,
) -> Read:
    """Return intervals and statuses of values chosen by rank: from released and public numbers, never from rows.

    Args:
        known: as far as the release tells; else `planned` says whether the plan expects nothing of them.
        read: what they are without that.
    """
    (lower, upper, status), kind = read, family_of(measurement)
    silent = np.full(len(status), planned)
    empty = np.zeros(len(status), dtype=bool)
    if known is not None:
        empty = known.low <= 0
        most = np.minimum(np.maximum(known.high, 0.0), float(_EXACT)).astype(np.int64).tolist()
        mute = {n: bool(kind.mute(law, measurement, n, view=view)) for n in set(most)}
        silent = np.array([mute[n] for n in most], dtype=bool)
    if not kind.interval:
        status = np.where(status == "ok", "no_interval", status)
        status = np.where(silent[:, None], "uninformative", status)
    opened = empty[:, None] & ~np.isnan(lower)
    lower, upper = np.where(opened, hull[0], lower), np.where(opened, hull[1], upper)
    return lower, upper, np.where(empty[:, None], "empty_signal", status)
