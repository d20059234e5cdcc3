"""A published folder in other people's hands: their tools read it without options and agree on it.

The folder is copied away, and every reader is one that knows nothing of dprelease: frictionless,
pandas, DuckDB, and R where it is installed (else its reader's rules in a few lines). Then a machine
that never saw the data or the ledger verifies it.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import warnings

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dprelease.pipeline.run import load_pipeline, run
from dprelease.verification.verify import verify
from tests.end_to_end.projects import ROOT, clinic

RSCRIPT = shutil.which("Rscript")
TABLES = ("data.csv", "wide.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The published folder alone, in a place of its own; the project is gone."""
    project = tmp_path_factory.mktemp("office") / "p"
    pipeline = clinic(project)
    run(load_pipeline(pipeline), period="2026-W46")
    away = tmp_path_factory.mktemp("elsewhere") / "download"
    shutil.copytree(project / "public" / "clinic_weekly" / "2026-W46", away)
    shutil.rmtree(project)
    return away


@pytest.fixture(scope="module")
def truth(folder):
    """What Parquet holds: types are in the file, nothing is guessed."""
    return {"data.csv": pq.read_table(folder / "data.parquet").to_pandas()}


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Names, order, numbers as numbers and texts as texts; an empty cell is missing."""
    assert list(found.columns) == list(expected.columns)
    assert len(found) == len(expected)
    for name in expected:
        ours, theirs = expected[name], found[name]
        if pd.api.types.is_numeric_dtype(ours):
            assert pd.api.types.is_numeric_dtype(theirs), name
            assert ((ours == theirs.astype(float)) | (ours.isna() & theirs.isna())).all(), name
        else:
            assert list(ours) == list(theirs), name


def test_frictionless_finds_the_package_valid(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what frictionless itself imports
        from frictionless import Package

        package = Package("datapackage.json")
        package.resources = [r for r in package.resources if r.format == "csv"]
        found = package.validate()
    assert len(package.resources) == 2
    assert found.flatten(["title", "message"]) == []
    assert found.valid


def test_pandas_reads_the_tables_without_options(folder, truth):
    same(pd.read_csv(folder / "data.csv"), truth["data.csv"])
    wide = pd.read_csv(folder / "wide.csv")
    assert list(wide["region"]) == ["north", "south", "east", "west"]
    numbers = [c for c in wide.columns[1:] if not c.endswith("_status")]
    assert all(pd.api.types.is_numeric_dtype(wide[c]) for c in numbers)


def test_duckdb_reads_the_tables_without_options(folder, truth):
    found = duckdb.sql(f"SELECT * FROM '{folder / 'data.csv'}'").df()
    same(found, truth["data.csv"])
    parquet = duckdb.sql(f"SELECT * FROM '{folder / 'data.parquet'}'").df()
    same(parquet, truth["data.csv"])
    wide = duckdb.sql(f"SELECT * FROM '{folder / 'wide.csv'}'").df()
    same(wide, pd.read_csv(folder / "wide.csv"))


@pytest.mark.parametrize("name", TABLES)
def test_a_reader_with_the_rules_of_r_agrees(folder, name):
    """R's read.csv, told of a mark of UTF-8: NA and an empty number are missing, names stay if they are syntactic."""
    with (folder / name).open(encoding="utf-8-sig", newline="") as file:
        header, *rows = list(csv.reader(file))
    frame = pd.read_csv(folder / name)
    assert header == list(frame.columns)
    assert all(h.replace("_", "").replace(".", "").isalnum() and h[0].isalpha() for h in header)
    for i, column in enumerate(header):
        cells = [row[i] for row in rows]
        numeric = pd.api.types.is_numeric_dtype(frame[column])
        if numeric:
            assert [float(c) for c in cells if c] == list(frame[column].dropna())
        else:
            assert cells == list(frame[column])
            assert "NA" not in cells


@pytest.mark.skipif(RSCRIPT is None, reason="R is not installed here")
@pytest.mark.parametrize("name", TABLES)
def test_r_itself_reads_the_tables(folder, name, tmp_path):
    code = "a <- commandArgs(TRUE); d <- read.csv(a[1], fileEncoding = 'UTF-8-BOM'); write.csv(d, a[2], row.names = FALSE, na = '')"
    to = tmp_path / "r.csv"
    subprocess.run([str(RSCRIPT), "-e", code, str(folder / name), str(to)], check=True, timeout=120)
    ours, theirs = pd.read_csv(folder / name), pd.read_csv(to)
    assert list(ours.columns) == list(theirs.columns)
    for column in ours:
        if pd.api.types.is_numeric_dtype(ours[column]):  # R writes 15 digits
            assert (ours[column] - theirs[column]).abs().fillna(0).max() <= 1e-12 * max(
                1, ours[column].abs().max()
            )
            assert (ours[column].isna() == theirs[column].isna()).all()
        else:
            assert list(ours[column]) == list(theirs[column])


def test_the_receipt_travels_in_the_parquet_file(folder):
    metadata = pq.read_schema(folder / "data.parquet").metadata
    said = json.loads(metadata[b"dprelease"])
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert said["guarantee"]["epsilon"] == manifest["guarantee"]["epsilon"] == "1"
    assert said["dataset"] == "clinic"


def test_a_machine_that_never_saw_data_or_ledger_verifies_it(folder, tmp_path):
    """A process in an empty folder, with an empty home, holding the copy alone."""
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "from dprelease.cli import main; main()", "verify", str(folder), "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    looked = dict.fromkeys(("request", "plan", "certificates", "values", "files", "status"), True)
    assert {c["name"]: c["ok"] for c in said["checks"]} == {**looked, "ledger": None}
    assert said["not_checked"] == ["ledger"]
    assert list(home.iterdir()) == []
    tampered = tmp_path / "tampered"
    shutil.copytree(folder, tampered)
    wide = tampered / "wide.csv"
    wide.write_text(wide.read_text(encoding="utf-8").replace("north", "norht"), encoding="utf-8")
    assert not verify(tampered).ok
