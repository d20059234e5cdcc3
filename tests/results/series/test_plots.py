"""Geometry over time: everything inside the box, ends are ticks, vague intervals do not flatten."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.results.formats.chart import Point
from dprelease.results.series.plots import HEIGHT, WIDTH, picture, places_of

HULL = (0.0, 1000.0)


def drawn(line, gone, hull, gaps):
    standing = ["withdrawn" if away else "" for away in gone]
    return picture(line, standing, hull, gaps, places_of(tuple(f"p{i}" for i in range(len(line)))))


def numbers(path):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", path.replace("h0", ""))]


def read(label):
    return float(label.replace(",", "").replace("\u2212", "-"))


points = st.builds(
    lambda v, a, b, weak: Point(v, v - a, v + b, weak),
    st.floats(0, 1000), st.floats(0, 300), st.floats(0, 300), st.booleans(),
)  # fmt: skip


@given(st.lists(st.none() | points, min_size=1, max_size=30), st.data())
def test_everything_is_inside_and_labels_are_equally_spaced(line, data):
    gone = data.draw(st.lists(st.booleans(), min_size=len(line), max_size=len(line)))
    made = drawn(line, gone, HULL, [(0.0, 10.0)])
    for path in (made.bars, made.dots, made.weak, made.gone, made.grid):
        assert "nan" not in path
        assert all(0 <= x <= WIDTH for x in numbers(path))
    labels = [read(t) for t in made.ticks]
    assert len(labels) >= 2
    steps = [a - b for a, b in itertools.pairwise(labels)]
    assert all(math.isclose(s, steps[0], rel_tol=1e-6, abs_tol=1e-9) for s in steps)
    assert steps[0] > 0
    clear = [p for p, g in zip(line, gone, strict=True) if p is not None and not g and not p.weak]
    assert all(labels[-1] - 1e-6 <= p.value <= labels[0] + 1e-6 for p in clear)
    assert made.dots.count("M") == len(clear) == made.bars.count("M")
    assert made.gone.count("M") == sum(gone)
    assert all(y >= 0 and y + h <= HEIGHT + 0.1 for y, h in made.bands)


def test_values_stand_where_the_labels_say():
    made = drawn([Point(100, 50, 150, False), Point(200, 150, 250, False)], [False] * 2, HULL, [])
    top, bottom = read(made.ticks[0]), read(made.ticks[-1])
    ys = [HEIGHT * (1 - (v - bottom) / (top - bottom)) for v in (100, 200)]
    assert numbers(made.dots) == pytest.approx([250, ys[0], 750, ys[1]], abs=0.06)


def test_a_vague_interval_is_cut_and_does_not_set_the_window():
    usual = [Point(100 + i, 90 + i, 110 + i, False) for i in range(9)]
    with_vague = drawn([*usual, Point(105, 0, 1000, False)], [False] * 10, HULL, [])
    assert read(with_vague.ticks[0]) < 200
    assert "V0" in with_vague.bars


def test_a_withdrawn_value_is_marked_and_not_drawn():
    far = Point(900, 890, 910, False)
    made = drawn([Point(10, 5, 15, False), far], [False, True], HULL, [])
    assert read(made.ticks[0]) < 100
    assert (made.dots.count("M"), made.gone) == (1, f"M750 0V{HEIGHT}")


@pytest.mark.parametrize("hull", [(0.0, 1.0), (-math.inf, math.inf), (5.0, 5.0)])
def test_nothing_to_draw_is_still_a_picture(hull):
    made = drawn([None, None], [False, False], hull, [])
    assert (made.dots, len(made.ticks) >= 2) == ("", True)


def test_periods_stand_where_they_lie_in_time():
    """A year of quarters without the second one leaves its room; names that are no periods stand in equal steps."""
    found = places_of(("2013-Q1", "2013-Q3", "2013-Q4"))
    days = [45 / 365, (181 + 46) / 365, (273 + 46) / 365]
    assert found == pytest.approx(days, abs=1e-9)
    assert places_of(("2013-W01", "2013-W02", "2013-W05")) == pytest.approx([0.1, 0.3, 0.9])
    assert places_of(("2013", "2013-Q2")) == pytest.approx([0.5, (90 + 45.5) / 365])
    assert places_of(("first", "2013-Q3")) == [0.25, 0.75]
    assert places_of(()) == []
    made = picture([Point(1, 0, 2, False)] * 3, [""] * 3, HULL, [], found)
    assert [float(x) for x in re.findall(r"M([\d.]+) ", made.dots)] == pytest.approx(
        [WIDTH * x for x in days], rel=1e-4
    )


def test_the_dot_of_an_early_period_is_hollow_and_sets_the_window_as_others_do():
    line, places = (
        [Point(1, 0, 2, False), Point(500, 400, 600, False), Point(7, 0, 9, True)],
        places_of(("p1", "p2", "p3")),
    )
    plain = picture(line, [""] * 3, HULL, [], places)
    made = picture(line, ["", "early", "early"], HULL, [], places)
    early = "M" + plain.dots.split("M")[2]
    assert plain.hollow == plain.weak != ""
    assert made == replace(plain, hollow=early + plain.weak)
