"""The plan page: whole without a script, hostile text stays text, script and style are pinned."""

from __future__ import annotations

import base64
import hashlib
import re
from fractions import Fraction
from html import unescape

import pytest

import dprelease as dp
from dprelease.release_plan.curve import CurvePoint, trace
from dprelease.release_plan.why_split import why_this_split
from dprelease.results.formats.plan_page import plan_page
from tests.release_plan.test_curve import FEW, SCHEMA, make
from tests.results.formats.test_html import HOSTILE, Page

PLAN = dp.plan(SCHEMA)
CURVE = trace(Fraction(1), make, FEW)
BUDGET = {"total": "12", "0.5": "24", "1": "12", "2": "6"}


def page(name="clinic_weekly", plan=PLAN, curve=CURVE, budget=BUDGET):
    return plan_page(name, plan, curve, budget).decode()


def test_the_table_holds_every_number_without_a_script():
    text = re.sub(r"<script>.*</script>", "", page(), flags=re.DOTALL)
    for point in CURVE.points:
        for words in point.words:
            assert f">{words}</td>" in text
    assert 'class="choice" hidden' in text  # what needs the script shows with it alone
    assert "24" in text


def test_style_and_script_are_the_pinned_ones_and_nothing_is_loaded():
    text = page()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    for tag in ("style", "script"):
        [body] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        pin = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{pin}'" in policy
    assert policy.startswith("default-src 'none'")
    plain = (
        text.replace("<input ", "<meta ").replace("<circle ", "<g ").replace("</circle>", "</g>")
    )
    for name, attributes in Page(plain).elements:
        assert not any(a.startswith("on") for a in attributes)
        assert "style" not in attributes
        assert "src" not in attributes
        assert name not in {"link", "img", "iframe"}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(text):
    refused = (CurvePoint(Fraction(1, 2), refused=text), *CURVE.points[1:])
    shown = page(text, curve=type(CURVE)(refused, 1, text))
    assert text not in shown.partition("<body>")[2].replace("&amp;", "&") or "<" not in text
    assert len(re.findall("<script>", shown)) == 1


def test_what_is_expected_to_say_nothing_is_marked_and_explained():
    small = {**SCHEMA, "rows": {"max": 1000, "expected": 3}}
    release = {**SCHEMA["release"], "statistics": ["count", "mean(age)"]}

    def few(epsilon):
        return dp.plan({**small, "release": {**release, "epsilon": str(epsilon)}})

    plan, curve = few(1), trace(Fraction(1), few, (Fraction(1, 2), Fraction(64)))
    shown = page(plan=plan, curve=curve)
    told = str(plan.statistics[1].uninformative).replace(" at n=3:", ", in a group of 3 rows:")
    assert f"mean_age is {told}" in shown
    assert (
        "SAYS NOTHING, see “Before you pay”" in shown
    )  # in the plan's table, which comes after it
    cells = re.findall(r"<tr><th scope=.row.><a href=.#s2.*?</tr>", shown, re.DOTALL)[0]
    marks = ["†" in cell for cell in re.findall(r"<td.*?</td>", cells, re.DOTALL)]
    assert marks == [True, True, False]
    assert "†" not in page()  # the control: a plan whose numbers say something


def test_of_two_spreads_the_table_has_the_larger_error_and_says_so():
    schema = SCHEMA | {"release": {"epsilon": 1, "statistics": ["variance(age)", "std(age)"]}}
    plan = dp.plan(schema)
    few = trace(Fraction(1), lambda epsilon: dp.plan(schema, epsilon=epsilon), [Fraction(1)])
    for statistic, words in zip(plan.statistics, few.points[0].words, strict=True):
        two = re.findall(r"±([\d.,]+)", statistic.error_text)
        assert len(two) == 2
        assert words.startswith(f"±{max(two, key=lambda one: float(one.replace(',', '')))}")
    said = "the larger of two: for values that fill the range, and for a standard deviation of 5 %"
    assert said in page(plan=plan, curve=few)


def test_every_picture_has_its_words_and_a_refused_point_none():
    refused = (CurvePoint(Fraction(1, 2), refused="too little"), *CURVE.points[1:])
    text = page(curve=type(CURVE)(refused, 1))
    assert "there is no plan: too little" in text
    assert text.count('role="img"') == len(PLAN.statistics)
    assert text.count("logarithmic scales") == len(PLAN.statistics)
    assert text.count('<circle class="point') == 2 * len(PLAN.statistics)


def test_the_page_says_why_the_budget_is_split_so():
    said = why_this_split(PLAN)
    assert f"Why this split of ε: {said.removeprefix('why this split: ')}." in unescape(page())
    one = dp.plan({**SCHEMA, "release": {**SCHEMA["release"], "statistics": ["count"]}})
    assert "Why this split" not in page(plan=one)  # nothing is split


def test_the_same_plan_gives_the_same_bytes():
    assert page() == page()


def test_the_publishers_titles_are_its_headings():
    named = {
        **SCHEMA,
        "title": "Visits to clinics",
        "release": {
            **SCHEMA["release"],
            "statistics": [{"statistic": "count", "title": "All visits"}],
        },
    }
    plan = dp.plan(named)
    curve = trace(Fraction(1), lambda epsilon: dp.plan(named, epsilon=str(epsilon)), FEW)
    text = page(plan=plan, curve=curve)
    assert "<h1>Visits to clinics</h1>" in text
    assert "All visits <small>count</small>" in text
    assert "<h1>Clinic weekly</h1>" in page()
    assert ">mean_<wbr>age</a>" in page()  # no name breaks in a word
    assert '<th scope="row">mean_<wbr>age</th>' in page()


def test_the_page_carries_the_hash_that_an_approval_records_and_a_line_to_sign():
    from dprelease.budget.approval import request_hash
    from dprelease.query.written import request_for_all_periods

    expected = request_hash(request_for_all_periods(PLAN.request))
    approval = page().partition('id="approval"')[2]
    assert expected in approval
    assert "<span>Signature</span>" in approval
    assert (
        '<section id="approval" aria' in page()
    )  # `long` ones may break: hash and line stay on one sheet


def test_of_several_tables_it_says_how_many_and_not_the_groups_of_the_finest():
    columns = {**SCHEMA["columns"], "sex": {"kind": "category", "values": ["f", "m"]}}
    tables = [
        {"name": "all", "by": [], "statistics": ["count"]},
        {"name": "sexes", "by": ["sex"], "statistics": ["count"]},
    ]

    def several(epsilon):
        return dp.plan(
            {**SCHEMA, "columns": columns, "release": {"epsilon": str(epsilon), "tables": tables}}
        )

    shown = page(plan=several(1), curve=trace(Fraction(1), several, FEW))
    assert '<dd class="long">2 statistics in 2 tables that add up</dd>' in shown
