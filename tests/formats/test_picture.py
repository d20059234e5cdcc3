"""A statistic's own picture: well-formed, escaped, complete; an unknown name is refused."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from dprelease.errors import ArgumentError
from dprelease.formats.picture import Picture, dots, release_picture
from dprelease.formats.plots import Point
from tests.formats import releases
from tests.formats.test_html import HOSTILE

GOOD = releases.clinic()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", [None, *(s.name for s in GOOD.plan.statistics)])
def test_every_statistic_has_a_picture_of_its_values(name):
    picture = release_picture(GOOD, name)
    tree = ET.fromstring(picture.svg)
    statistic = next(s for s in GOOD.plan.statistics if name in (None, s.name))
    if len(statistic.columns) > 1:
        columns = [r for r in tree.iter(f"{SVG}rect") if r.get("class") == "column"]
        assert len(columns) == len(statistic.columns)
    else:
        assert len(list(tree.iter(f"{SVG}g"))) == len(GOOD.plan.keys)
    assert picture._repr_html_() == picture.svg
    assert isinstance(picture, Picture)


def test_a_statistic_is_found_as_it_was_asked_for_and_a_misspelt_one_refused():
    first = GOOD.plan.statistics[-1]
    assert release_picture(GOOD, first.text) == release_picture(GOOD, first.name)
    with pytest.raises(ArgumentError) as caught:
        release_picture(GOOD, "nothing like it")
    assert caught.value.code == "DPR613"


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
