"""A publisher's words that run from right to left end where they end: nothing behind them is drawn inside them."""

from __future__ import annotations

import unicodedata
import warnings
from html.parser import HTMLParser

import pandas as pd
import pytest

import dprelease as dp
from dprelease.release_plan.curve import trace
from dprelease.results.formats.plan_page import plan_page

TITLE, WAGE, PLACE, WHO = "الأجور في أونتاريو", "שכר לשעה", "المنطقة", "דייג"
SAID = {"code", "title", "style", "script"}
"""Where no element may stand, or what stands there is the publisher's own definition."""


class Loose(HTMLParser):
    """Gathers texts with letters from right to left that no `<bdi>` and no isolating character sets apart."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loose: list[str] = []
        self.seen = 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        inside, outside = 0, ""
        for c in data:
            inside += (c == "\u2068") - (c == "\u2069")
            outside += "" if inside else c
        if SAID & set(self.open) or not leftwards(data):
            return
        self.seen += 1
        if "bdi" not in self.open and leftwards(outside):
            self.loose.append(data.strip())


def leftwards(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def loose(page: str) -> Loose:
    found = Loose()
    found.feed(page)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leftwards")
    made = {
        "dprelease": "schema/1", "name": "wages", "adjacency": "add_remove", "title": TITLE, "unit": "row",
        "publisher": {"name": WHO}, "rows": {"max": 1000, "expected": 100},
        "columns": {
            "wage": {"kind": "integer", "range": [0, 40], "nulls": {"default": 0}, "title": WAGE},
            "place": {"kind": "category", "values": ["a", "b"], "title": PLACE},
        },
        "release": {
            "epsilon": 2, "by": ["place"],
            "statistics": ["count", {"statistic": "mean(wage)", "title": WAGE}],
        },
    }  # fmt: skip
    ledger = dp.create_ledger(folder / "ledger.db", made, epsilon=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for period in ("2001", "2002"):
            rows = pd.DataFrame({"wage": [i % 40 for i in range(200)], "place": ["a", "b"] * 100})
            release = dp.release(rows, made, ledger=ledger, period=period)
            last = release.publish(folder / "public")
    plan = dp.plan(made)
    curve = trace(plan.epsilon, lambda e: dp.plan(made, epsilon=e), (1, 4))
    files = {
        "report": last / "report.html",
        "index": last.parent / "index.html",
        "diff": dp.diff(last.parent / "2001", last).write(folder / "diff.html"),
    }
    found = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    return found | {"plan": plan_page("wages", plan, curve, {"total": "8"}).decode()}


@pytest.mark.parametrize("name", ["report", "index", "diff", "plan"])
def test_every_word_from_right_to_left_is_set_apart(pages, name):
    found = loose(pages[name])
    assert found.loose == []
    assert found.seen >= 3


def test_a_page_without_is_as_it_was(pages):
    """The control: the same page with the elements taken away is found, and Latin words get none."""
    assert loose(pages["report"].replace("<bdi>", "").replace("</bdi>", "")).loose
    assert "<bdi>2001" not in pages["report"]
