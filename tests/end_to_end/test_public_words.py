"""What a publisher wrote, and who loses what over time, on every page and in every file of a series."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from fractions import Fraction
from html import unescape
from xml.etree import ElementTree as ET

import pytest
import yaml

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.results.series.correct import supersede, withdraw
from dprelease.verification.verify import verify
from tests.end_to_end import projects
from tests.pipeline.tiny import SCHEMA, pipeline, project
from tests.results.series.test_catalog import faults

one_other_budget, own_rules = projects.one_other_budget, projects.own_rules
pytestmark = pytest.mark.usefixtures("one_other_budget", "own_rules")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
WEEKS = ("2026-W01", "2026-W02", "2026-W03")
ABOUT = """\
title: Visits to clinics
description: >
  How many people came,
  and how old they were.
licence: CC-BY-4.0
publisher: {name: Example Health Authority, url: "https://example.org"}
contact: statistics@example.org
keywords: [health, visits]
unit_name: {one: patient, many: patients, rows: visits}
"""


def timed(text: str) -> str:
    """Return the tiny project's schema with a unit of one person's week, and words."""
    unit = "unit: {user: who, per: week, max_groups: 1, max_rows_per_group: 3}"
    time = "time: {column: at, timezone: Europe/Dublin, immutable: true}"
    text = text.replace("unit: row", f"{ABOUT}{unit}\n{time}")
    text = text.replace("columns:\n", "columns:\n  who:    {kind: identifier}\n")
    text = text.replace("{kind: category,", "{kind: category, title: Region of Ireland,")
    text = text.replace(
        "[count, mean(age)]", "[{statistic: count, title: Number of visits}, mean(age)]"
    )
    return text.replace("{kind: integer,", "{kind: integer, title: Age,")


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """Three weekly releases and a monthly one of the same rows, in one ledger."""
    folder = tmp_path_factory.mktemp("words")
    path = project(folder, budget=2)
    (folder / "schemas" / "visits.yaml").write_text(timed(SCHEMA))
    _with_people(folder / "data" / "visits.parquet")
    for name, every in (("weekly", "week"), ("monthly", "month")):
        made = pipeline(folder, budget=2, name=name)
        text = made.read_text().replace("every: week", f"every: {every}")
        text = text.replace("[parquet, csv]", "[parquet, csv, html]")
        text = text.replace("schedule:", "release: {epsilon: 0.5}\nschedule:")
        made.write_text(text if name == "weekly" else f"{text}title: Visits, month by month\n")
    weekly = load_pipeline(path)
    init_ledger(weekly)
    run(load_pipeline(folder / "pipelines" / "monthly.yaml"), period="2026-01", now=NOW)
    for week in WEEKS:
        paid = run(weekly, period=week, now=NOW).receipt
    assert "patient over everything released so far: at most 4" in str(paid)
    return folder


def _with_people(path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    pq.write_table(table.append_column("who", pa.array([f"p{i % 90}" for i in range(1200)])), path)


def text_of(page: str) -> str:
    """Return what a reader sees of a page, on one line."""
    body = page.partition("<body>")[2]
    body = re.sub(r"<(style|svg).*?</\1>", " ", body, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def read(folder, *parts: str) -> str:
    return folder.joinpath("public", *parts).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "place",
    [
        ("weekly", "2026-W03", "report.html"),
        ("weekly", "2026-W03", "registry.yaml"),
        ("weekly", "index.html"),
        ("weekly", "feed.xml"),
    ],
)
def test_one_unit_and_the_whole_person_are_in_words_everywhere(series, place):
    said = read(series, *place)
    if place[-1].endswith("html"):
        said = text_of(said)
    elif place[-1].endswith("yaml"):
        said = yaml.safe_load(said)["deployment"]["privacy_loss"]["privacy_parameters_details"]
    # W01 is met by January and by itself; W02, W03 too: 0.5 + 0.5
    assert "one patient's visits of one week: ε = 1; one patient over everything" in unescape(said)
    assert "released so far: at most 4" in unescape(said)


def test_verify_says_it_with_the_ledger(series):
    result = verify(
        series / "public" / "weekly" / "2026-W01", ledger=series / ".dprelease" / "ledger.db"
    )
    assert result.ok
    said = next(c.detail for c in result.checks if c.name == "ledger")
    assert "one patient's visits of one week: at most ε = 1; one patient over everything" in said
    assert said.endswith("at most 4")


def test_the_manifest_holds_both_figures_and_verify_refuses_others(series, tmp_path):
    manifest = json.loads(read(series, "weekly", "2026-W02", "release.json"))
    assert manifest["guarantee"]["person"] == {"epsilon": "1/2", "delta": "0"}
    assert manifest["receipt"]["budget"]["person"] == {"epsilon": "7/2", "delta": "0"}
    month = json.loads(read(series, "monthly", "2026-01", "release.json"))
    assert month["guarantee"]["person"] == {"epsilon": "5/2", "delta": "0"}
    book = Ledger.open(series / ".dprelease" / "ledger.db")
    from dprelease.verification.cited_entry import _budgeted  # the guard, and what it must refuse

    cited = manifest["ledger"]
    row = next(r for r in book.entries() if r.anchor.seq == cited["seq"])
    stated = manifest["budget"]
    assert _budgeted(book, row.anchor, row.entry.key, stated)
    for other in (None, {"epsilon": "3", "delta": "0"}, {"epsilon": "7/2", "delta": "1/10"}):
        assert not _budgeted(book, row.anchor, row.entry.key, {**stated, "person": other})


def test_a_figure_below_this_release_s_own_is_refused_without_a_ledger(series):
    from dprelease.core.errors import VerificationError
    from dprelease.verification.derivation import Derivation

    manifest = json.loads(read(series, "monthly", "2026-01", "release.json"))
    manifest["receipt"]["budget"]["person"] = {"epsilon": "2", "delta": "0"}
    with pytest.raises(VerificationError, match="a whole person cannot have lost"):
        _ = Derivation(manifest).stated
    manifest["receipt"]["budget"]["person"] = {"epsilon": "5/2", "delta": "0"}
    assert Derivation(manifest).stated["budget"]["person"]["epsilon"] == "5/2"


def test_pages_say_the_publishers_words_and_no_jargon(series):
    for place in (("weekly", "2026-W03", "report.html"), ("weekly", "index.html")):
        page = read(series, *place)
        said = text_of(page)
        assert "Visits to clinics" in said
        assert "How many people came, and how old they were." in said
        assert (
            "one patient's visits of one week (at most 3 per region of Ireland and week, in one group)"
            in said
        )
        assert "Number of visits" in said and "Mean of age" in said
        assert "Published by Example Health Authority" in said
        assert "CC-BY-4.0" in said and "statistics@example.org" in said
    head = text_of(read(series, "weekly", "2026-W03", "report.html")).partition("Contents")[0]
    assert (
        "who's rows"
        not in head.replace("Take any two tables", "").partition("What is guaranteed")[0]
    )
    assert "Visits, month by month" in read(series, "monthly", "index.html")


def test_the_first_paragraph_promises_the_unit_and_not_the_whole_person(series):
    """January meets five weeks: e^0.5 holds for the visits of one of them only."""
    said = text_of(read(series, "monthly", "2026-01", "report.html"))
    assert "reveal about any one patient's visits of one week: nothing" in said
    assert "times as likely with those visits as without them" in said
    assert "participant" not in said


def test_files_say_them_too(series):
    package = json.loads(read(series, "weekly", "2026-W01", "datapackage.json"))
    assert package["title"] == "Visits to clinics · 2026-W01"
    assert package["licenses"] == [
        {"name": "CC-BY-4.0", "path": "https://creativecommons.org/licenses/by/4.0/"}
    ]
    assert package["contributors"][0]["title"] == "Example Health Authority"
    assert package["contributors"][0]["email"] == "statistics@example.org"
    assert package["sources"] and package["keywords"] == ["health", "visits"]
    fields = {f["name"]: f for f in package["resources"][1]["schema"]["fields"]}
    assert fields["region"]["title"] == "Region of Ireland"
    assert fields["count"]["title"] == "Number of visits"
    record = yaml.safe_load(read(series, "weekly", "2026-W01", "registry.yaml"))["deployment"]
    assert record["basic"]["data_curators"] == ["Example Health Authority"]
    assert record["basic"]["description"].startswith("How many people came")
    assert record["privacy_loss"]["privacy_unit"].startswith("one patient's visits of one week")
    feed = ET.fromstring(read(series, "weekly", "feed.xml"))
    atom = "{http://www.w3.org/2005/Atom}"
    assert feed.findtext(f"{atom}title") == "Visits to clinics"
    assert feed.findtext(f"{atom}rights") == "CC-BY-4.0"
    assert feed.findtext(f"{atom}author/{atom}name") == "Example Health Authority"


def test_the_catalogue_is_what_its_vocabularies_ask_for(series):
    """With licence, publisher, contact, keywords and a week's times in it."""
    entry = json.loads(read(series, "weekly", "catalog.jsonld"))
    assert list(faults(entry)) == []
    assert "dct:temporal" in entry["@included"][0]


