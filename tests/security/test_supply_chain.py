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
from tests.meta.trees import library, walked

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
    for node in walked(tree):
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
    for path, tree in library().items():
        if some := set(dangers(tree)):
            found[path] = some
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


STARTERS = {"subprocess", "multiprocessing", "pty", "asyncio"}
POOL = "ProcessPoolExecutor"
# Great Expectations is imported beside the run, by this interpreter
STARTS_ITSELF = "dprelease/results/validate/gx_process.py"


def started(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that start processes, as imported, and the first word of each command that is started."""
    for node in walked(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        yield from (n for n in names if n.partition(".")[0] in STARTERS or n.endswith(POOL))
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        if called.endswith((f".{POOL}", "set_executable")):
            yield called
        if called.partition(".")[0] in STARTERS - {"multiprocessing"}:
            words = node.args[0] if node.args else None
            first = words.elts[0] if isinstance(words, ast.List) and words.elts else None
            yield f"runs {dotted(first) if first else '?'}"


def test_no_program_is_started_but_this_interpreter() -> None:
    found = {}
    for path, tree in library().items():
        if some := list(started(tree)):
            found[path] = some
    assert found == {
        STARTS_ITSELF: [
            "multiprocessing",
            f"concurrent.futures.{POOL}",
            "multiprocessing.context",
            "multiprocessing.context.SpawnContext",
            "multiprocessing.context.SpawnProcess",
        ]
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import multiprocessing.pool", ["multiprocessing.pool"]),
        ("from asyncio import run", ["asyncio", "asyncio.run"]),
        ("subprocess.Popen(['ls'])", ["runs ?"]),
        ("subprocess.run(words)", ["runs ?"]),
        ("subprocess.run(args=words)", ["runs ?"]),
        ("subprocess.Popen([sys.executable, '-c', x])", ["runs sys.executable"]),
        ("from concurrent.futures import ProcessPoolExecutor", [f"concurrent.futures.{POOL}"]),
        ("futures.ProcessPoolExecutor(1)", [f"futures.{POOL}"]),
        ("spawn.set_executable('/bin/sh')", ["spawn.set_executable"]),
    ],
)
def test_each_way_to_start_one_is_seen(code: str, expected: list[str]) -> None:
    assert list(started(ast.parse(code))) == expected


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
