"""The report: hostile text stays text, nothing is loaded, the page rebuilds byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pandas as pd
import pyarrow.parquet as pq
import pytest
from jinja2 import Template

import dprelease as dp
from dprelease.measurements.candidate import Option
from dprelease.results.formats import data_package, html, parquet
from dprelease.results.formats.json_ import build_manifest, manifest_bytes
from dprelease.results.validate.rules import check
from dprelease.schema.domain import Domain
from tests.results.formats import releases

GOOD = releases.clinic()
HOSTILE = [
    "<script>alert(1)</script>",
    '" onload="alert(1)',
    "' onerror='x",
    "{{7*7}}",
    "{% include 'x' %}",
    "</title><img src=x>",
    "</svg><script>x</script>",
    "<!-- -->",
    "javascript:alert(1)",
    "&lt;b&gt;",
]


def manifest_of(release, **more):
    return build_manifest(release, check(release), {}, software=releases.SOFTWARE, **more)


def page(release, **more) -> str:
    return html.write(release, manifest_of(release, **more))["report.html"].decode()


class Page(HTMLParser):
    """Elements with their attributes, ids, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "wbr", "line", "rect", "circle", "path"}:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


def hostile(text: str):
    """A release in which every free text is `text`."""
    s = releases.statistic(
        text, f"mean({text})", Domain(0, 9), "0.1", block=text, measure=text, mechanism=text,
        error=1.0, notes=(text,), columns=[text],
    )  # fmt: skip
    bins = releases.statistic(
        "h" + text, f"histogram({text}, [0, 1])", Domain(0, 9), "1", block=text,
        columns=[f"h{text}[0,1)", f"h{text}[1,2]"],
    )  # fmt: skip
    plan = releases.plan(
        [s, bins],
        [releases.block(text)],
        by=(text,),
        keys=[(text,), ("b",)],
        notes=(text,),
        where=text,
    )
    receipt = releases.Receipt(
        "1/2", "0", text, text, text, 1, text, dataset=text, pipeline=text, period=text
    )
    rows = [(3.0, 1.0, 5.0, "ok"), (0.0, 0.0, 9.0, "uninformative")]
    return releases.noised(plan, dict.fromkeys((text, *bins.columns), rows), receipt)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_never_run(text):
    built = Page(page(hostile(text)))
    assert built.stack == []
    allowed = {tag for tag, _ in Page(page(GOOD)).elements}
    assert {tag for tag, _ in built.elements} <= allowed
    assert "script" not in allowed and "img" not in allowed
    assert not any(name.startswith("on") for _, attrs in built.elements for name in attrs)
    assert not any("style" in attrs for _, attrs in built.elements)
    assert text in built.text  # shown as it is: neither run nor evaluated nor lost


def test_the_default_template_is_the_twin_that_would_run_it():
    assert "<script>" in Template("{{ x }}").render(x=HOSTILE[0])


def test_nothing_is_loaded_and_the_style_is_pinned():
    text = page(GOOD)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    pin = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policies = [a["content"] for t, a in Page(text).elements if "http-equiv" in a]
    pinned = f"default-src 'none'; style-src 'sha256-{pin}'; img-src data:; "
    assert policies == [pinned + "base-uri 'none'; form-action 'none'"]
    for tag, attrs in Page(text).elements:
        for name in ("src", "href", "xlink:href"):
            assert (
                name not in attrs
                or str(attrs[name]).startswith("#")
                or (tag, name) == ("a", "href")
            )
    assert "url(http" not in text and "@import" not in text and "http://" not in text
    assert len(text) < 60_000


