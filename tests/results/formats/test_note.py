"""The methodology note: everything an office is asked for, from the folder alone, in words that cannot break out."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.formats.note import _plain, note
from dprelease.results.series.correct import withdraw
from dprelease.results.validate.rules import check
from tests.folders import FULL, folder_of, planned, schema, write
from tests.results.formats import releases

HOSTILE = "1. [x](javascript:alert) <script>alert(1)</script> *a* `b` | c & _d_ # e"
ABOUT = {
    "title": HOSTILE,
    "description": HOSTILE,
    "publisher": {"name": HOSTILE, "url": "https://example.org"},
    "contact": "a@example.org",
    "revisions": f"Once, in May. {HOSTILE}",
    "licence": HOSTILE,
    "unit_name": {"one": "patient", "many": "patients", "rows": "visits"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("note")
    release = {
        **FULL,
        "statistics": [{**FULL["statistics"][0], "title": HOSTILE, "note": HOSTILE}, "mean(age)"],
    }
    files = folder_of(planned(schema(release, **ABOUT), week="2026-W46"), place / "ledger.db")
    return write(place / "clinic_weekly" / "2026-W46", files)


def written(folder, kind, tmp_path):
    to = tmp_path / f"note.{kind}"
    result = CliRunner().invoke(app, ["note", str(folder), "--to", str(to)])
    assert result.exit_code == 0, result.output
    return to.read_text(encoding="utf-8")


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


SECTIONS = (
    "Population and protected unit", "What is promised", "Concepts and results", "Columns and bounds",
    "Noise and intervals", "Revisions", "Contact and citation",
)  # fmt: skip


def test_it_says_what_an_office_is_asked_for(folder, tmp_path):
    text = " ".join("".join(Elements(written(folder, "html", tmp_path)).text).split())
    manifest = json.loads((folder / "release.json").read_text())
    for part in (
        *SECTIONS,
        "any one patient's visits",
        "clamped to 0 to 110 years, in steps of 1, never strictly between 100 and 105",
        "north, süd, e=st; all others are “rest”",
        "0 to 500",
        "nothing strictly between 0 and 10",
        "age at least 18",
        "4 by region",
        "in at most 89 of 100 such cases on average",  # e^2/(1 + e^2) = .8808
        "sampling error are not in the interval",
        "Once, in May. 1. [x]",
        "A correction removes nothing",
        "a@example.org",
    ):
        assert part in text, part
    assert "bmi" not in text and "treated" not in text  # columns that the release does not use
    for block in manifest["plan"]["blocks"]:
        assert block["mechanism"].split("_")[0] in text


def test_markup_in_words_stays_words_in_html(folder, tmp_path):
    page = Elements(written(folder, "html", tmp_path))
    assert not {"script", "a", "img", "em", "code"} & {tag for tag, _ in page.tags}
    assert "".join(page.text).count(HOSTILE) >= 5
    policy = next(a["content"] for t, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_markup_in_words_stays_words_in_markdown(folder, tmp_path):
    text = written(folder, "md", tmp_path)
    bare = re.sub(r"\\[\\`*_\[\]<>|&#~$.]", "", text)  # what is escaped stands for itself
    assert "<" not in bare and "`" not in bare and "[" not in bare
    tables = [line for line in bare.splitlines() if line.startswith("|")]
    columns = {line.count("|") for line in tables}
    assert columns == {5, 7}  # no bar of a title makes a column of its own
    assert [line.lstrip("# ") for line in text.splitlines() if line.startswith("## ")] == [
        *SECTIONS
    ]
    assert not re.search(r"^1\. ", text, re.MULTILINE)


def test_both_kinds_say_the_same_words(folder, tmp_path):
    def words(text):
        return re.sub(r"[^a-z0-9ε=.%]+", " ", text.lower()).split()

    shown = re.sub(
        r"<(style|title)>.*?</\1>", "", written(folder, "html", tmp_path), flags=re.DOTALL
    )
    rules = r"\\(?=[^\w\s])|^\|( --- \|)+$"
    plain = re.sub(rules, "", written(folder, "md", tmp_path), flags=re.MULTILINE)
    assert words(plain) == words(" ".join(Elements(shown).text))


def test_a_withdrawn_release_says_so_first(folder, tmp_path):
    place = shutil.copytree(folder.parent, tmp_path / "clinic_weekly") / "2026-W46"
    withdraw(place, reason="test rows")
    for kind in ("md", "html"):
        text = written(place, kind, tmp_path)
        assert text.index("does not stand: withdrawn") < text.index("Population and")


def test_another_ending_is_refused_and_nothing_is_written(folder, tmp_path):
    result = CliRunner().invoke(app, ["note", str(folder), "--to", str(tmp_path / "note.pdf")])
    assert result.exit_code != 0
    assert "DPR668" in result.output
    assert list(tmp_path.iterdir()) == []


def test_the_folder_that_it_is_written_to_is_made(folder, tmp_path):
    text = written(folder, "md", tmp_path / "notes" / "2026")
    assert text.startswith("# ")


@pytest.mark.parametrize("command", ["note", "report"])
@pytest.mark.parametrize("place", ["file/below.html", "folder.html", "shut.html"])
def test_a_place_that_cannot_be_written_is_refused(folder, tmp_path, monkeypatch, command, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.html").mkdir()
    write_bytes = Path.write_bytes

    def shut(path, data):
        if path.name == "shut.html":
            raise PermissionError(13, "Permission denied")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", shut)
    result = CliRunner().invoke(app, [command, str(folder), "--to", str(tmp_path / place)])
    assert result.exit_code == 2
    assert "DPR668" in result.output
    assert not (tmp_path / "shut.html").exists()


@pytest.mark.parametrize(
    "place", ["report.html", "more.html", "new/note.html", "latest/report.html"]
)
def test_no_command_writes_into_a_published_folder(folder, tmp_path, place):
    inside = shutil.copytree(folder, tmp_path / "out" / "2026-W46")
    (inside.parent / "latest").symlink_to("2026-W46")
    to = (inside.parent if place.startswith("latest") else inside) / place
    before = {file: file.read_bytes() for file in inside.iterdir()}
    for command in (["report"], ["note"], ["derive", "count"], ["diff", str(folder)]):
        asked = [command[0], str(folder), *command[1:], "--to", str(to)]
        refused = CliRunner().invoke(app, asked)
        assert (refused.exit_code, "DPR668" in refused.output) == (2, True), refused.output
        assert "published folder" in refused.output
    assert {file: file.read_bytes() for file in inside.iterdir()} == before


@pytest.mark.parametrize("name", ["data.csv", "report.html"])
def test_a_folder_whose_files_were_changed_has_no_note(folder, tmp_path, name):
    place = shutil.copytree(folder, tmp_path / "2026-W46")
    (place / name).write_bytes((place / name).read_bytes() + b" ")
    result = CliRunner().invoke(app, ["note", str(place), "--to", str(tmp_path / "note.md")])
    assert result.exit_code != 0
    assert "DPR806" in result.output
    assert not (tmp_path / "note.md").exists()


def test_a_folder_that_does_not_follow_has_no_note(folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "2026-W46")
    data = (place / "release.json").read_text()
    (place / "release.json").write_text(data.replace('"epsilon":2,', '"epsilon":3,'))
    result = CliRunner().invoke(app, ["note", str(place), "--to", str(tmp_path / "note.md")])
    assert result.exit_code != 0
    assert not (tmp_path / "note.md").exists()


def test_a_choice_by_rank_is_not_said_to_have_an_interval(tmp_path):
    release = {"epsilon": 2, "statistics": ["median(age)"]}
    place = write(tmp_path / "2026-W46", folder_of(planned(schema(release)), tmp_path / "l.db"))
    said = "are not in the interval. Numbers without one were chosen by rank, and say how many rows"
    assert said in written(place, "md", tmp_path)


@pytest.mark.parametrize("kind", ["md", "html"])
def test_every_sort_of_release_has_a_note(kind):
    """Also one without a ledger, a publisher or a request."""
    made = releases.clinic()
    manifest = build_manifest(made, check(made), {}, software=releases.SOFTWARE)
    text = note(made, manifest, kind, release="ab" * 32).decode()
    assert all(section in text for section in SECTIONS)
    assert "ab" * 32 in text


def test_the_window_is_in_the_period_s_words_and_then_exact():
    made = releases.clinic()
    manifest = build_manifest(made, check(made), {}, software=releases.SOFTWARE)
    manifest |= {"period": "2026-W46"}
    manifest["plan"]["window"] = ["2026-11-09T00:00:00+00:00", "2026-11-16T00:00:00+00:00"]
    said = "week 46 of 2026: from 2026-11-09 00:00:00 UTC, before 2026-11-16 00:00:00 UTC"
    assert f"<dt>Rows of</dt><dd>{said}</dd>" in note(made, manifest, "html", release="").decode()


@pytest.mark.parametrize("words", ["1. A", "2024. A year", "12) B", "2026.", "- A", "+ A"])
def test_words_that_look_like_a_list_begin_none(words, tmp_path):
    asked = schema({"epsilon": 2, "statistics": ["count"]}, description=words)
    place = write(tmp_path / "2026-W46", folder_of(planned(asked), tmp_path / "l.db"))
    number = re.match(r"\d*", words)[0]
    assert f"\n\n{number}\\{words[len(number) :]}\n\n" in written(place, "md", tmp_path)


@pytest.mark.parametrize("words", ["x\n\n# What is promised", "x\n===\ny", "x\n\n    code\n\n---"])
def test_words_of_several_lines_are_one(words):
    assert "\n" not in _plain(words)


def test_a_loss_that_holds_beside_a_delta_names_it_and_a_count_reads_no_column(tmp_path):
    """It said `proved loss: 1` of noise that ends, and had a table of columns without a row."""
    asked = {"epsilon": 1, "delta": 1e-6, "statistics": [{"statistic": "count", "certain": True}]}
    plan = planned(schema(asked))
    place = write(tmp_path / "clinic_weekly" / "2026-W46", folder_of(plan, tmp_path / "l.db"))
    text = written(place, "md", tmp_path)
    assert "| count | discrete Laplace | 1, δ = 1e-06 | 1, δ = 1e-06 |" in text
    assert "\n| none: no value of a column is read |  |  |  |\n" in text


def test_the_values_of_found_keys_are_said_to_be_found(tmp_path):
    unit = {"user": "who", "max_groups": 1, "max_rows_per_group": 1}
    columns = {"who": {"kind": "identifier"}, "page": {"kind": "category"}}
    log = {"dprelease": "schema/1", "name": "log", "unit": unit, "adjacency": "add_remove"}
    log["columns"] = columns
    given = {"ledger": dp.create_ledger(tmp_path / "l.db", log, epsilon=1, delta=1e-6)}
    rows = pd.DataFrame({"who": range(9), "page": ["/a"] * 9})
    keys = dp.keys(rows, log, column="page", epsilon=1, delta=1e-6, **given)
    text = written(keys.publish(tmp_path / "public"), "md", tmp_path)
    assert "| page | category | found by the draw, none declared | left out |" in text
