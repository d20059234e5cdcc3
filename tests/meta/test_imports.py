"""No two modules import each other, however far around, and no import is exempt from the layers.

Imports inside functions count: they hide a circle from Python and not from a reader. Imports for the
type checker alone do not: they are never run, and a protocol may name what implements it.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Mapping

from tests.end_to_end.projects import ROOT
from tests.meta.trees import library, walked


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def run_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield every node but `if TYPE_CHECKING:` and what is below it."""
    typed = {
        inner
        for node in walked(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in walked(node)
    }
    return (node for node in walked(tree) if node not in typed)


def imports(files: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Return module -> the modules of `files` that it imports, anywhere in its text."""
    known = {module_of(path) for path in files}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for path, tree in files.items():
        for node in run_nodes(tree):
            named: list[str] = []
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                named = [name if name in known else node.module for name in inner]
            graph[module_of(path)] |= known & set(named)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that reach each other (strongly connected components)."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for name in graph[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {name: reached(name) for name in graph}
    rings = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in graph if a in reach[a]}
    return sorted(map(list, rings))


def test_no_import_circle():
    assert circles(imports(library())) == []


def test_no_import_is_exempt_from_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert all("ignore_imports" not in contract for contract in contracts["contracts"])


def test_a_circle_is_found():
    """The control: through a function, a package and a name of a module; not for types alone."""
    files = {
        "p/__init__.py": "",
        "p/a.py": "def f():\n    from p import b",
        "p/b.py": "import p.c",
        "p/c.py": "from p.a import f",
        "p/d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.e import x",
        "p/e.py": "import p.d",
    }
    trees = {path: ast.parse(text) for path, text in files.items()}
    assert circles(imports(trees)) == [["p.a", "p.b", "p.c"]]
