"""What contributors are told is true: commands exist, paths exist, versions agree."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import dprelease
from tests.end_to_end.projects import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / ".github").glob("*.md")),
    *TEMPLATES,
]
TESTS = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and (p / "__init__.py").exists()}
TEST_FILES = {p.stem.removeprefix("test_") for p in (ROOT / "tests").glob("test_*.py")}
LIBRARY = {p.stem for p in (ROOT / "dprelease").iterdir() if not p.name.startswith("__")} - {"py"}
WHERE = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")


def test_every_make_target_that_is_named_exists():
    text = "\n".join(p.read_text(encoding="utf-8") for p in [*PAGES, ROOT / "README.md"])
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    assert named >= {"test", "test-fast", "lint", "size", "evidence"}
    assert named <= TARGETS
    phony = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split()
    assert set(phony) == TARGETS
    assert set(re.findall(r"^#   make ([a-z-]+)", MAKEFILE, re.MULTILINE)) == TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_path_that_is_named_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:dprelease|tests|docs|benchmarks)/[\w/.-]*)`", text)
    named += re.findall(r"\]\(([\w/.-]+)\)", text)
    for command in re.findall(r"pytest -q ([^`]+)`", text):
        named += [word for word in shlex.split(command) if word.startswith("tests")]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_two_pages_do_name_paths():
    assert len(PAGES) == 3 + len(TEMPLATES)
    text = PAGES[0].read_text(encoding="utf-8")
    assert text.count("pytest -q tests/") >= 8
    assert "](ARCHITECTURE.md)" in text


def test_the_slowest_tests_are_tests():
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", WHERE)
    assert len(named) >= 10
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), name


def test_make_test_fast_runs_folders_that_exist():
    [line] = re.findall(r"^FAST := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    words = re.findall(r"tests/\w+(?=\s|$)", line)
    assert len(words) > 5
    assert [w for w in words if not (ROOT / w).exists()] == []
    [left_out] = re.findall(r"^SLOW := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    left = left_out.replace("\\", "").split()
    assert [path for path in left if not re.fullmatch(r"tests/[\w/]+(\.py)?", path)] == []
    assert [path for path in left if not (ROOT / path).exists()] == []


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version = PROJECT["project"]["version"]
    assert (citation["version"], dprelease.__version__) == (version, version)
    assert citation["license"] == PROJECT["project"]["license"]
    assert [a["name"] for a in citation["authors"]] == [
        a["name"] for a in PROJECT["project"]["authors"]
    ]
    assert set(citation) >= {"cff-version", "message", "title"}  # what the format asks for


def test_the_changelog_leads_to_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\](?: - (\S+))?$", text, re.MULTILINE)
    first, day = headings[0]
    assert first == "Unreleased" or (
        first == dprelease.__version__ and re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    )


def test_the_hooks_run_what_make_lint_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [h["entry"] for repo in hooks["repos"] for h in repo["hooks"]]
    assert all(repo["repo"] == "local" for repo in hooks["repos"])  # nothing is fetched
    [lint] = re.findall(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    for line in lint.splitlines():
        tool = line.strip().removeprefix("$(BIN)/").split()[0]
        assert any(entry.startswith(f".venv/bin/{tool}") for entry in entries), tool
    for entry in entries:
        for word in entry.split():
            assert not word.startswith("tests/") or (ROOT / word).exists(), word


def editor_rules(path: Path) -> dict[str, str]:
    """Return what `.editorconfig` says of a file: a later section counts more."""
    config = configparser.ConfigParser()
    config.read_string("[top]\n" + (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    rules: dict[str, str] = {}
    for section in config.sections()[1:]:
        start, _, rest = section.partition("{")
        words, _, end = rest.partition("}")
        if any(fnmatch(path.name, f"{start}{word}{end}") for word in words.split(",")):
            rules |= config[section]
    return rules


def against(rules: dict[str, str], text: str) -> set[str]:
    """Return the rules that a file's text breaks; `indent_size` is that of its least indented line."""
    lines = text.split("\n")
    indents = {line[: len(line) - len(line.lstrip())] for line in lines if line.strip()} - {""}
    broken = {
        "end_of_line": "\r" in text,
        "insert_final_newline": not text.endswith("\n"),
        "trim_trailing_whitespace": any(line != line.rstrip() for line in lines),
        "indent_style": any(("\t" in i) != (rules["indent_style"] == "tab") for i in indents),
        "indent_size": rules["indent_style"] == "space"
        and min(map(len, indents), default=0) not in (0, int(rules["indent_size"])),
        "max_line_length": any(len(x) > int(rules.get("max_line_length", 10**9)) for x in lines),
    }
    return {rule for rule, found in broken.items() if found and rules.get(rule) != "false"}


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml", "requirements.lock", "Makefile", "CITATION.cff", ".pre-commit-config.yaml", "mkdocs.yml",
        "dprelease/core/registry.py", "dprelease/results/formats/report.css", "dprelease/results/formats/plan_page.js",
        "examples/tutorial.ipynb", "README.md",
    ],
)  # fmt: skip
def test_editors_are_told_what_is_there(name):
    """One file of each kind: what an editor would change by itself is what nobody asked it to."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert against(editor_rules(Path(name)), text) == set()


def test_what_an_editor_would_change_is_seen():
    rules = editor_rules(Path("a.toml"))
    assert rules["indent_size"] == "4"
    assert against(rules | {"max_line_length": "9"}, "a = [\n  1, \n]\r") == {
        "end_of_line", "insert_final_newline", "trim_trailing_whitespace", "indent_size",
    }  # fmt: skip
    assert against(rules | {"max_line_length": "2"}, "a\n\tb\n") == {"indent_style", "indent_size"}
    assert against(rules | {"max_line_length": "2"}, "abc\n") == {"max_line_length"}
    assert against(editor_rules(Path("README.md")), "a  \n") == set()


@pytest.mark.parametrize(
    "template", [t for t in TEMPLATES if t.name != "config.yml"], ids=lambda p: p.name
)
def test_an_issue_template_is_a_form(template: Path):
    form = yaml.safe_load(template.read_text(encoding="utf-8"))
    assert set(form) >= {"name", "description", "body"}
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    for part in form["body"]:
        assert part["type"] in {"markdown", "textarea", "input", "dropdown"}
        assert part["attributes"].get("label") or part["attributes"].get("value")


def test_tests_mirror_the_source_or_say_where_they_are():
    """Every folder of tests has a package of its name or a line; every place of the library its tests."""
    told = set(re.findall(r"^\| `tests/(\w+)` \|", WHERE, re.MULTILINE))
    assert told == TESTS - LIBRARY
    elsewhere = set(re.findall(r"^\| `dprelease/(\w+)(?:\.py)?` \|", WHERE, re.MULTILINE))
    assert elsewhere == LIBRARY - TESTS - TEST_FILES


def test_a_file_of_tests_is_named_after_a_module_or_says_what_it_holds():
    modules = {p.stem for p in (ROOT / "dprelease").rglob("*.py")}
    unsaid = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.stem.removeprefix("test_") not in modules
        and not path.read_text(encoding="utf-8").startswith('"""')
    ]
    assert unsaid == []