def test_headings_ids_and_pictures_are_accessible():
    built = Page(page(GOOD))
    ids = [a["id"] for _, a in built.elements if "id" in a]
    assert len(ids) == len(set(ids))
    hrefs = [str(a["href"]) for t, a in built.elements if t == "a"]
    assert [h for h in hrefs if not h.startswith("#")] == ["../index.html"]
    links = [h[1:] for h in hrefs if h.startswith("#")]
    labelled = [i for _, a in built.elements for i in str(a.get("aria-labelledby") or "").split()]
    assert set(links) | set(labelled) <= set(ids)
    assert [t for t, _ in built.elements].count("h1") == 1
    pictures = [a for t, a in built.elements if t == "svg" and a.get("aria-hidden") != "true"]
    outer = [a for a in pictures if a.get("class") != "end"]
    assert all(
        a.get("role") == "img" and ("aria-labelledby" in a or "aria-label" in a) for a in outer
    )
    assert built.elements[0] == ("html", {"lang": "en"})


def test_the_report_says_what_was_promised_and_what_is_uncertain():
    text = " ".join(Page(page(GOOD, budget={"spent": "17/2", "total": "12"})).text.split())
    for part in (
        GOOD.plan.guarantee,
        "more than 1.65 times as likely",
        "at most 63 % sure",
        "8.5 of 12 spent after this release",
        "1,204",
        "1,180 to 1,228",
        "uninformative",
        "no signal",
        "nothing strictly between 0 and 10 is ever released",
        "clamped to their declared ranges",
        "Week 46 of 2026",
        "of rows with age at least 18",
        "sampling error are not in the interval",
        GOOD.plan.hash,
        "dprelease verify",
        "pyarrow 26.0.1",
    ):
        assert part in text, part
    assert "Privacy budget" not in page(GOOD)
    assert "in no ledger" in page(releases.Draw(GOOD.plan, GOOD.table, {}))


def test_the_published_folder_alone_rebuilds_the_same_page(tmp_path):
    manifest = manifest_of(GOOD)
    first = html.write(GOOD, manifest)["report.html"]
    (tmp_path / "data.parquet").write_bytes(parquet.write(GOOD, manifest)["data.parquet"])
    finished = build_manifest(GOOD, check(GOOD), {"report.html": first}, software=releases.SOFTWARE)
    published = json.loads(manifest_bytes(finished))
    table = pq.read_table(tmp_path / "data.parquet")
    assert html.report(replace(GOOD, table=table), published) == first
    assert html.write(releases.clinic(), manifest)["report.html"] == first


def test_many_groups_are_cut_with_a_word_about_it():
    count = releases.statistic("count", "count", Domain(0, 9), "1", block="b", error=1.0)
    plan = releases.plan([count], [releases.block("b")], keys=[(f"g{i}",) for i in range(1000)])
    text = page(releases.noised(plan, {"count": [(3.0, 1.0, 5.0, "ok")] * 1000}))
    assert "The first 60 of 1,000 groups" in text
    assert "The first 250 of 1,000 groups" in text
    assert len(text) < 250_000


@pytest.mark.parametrize(("count", "listed"), [(250, 250), (251, 250), (1_000, 250)])
def test_many_bins_are_cut_with_a_word_about_it_and_the_picture_has_all(count, listed):
    columns = [f"h[{i},{i + 1})" for i in range(count)]
    bins = releases.statistic("h", "histogram(x)", Domain(0, 9), "1", block="h", columns=columns)
    plan = releases.plan([bins], [releases.block("h")], by=("g",), keys=[("a",)])
    text = page(releases.noised(plan, {c: [(3.0, 1.0, 5.0, "ok")] for c in columns}))
    assert text.count('<th scope="col">[') == listed
    assert text.count('<rect class="column"') == count
    said = f"The first 250 of {count:,} columns; the data files hold all." in text
    assert said == (count > listed)


def test_one_group_without_keys_has_a_page_too():
    count = releases.statistic("count", "count", Domain(0, 9), "1", block="b", error=1.0)
    plan = releases.plan([count], [releases.block("b")], by=(), keys=[()])
    assert "All rows" in page(releases.noised(plan, {"count": [(3.0, 1.0, 5.0, "ok")]}))


