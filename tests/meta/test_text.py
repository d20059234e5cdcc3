"""The text of the project: finished, free of machine paths, readable."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.projects import ROOT

HERE = "tests/meta/test_text.py"
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".j2", ".css", ".sh", ""}
FOLDERS = ("dprelease", "tests", "examples", "schemas", "pipelines", "benchmarks", ".ci")


def texts():
    pages = [p for name in FOLDERS for p in sorted((ROOT / name).rglob("*"))]
    pages += [p for p in sorted(ROOT.iterdir()) if p.is_file()]
    for path in pages:
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
            yield (
                path.relative_to(ROOT).as_posix(),
                path.read_text(encoding="utf-8", errors="replace"),
            )


TEXTS = {name: text for name, text in texts() if name != HERE}


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", r"NotImplementedError\(", r"raise NotImplementedError",
        r"\bfor now\b", r"(?<![\w.])/(?:root|Users)/\w",
        r"^(?:<<<<<<<|>>>>>>>) ",
    ],
)  # fmt: skip
def test_nothing_unfinished_and_no_machine_s_paths(pattern):
    found = [name for name, text in TEXTS.items() if re.search(pattern, text, re.MULTILINE)]
    assert found == []


def test_the_search_sees_the_tree():
    assert {"README.md", "Makefile", "dprelease/wall/execute.py", ".ci/run"} <= set(TEXTS)
    assert any(re.search(r"\bcanary\b", text, re.IGNORECASE) for text in TEXTS.values())
