"""The wall's own spreads of scores by rank: made from what the engine tallies, nothing else.

Units: scores in rows times the targets' denominator; of values chosen together, that times PARTS.
Sources: `docs/theory/quantiles.md#spread-of-the-scores`, `#several-quantiles-together`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query.bounded import BoundedQuery, Fixed, Primitive
from dprelease.statistics.clipped import limit_spreads
from dprelease.statistics.joint_ranks import joint_spreads
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.rank_interval import interval_spreads
from dprelease.statistics.ranks import spreads
from dprelease.statistics.recursive_ranks import recursive_spreads


def rank_sensitivity(
    query: BoundedQuery, measurement: Measurement, used: Sequence[Primitive]
) -> tuple[int, int]:
    """Return the spreads of an added and of a replaced row; of winsorised rows, how far their cells move.

    Raises:
        ValueError: the scores are not the ranks of one column's values, in words.
    """
    codes = [query.codes[p.code] for p in used if p.code is not None]
    if [p.kind for p in used] != ["tally"] or len(codes) != 1 or not isinstance(codes[0], Fixed):
        raise ValueError("its scores are not the ranks of one column's values")
    if measurement.form == "ranks":
        return _alone(measurement, used[0])
    if measurement.form == "winsorised":
        return _clipped(measurement, used[0])
    if measurement.form == "rank_interval":
        return _three(measurement, used[0])
    if used[0].near is not None:  # every gap of rows counts, wherever it lies
        raise ValueError("its values are chosen together, and codes far from one rank are left out")
    if measurement.form == "recursive_ranks":
        return recursive_spreads(measurement.weights)
    return joint_spreads(measurement.weights)


def _clipped(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    """Return what an added and a replaced row move cells between two limits, in units of one row there.

    Clamped to whatever limits, a row adds non-negative parts that add up to one such unit.
    """
    limit_spreads(measurement.weights)
    if tally.near is not None:
        raise ValueError("its sums are of all rows, and codes far from one rank are left out")
    return 1, 2


def _three(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    if tally.near is not None or [len(w) for w in measurement.weights] != [3]:
        raise ValueError(
            "its three values are not chosen by the ranks of all rows around one target"
        )
    a, b, offset = measurement.weights[0]
    return interval_spreads(a, b, offset)


def _alone(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    target = measurement.weights[0] if len(measurement.weights) == 1 else ()
    around = "its scores are not the ranks of one column's values around one target"
    if len(target) != 3 or not 0 <= target[0] <= target[1] or target[1] < 1:
        raise ValueError(around)
    near = tally.near  # codes left out are those of another rank, unless it is the same
    if near is not None and (near.a, near.b, near.offset) != target:
        raise ValueError(around)
    return spreads(target[0], target[1], target[2])
