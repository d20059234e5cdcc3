"""Above an epsilon of 10 the warning stands wherever the epsilon does, and at 10 nowhere.

Files and pages as they leave `publish`, the receipt, the plan's page and the answer of `verify`.
"""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from html import unescape
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

import dprelease as dp
from dprelease.release_plan.curve import trace
from dprelease.release_plan.weak import weak_note, weak_promise, weak_sentence
from dprelease.results.formats.plan_page import plan_page
from dprelease.verification.verify import verify
from tests.end_to_end import projects
from tests.end_to_end.projects import plans_once

one_other_budget, own_rules = projects.one_other_budget, projects.own_rules
pytestmark = pytest.mark.usefixtures("one_other_budget", "own_rules")


@pytest.fixture(scope="module", autouse=True)
def _plans_once():
    with pytest.MonkeyPatch.context() as patch:
        plans_once(patch)
        yield


ROWS = pd.DataFrame({"wage": [(i % 40) for i in range(300)]})
MARK = "says next to nothing"
PLACES = {
    "report",
    "index",
    "feed.xml",
    "catalog.jsonld",
    "datapackage.json",
    "registry.yaml",
    "receipt",
    "verify",
    "plan page",
    "plan",
}


def schema(epsilon: float) -> dict:
    return {
        "dprelease": "schema/1",
        "name": "wages",
        "adjacency": "add_remove",
        "title": "Wages",
        "unit": "row",
        "unit_name": {"one": "worker", "many": "workers", "rows": "workers"},
        "rows": {"max": 1000, "expected": 300},
        "columns": {"wage": {"kind": "integer", "range": [0, 40], "nulls": {"default": 0}, "title": "Wage per hour"}},
        "release": {"epsilon": epsilon, "statistics": ["count", "mean(wage)", "histogram(wage, [0, 20, 40])"]},
    }  # fmt: skip


def released(folder, epsilon, *, budget, periods=("2026-01",), total=None):
    """Return what each place says, of the last of `periods`."""
    made = schema(epsilon)
    ledger = dp.create_ledger(folder / "ledger.db", made, epsilon=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for period in periods:
            release = dp.release(ROWS, made, ledger=ledger, period=period)
            last = release.publish(folder / "public")
    plan = dp.plan(made)
    curve = trace(plan.epsilon, lambda e: dp.plan(made, epsilon=e), (1, 4))
    page = plan_page("wages", plan, curve, {"total": str(total or budget)}).decode()
    said = {
        name: (last.parent / name).read_text(encoding="utf-8")
        for name in ("feed.xml", "catalog.jsonld")
    }
    said |= {
        name: (last / name).read_text(encoding="utf-8")
        for name in ("datapackage.json", "registry.yaml")
    }
    said["report"] = (last / "report.html").read_text(encoding="utf-8")
    said["index"] = (last.parent / "index.html").read_text(encoding="utf-8")
    checked = verify(last, ledger=folder / "ledger.db")
    assert checked.ok, checked
    [said["verify"]] = [c.detail for c in checked.checks if c.name == "ledger"]
    return last, said | {"receipt": str(release.receipt), "plan page": page, "plan": str(plan)}


def places(said) -> set[str]:
    return {name for name, text in said.items() if MARK in " ".join(unescape(text).split())}


@pytest.fixture(scope="module")
def strong(tmp_path_factory):
    return released(tmp_path_factory.mktemp("strong"), 10, budget=10)


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    return released(tmp_path_factory.mktemp("weak"), 12, budget=12)


def test_at_ten_nothing_is_called_weak(strong):
    assert places(strong[1]) == set()


def test_above_ten_every_place_says_it(weak):
    assert places(weak[1]) == PLACES


def test_the_data_package_says_it_for_people_and_for_programs(weak, strong):
    package = json.loads(weak[1]["datapackage.json"])
    sentence = weak_sentence(Fraction(12), "one worker")
    assert sentence in package["description"]
    assert package["dprelease:guarantee"]["weak"] == sentence.strip()
    assert "weak" not in json.loads(strong[1]["datapackage.json"])["dprelease:guarantee"]


def test_a_budget_spent_above_ten_is_weak_though_each_release_is_not(tmp_path):
    _, said = released(tmp_path, 6, budget=30, periods=("2026-01", "2026-02"))
    assert places(said) == {"report", "index", "receipt", "verify", "plan page"}
    assert "Weak promise of all releases together" in said["report"]
    assert "Weak promise of the whole budget" in said["plan page"]


def test_a_whole_budget_of_ten_is_not_weak(tmp_path):
    _, said = released(tmp_path, 5, budget=10, periods=("2026-01", "2026-02"))
    assert places(said) == set()


def test_the_unit_is_called_as_its_publisher_calls_it(weak):
    for name in PLACES - {"verify", "receipt", "plan"}:
        text = weak[1][name]
        assert "one unit's data" not in unescape(text), name
        assert "times as likely under one of two tables that differ in one worker" in " ".join(
            text.split()
        ), name


def test_the_words_have_one_home():
    assert weak_promise(Fraction(10)) is None
    assert weak_note(Fraction(10)) == weak_sentence(Fraction(10)) == ""
    above = Fraction(10) + Fraction(1, 10**9)
    for said in (weak_promise(above), weak_note(above), weak_sentence(above)):
        assert MARK in said


def test_files_carry_the_titles_that_the_report_has(strong):
    said = strong[1]
    package = json.loads(said["datapackage.json"])
    [wide] = [r for r in package["resources"] if r["path"] == "wide.csv"]
    titles = {f["name"]: f["title"] for f in wide["schema"]["fields"] if "title" in f}
    assert titles == {
        "count": "Number of workers",
        "mean_wage": "Mean of wage per hour",
        "histogram_wage[0,20)": "Distribution of wage per hour [0,20)",
        "histogram_wage[20,40]": "Distribution of wage per hour [20,40]",
    }
    for heading in ("Number of workers", "Mean of wage per hour"):
        assert heading in said["report"]
        assert heading in said["registry.yaml"]
    assert "mean(wage)" not in said["registry.yaml"]
    assert package["dprelease:guarantee"]["protects"].startswith("one worker, ")


def test_a_release_without_window_or_schedule_is_dated_by_its_day_of_publication(strong):
    folder, said = strong
    day = json.loads((folder / "release.json").read_bytes())["published"]
    feed = ET.fromstring(said["feed.xml"])
    dates = [e.text for e in feed.iter() if e.tag.endswith(("}updated", "}published"))]
    assert dates == [f"{day}T00:00:00Z"] * 3
