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


def floors(page: str) -> dict[str, int]:
    """Return room -> line of the figure of rooms, which says that each room uses those of lines below and of its own."""
    figure = page.split("The rooms, each above those that it may use:")[1].split("```")[1]
    rooms = {path.split("/")[1].removesuffix(".py") for path in library()}
    lines = [*enumerate(figure.splitlines())]
    return {word: at for at, line in reversed(lines) for word in rooms & set(line.split())}


def upwards(floor: Mapping[str, int], graph: Mapping[str, set[str]]) -> set[str]:
    """Return the imports of one room from one that the figure shows above it."""
    found = {
        (a.split(".")[1], b.split(".")[1])
        for a, names in graph.items()
        for b in names
        if "." in a and "." in b
    }
    return {f"{a} uses {b}" for a, b in found if floor.get(a, 0) > floor.get(b, 99)}


def test_the_figure_of_rooms_shows_all_of_them_and_no_room_uses_one_above_it() -> None:
    page, graph = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), imports(library())
    floor = floors(page)
    rooms = {path.split("/")[1] for path in library() if path.count("/") > 1}
    assert rooms - set(floor) == set()
    assert upwards(floor, graph) == set()
    turned = {**floor, "core": floor["budget"], "budget": floor["core"]}
    assert "budget uses core" in upwards(turned, graph)