def test_companions_and_the_choice_are_told():
    options = (Option("staircase", 2.0), Option("staircase", 2.1), Option("discrete_laplace", 2.5))
    count = releases.statistic(
        "count", "count", Domain(0, 9), "1", block="b", error=2.0, options=options
    )
    plan = releases.plan([count], [releases.block("b")])
    release = releases.noised(plan, {"count": [(3.0, 1.0, 5.0, "ok")] * 3})
    text = " ".join(Page(page(release)).text.split())
    assert "the runner-up, discrete Laplace, would have had 25 % more expected error" in text
    assert "estimate" in text and "consistent" in text
    assert "unbiased</th>" not in page(release)  # no value has one
    with_unbiased = releases.replaced(release, "unbiased", 0, 3.0)
    assert "unbiased</th>" in page(with_unbiased)


def test_other_budgets_and_the_burn_down_are_told():
    what_if = [{"epsilon": "1", "errors": {"count": 2.0}}]
    budget = {"spent": "1", "total": "2", "history": ["1/2", "1"]}
    text = " ".join(Page(page(GOOD, what_if=what_if, budget=budget)).text.split())
    assert "What another budget would buy" in text
    assert "Hollow: 2 more releases at this one's price fit" in text
    assert "What another budget would buy" not in page(GOOD)


def test_the_last_figure_of_a_price_curve_ends_inside_its_picture(monkeypatch):
    """It begins at its dot, 30 pixels before the edge of a narrow one, on pages that were published so."""
    what_if = [{"epsilon": "2", "errors": {"count": 2.0}}]
    for today, last in ((False, ("-4", "start")), (True, ("0", "middle"))):
        monkeypatch.setattr(html, "of_today", lambda _, today=today: today)
        text = page(GOOD, what_if=what_if)
        placed = re.findall(r'dx="(-?\d)" y="[\d.]+" text-anchor="(\w+)"', text)
        assert placed == [("0", "middle"), last]


def test_every_colour_of_text_can_be_read_in_both_schemes():
    """WCAG AA: 4.5 to 1 against the page and against every band that text can lie on."""
    style = resources.files("dprelease.results.formats").joinpath("report.css").read_text()
    schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(schemes) == 3  # light, dark, print
    for scheme in schemes:
        colours = {
            k: "#" + "".join(c * 2 for c in v) if len(v) == 3 else "#" + v
            for k, v in re.findall(r"--([a-z-]+): #([0-9a-f]{3,6})", scheme)
        }
        for text in ("ink", "soft", "accent", "weak", *(["warn"] if "warn" in colours else [])):
            for ground in ("paper", "panel", "band"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["accent"], colours["paper"]) >= 3  # lines and dots
    assert contrast("#999999", "#ffffff") < 4.5  # the measure tells pale grey


def contrast(one: str, other: str) -> float:
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_published_page_names_where_its_standing_is_recorded():
    assert 'href="../index.html"' in page(GOOD)
    assert 'href="../index.html"' not in page(releases.Draw(GOOD.plan, GOOD.table, {}))


def test_a_page_made_after_a_withdrawal_says_so_first():
    manifest = manifest_of(GOOD)
    gone = html.report(GOOD, manifest, gone="withdrawn on 2026-11-20: <b>test rows</b>").decode()
    said = Page(gone).text
    assert "This release does not stand: withdrawn on 2026-11-20: <b>test rows</b>" in said
    assert said.index("does not stand") < said.index("Every number here")
    assert "<b>" not in gone
    assert "../index.html" not in gone  # it may lie anywhere
    assert "does not stand" not in html.report(GOOD, manifest).decode()


