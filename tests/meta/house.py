"""How the library is built, in figures beside their limits: `python -m tests.meta.house`, which is `make size`.

`house.toml` holds the limits. Those of structure may only fall; those of size are raised by nothing but
the commit that says what was bought for them. Counted is everything that a wheel installs: code lines
and tokens of Python, lines of templates and data.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.meta.lines import LIBRARY, ROOT, code_lines, counted, sources
from tests.meta.test_imports import imports, module_of
from tests.meta.test_kinds_at_home import FAMILIES, MECHANISMS, STATISTICS
from tests.meta.trees import library, walked

LIMITS = Path(__file__).with_name("house.toml")
CHECKERS = ("wall/recompute.py", "wall/form_sensitivity.py", "audit/")
"""What checks kinds by other means must know them by name."""
OTHER_WORDS = {"cells", "count", "degree", "max", "mean", "median", "min", "sum"}
"""Words of files, of SQL and of mathematics too: `test_kinds_at_home` looks at these one by one."""
MADE_AT_RUN_TIME = {"exec", "eval", "compile"}
DOORS_THAT_LOAD_NAMES = {
    "dprelease/__init__.py",
    "dprelease/audit/__init__.py",
    "dprelease/diagnostics/__init__.py",
    "dprelease/mechanisms/__init__.py",
    "dprelease/testing/__init__.py",
}
"""Modules whose `__getattr__` loads a public name when it is used."""

Graph = Mapping[str, Iterable[str]]


# --- size -----------------------------------------------------------------------------------------


def size() -> dict[str, int]:
    """Return code lines, tokens and classes of Python, and lines of what else a wheel installs."""
    found = [counted(text, walked(library()[path])) for path, text in sources()]
    others = [p for p in LIBRARY.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    classes = sum(isinstance(n, ast.ClassDef) for tree in library().values() for n in walked(tree))
    return {
        "code_lines": sum(lines for lines, _ in found),
        "tokens": sum(tokens for _, tokens in found),
        "classes": classes,
        "template_lines": sum(len(p.read_bytes().splitlines()) for p in others),
        "files": len(found),
    }


# --- structure ------------------------------------------------------------------------------------


def longest(graph: Graph) -> list[str]:
    """Return a longest chain of a graph without circles, from top to bottom."""

    @cache
    def below(name: str) -> tuple[str, ...]:
        return (name, *max((below(other) for other in sorted(graph[name])), key=len, default=()))

    return list(max((below(name) for name in sorted(graph)), key=len))


def rooms(graph: Graph) -> dict[str, set[str]]:
    """Return the graph of rooms: the modules and packages just below the library."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        own = _room(name)
        found.setdefault(own, set()).update(_room(other) for other in others)
        found[own].discard(own)
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def two_homes(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the public names of classes that two modules define."""
    defined = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, count in defined.items() if count > 1)


def choices(trees: Mapping[str, ast.Module], names: set[str]) -> list[str]:
    """Return where a kind's name decides something away from its own file: compared, matched, in a list or a key."""
    found = []
    for path, tree in trees.items():
        if path.removeprefix("dprelease/").startswith((*CHECKERS, "core/registry.py", "testing/")):
            continue
        stem = Path(path).stem
        for line, name in _decided(tree):
            if name in names and name not in stem and stem not in name:
                found.append(f"{path}:{line} {name}")
    return found


def _decided(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in walked(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides: list[ast.expr] = [left, *others]
            case ast.MatchValue(value=value):
                sides = [value]
            case ast.Dict(keys=keys) if len(keys) > 1:
                sides = [key for key in keys if key is not None]
            case _:
                continue
        for side in sides:
            inner = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
            for text in inner:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text.lineno, text.value


def kinds() -> set[str]:
    """Return the names of statistics, families, forms and mechanisms, but for `OTHER_WORDS`."""
    return (STATISTICS | FAMILIES | MECHANISMS) - OTHER_WORDS


def inner_imports(trees: Mapping[str, ast.Module]) -> int:
    """Return how many imports stand inside functions."""
    return sum(
        isinstance(inner, ast.Import | ast.ImportFrom)
        for tree in trees.values()
        for node in walked(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    )


def made_at_run_time(path: str, tree: ast.Module) -> list[str]:
    """Return what makes code or classes while it runs, or names that no file has."""
    found = []
    for node in walked(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in MADE_AT_RUN_TIME:
                found.append(f"{path}:{node.lineno} {name}")
            case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
                found.append(f"{path}:{node.lineno} type")
    hooks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "__getattr__"]
    return found + [
        f"{path}:{n.lineno} __getattr__" for n in hooks if path not in DOORS_THAT_LOAD_NAMES
    ]


def structure() -> dict[str, int]:
    trees = library()
    graph = imports(trees)
    between = rooms(graph)
    packages = {_room(module_of(p)) for p in trees if p.count("/") > 1}
    return {
        "import_chain": len(longest(graph)),
        "floors": len(
            longest({n: o for n, o in between.items() if n != "dprelease"} | {"dprelease": set()})
        ),
        "loose_modules": len(set(between) - packages - {"dprelease"}),
        "names_with_two_homes": len(two_homes(trees)),
        "choices_by_name": len(choices(trees, kinds())),
        "imports_inside_functions": inner_imports(trees),
        **walk(),
    }


# --- the walk of one release ----------------------------------------------------------------------


@cache
def walked_release() -> dict[str, Any]:
    """Return what one release of a mean does, as `tests.meta.walk` sees it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.meta.walk"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def walk() -> dict[str, int]:
    """Return modules loaded, functions run, and the classes that hold its statistic."""
    found = walked_release()
    return {
        "modules_of_a_release": found["loaded"],
        "functions_of_a_release": found["functions"],
        "classes_of_a_statistic": len(found["holders"]),
    }


# --- the whole ------------------------------------------------------------------------------------


def limits() -> dict[str, dict[str, int]]:
    return tomllib.loads(LIMITS.read_text(encoding="utf-8"))


def figures() -> dict[str, dict[str, int]]:
    return {"structure": structure(), "size": size()}


def places() -> Counter[str]:
    """Return the code lines of each room."""
    found: Counter[str] = Counter()
    for path in sorted(LIBRARY.rglob("*.py")):
        found[path.relative_to(LIBRARY).parts[0]] += code_lines(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Print each figure with its limit and its target, the code lines of each room, and a longest chain."""
    held, every = figures(), limits()
    print(f"{'':28}{'today':>9}{'limit':>9}{'target':>9}")
    for part, found in held.items():
        for name, figure in found.items():
            limit, target = every[part].get(name), every["targets"].get(name)
            shown = [f"{x:,}" if x is not None else "" for x in (figure, limit, target)]
            print(f"{name.replace('_', ' '):28}" + "".join(f"{x:>9}" for x in shown))
    print("\ncode lines of each room")
    for place, count in places().most_common(25):
        print(f"{count:9,}  {place}")
    chain = [re.sub("^dprelease.", "", name) for name in longest(imports(library()))]
    print("\na longest chain of imports\n  " + " > ".join(chain))


if __name__ == "__main__":
    main()
