"""Knowledge about a kind is in its own file: names of kinds are matched nowhere else.

Found are all strings that are a kind's name, or its name with a bracket (`f"ratio({column})"`): what is compared,
listed, passed, returned or a key, in capitals too; and classes of draws that something is asked to be, as text too.
Not found are a module's `__all__`, texts of more than the name, and the keys `FIELDS`. `WORDS` lists, with reasons, where such a string means something else
or decides nothing; what is compared, or chosen from a list, is excused nowhere.

Exempt: what checks the library by other means must not ask what it checks. `recompute` proves each
sensitivity, `audit.laws` and `audit.pairs` each loss, and `audit.plan` lists by itself which laws a
plan draws from: a law that named its own parts could leave one out. The rest of `audit` is not exempt.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from dprelease.core import registry
from dprelease.schema.synonyms import STATISTICS as STATISTICS_MEANT
from dprelease.statistics.measurement import Family, Form
from tests.meta.trees import library, walked

STATISTICS = set(registry.names("aggregates"))
FAMILIES = {*Family.__args__, *Form.__args__, *registry.names("draws")} - STATISTICS
DRAWS = {registry.load("draws", name).__name__ for name in registry.names("draws")}
MECHANISMS = set(registry.names("mechanisms")) - STATISTICS - FAMILIES
HOMES = ("statistics/", "measurements/", "core/registry.py")
EXEMPT = (
    "wall/recompute.py",
    "wall/form_sensitivity.py",
    "audit/laws.py",
    "audit/pairs.py",
    "audit/plan.py",
)
OTHER_WORDS = ("mechanisms/",)
"""A posterior's median and mean are not statistics, and a law's tag may be a draw's: there only what is matched counts."""

FIELDS = {"cells", "count", "max"}
"""Keys of files that are called like a kind: a draw's cells, how many rows a page has, the most rows of a unit."""

WORDS = {
    ("results/formats/words.py", "gaussian"): "a name of a person, written with a capital",
    ("query/load.py", "count"): "stands for the statistics that a caller will bring",
    ("reading/projection.py", "linear"): "a reader's expression, of one sum",
    ("reading/projection.py", "ratio"): "a reader's expression, of two sums",
    ("release_plan/block.py", "cells"): "a property that is written beside the fields",
    ("schema/models.py", "count"): "how many nodes, and not which",
    ("schema/read_unit.py", "max"): "a key of YAML, in the place of an error",
    ("schema/importers/draft.py", "mean"): "a statistic that a draft proposes",
    ("testing/engines.py", "ratio"): "a column of made-up rows",
    ("testing/formats.py", "count"): "a made-up request",
    **{
        ("schema/synonyms.py", name): "corrects the spelling of another program's word"
        for name in set(STATISTICS_MEANT.values())
    },
}


SQL_GRAMMAR = {
    "query/read_view.py": "CROSS JOIN",
    "query/select.py": "CROSS JOIN",
    "query/view.py": "what a view makes of a group's rows, in SQL's words: the rows of one unit, before anything is released",
    "query/select_calls.py": "forms of SELECT's own functions: COUNT(*), COUNT(DISTINCT x), SUM(a) / SUM(b), a share as AVG of a"
    " condition; and which are refused, with what to write in their place",
}
"""Where a statistic's name in capitals is a word of SQL; which of SQL's functions a statistic is, its own file says."""


def literals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for inner in node.elts:
            yield from literals(inner)


def matched(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Yield every literal of `names` that something is compared with, or that a list is made of."""
    for node in walked(tree):
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


def written(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Yield every string that is one of `names`, wherever it stands, but for `__all__` and the keys `FIELDS`."""
    keys, listed = set(), set()
    for node in walked(tree):
        if isinstance(node, ast.Dict):
            keys |= {id(key) for key in node.keys}
        elif isinstance(node, ast.Subscript):
            keys.add(id(node.slice))
        elif isinstance(node, ast.Assign) and _exported(node):
            listed |= {id(inner) for inner in ast.walk(node)}
    for node in walked(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in listed
        ):
            name = node.value.removesuffix("(")
            if name in names and not (id(node) in keys and name in FIELDS):
                yield name
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "split":
            parts = getattr(getattr(node.func, "value", None), "value", "")
            yield from (word for word in str(parts).split() if word in names)


def classes(tree: ast.AST) -> Iterator[str]:
    """Yield every class of a draw that something is asked to be: by itself, of its module, by another name or as text."""
    called = {name: name for name in DRAWS}
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom):
            called |= {a.asname: a.name for a in node.names if a.asname and a.name in DRAWS}
    for node in walked(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            asked = node.args[1:]
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Dict):
            asked = [key for key in node.keys if key is not None]
        for inner in (n for part in asked for n in ast.walk(part)):
            name = getattr(inner, "id", None) or getattr(inner, "attr", None) or _text(inner)
            if name in called:
                yield called[name]


