"""What is public, and what importing it costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

import dprelease as dp
from tests.end_to_end.projects import ROOT
from tests.meta.trees import library, walked

PUBLIC = {
    "Accessor", "ArgumentError", "Box", "BudgetError", "ConfigError", "Derived", "Domain", "DpreleaseError", "InternalError", "Keys", "LedgerError", "NotReadWarning", "PlanError", "Publication", "Release", "Released", "Series", "ReleasePlan", "Schema", "SourceError", "UnledgeredWarning", "VerificationError", "WithheldError", "__version__", "accessor", "create_ledger", "diagnostics", "diff", "draft_schema", "errors", "keys", "mechanisms", "open_ledger", "plan", "read", "read_series", "release", "run", "sql", "verify",
}  # fmt: skip


def python(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )


def test_all_is_exactly_what_is_public():
    assert set(dp.__all__) == PUBLIC
    assert dp.__all__ == sorted(dp.__all__)
    assert dir(dp) == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_loads(name):
    assert getattr(dp, name) is not None


def test_a_misspelt_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="has no attribute 'releese'"):
        _ = dp.releese


def test_the_import_is_quiet_light_and_patches_nothing():
    heavy = ["duckdb", "great_expectations", "scipy", "pydantic", "sqlglot", "yaml", "typer"]
    code = f"""
import logging, sys, warnings
import pandas
filters, showwarning, path = list(warnings.filters), warnings.showwarning, list(sys.meta_path)
handlers = list(logging.getLogger().handlers)
import dprelease
assert warnings.filters == filters and warnings.showwarning is showwarning
waits, *others = sys.meta_path  # for polars, and finds nothing else
assert others == path and waits.find_spec("json") is None and waits.find_spec("polars.dataframe") is None
assert logging.getLogger().handlers == handlers
assert isinstance(pandas.DataFrame().dp, dprelease.accessor.Accessor)
print([m for m in {heavy!r} if m in sys.modules])
"""
    done = python(code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def broken_rules(path, tree):
    """Yield what a module does not keep."""
    if path.endswith("__init__.py") and not tree.body:
        return
    if not ast.get_docstring(tree):
        yield f"{path}: no module docstring"
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield f"{path}: star import"
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield f"{path}: NotImplementedError"
    name = path.rpartition("/")[2].removesuffix(".py")
    if name in {"utils", "util", "common", "helpers", "misc", "core"}:
        yield f"{path}: a name that says nothing"


def test_every_module_states_its_purpose_and_keeps_the_house_rules():
    assert len(library()) > 400
    assert [fault for path in library() for fault in broken_rules(path, library()[path])] == []


def test_a_broken_rule_is_named():
    text = "from os import *\nNotImplementedError\n"
    assert len(list(broken_rules("dprelease/utils.py", ast.parse(text)))) == 4


@pytest.mark.parametrize(
    ("word", "allowed"),
    [
        (
            "reveal_to_mechanism",  # audits open what they sum over made-up rows
            {
                "dprelease/wall/execute.py",
                "dprelease/core/secret.py",
                "dprelease/audit/answers.py",
                "dprelease/testing/aggregates.py",
                "dprelease/testing/engines.py",
            },
        ),
        ("pickle", {"dprelease/core/secret.py"}),
        ("eval", set()),
        ("exec", set()),
        # made-up visits and tables, not noise
        (
            "random",
            {
                "dprelease/pipeline/made_up.py",
                "dprelease/pipeline/starter.py",
                "dprelease/testing/engines.py",
            },
        ),
    ],
)
def test_dangerous_names_stay_where_they_belong(word, allowed):
    found = set()
    for path, tree in library().items():
        for node in walked(tree):
            if isinstance(node, ast.Attribute) and node.attr == word and word.startswith("reveal"):
                found.add(path)
            if isinstance(node, ast.FunctionDef) and node.name == word:
                found.add(path)
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == word:
                found.add(path)
            if isinstance(node, ast.Import) and any(a.name == word for a in node.names):
                found.add(path)
            if isinstance(node, ast.ImportFrom) and node.module == word:
                found.add(path)
    assert found <= allowed


def test_the_wall_stays_short():
    assert len((ROOT / "dprelease" / "wall/execute.py").read_text().splitlines()) <= 200


def test_every_command_that_a_message_names_exists():
    """A fix that cannot be typed is not a fix."""
    from typer.main import get_command

    from dprelease.cli import app

    top = get_command(app).commands
    pages = [*(ROOT / "dprelease").rglob("*.py"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    named = {
        match.groups()
        for page in pages
        for match in re.finditer(r"`dprelease ([a-z-]+)(?: ([a-z-]+))?", page.read_text("utf-8"))
    }
    assert ("ledger", "init") in named  # the control: something is found
    for first, second in named:
        assert first in top, first
        below = getattr(top[first], "commands", None)
        assert second is None or below is None or second in below, (first, second)


def test_error_codes_belong_to_their_class():
    """DPR2xx is a PlanError and so on: the exit status follows from the code alone."""
    checked = 0
    for path, tree in library().items():
        for node in walked(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                kind = getattr(dp.errors, node.func.id, None)
                for keyword in node.keywords:
                    if isinstance(kind, type) and keyword.arg == "code":
                        for value in walked(keyword.value):
                            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                                hundred = kind.default_code[:4]
                                assert value.value.startswith(hundred), (path, node.lineno)
                                checked += 1
    assert checked > 100
