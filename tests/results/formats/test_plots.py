"""Geometry: everything stays inside the picture, and one vague group does not flatten the rest."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dprelease.results.formats.chart import Point, point, ticks
from dprelease.results.formats.plots import bars, dot_plot

HULL = (0.0, 1000.0)
ENDS = ("0", "1,000")
points = st.lists(
    st.tuples(*[st.floats(0, 1000)] * 3, st.booleans()).map(
        lambda t: Point(sorted(t[:3])[1], min(t[:3]), max(t[:3]), t[3])
    ),
    min_size=1,
    max_size=12,
)


@given(points)
def test_marks_stay_in_the_picture_and_only_weak_values_may_leave_it(group):
    plot = dot_plot(group, HULL, [(200.0, 300.0)], ENDS)
    for one, mark in zip(group, plot.marks, strict=True):
        assert 0 <= mark.low <= mark.at <= mark.high <= 100
        assert one.weak or not mark.outside
    for band in plot.gaps:
        assert band.at >= 0
        assert band.at + band.width <= 100.01
    assert all(-0.01 <= t.at <= 100.01 for t in plot.ticks)


def test_a_vague_interval_is_cut_and_marked():
    clear = [Point(10.0 + i, 9.0 + i, 11.0 + i, False) for i in range(5)]
    plot = dot_plot([*clear, Point(12.0, 0.0, 900.0, False)], HULL, [], ENDS)
    assert plot.marks[-1].cut_high
    assert plot.marks[0].high - plot.marks[0].low > 10  # a window of 0 to 900 would leave 0.2
    assert plot.strip is not None and plot.strip.window.width < 5


def test_a_weak_value_sets_no_window():
    plot = dot_plot(
        [Point(500.0, 0.0, 1000.0, True), Point(10.0, 9.0, 11.0, False)], HULL, [], ENDS
    )
    assert plot.marks[0].outside
    only_weak = dot_plot([Point(500.0, 0.0, 1000.0, True)], HULL, [], ENDS)
    assert only_weak.marks[0].at == 50
    assert only_weak.strip is None


def test_nothing_is_drawn_of_a_suppressed_value_without_an_interval():
    plot = dot_plot(
        [Point(5.0, 5.0, 5.0, False), point(None, None, None, weak=True)], HULL, [], ENDS
    )
    _, none = plot.marks
    assert none.outside and none.low == none.high and not (none.cut_low or none.cut_high)


def test_degenerate_windows_still_have_a_width():
    plot = dot_plot([Point(5.0, 5.0, 5.0, False)], (5.0, 5.0), [], ("5", "5"))
    assert plot.marks[0].at == 50
    for tiny in (5e-324, 1e-13):
        near = dot_plot([Point(5.0, 5.0, 5.0 + tiny, False)], HULL, [], ENDS)
        assert 0 <= near.marks[0].at <= 100
        zero = dot_plot([Point(0.0, 0.0, tiny, False)], HULL, [], ENDS)
        assert 0 <= zero.marks[0].at <= 100
    empty = bars([Point(0.0, 0.0, 0.0, False)] * 3, 0.0)
    assert all(b.height == 0 for b in empty.bars)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_and_inside(low, width):
    found, decimals = ticks(low, low + width)
    assert len(found) <= 12
    assert decimals >= 0
    assert all(low - width * 1e-6 <= t <= low + width * (1 + 1e-6) for t in found)
    assert all(math.isfinite(t) for t in found)
