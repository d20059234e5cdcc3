"""The table is written and read back without loss, and holds only what passed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import evidence
from tests.end_to_end.projects import ROOT
from tests.evidence import TABLE, rows_of, table

ROWS = {"kill -9": ("100 rounds", "1.5", "120 kills"), "race": ("50", "2.0", "ok")}


def test_rows_survive_a_rewrite():
    assert rows_of(table(ROWS)) == ROWS
    assert rows_of(table({})) == {}


def test_the_committed_table_is_one_of_ours_and_reports_no_failure():
    rows = rows_of(TABLE.read_text(encoding="utf-8"))
    assert {"kill -9", "power loss", "same key", "race for the last budget"} <= set(rows)
    faults = (
        r"(\d[\d,]*) (violations|tracebacks|bytes differ|files touched|moves above|other\b|left\b)"
    )
    said = [(name, *found) for name, row in rows.items() for found in re.findall(faults, row[2])]
    assert len(said) > 10
    assert [entry for entry in said if entry[1] != "0"] == []


HARNESS = """\
from tests.conftest import evidence, pytest_runtest_makereport

def test_good(evidence):
    evidence("good", "1 case", "0 violations")

def test_bad(evidence):
    evidence("bad", "1 case", "0 violations")
    assert False

def test_worse(evidence):
    evidence("worse", "1 case", "0 violations")
    raise SystemExit(0)
"""


def test_a_test_that_fails_after_its_note_leaves_no_row(tmp_path):
    (tmp_path / "test_harness.py").write_text(HARNESS)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import evidence, pytest_runtest_makereport\n"
    )
    log = tmp_path / "rows"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null",
         "--rootdir", str(tmp_path), str(tmp_path)],
        check=False, capture_output=True, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "DPRELEASE_EVIDENCE": str(log)},
    )  # fmt: skip
    assert [json.loads(line)["harness"] for line in log.read_text().splitlines()] == ["good"]


@pytest.mark.parametrize(
    ("arguments", "status", "left"),
    [
        ([], 0, {"new"}),  # what no harness made again is gone: it may have none
        (["-k", "new"], 0, {"kill -9", "race", "new"}),
        ([], 1, {"new"}),
        (["-k", "new"], 1, {"new"}),  # the row that failed cannot be told from the others
        (["-k", "nothing"], 5, {"kill -9", "race"}),
        (["--no-such-option"], 4, {"kill -9", "race"}),
        ([], 2, {"kill -9", "race"}),
    ],
)
def test_what_stands_after_a_run(monkeypatch, tmp_path, arguments, status, left):
    def pytest_run(*_, env, **__):
        row = {"harness": "new", "size": "1", "seconds": 0.1, "result": "ok"}
        with open(env["DPRELEASE_EVIDENCE"], "w") as log:
            log.write(json.dumps(row) + "\n")
        return SimpleNamespace(returncode=status)

    written = tmp_path / "evidence.md"
    written.write_text(table(ROWS))
    monkeypatch.setattr(evidence, "TABLE", written)
    monkeypatch.setattr(evidence.subprocess, "run", pytest_run)
    assert evidence.main(arguments) == status
    assert set(rows_of(written.read_text())) == left
