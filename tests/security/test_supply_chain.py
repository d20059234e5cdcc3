"""What the package is made of: no code from data, no shell, every dependency pinned by its hashes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.end_to_end.projects import ROOT

FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.exec*", "os.spawn*", "pickle.*", "cPickle.*",
    "dill.*", "marshal.*", "shelve.*", "joblib.*", "cloudpickle.*", "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "pandas.read_pickle", "pd.read_pickle", "numpy.load", "np.load", "tempfile.mktemp", "runpy.*",
    "*.read_pickle", "*.to_pickle", "pty.*",
}  # fmt: skip
# our own functions of these names read text into checked trees: `re.compile`, a spark dialect's rewriting
ALLOWED = {"re.compile"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def matches(name: str) -> bool:
    if name in ALLOWED:
        return False
    forms = {name, f"{name.partition('.')[0]}.*", f"*.{name.rpartition('.')[2]}"}
    forms |= {re.sub(r"^(os\.(?:exec|spawn)).*", r"\1*", name)}
    return bool(forms & FORBIDDEN)


def dangers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if matches(dotted(node.func)):
                yield dotted(node.func)
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    yield "shell="
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{a.name}" for a in node.names] + [node.module]
        yield from (f"import {name}" for name in names if matches(name) or matches(f"{name}.*"))


def test_nothing_runs_data_as_code() -> None:
    found = {}
    for path in sorted((ROOT / "dprelease").rglob("*.py")):
        if some := set(dangers(ast.parse(path.read_text(encoding="utf-8")))):
            found[path.relative_to(ROOT).as_posix()] = some
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')", "exec(x)", "import pickle", "from pickle import loads", "import os\nos.system('ls')", "os.execv(a, b)",
        "subprocess.run(x, shell=True)", "subprocess.run(x, shell=flag)", "yaml.load(x)", "np.load(f)", "df.to_pickle(p)",
        "__import__('os')", "from os import system", "import marshal", "compile(x, y, z)",
    ],
)  # fmt: skip
def test_the_search_finds_each(code: str) -> None:
    assert list(dangers(ast.parse(code)))


def test_the_search_lets_the_rest_be() -> None:
    code = "import re\nre.compile('x')\nyaml.safe_load(x)\nsubprocess.run([x], shell=False)\nevaluate(x)"
    assert not list(dangers(ast.parse(code)))


def test_the_command_line_starts_no_program() -> None:
    """No part of the package starts another process."""
    starters = {"subprocess", "multiprocessing", "pty", "asyncio"}
    found = set()
    for path in sorted((ROOT / "dprelease").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {a.name.partition(".")[0] for a in node.names} & starters
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module.partition(".")[0]} & starters
    assert found == set()


# -- the lock ----------------------------------------------------------------------------------

LOCK = ROOT / "requirements.lock"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def pins() -> dict[str, list[str]]:
    """Return name -> versions; a package may be pinned differently by platform or Python."""
    found: dict[str, list[str]] = {}
    for line in LOCK.read_text().splitlines():
        if match := PINNED.match(line):
            found.setdefault(canonicalize_name(match[1]), []).append(match[2])
    return found


def test_every_pin_has_hashes_and_no_registry_is_named() -> None:
    text = LOCK.read_text()
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        if block.startswith("#"):
            continue
        assert PINNED.match(block), block[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:80]
    assert "://" not in text
    assert not re.search(
        r"^\s*-", re.sub(r"^\s+--hash.*$", "", text, flags=re.MULTILINE), re.MULTILINE
    )


def test_the_lock_satisfies_the_project() -> None:
    """`make lock` makes it again when this fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(r for name in ("postgres", "signing", "test", "docs") for r in extras[name]),
    ]
    locked = pins()
    assert len(locked) > 50
    for text in wanted:
        requirement = Requirement(text)
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement.name} is not locked"
        assert all(requirement.specifier.contains(v, prereleases=True) for v in versions), text