def test_the_catalogue_lists_every_period_and_file(series):
    entry = json.loads(read(series, "weekly", "catalog.jsonld"))
    assert entry["@type"] == ["dcat:DatasetSeries", "schema:Dataset"]
    assert entry["dct:license"] == {"@id": "https://creativecommons.org/licenses/by/4.0/"}
    assert entry["dct:publisher"]["schema:name"] == "Example Health Authority"
    assert entry["dcat:contactPoint"]["vcard:hasEmail"] == {"@id": "mailto:statistics@example.org"}
    assert entry["schema:variableMeasured"] == ["Number of visits", "Mean of age"]
    parts = {part["@id"]: part for part in entry["@included"]}
    assert list(parts) == [f"{week}/" for week in reversed(WEEKS)]
    for week in WEEKS:
        for file in parts[f"{week}/"]["dcat:distribution"]:
            path = series / "public" / "weekly" / file["dcat:downloadURL"]["@id"]
            assert path.stat().st_size == int(file["dcat:byteSize"]["@value"])
    assert entry["@context"]["schema"] == "https://schema.org/"


def test_the_index_adds_up_the_worst_week_only(series):
    index = json.loads(read(series, "weekly", "index.json"))
    assert index["budget"]["pipeline_epsilon"] == "1/2"  # not three times as much
    assert index["budget"]["person"] == {"epsilon": "3/2", "delta": "0"}
    assert index["budget"]["dataset_spent"] == "1"


