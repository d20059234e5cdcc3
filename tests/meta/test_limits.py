"""Limits of size in `dprelease/`: a file of 400 lines, a function of 60, a planner of a dozen files, and nothing private in `__all__`.

None is longer, and there is no list of exceptions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.meta.lines import code_lines, functions, sources
from tests.meta.trees import library, walked

FILE, FUNCTION, PLANNER = 400, 60, 12
SOURCES = dict(sources())


def private_exports(tree: ast.Module) -> list[str]:
    """Return the private names that a module lists in `__all__`, however it is set or added to."""
    return [
        str(entry.value)
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
        and "__all__" in map(ast.unparse, getattr(node, "targets", None) or [node.target])
        for entry in ast.walk(node)
        if isinstance(entry, ast.Constant)
        and str(entry.value).startswith("_")
        and not str(entry.value).startswith("__")
    ]


def modules(paths: Iterable[str], package: str) -> set[str]:
    """Return the modules of a package and of those below it; an `__init__` says nothing by itself."""
    inside = (p for p in paths if p.startswith(f"dprelease/{package}/"))
    return {p for p in inside if not p.endswith("/__init__.py")}


def long_functions(path: str, tree: ast.Module) -> set[str]:
    return {f"{path}:{name}" for name, lines in functions(walked(tree)) if lines > FUNCTION}


def test_no_file_is_longer_than_one_reads_at_once():
    found = {path for path, text in SOURCES.items() if len(text.splitlines()) > FILE}
    assert found == set(), f"split what is longer than {FILE} lines"


def test_no_function_is_longer_than_a_screen():
    found = set().union(*(long_functions(path, tree) for path, tree in library().items()))
    assert found == set(), f"split what is longer than {FUNCTION} lines"


def test_the_planner_is_a_dozen_files():
    found = modules(SOURCES, "planning")
    assert 0 < len(found) <= PLANNER, f"join what is one idea: {sorted(found)}"


def test_no_module_exports_a_private_name():
    found = {path: names for path, tree in library().items() if (names := private_exports(tree))}
    assert found == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""Module."""\n\n# a comment\nx = 1  # one\n', 1),
        ('x = 1\n"""What x is,\non two lines."""\n', 1),
        ('def f():\n    """Do."""\n    return (\n        1\n    )\n', 4),
        ('SQL = """\nSELECT\n\n1"""\n', 4),
    ],
)
def test_code_lines_are_counted_as_the_docstring_says(text, count):
    assert code_lines(text) == count


def test_what_is_too_long_would_be_found():
    paths = ["dprelease/a/b.py", "dprelease/a/c/d.py", "dprelease/a/__init__.py", "dprelease/ab.py"]
    assert modules(paths, "a") == {"dprelease/a/b.py", "dprelease/a/c/d.py"}
    body = "\n".join("    x = 1" for _ in range(FUNCTION))
    assert long_functions("a.py", ast.parse(f"class A:\n  async def f(self):\n{body}\n")) == {
        "a.py:f"
    }
    assert long_functions("a.py", ast.parse(f"def f():\n{body[10:]}\n")) == set()


@pytest.mark.parametrize(
    "text",
    [
        '__all__ = ["a", "_b", "__version__"]',
        '__all__: list[str] = ["a", "_b"]',
        '__all__ = ["a"]\n__all__ += ["_b"]',
        'names = __all__ = ["a", "_b"]',
    ],
)
def test_a_private_export_would_be_found(text):
    assert private_exports(ast.parse(text)) == ["_b"]