def _text(node: ast.AST) -> str | None:
    value = getattr(node, "value", None)
    return value if isinstance(node, ast.Constant) and isinstance(value, str) else None


def away_from_home(path: str, tree: ast.AST) -> list[str]:
    """Return the names of kinds that a file matches without being their home."""
    if path.startswith((*HOMES, *EXEMPT)):
        return []
    if path.startswith(OTHER_WORDS):
        return [*matched(tree, FAMILIES), *classes(tree)]
    names = STATISTICS | FAMILIES | MECHANISMS
    decided = [*matched(tree, names), *classes(tree)]
    capitals = [] if path in SQL_GRAMMAR else list(written(tree, {n.upper() for n in names}))
    return decided + capitals + [n for n in written(tree, names) if (path, n) not in WORDS]


def in_text(path: str, text: str) -> list[str]:
    return away_from_home(path, ast.parse(text))


def test_kinds_are_matched_at_home():
    found = Counter()
    for file, tree in library().items():
        path = file.removeprefix("dprelease/")
        count = len(away_from_home(path, tree))
        found.update({path: count} if count else {})
    assert dict(found) == {}, "move the knowledge to its kind's file"


@pytest.mark.parametrize(("path", "name"), sorted(WORDS), ids=str)
def test_every_word_that_is_excused_is_there(path: str, name: str) -> None:
    assert name in written(library()[f"dprelease/{path}"], {name})
    assert name in in_text(path, f"if function == {name!r}: pass")  # what decides is not


@pytest.mark.parametrize("path", SQL_GRAMMAR)
def test_every_word_of_sql_that_is_excused_is_there(path: str) -> None:
    assert list(written(library()[f"dprelease/{path}"], {n.upper() for n in STATISTICS | FAMILIES}))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("if function == 'mean': pass", "mean"),
        ("x = statistic.function in ('count', 'sum')", "count"),
        ("match family:\n    case 'two_sums': pass", "two_sums"),
        ("RATIOS = ('two_sums', 'tensor')", "tensor"),
        ("FORMS = {'mean': 1, 'sum': 2}", "sum"),
        ("isinstance(draw, CellLaw | MeanLaw)", "MeanLaw"),
        ("isinstance(draw, TreeLaw)", "TreeLaw"),
        ("if law.get('kind') == 'box': pass", "box"),
        ("match draw:\n    case ScalarCellLaw(): pass", "ScalarCellLaw"),
        ("f(rows, 'covariance')", "covariance"),
        ("in_family('bins')", "bins"),
        ("replace(measurement, family='bins')", "bins"),
        ("law = 'staircase'", "staircase"),
        ("x = made['mean']", "mean"),
        ("f = 'sum' if one else 'weighted_sum'", "weighted_sum"),
        ("text = f'ratio({a}, {b})'", "ratio"),
        ("if function.upper() == 'MEAN': pass", "MEAN"),
        ("if function in 'mean variance'.split(): pass", "variance"),
        ("if type(draw).__name__ == 'CellLaw': pass", "CellLaw"),
        ("isinstance(draw, cells.CellLaw)", "CellLaw"),
        ("if type(draw) is CellLaw: pass", "CellLaw"),
        ("from m import CellLaw as C\nissubclass(kind, C)", "CellLaw"),
        ("match draw:\n    case cells.CellLaw(): pass", "CellLaw"),
        ("say = {CellLaw: 1}", "CellLaw"),
    ],
)
def test_a_name_that_is_matched_elsewhere_is_found(text, name):
    assert name in in_text("audit/repeated.py", text)
    assert name in in_text("planning/make.py", text)
    assert in_text("statistics/mean.py", text) == []


@pytest.mark.parametrize("text", ["x = draw['cells']", "('scalar', 'box')", "f('mean')"])
def test_a_law_s_own_words_are_no_statistics(text: str) -> None:
    assert in_text("mechanisms/staircase.py", text) == []
    assert in_text("mechanisms/staircase.py", "if law.kind == 'scalar': pass") == ["scalar"]


@pytest.mark.parametrize(
    "text",
    [
        "x = {'count': 3}",
        "x = draw['cells']",
        "__all__ = ['constant']",
        "fail('mean(age) is not a number')",
    ],
)
def test_a_word_that_decides_nothing_is_not(text):
    assert in_text("planning/make.py", text) == []