def test_words_are_part_of_neither_the_plan_s_hash_nor_the_unit(series):
    config = load_pipeline(series / "pipelines" / "weekly.yaml")
    before = plan_pipeline(config, "2026-W04")
    path = series / "schemas" / "visits.yaml"
    kept = path.read_text()
    path.write_text(
        kept.replace("patient", "guest").replace("Age", "Years").replace("Number of visits", "N")
    )
    try:
        other = load_pipeline(series / "pipelines" / "weekly.yaml")
        after = plan_pipeline(other, "2026-W04")
        assert after.hash == before.hash
        assert request_for_all_periods(after.request) == request_for_all_periods(before.request)
        assert request_to_json(after.request) != request_to_json(before.request)
        assert run(other, period="2026-W01", now=NOW).receipt.fresh is False
        assert "patient" in read(series, "weekly", "2026-W01", "report.html")  # it keeps its own
    finally:
        path.write_text(kept)


def test_a_later_run_over_the_same_weeks_supersedes_and_is_charged_too(series):
    """Late rows: a second pipeline over the same windows, as the page on who is protected says."""
    final = pipeline(series, budget=2, name="final")
    text = final.read_text().replace("[parquet, csv]", "[parquet, csv, html]")
    final.write_text(text.replace("schedule:", "release: {epsilon: 0.5}\nschedule:"))
    made = run(load_pipeline(final), period="2026-W03", now=NOW)
    old = series / "public" / "weekly" / "2026-W03"
    supersede(old, by=made.folder, reason="late rows")
    assert "one patient's visits of one week: at most ε = 1.5;" in str(
        made.receipt
    )  # January, W03 twice
    assert str(made.receipt).endswith("at most 4.5")
    book = Ledger.open(series / ".dprelease" / "ledger.db")
    week = (datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC))
    assert book.budget("visits", week).spent == 1  # another week is as before
    index = json.loads(read(series, "weekly", "index.json"))
    assert [p["status"] for p in index["periods"]] == ["published", "published", "superseded"]
    assert index["budget"]["person"] == {
        "epsilon": "3/2",
        "delta": "0",
    }  # of this pipeline, as before
    assert verify(made.folder, ledger=book.path).ok


def test_what_is_withdrawn_still_counts_and_the_catalogue_says_so(series):
    withdraw(series / "public" / "weekly" / "2026-W02", reason="wrong rows")
    index = json.loads(read(series, "weekly", "index.json"))
    assert index["budget"]["person"] == {"epsilon": "3/2", "delta": "0"}
    entry = json.loads(read(series, "weekly", "catalog.jsonld"))
    part = next(p for p in entry["@included"] if p["@id"] == "2026-W02/")
    assert part["schema:creativeWorkStatus"] == "Withdrawn"
    assert "does not stand" in part["dct:description"]
    book = Ledger.open(series / ".dprelease" / "ledger.db")
    assert book.budget("visits").spent == Fraction(3, 2)  # nothing is given back


@pytest.mark.parametrize(("text", "fix"), [("", "write one"), ("x" * 100_000, "shorten it")])
def test_a_title_that_cannot_be_says_what_to_do(text, fix):
    asked = {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 9},
    }
    with pytest.raises(dp.errors.ConfigError) as caught:
        dp.plan(
            {
                **asked,
                "title": text,
                "columns": {},
                "release": {"epsilon": 1, "statistics": ["count"]},
            }
        )
    assert caught.value.code == "DPR112"
    assert fix in str(caught.value.fix) and len(str(caught.value)) < 1000
