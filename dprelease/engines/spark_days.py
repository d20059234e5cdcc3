"""The local day of a row in Spark: looked up in arrays, where `interval_sql` writes a CASE of hundreds of leaves.

Spark planned such a CASE for six minutes and then failed. Here the year of the instant says how many
stretches have begun before that year; the few that begin within it are counted one by one; shift and
last day stand in arrays. It is the same day, and the length of the expression does not grow with the zone's history
but for its constants.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from sqlglot import exp

from dprelease.engines.interval_sql import STRETCHES, instant, last_of, shift_of, within
from dprelease.engines.typed_sql import case, number
from dprelease.query.intervals import Stretch

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_FEW = 8
"""Stretches up to which the CASE stays."""


def look_up_days(tree: exp.Expression) -> None:
    """Exchange every local day of many stretches in the tree for one that is looked up."""
    for node in list(tree.find_all(exp.Case)):
        stretches: Sequence[Stretch] = node.meta.get(STRETCHES, ())
        if len(stretches) > _FEW:
            moment = node.args["ifs"][0].this.this
            node.replace(_day(moment, stretches))


def _day(moment: exp.Expression, stretches: Sequence[Stretch]) -> exp.Expression:
    place = _place(moment, [s.start for s in stretches])
    shift = _element([shift_of(s) for s in stretches], place)
    return within(
        exp.Add(this=moment.copy(), expression=shift), _element(map(last_of, stretches), place)
    )


def _place(moment: exp.Expression, starts: Sequence[datetime]) -> exp.Expression:
    """Return the place, from 1, of the last stretch that has begun; 1 before all of them."""
    first, last = starts[0].year, starts[-1].year
    januaries = [datetime(year, 1, 1, tzinfo=UTC) for year in range(first, last + 2)]
    before = [max(1, bisect_left(starts, january)) for january in januaries]
    most = _most(before)
    year: exp.Expression = exp.Year(this=moment.copy())
    year = exp.Greatest(this=year, expressions=[number(first)], ignore_nulls=True)
    year = exp.Least(this=year, expressions=[number(last)], ignore_nulls=True)
    begun = _element(map(number, before), exp.Sub(this=year, expression=number(first - 1)))
    # behind the last one stands one that never begins
    ahead = [*map(instant, starts), *[instant(_NEVER)] * most]
    out: exp.Expression = begun
    for further in range(1, most + 1):
        start = _element(ahead, exp.Add(this=begun.copy(), expression=number(further)))
        there = exp.GTE(this=moment.copy(), expression=start)
        out = exp.Add(this=out, expression=case((there, number(1)), default=number(0)))
    return exp.Paren(this=out)


def _most(before: Sequence[int]) -> int:
    """Return how many stretches begin within one year at most."""
    return max(b - a for a, b in pairwise(before))


def _element(values: Iterable[exp.Expression], place: exp.Expression) -> exp.Expression:
    constants = exp.Anonymous(this="array", expressions=[v.copy() for v in values])
    return exp.Anonymous(this="element_at", expressions=[constants, place.copy()])
