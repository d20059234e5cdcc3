"""With the noise taken away, what is visible is a function of the configuration alone.

The exact cells are replaced by zeros just before the draw, and the draw repeats one stream. Two runs
over different rows must then agree in every byte: files, their names and modes, both streams, exit
status, ledger entries, statements sent to the engine. What differs would be a leak beside the noise.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import re
import secrets
import shutil
import sqlite3
import statistics
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from typer.testing import CliRunner

from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.pipeline import flow
from dprelease.wall import execute
from tests.end_to_end import projects
from tests.end_to_end.projects import clinic, repeatable, tree
from tests.sizes import sized, some, whole

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
TIMED_RUNS = sized(whole(2, 4), 200)
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
    "a person with 100 000 rows": lambda t: t + (LINE + "\n") * 100_000,
    "rows that the filter drops": lambda t: t.replace(",5", ",1"),
    "another order": swapped,
    "a broken line": lambda t: t + '"never closed,north\n',
    "an overflow attempt": lambda t: t + LINE.replace("50", "9" * 400) + "\n",
    "not UTF-8": lambda t: t + LINE.replace("p90001", "p\udcff\udcfe") + "\n",
    "a null unit": lambda t: t + LINE.replace("p90001", "") + "\n",
    "a new period": lambda t: t + LINE.replace("2026-11-10", "2031-01-01") + "\n",
}
CANARIES = ("CANARY", "90001")
DROPPED = {"an unknown region", "a broken line", "a null unit", "a new period", "not UTF-8"}
SEEN_ALIKE = {"another order"}  # and exactly: the engine does not depend on order
BASE: dict[bool, tuple[dict[str, object], object]] = {}
"""By whether the signal is taken away: what a run over the usual rows shows, and its exact integers."""
COMPARED: dict[str, tuple[int, float]] = {}
"""Pair -> (bytes compared, seconds)."""


MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def ledger_rows(path):
    """Every row of every table, as text; when it was written is the clock's doing, so left out."""
    with contextlib.closing(sqlite3.connect(path)) as book:
        tables = [n for (n,) in book.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            t: [MOMENT.sub("(moment)", repr(row)) for row in book.execute(f'SELECT * FROM "{t}"')]
            for t in sorted(tables)
        }


class Watched:
    """One project, run again and again from the same ledger over different rows."""

    def __init__(self, folder, monkeypatch):
        self.pipeline = folder / "pipelines" / "clinic_weekly.yaml"
        self.folder, self.monkeypatch = folder, monkeypatch
        self.rows = folder / "data" / "visits.csv"
        self.text = (folder.parent / "usual.csv").read_text()
        self.exact = None
        self.statements = None
        honest, compute = execute._cells, DuckDBEngine.compute

        def no_signal(plan, block, answer):
            cells = honest(plan, block, answer)
            self.exact.append(cells.tolist())
            return np.zeros_like(cells) if self.blind else cells

        def watched(engine, *arguments):
            try:
                return compute(engine, *arguments)
            finally:
                self.statements = list(engine.statements)

        self.blind = True
        self.log = None
        monkeypatch.setattr(execute, "_cells", no_signal)
        monkeypatch.setattr(DuckDBEngine, "compute", watched)

    def run(self, text):
        self.exact = []
        if self.log:
            self.log.clear()
        self.rows.write_bytes(text.encode("utf-8", "surrogateescape"))
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
            "sizes": {
                name: len(data)
                for name, data in tree(self.folder.parent / "project").items()
                if not name.startswith("data/")
            },
            "ledger": ledger_rows(self.folder / ".dprelease" / "ledger.db"),
            "log": [r.getMessage() for r in self.log.records] if self.log else [],
            "modes": {str(p): p.lstat().st_mode for p in sorted(public.rglob("*"))},
            "entry": entry,
            "statements": self.statements,
        }


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """One run before any is compared: what libraries say when they are first imported is over."""
    pipeline = clinic(tmp_path_factory.mktemp("warm") / "project")
    assert CliRunner().invoke(app, ["run", str(pipeline), "--period", PERIOD]).exit_code == 0


