"""No two modules import each other, however far around, and no import is exempt from the layers.

Imports inside functions count: they hide a circle from Python and not from a reader. Imports for the
type checker alone do not: they are never run, and a protocol may name what implements it.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Mapping

from tests.end_to_end.projects import ROOT


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def sources() -> dict[str, str]:
    paths = (ROOT / "dprelease").rglob("*.py")
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}


def run_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield every node but those below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from run_nodes(node)


def imports(files: Mapping[str, str]) -> dict[str, set[str]]:
    """Return module -> the modules of `files` that it imports, anywhere in its text."""
    known = {module_of(path) for path in files}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for path, text in files.items():
        for node in run_nodes(ast.parse(text)):
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
    assert circles(imports(sources())) == []


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
    assert circles(imports(files)) == [["p.a", "p.b", "p.c"]]
