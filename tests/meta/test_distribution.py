"""The wheel and the source archive hold what they must, and the wheel works where no repository is.

Here the wheel is unpacked beside the libraries that are installed; `make evidence` installs it into an
empty environment, as a user does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dprelease
from tests.sizes import FULL

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]

RELEASE = """
import pathlib, sys
import pandas as pd
import dprelease as dp

assert pathlib.Path(dp.__file__).is_relative_to(sys.argv[1]), dp.__file__
schema = {
    "dprelease": "schema/1", "name": "people", "unit": "row", "adjacency": "add_remove",
    "rows": {"max": 100, "expected": 10}, "columns": {"age": {"kind": "integer", "range": [0, 100]}},
    "release": {"epsilon": 2, "statistics": ["count", "mean(age)"]},
}
rows = pd.DataFrame({"age": range(20, 60, 4)})
ledger = dp.create_ledger("people.db", schema, epsilon=2)
release = rows.dp.release(schema, ledger=ledger, period="once")
folder = release.publish("public")
assert {"report.html", "data.csv"} <= {path.name for path in folder.iterdir()}
assert dp.verify(folder, ledger=ledger).ok
"""


COMMANDS = """
import ast, sys
from dprelease.cli import main

for words in ast.literal_eval(sys.argv[1]):
    print("=====")
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


def built(target: str, folder: Path, source: Path = ROOT) -> Path:
    """Build one distribution into `folder` and return it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [made] = [p for p in folder.iterdir() if p.name.endswith((".whl", ".tar.gz"))]
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_contains_only_dprelease(wheel: Path) -> None:
    assert wheel.name == f"dprelease-{dprelease.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"dprelease", f"dprelease-{dprelease.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Templates, styles and scripts included: what a report needs is not Python."""
    kept = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dprelease").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {Path(name).suffix for name in kept} >= {".py", ".j2", ".css", ".js", ".typed"}
    assert kept <= set(zipfile.ZipFile(wheel).namelist())


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = built("sdist", tmp_path / "archive")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    assert {"dprelease", "tests", "docs", "Makefile", "LICENSE"} <= {
        p.name for p in source.iterdir()
    }
    assert not [p.name for p in source.iterdir() if p.name in (".venv", ".git", ".dprelease")]
    again = built("wheel", tmp_path / "again", source)
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_wheel_releases_where_no_repository_is(wheel: Path, tmp_path: Path, evidence) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    if FULL:
        place = tmp_path / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        python = str(place / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True, timeout=900)
    else:
        place, python = tmp_path / "unpacked", sys.executable
        zipfile.ZipFile(wheel).extractall(place)
        environment["PYTHONPATH"] = str(place)
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*words: str) -> str:
        done = subprocess.run(
            words,
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    check = ("schema", "check", "schemas/clinic.yaml")
    if FULL:
        command = str(place / "bin" / "dprelease")
        assert dprelease.__version__ in run(command, "--version")
        assert "verify" in run(command, "--help")
        run(command, "init")
        assert "valid" in run(command, *check)
        run(python, "-P", "-c", RELEASE, str(place))
    else:  # one after the other in one process
        asked = repr([("--version",), ("init",), check])
        release = f"sys.argv[1:] = [{str(place)!r}]\n{RELEASE}"
        said = run(python, "-P", "-c", f"{COMMANDS}\n{release}", asked)
        assert dprelease.__version__ in said
        assert "valid" in said.rpartition("=====")[2]
    evidence(
        "installed wheel",
        "an empty environment" if FULL else "unpacked beside the libraries",
        f"{wheel.name}: help, starter project, a release of a frame, published and verified",
    )
