"""Hostile names and labels in a real release: text in every page, harmless in every spreadsheet.

A whole project whose columns, labels, names and notes are markup, templates and formulas is run.
The pages are parsed here, and opened in headless Chromium where there is one: no dialog, no line on
its console. The control is the same page without escaping and without its policy.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dprelease.pipeline.run import init_ledger, load_pipeline, run
from dprelease.results.formats.csv_ import guarded

SCRIPT = "<script>console.log('OWNED')</script>"
HOSTILE = [
    SCRIPT,
    "<img src=x onerror=\"console.log('OWNED')\">",
    '" onload="console.log(1)',
    "' autofocus onfocus='console.log(1)",
    "{{7*7}}",
    "{% for x in y %}",
    "</style></title></svg><svg onload=console.log('OWNED')>",
    "javascript:console.log('OWNED')",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    "+1+1",
    "-2+3",
]
COLUMN = '<script>x</script>" onload="y'
CSP = "default-src 'none'; style-src 'sha256-"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a project in which everything that may be named is hostile; return its pipeline's folder."""
    root = tmp_path_factory.mktemp("hostile")
    (root / ".dprelease").mkdir()
    with (root / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([COLUMN, "=x"])
        writer.writerows([HOSTILE[i % len(HOSTILE)], i % 9] for i in range(300))
    texts = json.dumps  # JSON strings are YAML strings
    (root / "s.yaml").write_text(
        f"""dprelease: schema/1
name: hostile
unit: row
adjacency: add_remove
rows: {{max: 500, expected: 20}}
columns:
  {texts(COLUMN)}: {{kind: category, values: {texts(HOSTILE)}}}
  "=x": {{kind: integer, range: [0, 9], measure: {texts(SCRIPT)}}}
release:
  epsilon: 4
  by: [{texts(COLUMN)}]
  where: '"=x" >= 0'
  statistics:
    - count
    - 'mean("=x")'
    - 'histogram("=x", [0, 4, 9])'
"""
    )
    (root / "p.yaml").write_text(
        """dprelease: pipeline/1
name: hostile
source: {csv: rows.csv}
schema: s.yaml
budget: {ledger: .dprelease/ledger.db, dataset: hostile, epsilon: 9}
publish: {to: public}
"""
    )
    init_ledger(load_pipeline(root / "p.yaml"))
    return run(root / "p.yaml").folder.parent


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(published: Path) -> dict[str, str]:
    found = {
        str(p.relative_to(published)): p.read_text() for p in sorted(published.rglob("*.html"))
    }
    assert {"index.html", "once/report.html"} <= set(found)
    return found


def test_pages_hold_the_text_and_none_of_its_markup(published: Path) -> None:
    for name, text in pages(published).items():
        page = Elements(text)
        policies = [a["content"] or "" for _, a in page.found if "http-equiv" in a]
        assert len(policies) == 1 and policies[0].startswith(CSP), name
        assert "unsafe" not in policies[0] and "script-src" not in policies[0]
        assert not {
            "script",
            "img",
            "iframe",
            "object",
            "embed",
            "form",
            "base",
            "foreignobject",
        } & {t for t, _ in page.found}
        for _, attributes in page.found:
            assert not [
                a
                for a in attributes
                if a.startswith("on") or a in ("style", "srcdoc", "formaction")
            ]
            for link in ("href", "src", "xlink:href", "action"):
                target = attributes.get(link) or ""
                assert not re.match(r"\s*(javascript|data|vbscript):", target, re.IGNORECASE), (
                    target
                )
        assert "49" not in re.findall(r"\{\{7\*7\}\}|49(?=\W*groups)", page.text)
    report = Elements(pages(published)["once/report.html"]).text
    assert all(label in report for label in HOSTILE)


def test_other_readers_of_text(published: Path) -> None:
    """The feed is well-formed XML; JSON is JSON; the YAML record is plain data."""
    import xml.etree.ElementTree as ET

    import yaml

    for path in sorted(published.rglob("*")):
        if path.suffix == ".xml":
            assert ET.fromstring(path.read_bytes()) is not None
        if path.suffix == ".json":
            assert isinstance(json.loads(path.read_text()), dict)
        if path.suffix == ".yaml":
            assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_no_cell_of_a_real_release_starts_a_formula(published: Path) -> None:
    files = sorted(published.rglob("*.csv"))
    assert {p.name for p in files} >= {"data.csv", "wide.csv"}
    labels = set()
    for path in files:
        for line in csv.reader(io.StringIO(path.read_text(), newline="")):
            for cell in line:
                number = re.fullmatch(r"-?[0-9][0-9.e+-]*", cell)
                assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")), cell
                labels.add(cell)
    assert {guarded(label) for label in HOSTILE} <= labels


FORMULAS = [
    "=1+1", "+1", "-1+1", "@x", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x","y")', "=cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0", "@SUM(1)", '="a"&"b"', "=\u00a01",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_guarded_cell_is_text(text: str) -> None:
    assert guarded(text) == "'" + text
    assert guarded(guarded(text)) == "''" + text  # no two texts meet


CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def console(page: Path, profile: Path) -> str:
    """Open a page in headless Chromium; return what it and the browser wrote on the console."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={profile}", "--enable-logging=stderr",
            "--virtual-time-budget=2000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "<html" in done.stdout, done.stderr
    return "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_runs_nothing(published: Path, tmp_path: Path) -> None:
    for name in pages(published):
        assert console(published / name, tmp_path / "profile") == ""
    text = (published / "once" / "report.html").read_text()
    unescaped = tmp_path / "twin.html"
    unescaped.write_text(re.sub(r"<meta http-equiv[^>]*>", "", html.unescape(text)))
    assert "OWNED" in console(unescaped, tmp_path / "profile")  # control: it would have run
    policed = tmp_path / "policed.html"
    policed.write_text(text.replace("</body>", SCRIPT + "</body>"))
    said = console(
        policed, tmp_path / "profile"
    )  # second wall: the policy stops what slips through
    assert "Content Security Policy" in said
    assert not [line for line in said.splitlines() if '"OWNED"' in line]
