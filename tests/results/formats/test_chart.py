"""The geometry of all charts: windows hold what they must, scales and ticks are right at their ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.results.formats.chart import (
    VAGUE,
    Band,
    Point,
    Scale,
    log_ticks,
    point,
    slots,
    ticks,
    window,
)
from dprelease.results.formats.plots import dot_plot

HULL = (0.0, 1000.0)
points = st.lists(
    st.tuples(*[st.floats(0, 1000)] * 3, st.booleans()).map(
        lambda t: Point(sorted(t[:3])[1], min(t[:3]), max(t[:3]), t[3])
    ),
    max_size=12,
)


def test_a_value_with_one_open_end_says_something_and_its_bar_goes_on():
    """A growth of at least -0.04 had a hollow dot, which stands for values that say nothing."""
    known = point(1.6, -0.04, math.inf, weak=False)
    assert known == (1.6, -0.04, math.inf, False)
    assert point(-1.6, -math.inf, 0.04, weak=False) == (-1.6, -math.inf, 0.04, False)
    group = [known, point(0.2, -0.7, 9.3, weak=False)]
    low, high = window(group, (-1.0, 10.0))
    assert (low, high) == (-0.7, 9.3)
    assert window([known], (-1.0, 10.0))[1] < 10
    mark = dot_plot(group, (-1.0, 10.0), (), ("", "")).marks[0]
    assert (mark.weak, mark.cut_high, mark.high) == (False, True, 100.0)
    for weak, value, ends in (
        (True, 1.6, (0, math.inf)),
        (False, None, (0, math.inf)),
        (False, 1.6, (-math.inf, math.inf)),
    ):
        assert point(value, *ends, weak=weak).weak


@given(points, st.sampled_from([0.0, 0.06]), st.sampled_from([HULL, (-math.inf, math.inf)]))
def test_a_window_holds_what_says_something(group, pad, hull):
    low, high = window(group, hull, pad=pad)
    assert low < high
    clear = [p for p in group if not p.weak]
    assert all(low <= p.value <= high for p in clear)
    widths = sorted(p.upper - p.lower for p in clear)
    for p in clear:
        if widths and p.upper - p.lower <= VAGUE * widths[len(widths) // 2] / 2:
            assert low <= p.lower
            assert p.upper <= high
    if not clear:
        assert (low, high) == (hull if hull is HULL else (0.0, 1.0))


def test_a_vague_or_weak_point_flattens_nothing():
    clear = [Point(10.0 + i, 9.0 + i, 11.0 + i, weak=False) for i in range(5)]
    honest = window(clear, HULL)
    vague = Point(12.0, 0.0, 900.0, weak=False)
    weak = Point(700.0, 0.0, 1000.0, weak=True)
    assert window([*clear, vague, weak], HULL) == honest == (9.0, 15.0)
    # the control: an interval within VAGUE of the median does set it
    assert window([*clear, Point(12.0, 8.5, 16.4, weak=False)], HULL) == (8.5, 16.4)


@pytest.mark.parametrize("hull", [(5.0, 5.0), (0.0, 5.0), (5.0, 6.0)])
def test_one_value_gets_a_window_around_it(hull):
    low, high = window([Point(5.0, 5.0, 5.0, weak=False)], hull)
    assert low <= 5.0 <= high
    assert high - low >= 0.5


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-10, 10))
def test_a_scale_goes_from_end_to_end_and_stays_inside(low, width, number):
    across = Scale(low, low + width)
    down = Scale(low, low + width, 122, 12, digits=2)
    assert (across.position(across.low), across.position(across.high)) == (0.0, 100.0)
    assert (down.position(down.low), down.position(down.high)) == (122.0, 12.0)
    assert 0 <= across.inside(low + number * width) <= 100
    assert 12 <= down.inside(low + number * width) <= 122
    middle = low + width / 2
    assert across.position(middle) == pytest.approx(50, abs=1e-3)
    assert math.copysign(1.0, across.position(low)) == 1.0  # never -0.0, which a page would show


def test_bands_are_cut_at_the_window_on_either_axis():
    gaps = [(-5.0, 2.0), (4.0, 6.0), (9.0, 20.0), (30.0, 40.0)]
    assert Scale(0.0, 10.0).bands(gaps) == (Band(0.0, 20.0), Band(40.0, 20.0), Band(90.0, 10.0))
    upright = Scale(0.0, 10.0, 100, 0, digits=1)
    assert upright.bands(gaps) == (Band(80.0, 20.0), Band(40.0, 20.0), Band(0.0, 10.0))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_equally_spaced_and_inside(low, width, about):
    found, decimals = ticks(low, low + width, about)
    assert len(found) <= 2.5 * about + 1
    assert all(low - width * 1e-6 <= t <= low + width * (1 + 1e-6) for t in found)
    assert all(round(t, decimals) == t for t in found)
    if len(found) > 2:
        spacing = (found[-1] - found[0]) / (len(found) - 1)
        first = spacing / 10 ** math.floor(math.log10(spacing) + 1e-9)
        assert min(abs(first - m) for m in (1, 2, 5, 10)) < 1e-3


@given(st.floats(-6, 6), st.floats(0.1, 12))
def test_logarithmic_ticks_are_few_and_inside(low, width):
    found = log_ticks(low, low + width)
    assert len(found) <= 6
    assert all(low <= log <= low + width and number > 0 for log, number in found)
    assert all(math.log10(number) == pytest.approx(log) for log, number in found)
    if width > 1:
        assert found


def test_slots_stand_side_by_side():
    four = slots(4, 0.8)
    assert four[0] == Band(2.5, 20.0)
    assert [b.at for b in four] == [2.5, 27.5, 52.5, 77.5]
    assert slots(2, 0.8, least=4) == four[:2]
    assert slots(0, 0.8) == ()
