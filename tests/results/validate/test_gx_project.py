"""The exported project runs on a published folder in a process that has no dprelease."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import pandas as pd
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.results.formats import csv_, parquet
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.validate import gx_release
from dprelease.results.validate.gx import long_table
from dprelease.results.validate.gx_process import undisturbed
from dprelease.results.validate.gx_project import export_project
from dprelease.results.validate.rules import check
from dprelease.schema.domain import Domain
from tests.results.formats import releases
from tests.results.formats.browser_keys import CHROMIUM, Browser

GOOD = releases.clinic()
BROKEN = releases.replaced(GOOD, "value", 0, 5.0)  # in the gap


def publish(folder, release, formats):
    folder.mkdir(parents=True)
    manifest = build_manifest(release, check(GOOD), {}, software=releases.SOFTWARE)
    for write in formats:
        for name, data in write(release, manifest).items():
            (folder / name).write_bytes(data)
    return folder


RUN = """
import json, os, sys
sys.modules["pyspark"] = None  # Great Expectations would import it: a second
import great_expectations
for project, said, lines in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        sys.path.insert(0, project + "/gx/plugins")
        import dprelease_release as r
        for line in lines:
            print("exit", r.main(line), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, project
"""


def run(place, **commands):
    """Run projects' own commands, and return what each project said: name -> (project, command lines).

    Each project is a fork of one process that has imported Great Expectations, and in which a stand-in
    called dprelease makes importing it fail.
    """
    trap = place / "trap" / "dprelease"
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text("raise ImportError('not installed here')\n")
    asked = [
        (str(project), str(place / name), [[str(word) for word in line] for line in lines])
        for name, (project, lines) in commands.items()
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(trap.parent)},
    )
    assert done.returncode == 0, done.stderr
    return {name: (place / name).read_text(encoding="utf-8") for name in commands}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export_project(GOOD.plan, folder)
    return folder


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """A project with Data Docs, and the page of its suite as the export leaves it."""
    folder = tmp_path_factory.mktemp("documented") / "project"
    export_project(GOOD.plan, folder, data_docs=True)
    page = site_of(folder) / "expectations" / "dprelease.html"
    return folder, page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def said(project, documented, tmp_path_factory):
    """What both projects said of a good release and of a broken one, one by one."""
    place = tmp_path_factory.mktemp("published")
    good = publish(place / "good", GOOD, [parquet.write])
    bad = publish(place / "bad", BROKEN, [csv_.write])
    first = publish(place / "clinic_weekly" / "2026-W46", GOOD, [parquet.write])
    second = publish(place / "clinic_weekly" / "2026-W47", BROKEN, [parquet.write])
    return run(
        place,
        plain=(project, [[good], [bad]]),
        pages=(documented[0], [[first, "--data-docs"], [second, "--data-docs"]]),
    )


def test_a_published_folder_is_valid_and_a_broken_one_is_not(said):
    first, second, end = said["plain"].split("exit ")
    assert first.splitlines()[-1] == "valid"
    assert "FAIL" not in first
    assert second.startswith("0")  # the status of the first
    assert "FAIL  domain" in second
    assert second.splitlines()[-1] == "NOT valid"
    assert end == "1\n"


def test_each_format_gives_the_table_that_dprelease_itself_checks(tmp_path):
    plan = GOOD.plan
    own = long_table(GOOD)  # its texts are categories
    own = own.astype(dict.fromkeys(("group", "statistic", "status"), str))
    for name, write in (("parquet", parquet.write), ("csv", csv_.write)):
        tidy = gx_release.read_release(publish(tmp_path / name, GOOD, [write]), plan.by)
        labels = gx_release.group_labels(zip(*(tidy[b] for b in plan.by), strict=True))
        made = gx_release.long_table(tidy, labels)
        pd.testing.assert_frame_equal(made, own, check_dtype=False, check_column_type=False)


def test_guarded_labels_and_columns_read_back_as_they_were(tmp_path):
    labels = ["=1", "'=1", "x", "'x"]
    plan = releases.plan(
        [releases.statistic("=n", "count", Domain(0, 9), "1", block="b", mechanism="m")],
        [releases.block("b")],
        by=("=k",),
        keys=[(label,) for label in labels],
    )
    noised = releases.noised(plan, {"=n": [(float(i), 0.0, 9.0, "ok") for i in range(4)]})
    tidy = gx_release.read_release(publish(tmp_path / "p", noised, [csv_.write]), plan.by)
    assert tidy["=k"].tolist() == labels
    assert set(tidy["statistic"]) == {"=n"}


def test_the_project_holds_the_plan_and_tells_nobody(project):
    settings = (project / "gx" / "great_expectations.yml").read_text(encoding="utf-8")
    assert "analytics_enabled: false" in settings
    contract = json.loads((project / "gx" / "plugins" / "dprelease_release.json").read_text())
    assert contract["plan_hash"] == GOOD.plan.hash
    suite = json.loads((project / "gx" / "expectations" / "dprelease.json").read_text())
    assert {e["type"] for e in suite["expectations"]} >= {"expect_released_rows_to_obey"}


def test_an_export_replaces_nothing(project):
    with pytest.raises(ArgumentError) as caught:
        export_project(GOOD.plan, project)
    assert caught.value.code == "DPR615"


class Visible(HTMLParser):
    """The text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.hidden = "", 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in {"script", "style"}

    def handle_endtag(self, tag):
        self.hidden -= tag in {"script", "style"}

    def handle_data(self, data):
        self.text += "" if self.hidden else data + " "


def site_of(project):
    return project / "gx" / "uncommitted" / "data_docs" / "local_site"


@pytest.fixture
def pages(documented, said):
    """The pages of the good release and of the broken one."""
    assert said["pages"].count("open  file://") == 2
    found = sorted((site_of(documented[0]) / "validations").rglob("*.html"))
    assert len(found) == 2
    return found


def test_data_docs_say_in_words_what_was_checked_and_how_it_went(pages):
    good, bad = pages
    right, wrong = (
        " ".join(Visible(p.read_text(encoding="utf-8")).text.split()) for p in (good, bad)
    )
    assert "Status: Succeeded" in right
    assert "clinic_weekly 2026-W46" in right
    assert "Every released value lies in its domain: count in 0 to 0 or 10 to 50000" in right
    assert "Status: Failed" in wrong
    assert "clinic_weekly 2026-W47" in wrong
    for text in (right, wrong):
        assert "Traceback" not in text
        assert "expect_released_rows_to_obey(" not in text  # a call instead of a sentence


def test_the_suite_s_own_page_is_built_before_any_release(documented):
    text = " ".join(Visible(documented[1]).text.split())
    assert "Every interval has finite ends, the lower one first" in text


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")
def test_a_browser_shows_the_run_s_page(pages, tmp_path):
    good, _ = pages
    browser = Browser(tmp_path, good.as_uri())
    try:
        text = browser.evaluate("document.body.innerText")
        assert "Every released value lies in its domain" in text
        rows = browser.evaluate("document.querySelectorAll('#section-2 tr, table tr').length")
        assert rows >= 10
    finally:
        browser.close()


def gx_sentence(rule, parameters):
    with undisturbed():  # importing Great Expectations warns
        from dprelease.results.validate.gx_expectations import sentence
    return sentence(rule, parameters)


def test_a_sentence_names_a_few_and_counts_the_others():
    many = {f"mean_{i:03d}": [[0, 1], [2, 3.5]] for i in range(500)}
    said = gx_sentence("domain", many)
    assert said.startswith(
        "Every released value lies in its domain: mean_000 in 0 to 1 or 2 to 3.5,"
    )
    assert said.endswith("and 492 more.")
    assert len(said) < 400
