"""With the noise taken away, what is visible is a function of the configuration alone.

The exact cells are replaced by zeros just before the draw, and the draw repeats one stream. Two runs
over different rows must then agree in every byte: files, their names and modes, both streams, exit
status, ledger entries, statements sent to the engine. What differs would be a leak beside the noise.
"""

from __future__ import annotations

import itertools
import secrets
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from dprelease import execute
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.engines.duckdb import DuckDBEngine
from tests.end_to_end.projects import clinic, repeatable, tree

PERIOD = "2026-W46"
LINE = "p90001,north,2026-11-10 10:00,50,25.0"


def swapped(text):
    header, *lines = text.splitlines()
    return "\n".join([header, *reversed(lines)]) + "\n"


CHANGES = {
    "one row more": lambda t: t + LINE + "\n",
    "no row": lambda t: t.splitlines()[0] + "\n",
    "a huge value": lambda t: t + LINE.replace("25.0", "1e308") + "\n",
    "not a number": lambda t: t + LINE.replace("25.0", "NaN") + "\n",
    "an empty cell": lambda t: t + LINE.replace("25.0", "") + "\n",
    "text for a number": lambda t: t + LINE.replace("25.0", "CANARY") + "\n",
    "an unknown region": lambda t: t + LINE.replace("north", "nowhere") + "\n",
    "a person with 10 000 rows": lambda t: t + (LINE + "\n") * 10_000,
    "rows that the filter drops": lambda t: t.replace(",5", ",1"),
    "another order": swapped,
    "a broken line": lambda t: t + '"never closed,north\n',
}
SEEN_ALIKE = {"another order"}  # and exactly: the engine does not depend on order


class Watched:
    """One project, run again and again from the same ledger over different rows."""

    def __init__(self, folder, monkeypatch):
        self.pipeline = clinic(folder)
        self.folder, self.monkeypatch = folder, monkeypatch
        self.rows = folder / "data" / "visits.csv"
        self.text = self.rows.read_text()
        shutil.copytree(folder / ".dprelease", folder.parent / "ledger")
        self.exact = None
        self.statements = None
        honest, compute = execute._cells, DuckDBEngine.compute

        def no_signal(encoding, primitives, groups):
            cells = honest(encoding, primitives, groups)
            self.exact.append(cells.tolist())
            return np.zeros_like(cells) if self.blind else cells

        def watched(engine, *arguments):
            try:
                return compute(engine, *arguments)
            finally:
                self.statements = list(engine.statements)

        self.blind = True
        monkeypatch.setattr(execute, "_cells", no_signal)
        monkeypatch.setattr(DuckDBEngine, "compute", watched)

    def run(self, text):
        self.exact = []
        self.rows.write_text(text)
        shutil.rmtree(self.folder / "public", ignore_errors=True)
        shutil.rmtree(self.folder / ".dprelease")
        shutil.copytree(self.folder.parent / "ledger", self.folder / ".dprelease")
        repeatable(self.monkeypatch, "one stream")
        nonces = itertools.count()  # of the ledger's chain; random, so not the rows' doing
        self.monkeypatch.setattr(secrets, "token_hex", lambda n: f"{next(nonces):0{2 * n}x}")
        said = CliRunner().invoke(app, ["run", str(self.pipeline), "--period", PERIOD])
        public = self.folder / "public"
        (entry,) = Ledger.open(self.folder / ".dprelease" / "ledger.db").entries()
        return {
            "streams": (said.exit_code, said.stdout, said.stderr),
            "files": tree(public),
            "modes": {str(p): p.lstat().st_mode for p in sorted(public.rglob("*"))},
            "entry": entry,
            "statements": self.statements,
        }


@pytest.fixture
def watched(tmp_path, monkeypatch):
    return Watched(tmp_path / "project", monkeypatch)


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_but_the_noise_depends_on_the_rows(watched, change):
    base = watched.run(watched.text)
    exact = watched.exact
    other = watched.run(CHANGES[change](watched.text))
    assert base["streams"][0] == 0
    for part in base:
        assert base[part] == other[part], part
    same = change in SEEN_ALIKE or change in {"an unknown region", "a broken line"}
    assert (exact == watched.exact) == same  # the test is not vacuous: the rows do differ


def test_the_control_sees_a_leak(watched):
    """With the signal left in, the same comparison fails: it can find a difference."""
    watched.blind = False
    base = watched.run(watched.text)
    other = watched.run(watched.text + (LINE + "\n") + LINE.replace("90001", "90002") + "\n")
    assert base["files"] != other["files"]
    assert base["streams"] == other["streams"]
