"""Which bins hold every code: claim and second proof ask one function, so it is compared with counting, code by code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.base import family_of
from dprelease.query.bounded import Fixed
from dprelease.schema.unit import Adjacency, RowUnit
from dprelease.statistics.bin_sensitivity import bin_sensitivity, hold_every_code
from dprelease.statistics.measurement import Measure, Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity
from dprelease.wall.recompute import recompute
from tests.planning.requests import planned

Span = tuple[int, int]
TOP = 3
CODES = range(TOP + 1)
SPANS = [(low, high) for low in CODES for high in range(low - 1, TOP + 1)]  # of no code, too


def counted(spans: Sequence[Span], code: int) -> int:
    return sum(low <= code <= high for low, high in spans)


def bins_of(most: int) -> list[tuple[Span, ...]]:
    return [bins for n in range(most + 1) for bins in itertools.product(SPANS, repeat=n)]


def wrong(judge: Callable[[Sequence[Span], Span], bool]) -> list[tuple[tuple[Span, ...], Span]]:
    """Return where `judge` differs from counting: every code that bins reach is in exactly one, and they reach all."""
    inside = [(a, b) for a in CODES for b in range(a, TOP + 1)]
    found = []
    for bins, (first, last) in itertools.product(bins_of(3), inside):
        reached = {c for low, high in bins for c in range(low, high + 1)}
        whole = bool(reached) and all(low <= high for low, high in bins)
        gaps = whole and any(counted(bins, c) != 1 for c in range(min(reached), max(reached) + 1))
        holds = whole and not gaps and {*range(first, last + 1)} <= reached
        if judge(bins, (first, last)) != holds:
            found.append((bins, (first, last)))
    return found


def test_bins_hold_every_code_where_each_is_counted_once() -> None:
    assert wrong(hold_every_code) == []


@pytest.mark.parametrize(
    ("twin", "missed"),
    [
        (lambda b, s: all(counted(b, c) for c in range(s[0], s[1] + 1)), ((0, 1), (1, 3))),
        (lambda b, s: all(counted(b, c) < 2 for c in range(s[0], s[1] + 1)), ((0, 0), (2, 3))),
        (
            lambda b, s: bool(b) and min(b)[0] <= s[0] and s[1] <= max(b)[1],  # only its ends
            ((0, 0), (2, 3)),
        ),
    ],
)
def test_broken_twins_are_seen(
    twin: Callable[[Sequence[Span], Span], bool], missed: tuple[Span, ...]
) -> None:
    assert (missed, (0, TOP)) in wrong(twin)


def test_a_row_moves_bins_by_as_many_as_it_can_lie_in() -> None:
    """Weights of 1: never less than the most bins that hold one code; disjoint bins exactly."""
    for bins in bins_of(3)[1:]:
        alone = [[int(i == j) for j in range(len(bins))] for i in range(len(bins))]
        most = max(counted(bins, c) for c in range(-1, TOP + 2))
        moved = bin_sensitivity(alone, bins)
        assert moved >= most
        assert moved in (1, len(bins))


BINS = [(low, high) for low in range(TOP + 2) for high in range(low, TOP + 2)]


class World:
    """A column of codes 0 to `TOP` whose nulls are the code `default`; what every row adds to every bin."""

    def __init__(self, default: int) -> None:
        x = {"kind": "number", "range": [0, TOP], "step": 1, "nulls": {"default": TOP}}
        more = {"adjacency": "substitution", "rows": {"exact": 5}, "x": x}
        made = planned(["histogram(x, [0, 2, 3])"], **more)
        (code,), between = made.query.codes, made.query.primitives[0]
        assert isinstance(code, Fixed)
        self.code = replace(code, default=default)
        spans = tuple(replace(between, low=low, high=high) for low, high in BINS)
        self.query = replace(made.query, codes=(self.code,), primitives=spans)
        self.plan = replace(made, query=self.query)
        self.rows = np.array([self._added(v) for v in (None, float("nan"), -9, 0, 1, 2, 3, 99)])

    def _added(self, value: float | None) -> list[int]:
        row = pa.table({"who": ["a"], "x": pa.array([value], pa.float64()), "g": ["a"]})
        return [int(v) for v in answer_of(self.plan, row, ReferenceEngine()).sums[0]]

    def said(self, places: tuple[int, ...]) -> tuple[Sensitivity, Sensitivity]:
        """Return the family's claim for some of the bins, and what the wall proves."""
        n = len(places)
        measurement = Measurement(
            family="bins",
            key=("bins",),
            cells=tuple(map(str, places)),
            measures=tuple(
                Measure("between", self.code, low=BINS[p][0], high=BINS[p][1]) for p in places
            ),
            weights=tuple(tuple(int(i == j) for j in range(n)) for i in range(n)),
            l1_added_row=1,
            l1_replaced_row=2,
            upper=5,
            public_rows=5,
        )
        bounds, adjacency = Bounds(1, 1), Adjacency.substitution
        claimed = family_of(measurement).sensitivity(measurement, bounds, adjacency, 1)
        proved = recompute(
            self.query,
            measurement,
            places,
            None,
            unit=RowUnit(),
            adjacency=adjacency,
            groups=1,
            whole=True,
            per=None,
        )
        return claimed, proved


def cut(codes: int) -> int:
    """Return in how many ways a run of codes is cut into one, two or three bins."""
    return sum(math.comb(codes - 1, cuts) for cuts in range(3))


@pytest.mark.parametrize(
    ("default", "holding"),
    [(0, cut(4) + cut(5)), (TOP, cut(4) + cut(5)), (TOP + 1, cut(5))],  # the last bin may be longer
)
def test_a_sum_is_kept_where_no_row_changes_it(default: int, holding: int) -> None:
    """Rows through the engine: null, not a number, outside, each code; all bins of a small column, up to three."""
    world, kept = World(default), 0
    for n in (1, 2, 3):
        for places in itertools.combinations_with_replacement(range(len(BINS)), n):
            claimed, proved = world.said(places)
            rows = world.rows[:, places]
            farthest = max(int(abs(a - b).sum()) for a, b in itertools.combinations(rows, 2))
            assert claimed.sum_is_fixed == proved.sum_is_fixed
            assert proved.l1_over_groups >= farthest
            assert not proved.sum_is_fixed or (rows.sum(axis=1) == 1).all()
            kept += proved.sum_is_fixed
    assert kept == holding  # a control: not only because none is kept