@pytest.fixture(scope="module")
def place(warm, tmp_path_factory):
    """The project's folder, the same for all runs: paths are not a difference between them."""
    folder = tmp_path_factory.mktemp("watched")
    clinic(folder / "project")
    shutil.copytree(folder / "project" / ".dprelease", folder / "ledger")
    shutil.copy(folder / "project" / "data" / "visits.csv", folder / "usual.csv")
    (folder / "tmp").mkdir()
    return folder


@pytest.fixture
def watched(place, monkeypatch, caplog):
    temporary = place / "tmp"
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    made = Watched(place / "project", monkeypatch)
    made.log = caplog
    return made


def usual(watched):
    """Return what the usual rows show: one run per process, the same for every change."""
    if watched.blind not in BASE:
        BASE[watched.blind] = watched.run(watched.text), watched.exact
    return BASE[watched.blind]


def compared(base, other):
    """Assert that two runs agree in everything visible; return how many bytes that was."""
    assert base["streams"][0] == 0
    for part in base:
        assert base[part] == other[part], part
    rest = sum(len(repr(base[part])) for part in base if part != "files")
    return rest + sum(len(data) for data in base["files"].values())


@pytest.mark.parametrize("change", some(CHANGES, 3))
def test_nothing_but_the_noise_depends_on_the_rows(watched, change):
    began = time.perf_counter()
    base, exact = usual(watched)
    other = watched.run(CHANGES[change](watched.text))
    size = compared(base, other)
    same = change in SEEN_ALIKE or change in DROPPED
    assert (exact == watched.exact) == same  # the test is not vacuous: the rows do differ
    COMPARED[change] = (size, time.perf_counter() - began)


def test_nothing_depends_on_the_number_of_threads(watched, monkeypatch):
    began, seen = time.perf_counter(), []
    for threads in ("1", "2"):
        monkeypatch.setenv("DPRELEASE_THREADS", threads)
        seen.append((watched.run(watched.text), watched.exact))
    (base, exact), (other, again) = seen
    size = compared(base, other)
    assert exact == again != []
    COMPARED["another number of threads"] = (size, time.perf_counter() - began)


def test_the_pairs_are_counted(evidence):
    """A row of evidence once all pairs of this process are done; other processes have their own."""
    if len(COMPARED) == len(CHANGES) + 1:
        size = f"{len(COMPARED)} pairs of tables, {sum(n for n, _ in COMPARED.values()):,} bytes compared"
        seconds = sum(s for _, s in COMPARED.values())
        evidence("leak test", size, "0 bytes differ", seconds=seconds)


def test_publication_follows_the_schedule_whatever_the_rows_are(watched, evidence):
    """Two tables again and again: what a reader can see of the time is the scheduled instant."""
    due = datetime(2026, 11, 17, 6, tzinfo=ZoneInfo("Europe/Dublin")).timestamp()
    public = watched.folder / "public" / "clinic_weekly"
    tables = [watched.text, CHANGES["a person with 100 000 rows"](watched.text)]
    durations = []
    for i in range(TIMED_RUNS):
        began = time.perf_counter()
        watched.run(tables[i % 2])
        durations.append(time.perf_counter() - began)
        period = public / PERIOD
        for path in (period, *period.iterdir()):
            assert abs(path.stat().st_mtime - due) <= 1, path
        manifest = json.loads((period / "release.json").read_text())
        assert datetime.fromisoformat(manifest["scheduled"]).timestamp() == due
    fast, slow = statistics.median(durations[::2]), statistics.median(durations[1::2])
    size = f"{TIMED_RUNS} runs over two tables, of {fast:.1f} s and {slow:.1f} s each"
    evidence("publication instants", size, "the scheduled instant, within 1 s")


def test_the_control_sees_a_leak(watched):
    """With the signal left in, the same comparison fails: it can find a difference."""
    watched.blind = False
    base, _ = usual(watched)
    other = watched.run(watched.text + (LINE + "\n") + LINE.replace("90001", "90002") + "\n")
    assert base["files"] != other["files"]
    assert streams(base) == streams(other)


def traces(folder, words):
    return sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*")
        if p.is_file() and any(w.encode() in p.read_bytes() for w in words)
    )  # fmt: skip


