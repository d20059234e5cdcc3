"""Public pages speak to readers: a title per table and statistic, the publisher's words, no shorthand of plans."""

from __future__ import annotations

import json
import re
import warnings
from html import unescape

import pytest

import dprelease as dp
from dprelease.release_plan.curve import trace
from dprelease.results.formats.plain_words import group_name, plain_condition, plain_error
from dprelease.results.formats.plan_page import plan_page
from tests.end_to_end import projects
from tests.end_to_end.projects import plans_once
from tests.several_tables import people, schema

one_other_budget, own_rules = projects.one_other_budget, projects.own_rules
pytestmark = pytest.mark.usefixtures("one_other_budget", "own_rules")
SHORTHAND = {
    "a size of groups": r"\bn\s?=\s?\d",
    "figures of planning": r"were measured alone|±\S+ as measured|\bfitted \(",
    "a planned error": r"planned error",
    "the column of ids": r"\bpatient_id\b",
    "units without a name": r"\bunits\b",
    "standard deviations cut short": r"\bsds?\b",
    "a condition as code": r">=|<=|\bAND\b",
    "a column's name": r"\bincome_eur\b|\bage_y\b",
    "levels said twice": r"fine · |regions · ",
}
"""What plans and terminals say, and pages do not."""
WORDS = {
    "title": "People of the places",
    "unit_name": {"one": "patient", "many": "patients", "rows": "visits"},
    "unit": {"user": "patient_id", "max_groups": 2, "max_rows_per_group": 2},
    "rows": {"max": 5000, "expected": 100},
}
INCOME = {"statistic": "mean(income_eur)", "title": "Average income"}


def _renamed(made: dict) -> dict:
    columns = {k: dict(v) for k, v in made["columns"].items()}
    columns["patient_id"] = columns.pop("id")
    columns["income_eur"] = columns.pop("income") | {"title": "Income", "measure": "euro"}
    columns["age_y"] = columns.pop("age") | {"title": "Age"}
    columns["district"]["title"] = "Place of residence"
    made["hierarchies"]["place"]["titles"] = {"region": "Part of the country"}
    return made | {"columns": columns}


def one() -> dict:
    made = _renamed(schema(**WORDS))
    del made["hierarchies"]
    made["release"] = {
        "epsilon": 2,
        "by": ["district"],
        "where": "age_y >= 18 and sex in ('f', 'm')",
        "statistics": ["count", "count(persons)", INCOME, "variance(income_eur)", "median(age_y)"],
    }
    return made


def several() -> dict:
    regions = [{"statistic": "count", "title": "People of a region"}, "sum(income_eur)"]
    fine = [{"statistic": "count", "title": "Residents"}, "sum(income_eur)"]
    goal = {"statistic": "count", "max_relative_error": "0.04"}
    tables = [
        {"name": "nation", "by": [], "statistics": ["count", "sum(income_eur)"]},
        {"name": "regions", "by": ["region"], "statistics": regions},
        {"name": "fine", "by": ["region", "district", "sex"], "statistics": fine, "detail": goal},
    ]
    # a region needs 390 visits to stand in full: r0 has some 520, r1 270
    return _renamed(schema(tables, **WORDS, release={"epsilon": 8}))


def rows(seed: int):
    names = {"id": "patient_id", "income": "income_eur", "age": "age_y"}
    return people(1200, seed).rename(columns=names)


@pytest.fixture(scope="module", params=[one, several], ids=["one table", "several"])
def published(request, tmp_path_factory):
    """Two periods, and every page of them: by name, its text and its HTML."""
    folder, made = tmp_path_factory.mktemp("words"), request.param()
    ledger = dp.create_ledger(folder / "ledger.db", made, epsilon=20)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        plans_once(patch)
        for i, period in enumerate(("2026-01", "2026-02")):
            release = dp.release(rows(i), made, ledger=ledger, period=period)
            last = release.publish(folder / "public")
    whole = "share(count)" if request.param is one else "count / nation.count"
    table = None if request.param is one else "fine"
    compared = dp.diff(last.parent / "2026-01", last)
    derived = dp.read(last).derive(whole, table=table)
    files = {
        "report": last / "report.html",
        "index": last.parent / "index.html",
        "diff": compared.write(folder / "diff.html"),
        "derive": derived.write(folder / "derive.html"),
    }
    pages = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    plan = dp.plan(made)
    pages["plan"] = _plan_page(made, plan)
    return request.param, last, pages, plan, compared


