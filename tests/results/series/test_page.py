"""The index page: self-contained, escaped, complete; and it copes with 336 groups."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from dprelease.results.series import page
from dprelease.results.series.collect import collect
from dprelease.results.series.correct import withdraw
from tests.results.series.made import publish, year


class Outline(HTMLParser):
    """Tags that must be closed, ids, links and headings of a page."""

    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.loaded, self.counts, self.described = (
            [],
            [],
            [],
            [],
            {},
            [],
        )
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        self.described += values.get("aria-labelledby", "").split()
        self.loaded += [
            values[n]
            for n in ("src", "srcset", "data", "style", "onload", "onclick")
            if n in values
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def written(folder):
    return page.write(collect(folder)).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return year(tmp_path_factory.mktemp("page"), formats=("parquet", "html"))


def test_the_page_is_well_formed_and_every_name_leads_somewhere(folder):
    outline = Outline(written(folder))
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.described) <= set(outline.ids)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    local = {link for link in outline.links if not link.startswith("#")}
    beside = {"index.json", "feed.xml", "catalog.jsonld"}  # written with the page
    assert all((folder / link).exists() for link in local - beside)
    assert {f"2026-W0{i}/report.html" for i in range(1, 7)} <= local


def test_nothing_is_loaded_and_the_style_is_pinned(folder):
    text = written(folder)
    outline = Outline(text)
    assert outline.loaded == []
    assert "dots have noise and no bars" not in text
    assert "script" not in outline.counts
    assert "http://" not in text.replace("http://www.w3.org", "")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    pin = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{pin}'" in text


def test_a_picture_per_group_and_column_each_with_its_numbers(folder):
    text = written(folder)
    assert text.count('role="img"') == 3 * 3 + 1  # and the budget
    assert text.count('<th scope="row">2026-W01</th>') == 9
    assert ">200<" in text


def test_what_is_spent_stands_on_top(folder):
    text = written(folder)
    assert "Each period: ε = 0.5.</dd>" in text
    assert "ε ≤ 3</dd>" in text
    assert "3 of 100 spent, 97 left" in text


def test_labels_are_escaped(tmp_path):
    nasty = ("<script>alert(1)</script>", '" onload="x', "{{7*7}}")
    text = written(year(tmp_path, 2, labels=nasty))
    assert "<script" not in text
    assert "{{7*7}}" in text
    assert Outline(text).loaded == []


def test_336_groups_are_all_there_by_name(tmp_path):
    text = written(year(tmp_path, 3, groups=336))
    outline = Outline(text)
    assert outline.open == []
    assert all(text.count(f">g{i:03d}") >= 1 for i in range(336))
    assert text.count("312 more groups") == 3  # 24 shown at once, per column
    assert "An interval much wider than the others may go on beyond its edge" in text
    assert outline.counts["svg"] > 336 * 3
    assert len(text) < 12_000_000


def test_beyond_the_limits_the_page_says_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PICTURES", 6)
    monkeypatch.setattr(page, "ROWS", 24)
    text = written(year(tmp_path, 6, groups=4))
    assert text.count("2 further groups are in") == 3
    assert "the tables here show the newest 4" in text
    assert '<th scope="row">2026-W02</th>' not in text
    assert '<th scope="row">2026-W03</th>' in text


def test_a_withdrawn_period_is_marked_everywhere_and_not_the_newest(tmp_path):
    folder = year(tmp_path, 3)
    before = written(folder)
    assert "withdrawn" not in before.partition("</style>")[2]
    withdraw(folder / "2026-W03", reason="held <b>test</b> rows")
    text = written(folder)
    assert "held &lt;b&gt;test&lt;/b&gt; rows" in text
    assert re.search(r'Newest that stands</dt><dd class="long"><a href="2026-W02/">', text)
    assert text.count('class="gone"') == 9 + 1  # every picture and the legend
    assert '<tr class="away"><th scope="row"><a href="2026-W03/">' in text
    assert "1 period does not stand" in text.replace("</strong>", "")


def test_a_group_without_a_value_in_the_newest_period_names_the_period_of_its_last_one(tmp_path):
    """A cell that was suppressed since had the value of years ago beside the word newest."""
    publish(tmp_path, "2026-W01", 0, groups=2)
    publish(tmp_path, "2026-W02", 1, groups=1)
    text = written(tmp_path / "weekly")
    there, gone = re.findall(r"g00[01]</h3>|g00[01]<span>([^<]*)</span>", text)[:2]
    assert there.startswith("newest ")
    assert gone.startswith("2026-W01: ")


def test_values_that_say_nothing_are_not_quoted_as_the_newest(tmp_path):
    publish(tmp_path, "p1", 0)
    publish(tmp_path, "p2", 1, weak=True)
    text = written(tmp_path / "weekly")
    assert "newest says nothing" in text
    assert 'class="weak" d="M' in text


def test_what_is_observed_and_not_proved_is_said_once(tmp_path):
    assert "Not proved" not in written(year(tmp_path / "a", 1, notes=("a note",)))
    text = written(year(tmp_path / "b", 2, notes=("observed: a reason",)))
    assert text.count("observed: a reason") == 1
    assert "observed, not proved</a>" in text


def test_an_empty_pipeline_has_a_page(tmp_path):
    (tmp_path / "weekly").mkdir()
    assert "Nothing is published yet" in written(tmp_path / "weekly")


def test_an_unreadable_folder_is_named(folder, tmp_path):
    made = year(tmp_path, 2)
    (made / "2026-W02" / "release.json").write_text("{")
    assert "Left out" in written(made)
    assert "Left out" not in written(folder)