def test_what_is_public_or_has_no_interval_is_not_said_to_be_noisy_or_barred():
    rows = {"exact": 40}
    x = {"kind": "integer", "range": [0, 10], "nulls": {"default": 5}}
    schema = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "substitution",
        "rows": rows, "columns": {"x": x},
        "release": {"epsilon": "0.2", "statistics": ["count", "median(x)"]},
    }  # fmt: skip
    frame = pd.DataFrame({"x": list(range(10)) * 4})
    with pytest.warns(dp.UnledgeredWarning):
        noised = dp.release(frame, schema)._noised
    text = " ".join(Page(page(noised, published="2026-12-01")).text.split())
    assert "Every number here, except count (public), carries deliberate noise" in text
    assert "chosen by rank" in text
    assert "among rows of which none has a known value, that is any allowed number" in text
    assert "published 2026-12-01" in text
    assert (
        "Said before the draw: median_x is expected to say nothing, in a group of 40 rows" in text
    )
    # The control: a release of noisy numbers with intervals says none of that.
    plain = " ".join(Page(page(GOOD)).text.split())
    assert "Every number here carries deliberate noise" in plain
    for part in ("chosen by rank", "a known value", "; published", "Said before the draw"):
        assert part not in plain
    for release, said in ((noised, True), (GOOD, False)):
        manifest = build_manifest(release, check(release), {}, software={})
        package = json.dumps(data_package.descriptor(release.plan, manifest))
        assert (data_package.RANKED_WORDS in package) is said


def test_the_planned_error_is_said_to_be_planned():
    """At the declared size: what a drawn value is worth is its interval."""
    assert "Error expected beforehand: ±4.5" in page(GOOD)


def test_a_single_group_is_called_the_one_group(monkeypatch):
    """Not on pages of before today, whose bytes are cited: those go by `page.label`."""
    counts = releases.statistic("n", "count", Domain(0, 99), "1", block="rows")
    plan = releases.plan([counts], [releases.block("rows")], by=("town",), keys=[("a",)])
    drawn = releases.noised(plan, {"n": [(4.0, 2.0, 6.0, "ok")]})
    for today, said in ((True, "the one group"), (False, "each of 1 groups")):
        monkeypatch.setattr(html, "of_today", lambda _, today=today: today)
        shown = page(drawn)
        assert f"for {said} by" in shown
        assert f"A dot for {said}" in shown
        assert f"for each of {len(GOOD.plan.keys)} groups by" in page(GOOD)


def _by_two_keys(outer: list[str], inner: list[str]):
    keys = [(a, b) for a in outer for b in inner]
    mean = releases.statistic("pay", "mean(pay)", Domain(0, 100), "1", block="b", columns=["pay"])
    plan = releases.plan([mean], [releases.block("b")], by=("area", "age"), keys=keys)
    rows = [(20.0 + i, 10.0 + i, 30.0 + i, "ok") for i in range(len(keys))]
    return releases.noised(plan, {"pay": rows}, releases.LEDGER)


def test_many_rows_of_two_keys_are_a_picture_per_outer_key_to_one_scale(monkeypatch):
    monkeypatch.setattr(html, "of_today", lambda _: True)
    areas, ages = ["north", "east", "south", "west"], ["young", "grown", "old", "oldest"]
    text = page(_by_two_keys(areas, ages))
    [drawn] = re.findall(r'<div class="multiples">(.*?)<figcaption>', text, re.DOTALL)
    assert re.findall(r"<h3>(.*?)</h3>", drawn) == areas
    pictures = re.findall(r"<svg role.*?</svg>\n<ol", drawn, re.DOTALL)
    assert [p.count('class="dot"') for p in pictures] == [4] * 4
    axes = [re.findall(r'<text x="(.*?)%" y=.*?>(.*?)</text>', picture) for picture in pictures]
    assert axes[0]
    assert all(axis == axes[0] for axis in axes)
    dots = [float(at) for p in pictures for at in re.findall(r'class="dot" cx="([\d.]+)%"', p)]
    steps = {round(b - a, 2) for a, b in pairwise(dots)}
    assert len(steps) == 1  # each value is one more than the one before
    assert re.findall(r"by group of (\w+), with", drawn) == areas
    assert Page(text).stack == []


@pytest.mark.parametrize(("areas", "ages"), [(4, 3), (16, 1), (1, 16)])
def test_few_rows_and_rows_of_one_key_are_one_picture(areas, ages, monkeypatch):
    monkeypatch.setattr(html, "of_today", lambda _: True)
    text = page(_by_two_keys([f"a{i}" for i in range(areas)], [f"b{i}" for i in range(ages)]))
    assert 'class="multiples"' not in text
    assert text.count('class="dot"') == areas * ages