def _plan_page(made, plan) -> str:
    curve = trace(plan.epsilon, lambda epsilon: dp.plan(made, epsilon=epsilon), (1, 4))
    return plan_page("people", plan, curve, {"total": "20"}).decode()


def shown(page: str) -> str:
    """Return what a reader sees of a page; what stands there as code is the publisher's own definition."""
    body = page.partition("<body>")[2]
    body = re.sub(r"<(style|script|code)\b.*?</\1>", " ", body, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def found(text: str) -> dict[str, str]:
    hits = {name: re.search(pattern, text) for name, pattern in SHORTHAND.items()}
    return {name: text[max(0, h.start() - 60) : h.end() + 40] for name, h in hits.items() if h}


def test_pages_have_no_shorthand_of_plans(published):
    _, _, pages, _, _ = published
    for name, page in pages.items():
        text = shown(page)
        if name == "plan":  # its list of names and notes is the planner's own
            text = re.sub(r"\b(mean|variance|sum|median)_ (income_ eur|age_ y)\b", " ", text)
            text = text.partition("The release will be")[0]
        assert found(text) == {}, name


def test_the_words_to_be_found_are_those_of_plans(published):
    """The control: what a terminal shows has them."""
    which, _, _, plan, _ = published
    said = f"{plan} {plan.statistics[0].error_text} at n=3 {plan.statistics[0].notes}"
    expected = {"a size of groups", "the column of ids", "a column's name"}
    expected |= {"a condition as code"} if which is one else {"figures of planning"}
    assert expected <= set(found(said))
    assert set(found("±3 units, planned error, if sd is 5, fine · r0")) == {
        "units without a name", "a planned error", "standard deviations cut short", "levels said twice",
    }  # fmt: skip


def test_a_title_belongs_to_its_table(published):
    which, folder, pages, _, compared = published
    if which is one:
        pytest.skip("of several tables")
    heads = {name: re.findall(r"<h[23][^>]*>(.*?)</h", page) for name, page in pages.items()}
    titles = ["Number of visits", "People of a region", "Residents"]
    for name in ("report", "index", "diff"):
        plain = [unescape(re.sub(r"<.*?>", "", h)).strip() for h in heads[name]]
        for title, table in zip(titles, ("nation", "regions", "fine"), strict=True):
            assert sum(h.startswith(title) for h in plain) == 1, (name, title)
            assert f"Sum of income in {table}" in [h.removesuffix(" euro") for h in plain]
    measured = json.loads((folder.parent / "catalog.jsonld").read_text("utf-8"))
    said = measured["schema:variableMeasured"]
    assert all(any(each.startswith(title) for each in said) for title in titles)
    package = json.loads((folder / "datapackage.json").read_text("utf-8"))
    assert _titles(package)["regions"] == "People of a region"
    tracks = json.loads((folder.parent / "index.json").read_text("utf-8"))["tracks"]
    assert {(t["table"], t["title"].partition(" kept,")[0]) for t in tracks if t["column"] == "count"} == {
        ("nation", "Number of visits"), ("regions", "People of a region"), ("fine", "Residents"),
    }  # fmt: skip
    assert {t["table"]: t["by"] for t in tracks}["regions"] == ["region"]
    assert compared.called.title(("fine", "count")) == "Residents"


def _titles(package):
    return {
        part["path"].removesuffix("_wide.csv"): field["title"]
        for part in package["resources"]
        if part["path"].endswith("_wide.csv")
        for field in part["schema"]["fields"]
        if field["name"] == "count"
    }


def test_headers_are_titles_and_groups_are_told_by_their_own_labels(published):
    which, _, pages, _, compared = published
    for name in ("report", "diff", "derive"):
        for title in ["Place of residence", *(["Part of the country"] if which is several else [])]:
            assert f'<th scope="col" class="text">{title}</th>' in pages[name], name
    keys = compared.keys
    names = [compared.called.group(r, keys[1:-1]) for r in compared.table.to_pylist()]
    assert not any("all" in n.split(" · ") for n in names)
    if which is several:
        assert "All rows" in names and "r0" in names
        assert compared.called.many_tables and compared.called.mixed == {"fine"}


def test_who_is_protected_is_said_in_the_publisher_s_words(published):
    _, _, pages, _, _ = published
    text = shown(pages["report"])
    assert "two tables that differ by one patient's visits (at most 2 per" in text
    assert "added or removed. Whatever result" in text
    assert "over at most 2 rows per patient and group" in text


def test_a_condition_is_a_sentence(published):
    which, _, pages, _, _ = published
    if which is several:
        pytest.skip("it has none")
    said = "of visits with age at least 18 and sex is one of “f”, “m”"
    assert said in shown(pages["report"])
    assert "age_y &gt;= 18" in pages["report"]  # the exact one too, as code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(age >= 18)", "age at least 18"),
        ("(a = 'x') OR (b <> 'y')", "a is “x” or b is not “y”"),
        ("NOT ((a = 1) AND (b = 2))", "not (a is 1 and b is 2)"),
        ("((a = 1) OR (b = 2)) AND (c < -3)", "(a is 1 or b is 2) and c below -3"),
        ("a IS NOT NULL", "a is known"),
        ("a NOT IN (1, 2)", "a is none of 1, 2"),
        ("a = ' is null and (b)'", "a is “ is null and (b)”"),
        ('"a is null" > 3', "a is null above 3"),
        ("a + 1 > 3", None),
        ("abs(a) > 3", None),
        ("a ~ 3", None),
    ],
)
def test_conditions_in_words(text, said):
    assert plain_condition(text, str) == said