def test_no_row_leaves_a_trace_in_any_file(watched):
    """Everything that was written, the ledger and temporary folders included, is searched."""
    hostile = "".join(
        CHANGES[c]("") for c in ("a huge value", "text for a number", "an unknown region")
    )
    watched.run(watched.text + hostile)
    assert traces(watched.folder.parent, CANARIES) == ["project/data/visits.csv"]


def skeleton(value):
    """What is left of a JSON value without its leaves' contents: keys, lengths, kinds."""
    if isinstance(value, dict):
        return {k: skeleton(v) for k, v in value.items()}
    if isinstance(value, list):
        return [skeleton(v) for v in value]
    return "number or null" if value is None or isinstance(value, int | float) else "text"


def shape(name, data):
    """What may not depend on the rows: columns, keys, numbers of rows, decimals after the point."""
    if name.endswith(".csv"):
        rows = list(csv.reader(io.StringIO(data.decode())))
        return [
            [len(c.rpartition(".")[2]) if re.fullmatch(r"-?\d+\.\d+", c) else "" for c in r]
            for r in rows
        ], rows[0]
    return None


NOTHING = re.compile(r"validate  (\d+) of (\d+) values say nothing\n")
STATUS = re.compile(r",(uninformative|empty_signal)(?=[,\r\n])")


def streams(seen):
    """What was printed, less the one figure in it, which is counted again from what is published."""
    code, out, err = seen["streams"]
    (values,) = (
        data.decode() for name, data in seen["files"].items() if name.endswith("/data.csv")
    )
    mute, size = len(STATUS.findall(values)), len(values.splitlines()) - 1
    assert NOTHING.findall(out) == ([(str(mute), str(size))] if mute else [])
    return code, NOTHING.sub("", out), err


ROWS_DIFFER = ["one row more", "no row", "a person with 100 000 rows", "rows that the filter drops"]


@pytest.mark.parametrize("change", ROWS_DIFFER)
def test_with_fixed_uniforms_only_values_differ(watched, change):
    """The signal is left in: numbers differ, and nothing else that anybody can see does."""
    watched.blind = False
    base, other = usual(watched)[0], watched.run(CHANGES[change](watched.text))
    assert streams(base) == streams(other)
    assert base["statements"] == other["statements"]
    assert base["modes"] == other["modes"]
    assert base["log"] == other["log"]
    assert base["files"].keys() == other["files"].keys()
    assert base["files"] != other["files"]
    for name, data in base["files"].items():
        if name.endswith("wide.csv"):
            assert shape(name, data) == shape(name, other["files"][name]), name
        if name.endswith("release.json"):
            one, two = (json.loads(d) for d in (data, other["files"][name]))
            assert one.keys() == two.keys()
            assert one["plan"] == two["plan"]
            assert skeleton(one["plan"]) == skeleton(two["plan"])


LEAKS = {
    "a count in the output": lambda patch: _say(patch),
    "a file as long as the table": lambda patch: _file(patch),
    "a domain from the data": lambda patch: _scale(patch),
}


def _compute(patch, after):
    honest = DuckDBEngine.compute

    def compute(engine, *arguments):
        out = honest(engine, *arguments)
        after(int(out.reveal_to_mechanism().sums[:, 0].sum()))
        return out

    patch.setattr(DuckDBEngine, "compute", compute)


def _say(patch):
    _compute(patch, lambda n: print(f"summed {n} rows"))


def _file(patch):
    seen = []
    _compute(patch, seen.append)
    honest = flow.bundle
    patch.setattr(
        flow, "bundle", lambda *a, **k: {**honest(*a, **k), "padding.bin": b" " * seen[-1]}
    )


def _scale(patch):
    from dprelease.results import draw as draw_module

    seen = [1]
    _compute(patch, seen.append)
    honest = draw_module.DrawnBlock.values

    def values(self, statistic):
        value, lower, upper, status = honest(self, statistic)
        return value, lower, np.minimum(upper, max(seen[-1] / 7, float(value.max()))), status

    patch.setattr(draw_module.DrawnBlock, "values", values)


@pytest.mark.parametrize("leak", LEAKS)
def test_a_build_that_leaks_is_caught(watched, leak, monkeypatch):
    LEAKS[leak](monkeypatch)
    base, other = watched.run(watched.text), watched.run(CHANGES["no row"](watched.text))
    assert any(base[part] != other[part] for part in ("streams", "files", "sizes"))
