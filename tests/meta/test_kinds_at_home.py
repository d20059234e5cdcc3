"""Knowledge about a kind is in its own file: names of kinds are matched nowhere else.

Found are literals in comparisons, `match` cases and lists of nothing but such names, and classes of
draws in `isinstance` and `match`.

Exempt: what checks the library by other means must not ask what it checks. `recompute` proves each
sensitivity, `audit.laws` and `audit.pairs` each loss, and `audit.plan` lists by itself which laws a
plan draws from: a law that named its own parts could leave one out. The rest of `audit` is not exempt.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dprelease import registry
from dprelease.aggregates.measurement import Family, Form

PACKAGE = Path(__file__).resolve().parents[2] / "dprelease"
STATISTICS = set(registry.names("aggregates"))
FAMILIES = {*Family.__args__, *Form.__args__, *registry.names("draws")} - STATISTICS
DRAWS = {registry.load("draws", name).__name__ for name in registry.names("draws")}
HOMES = ("aggregates/", "measurements/", "registry.py")
EXEMPT = ("recompute.py", "audit/laws.py", "audit/pairs.py", "audit/plan.py")
OTHER_WORDS = ("mechanisms/",)  # a posterior's median and mean are no statistics


def literals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for inner in node.elts:
            yield from literals(inner)


def matched(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Yield every literal of `names` that something is compared with, or that a list is made of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                yield from (name for name in literals(side) if name in names)
        elif isinstance(node, ast.MatchValue):
            yield from (name for name in literals(node.value) if name in names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            found = list(literals(node.value))
            if isinstance(node.value, ast.Dict):
                found = [k for key in node.value.keys if key for k in literals(key)]
                found = [k for k in found if k in names] if len(names & set(found)) > 1 else []
            if isinstance(node.value, ast.Constant) or not set(found) <= names or _exported(node):
                continue
            yield from found


def _exported(node: ast.Assign | ast.AnnAssign) -> bool:
    """Return whether it lists a module's own names, which may be called like a kind."""
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"


def classes(tree: ast.AST) -> Iterator[str]:
    """Yield every class of a draw that something is asked to be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            inside = ast.walk(node.args[1])
            yield from (n.id for n in inside if isinstance(n, ast.Name) and n.id in DRAWS)
        elif isinstance(node, ast.MatchClass) and getattr(node.cls, "id", "") in DRAWS:
            yield node.cls.id


def away_from_home(path: str, text: str) -> list[str]:
    """Return the names of kinds that a file matches without being their home."""
    if path.startswith((*HOMES, *EXEMPT)):
        return []
    tree = ast.parse(text)
    statistics = [] if path.startswith(OTHER_WORDS) else list(matched(tree, STATISTICS))
    return [*statistics, *matched(tree, FAMILIES), *classes(tree)]


def test_kinds_are_matched_at_home():
    found = Counter()
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        count = len(away_from_home(path, file.read_text(encoding="utf-8")))
        found.update({path: count} if count else {})
    assert dict(found) == {}, "move the knowledge to its kind's file"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("if function == 'mean': pass", "mean"),
        ("x = statistic.function in ('count', 'sum')", "count"),
        ("match family:\n    case 'two_sums': pass", "two_sums"),
        ("RATIOS = ('two_sums', 'tensor')", "tensor"),
        ("FORMS = {'mean': 1, 'sum': 2}", "sum"),
        ("isinstance(draw, CellDraw | MeanDraw)", "MeanDraw"),
        ("isinstance(draw, TreeDraw)", "TreeDraw"),
        ("if law.get('kind') == 'box': pass", "box"),
        ("match draw:\n    case ScalarDraw(): pass", "ScalarDraw"),
    ],
)
def test_a_name_that_is_matched_elsewhere_is_found(text, name):
    assert name in away_from_home("audit/repeated.py", text)
    assert name in away_from_home("planning/make.py", text)
    assert away_from_home("aggregates/mean.py", text) == []


@pytest.mark.parametrize("text", ["x = {'count': 3}", "f('mean')", "title = 'sum'"])
def test_a_word_that_decides_nothing_is_not(text):
    assert away_from_home("planning/make.py", text) == []