def test_errors_in_words():
    assert plain_error("±6.2 units at n=1,000", {"units": "dogs"}) == (
        "±6.2 dogs, in a group of 1,000 rows"
    )
    assert plain_error("±6.2 units", {}) == "±6.2 units"  # a column's own measure
    fitted = "±3.1 rows fitted (±4 as measured; ±9 if every table were measured alone)"
    assert plain_error(fitted, {"rows": "trips"}) == "±3.1 trips"
    rounded = f"±3.4 rows in steps of 5 ({fitted} before rounding)"
    assert plain_error(rounded, {"rows": "trips"}) == (
        "±3.4 trips in steps of 5 (±3.1 trips before rounding)"
    )
    ratio = "±3.1 euro at n=9 (±4 if every table were measured alone)"
    assert plain_error(ratio, {"group": "trips"}) == "±3.1 euro, in a group of 9 trips"


def test_groups_at_several_levels():
    assert group_name(("r0", "all", "all", "regions"), mixed=True) == "r0"
    assert group_name(("r0", "d0", "f", "fine"), mixed=True) == "r0 · d0 · f"
    assert group_name(("r0", "all")) == "r0 · all"  # a label like any other


@pytest.mark.parametrize("title", ["Ages of patients", None])
def test_bins_of_a_comparison_are_called_by_the_title_and_their_ends(tmp_path, title):
    made = one()
    ages = {"statistic": "histogram(age_y, [0, 50, 100])"} | ({"title": title} if title else {})
    made["release"] = {"epsilon": 2, "by": ["district"], "statistics": [ages]}
    frame = people().rename(columns={"id": "patient_id", "income": "income_eur", "age": "age_y"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (dp.release(frame, made) for _ in range(2))
    dp.diff(a, b).write(tmp_path / "page.html")
    page = unescape((tmp_path / "page.html").read_text("utf-8"))
    assert f"{title or 'Distribution of age'} [0,50)" in page.replace("<wbr>", "")
    assert "histogram_age_y" not in page
