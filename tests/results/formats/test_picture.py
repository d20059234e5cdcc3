"""A statistic's own picture: well-formed, escaped, complete; an unknown name is refused."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from dprelease.core.errors import ArgumentError
from dprelease.results.formats import picture as module
from dprelease.results.formats.chart import Point
from dprelease.results.formats.picture import Panel, Picture, dots, panels, release_picture
from dprelease.results.formats.public_words import planned_words
from dprelease.schema.domain import Domain
from tests.results.formats import releases
from tests.results.formats.test_html import HOSTILE

GOOD = releases.clinic()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", [s.name for s in GOOD.plan.statistics])
def test_every_statistic_has_a_picture_of_its_values(name):
    picture = release_picture(GOOD, name)
    tree = ET.fromstring(picture.svg)
    statistic = next(s for s in GOOD.plan.statistics if name == s.name)
    if len(statistic.columns) > 1:
        columns = [r for r in tree.iter(f"{SVG}rect") if r.get("class") == "column"]
        assert len(columns) == len(statistic.columns) * len(GOOD.plan.keys)
    else:
        assert len([g for g in tree.iter(f"{SVG}g") if g.get("class")]) == len(GOOD.plan.keys)
    assert picture._repr_html_() == picture.svg
    assert isinstance(picture, Picture)


def test_without_a_name_all_statistics_stand_one_below_the_other():
    picture = release_picture(GOOD, None)
    each = [release_picture(GOOD, s.name) for s in GOOD.plan.statistics]
    tree = ET.fromstring(picture.svg)
    assert len(tree) == len(each) > 1
    assert float(tree.get("height")) == sum(float(ET.fromstring(p.svg).get("height")) for p in each)
    places = [float(part.get("y")) for part in tree]
    assert places == sorted(set(places))


def test_over_many_groups_all_statistics_stand_side_by_side_and_outer_keys_are_kept_apart():
    keys = [(town, str(size)) for town in "abcde" for size in range(12)]
    ranked = releases.statistic("median_age", "median(age)", Domain(0, 110), "1", block="m")
    counts = [
        releases.statistic(f"n{i}", "count", Domain(0, 9_000_000), "1", block="rows")
        for i in range(6)
    ]
    blocks = [releases.block("rows"), releases.block("m", family="ranks")]
    plan = releases.plan([ranked, *counts], blocks, by=("town", "size"), keys=keys)
    values = {s.name: [(float(i), 0.0, 60.0, "ok") for i in range(60)] for s in counts}
    drawn = releases.noised(plan, values | {"median_age": [(40.0, None, None, "ok")] * 60})
    picture = release_picture(drawn, None)
    first, second = ET.fromstring(picture.svg)
    for part, columns in ((first, 5), (second, 2)):
        assert len(list(part.iter(f"{SVG}circle"))) == 60 * columns
        shown = ["".join(e.itertext()) for e in part.iter(f"{SVG}text")]
        assert [shown.count(" · ".join(key)) for key in keys] == [1] * 60  # names stand once
        assert "town · size" in shown[2:4]  # behind a note of one line, or two
        across = [e for e in part.iter(f"{SVG}line") if e.get("x1") == "0"]
        assert len(across) == 4  # between five towns
        assert all(float(e.get("x2")) == float(part.get("width")) for e in across)
        dots_at = [float(c.get("cy")) for c in part.iter(f"{SVG}circle")]
        assert len(set(dots_at)) == 60  # all columns share their rows
    assert " (no interval)" in texts(picture) and texts(picture).count(" (no interval)") == 1
    assert float(ET.fromstring(picture.svg).get("width")) == float(first.get("width"))
    assert float(first.get("height")) < 1300
    one = release_picture(drawn, None, ("a", "0"))
    assert len(ET.fromstring(one.svg)) == 7  # one group: one below the other, as of few groups


def test_a_statistic_is_found_as_it_was_asked_for_and_a_misspelt_one_refused():
    first = GOOD.plan.statistics[-1]
    assert release_picture(GOOD, first.text) == release_picture(GOOD, first.name)
    with pytest.raises(ArgumentError) as caught:
        release_picture(GOOD, "nothing like it")
    assert caught.value.code == "DPR613"
    with pytest.raises(ArgumentError, match="; name one, or none for all"):
        release_picture(GOOD, [GOOD.plan.statistics[0].name])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(text):
    picture = dots(text, text, [text], [Point(1.0, 0.0, 2.0, weak=False)], (0.0, 10.0), [])
    tree = ET.fromstring(picture.svg)
    allowed = {"svg", "title", "style", "rect", "text", "line", "g", "circle", "path"}
    assert {e.tag.removeprefix(SVG) for e in tree.iter()} <= allowed


def test_an_interval_that_leaves_the_picture_ends_in_an_arrow():
    near = [Point(5.0, 4.9, 5.1, weak=False)] * 9
    vague = Point(5.0, 0.0, 10.0, weak=False)
    shown = dots("t", "n", ["g"] * 10, [*near, vague], (0.0, 10.0), [])
    assert shown.svg.count("<path") == 2
    assert dots("t", "n", ["g"] * 9, near, (0.0, 10.0), []).svg.count("<path") == 0


def texts(picture):
    return ["".join(e.itertext()) for e in ET.fromstring(picture.svg).iter(f"{SVG}text")]


HISTOGRAM = next(s for s in GOOD.plan.statistics if len(s.columns) > 1)


def test_a_histogram_has_a_panel_per_group_with_that_group_s_values():
    shown = release_picture(GOOD, HISTOGRAM.name)
    tree = ET.fromstring(shown.svg)
    panes = [g for g in tree.iter(f"{SVG}g") if g.get("class") == "panel"]
    assert len(panes) == len(GOOD.plan.keys)
    for key, pane in zip(GOOD.plan.keys, panes, strict=True):
        assert pane.find(f"{SVG}text").text == " · ".join(key)
        rows = {
            r["statistic"]: r["value"]
            for r in GOOD.table.to_pylist()
            if r[GOOD.plan.by[0]] == key[0]
        }
        said = [t.text.rpartition(": ")[2] for t in pane.iter(f"{SVG}title")]
        assert said == [f"{rows[c]:,.6g}" for c in HISTOGRAM.columns]


@pytest.mark.parametrize("name", [s.name for s in GOOD.plan.statistics])
def test_one_group_can_be_asked_for(name):
    key = GOOD.plan.keys[-1]
    for asked in (key[0], key, list(key)):
        shown = texts(release_picture(GOOD, name, asked))
        assert key[0] in shown
        assert not {k[0] for k in GOOD.plan.keys[:-1]} & set(shown)


@pytest.mark.parametrize("asked", ["nowhere", ("north", "south"), ()])
def test_an_unknown_group_is_refused(asked):
    with pytest.raises(ArgumentError) as caught:
        release_picture(GOOD, None, asked)
    assert caught.value.code == "DPR618"


def test_more_groups_than_fit_are_cut_and_the_note_says_so(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 2)
    for name in (HISTOGRAM.name, GOOD.plan.statistics[0].name):
        shown = release_picture(GOOD, name)
        assert f"; the first 2 of {len(GOOD.plan.keys)} groups" in " ".join(texts(shown))
        assert GOOD.plan.keys[2][0] not in texts(shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_in_panels_stay_text(text):
    point = Point(1.0, 0.0, 2.0, weak=True)
    ET.fromstring(panels(text, text, [Panel(text, [text], [point])] * 3).svg)


def test_the_note_promises_no_interval_and_no_error_that_is_not_there():
    median = releases.statistic("median_age", "median(age)", Domain(0, 110), "1", block="m")
    plan = releases.plan([median], [releases.block("m", family="ranks")], by=(), keys=[()])
    without = releases.noised(plan, {"median_age": [(40.0, None, None, "ok")]})
    assert not plan.block("m").has_interval
    [_, note, *_] = texts(release_picture(without, None))
    assert note == "no error known; there is no interval for it"
    shown = texts(release_picture(GOOD, "count"))
    assert "error expected beforehand ±4.5; bars are 95 % intervals for the noise" in shown


def test_the_note_says_of_ranks_in_rows_and_of_the_unit_apart():
    said = {"error_text": "±198 rows in rank where rows differ, ±350 at most (95 %)", "measure": "years"}  # fmt: skip
    median = replace(releases.statistic("m", "median(age)", Domain(0, 110), "1", block="m"), **said)
    plan = releases.plan([median], [releases.block("m", family="ranks")], by=(), keys=[()])
    drawn = releases.noised(plan, {"m": [(40.0, None, None, "ok")]})
    note = f"years; error expected beforehand {said['error_text']}; there is no interval for it"
    assert note in " ".join(texts(release_picture(drawn, None)))


def test_the_note_says_what_is_hollow_where_something_is():
    for statistic, what in ((GOOD.plan.statistics[0], "hollow dots"), (HISTOGRAM, "grey columns")):
        said = f", {what} say nothing"
        assert said not in " ".join(texts(release_picture(GOOD, statistic.name)))
        rows = [(1.0, 0.0, 2.0, "uninformative")] * len(GOOD.plan.keys)
        plan = releases.plan([statistic], list(GOOD.plan.blocks), by=GOOD.plan.by, keys=GOOD.plan.keys)  # fmt: skip
        drawn = releases.noised(plan, dict.fromkeys(statistic.columns, rows))
        assert said in " ".join(texts(release_picture(drawn, statistic.name)))


def test_a_long_note_goes_on_in_a_second_line_and_pushes_the_picture_down():
    note = "error expected beforehand ±1.29 if values fill the range; " * 2 + "bars are intervals"
    points = [Point(1.0, 0.0, 2.0, weak=False)]
    short, long = (dots("t", text, ["a"], points, (0.0, 3.0), []) for text in ("note", note))
    [_, one, two, *_] = texts(long)  # behind the title
    assert f"{one} {two}" == note and max(map(len, (one, two))) < 103
    higher = [int(ET.fromstring(picture.svg).attrib["height"]) for picture in (short, long)]
    assert higher[1] - higher[0] == 16 and "translate(0,16)" in long.svg


def test_a_long_title_is_not_cut_at_the_edge():
    title = "Number of visits kept, at most 4 per patient in each of 3 groups, where age >= 65"
    [one, two, three, *_] = texts(
        dots(title, "n", ["a"], [Point(1.0, 0.0, 2.0, weak=False)], (0.0, 3.0), [])
    )
    assert f"{one} {two}" == title and three == "n" and len(one) < 71


def test_a_long_name_stands_in_two_lines_and_is_told_from_others():
    names = [
        "The long name of the fifth place, by the river",
        "The long name of the fifth place, on the hill",
    ]
    points = [Point(1.0, 0.0, 2.0, weak=False)] * 2
    shown = texts(dots("t", "n", names, points, (0.0, 3.0), []))
    lines = [text for text in shown if "name" in text or "place" in text]
    assert len(lines) == 4 and lines[1].endswith("river") and lines[3].endswith("hill")
    assert max(map(len, lines)) <= 25
    one = texts(dots("t", "n", ["short", "x" * 60], points, (0.0, 3.0), []))
    assert "short" in one and any(text.endswith("…") for text in one)


def test_long_names_that_differ_at_their_ends_are_told_apart_and_nothing_overlaps():
    keys = [("Adelie penguin (Pygoscelis adeliae)", f"2026-{i:02d}") for i in range(1, 14)]
    asked = [releases.statistic(n, "count", Domain(0, 9000), "1", block="b") for n in ("n", "m")]
    plan = releases.plan(asked, [releases.block("b")], by=("species", "month"), keys=keys)
    rows = [(float(i), 0.0, 8999.0, "ok") for i in range(13)]
    drawn = releases.noised(plan, {"n": rows, "m": rows})
    tree = ET.fromstring(release_picture(drawn, None).svg)
    shown = [t for t in tree.iter(f"{SVG}text") if t.text]
    assert [t.text[-7:] for t in shown if t.text[-7:-3] == "2026"] == [month for _, month in keys]
    names = [t for t in shown if (t.get("class"), t.get("text-anchor")) == ("small", "end")]
    assert min(b - a for a, b in pairwise(sorted(int(t.get("y")) for t in names))) >= 11
    ticks = [
        t.get("text-anchor") for t in shown if t.get("class") == "soft" and t.get("text-anchor")
    ]
    assert ticks == ["start", "end"] * 2
    abreast = panels(
        "t", "n", [Panel(" · ".join(k), ["a"], [Point(1.0, 0.0, 2.0, weak=False)]) for k in keys]
    )
    assert sum(text.endswith("2026-13") for text in texts(abreast)) == 1


def test_a_picture_of_a_single_group_says_so():
    for asked in GOOD.plan.statistics:
        key = GOOD.plan.keys[0]
        one = release_picture(GOOD, asked.name, key if len(key) > 1 else key[0])
        assert "intervals of 1 group<" in one.svg
        every = f"of {len(GOOD.plan.keys)} groups<"
        assert every in release_picture(GOOD, asked.name).svg


def test_a_heading_beside_others_says_how_many_rows_of_each_are_kept():
    keys = [(str(i),) for i in range(module.MANY + 1)]
    held = releases.statistic("n", "count", Domain(0, 9), "1", block="rows")
    other = releases.statistic("m", "count", Domain(0, 9), "1", block="rows")
    plan = releases.plan([held, other], [releases.block("rows")], by=("k",), keys=keys)
    values = {name: [(1.0, 0.0, 2.0, "ok")] * len(keys) for name in ("n", "m")}
    picture = release_picture(releases.noised(plan, values), None)
    title = planned_words(plan).heading(held)
    assert len(title) > 2 * (module.LINE + 5)  # two lines would not do
    assert title in " ".join(texts(picture))


def test_an_arrow_of_a_value_that_says_nothing_is_seen():
    """Its strokes are shorter than the dashes of its bar: dashed, it was two specks."""
    points = [Point(1.0, 0.0, 2.0, weak=False), Point(9.0, 9.0, 9.0, weak=True)]
    svg = dots("t", "n", ["a", "b"], points, (0.0, 3.0), []).svg
    assert '<path class="bar"' in svg and ".weak path.bar{stroke-dasharray:none}" in svg
