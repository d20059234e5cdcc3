"""What the site makes by itself: measured tables as their commands wrote them, a reference without holes."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys

import pytest
from mkdocs.exceptions import PluginError
from typer.main import get_command

from dprelease.cli import app
from dprelease.core import registry
from dprelease.query.arguments import syntaxes
from dprelease.schema.json_schema import json_schema
from tests.end_to_end.projects import ROOT

DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"


def load(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate():
    before = list(sys.path)
    yield load("generate")
    sys.path[:] = before


@pytest.fixture
def results(tmp_path, monkeypatch):
    module = load("results")
    shutil.copytree(RESULTS, tmp_path / "results")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return module


def test_every_result_is_asked_for_by_a_page(results):
    asked = {
        n for p in DOCS.rglob("*.md") for n in results.MARK.findall(p.read_text(encoding="utf-8"))
    }
    assert asked == {p.stem for p in RESULTS.glob("*.md")}


@pytest.mark.parametrize("name", sorted(p.stem for p in RESULTS.glob("*.md")))
def test_a_result_is_shown_row_by_row_and_follows_a_rerun(results, name):
    shown = results.result(name)
    written = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    rows = [line for line in written.splitlines() if line.startswith("|")]
    assert rows
    assert [line for line in shown.splitlines() if line.startswith("|")] == rows
    assert not shown.startswith("# ")
    (results.RESULTS / f"{name}.md").write_text(
        "# t\n\n| another | run |\n|---|---|\n", encoding="utf-8"
    )
    assert "| another | run |" in results.result(name)


def test_a_picture_goes_with_its_table(results):
    assert "](../results/speed.svg)" in results.result("speed", "../")


def test_a_result_that_nobody_made_fails_the_build(results):
    with pytest.raises(PluginError, match="does not exist"):
        results.result("nowhere")


def test_a_result_that_no_page_shows_fails_the_build(results):
    class Every(list):
        def documentation_pages(self):
            return []

    with pytest.raises(PluginError, match="shown on no page"):
        results.on_files(Every(), None)


def test_every_error_code_is_listed_with_class_and_words(generate):
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "dprelease").rglob("*.py"))
    page = generate.PAGES["errors"]()
    rows = {
        r[0]: r[1:]
        for r in re.findall(
            r"^\| `(DPR\d+)` \| (\w+) \| (\w+) \| (\d) \| (.+) \|$", page, re.MULTILINE
        )
    }
    assert set(rows) == set(re.findall(r"DPR[1-9]\d\d", source))
    assert rows["DPR301"][:3] == ("BudgetError", "nothing", "1")
    assert all(words.strip(" ·") for *_, words in rows.values())


def test_every_command_kind_and_key_is_in_the_reference(generate):
    commands = generate.PAGES["cli"]()

    def walk(command, path):
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, f"{path} {name}")
        if not getattr(command, "commands", None):
            yield path

    for path in walk(get_command(app), "dprelease"):
        assert f"## `{path}`" in commands
    kinds = generate.PAGES["kinds"]()
    for kind in ("mechanisms", "engines", "formats"):
        for name in registry.names(kind):
            assert f"| `{name}` |" in kinds
    for name, form in syntaxes().items():
        assert f"| `{form.example}` |" in kinds, name
    assert "| `count(persons)` |" in kinds
    for kind in ("schema", "pipeline"):
        model = json_schema(kind)
        page = generate.PAGES[kind]()
        for part in (model, *model.get("$defs", {}).values()):
            for key in part.get("properties", {}):
                [row] = [r for r in page.splitlines() if r.startswith(f"| `{key}` |")][:1]
                assert not row.endswith("|  |"), f"{kind}: `{key}` has no meaning"


def test_every_option_of_a_statistic_is_what_the_planner_takes(generate):
    """The whole page is made by the build; two statistics are enough to see that nothing is invented."""
    from dprelease.query.statistic_options import OPTIONS

    page = generate.statistics_page
    assert set(page._SAMPLES) | {"statistic", "mechanism"} == set(OPTIONS)
    assert all(page._meaning(name) and page._value(name) for name in page._options())
    assert page.compared("median") == ("permute_and_flip", "exponential")
    assert "max_error" not in page.taken("median")  # its error is in ranks
    assert "expected" in page.taken("correlation")
    assert "expected" not in page.taken("median")  # control
    assert "certain" in page.taken("count")
    assert "certain" not in page.taken("median")  # control
    for function in syntaxes():
        assert page._example(function)


def test_the_reference_of_python_has_every_public_name_under_a_task(generate, monkeypatch):
    import dprelease as dp

    page = generate.PAGES["python"]()
    for name in set(dp.__all__) - {"mechanisms"}:
        assert re.search(rf"^### `dp\.{name}(\(\))?`$", page, re.MULTILINE), name
    [row] = re.findall(
        r"^\| `during` \| .* \| release the rows of one period .* \|$", page, re.MULTILINE
    )[:1]
    assert "None" in row
    # a site shows a backslash between backticks; outside them a bar without one begins a cell
    assert "| `Number | None` | `None` |" in page
    assert generate.python_page._cell("a | b, `c | d`") == "a \\| b, `c | d`"
    module = generate.python_page
    assert module.meanings("    a, b: both. c: the third\n        goes on.\n    d: last") == {
        "a": "both.", "b": "both.", "c": "the third goes on.", "d": "last",
    }  # fmt: skip
    monkeypatch.setattr(module, "TASKS", {})
    with pytest.raises(ValueError, match=r"names no task for .*release"):
        module.page()


def test_the_how_tos_stand_in_four_groups_by_reader():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    groups = re.findall(r"^  - (For [a-z ]+):\n((?:      - .*\n)+)", text, re.MULTILINE)
    assert [name for name, _ in groups] == [
        "For analysts", "For engineers", "For officers", "For readers and journalists",
    ]  # fmt: skip
    shown = [
        page
        for _, pages in groups
        for page in re.findall(r": (how-to/.+\.md)$", pages, re.MULTILINE)
    ]
    assert sorted(shown) == sorted(f"how-to/{p.name}" for p in (DOCS / "how-to").glob("*.md"))
