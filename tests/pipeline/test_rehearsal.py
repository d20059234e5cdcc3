"""Rehearsals: everything on made-up rows, nothing opened or spent, and nobody takes it for a release."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.citation import read_citations
from dprelease.cli import app
from dprelease.core.errors import ArgumentError, DpreleaseError, LedgerError, VerificationError
from dprelease.core.strict_json import read_json
from dprelease.engines.source import as_source
from dprelease.pipeline import preflight, rehearsal
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.made_up import made_up_rows
from dprelease.pipeline.planned import plan_release
from dprelease.pipeline.rehearsal import MARK, rehearse
from dprelease.query.load import schema_from_dict
from dprelease.results.formats.json_ import manifest_bytes
from tests.pipeline.tiny import project

FILES = {
    "REHEARSAL.txt", "data.csv", "data.parquet", "datapackage.json", "registry.yaml", "release.json",
    "report.html", "wide.csv",
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = project(tmp_path)
    path.write_text(path.read_text().replace("[parquet, csv]", "[parquet, csv, html]"))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return one rehearsal that several tests look at."""
    root = tmp_path_factory.mktemp("rehearsal")
    path = project(root)
    path.write_text(path.read_text().replace("[parquet, csv]", "[parquet, csv, html]"))
    return rehearse(load_pipeline(path), root / "try", period="2025-W50").folder


def test_a_rehearsal_opens_neither_source_nor_ledger(file, tmp_path):
    """Neither is there: a run could not go on."""
    (tmp_path / "data" / "visits.parquet").unlink()
    made = rehearse(load_pipeline(file), tmp_path / "try", period="2025-W50")
    assert made.folder == tmp_path / "try" / "weekly" / "2025-W50"
    assert {p.name for p in made.folder.iterdir()} == FILES
    assert list((tmp_path / ".dprelease").iterdir()) == []
    assert not (tmp_path / "public").exists()
    with pytest.raises(LedgerError):  # control
        dp.run(file, period="2025-W50")


def test_its_json_is_written_as_a_releases_is(made):
    for name in ("datapackage.json", "release.json"):
        data = (made / name).read_bytes()
        assert data == manifest_bytes(read_json(data))


def test_every_file_bears_the_mark(made):
    folder = made
    for name in FILES - {"data.csv", "wide.csv", "data.parquet"}:
        assert MARK in (folder / name).read_text(), name
    table = pq.read_table(folder / "data.parquet")
    assert set(table["status"].to_pylist()) == {"rehearsal"}
    for name in ("data.csv", "wide.csv"):
        first, *rows = (folder / name).read_text().splitlines()
        assert rows
        assert all("rehearsal" in row for row in rows), name
        assert "status" in first
    page = (folder / "report.html").read_text()
    assert page.index(MARK) < page.index("<h1")
    assert "<title>Rehearsal: " in page


def test_several_tables_bear_the_mark_each(file, tmp_path):
    schema = tmp_path / "schemas" / "visits.yaml"
    tables = [
        {"name": "all", "by": [], "statistics": ["count"]},
        {"name": "regions", "by": ["region"], "statistics": ["count"]},
    ]
    head = schema.read_text().partition("\nrelease:")[0]
    schema.write_text(f"{head}\nrelease: {json.dumps({'epsilon': 1, 'tables': tables})}\n")
    folder = rehearse(load_pipeline(file), tmp_path / "try", period="2025-W50").folder
    for name in ("all", "regions"):
        table = pq.read_table(folder / f"{name}.parquet")
        assert set(table["status"].to_pylist()) == {"rehearsal"}
        for end in (".csv", "_wide.csv"):
            _, *rows = (folder / f"{name}{end}").read_text().splitlines()
            assert rows
            assert all("rehearsal" in row for row in rows)
    assert MARK in (folder / "report.html").read_text()


def test_no_reader_takes_it_for_a_release(made):
    result = CliRunner().invoke(app, ["verify", str(made)])
    assert result.exit_code == 1
    assert "rehearsal" in result.output
    for read in (dp.read, dp.verify):
        with pytest.raises(VerificationError) as caught:
            read(made)
        assert caught.value.code == "DPR808"
    with pytest.raises(DpreleaseError):
        read_citations([made.parents[1]])


def test_the_mark_taken_off_it_verifies_as_nothing(made, tmp_path):
    """Who renames its format gets no release: it cites no ledger, and its files are marked."""
    folder = shutil.copytree(made, tmp_path / made.name)
    manifest = folder / "release.json"
    text = manifest.read_text()
    assert text.count('"rehearsal/1"') == 1
    manifest.write_text(text.replace('"rehearsal/1"', '"release/2"'))
    assert not dp.verify(folder).ok


@pytest.mark.parametrize("to", ["public", "public/below", "public/../public", "."])
def test_a_rehearsal_is_never_written_beside_publications(file, tmp_path, to):
    config = load_pipeline(file)
    if to == ".":  # `publish.to` would lie inside what is written
        text = file.read_text().replace("to: ../public", "to: ../weekly/2025-W50/public")
        file.write_text(text)
        config = load_pipeline(file)
    with pytest.raises(ArgumentError) as caught:
        rehearse(config, tmp_path / to, period="2025-W50")
    assert caught.value.code == "DPR659"
    assert not (tmp_path / "public").exists()


def test_a_link_into_the_public_folder_is_followed(file, tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "in").symlink_to(tmp_path / "public", target_is_directory=True)
    with pytest.raises(ArgumentError, match="beside publications"):
        rehearse(load_pipeline(file), tmp_path / "elsewhere" / "in" / "deep", period="2025-W50")


def test_a_build_that_does_not_look_writes_there(file, tmp_path, monkeypatch):
    """Broken twin of the refusal."""
    monkeypatch.setattr(rehearsal, "_must_lie_apart", lambda *_: None)
    assert rehearse(load_pipeline(file), tmp_path / "public", period="2025-W50").folder.exists()


def test_the_command_line(file, tmp_path):
    def invoke(*arguments):
        return CliRunner().invoke(app, ["run", str(file), *map(str, arguments)])

    done = invoke("--period", "2025-W50", "--rehearse", "--to", tmp_path / "try", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rehearsal"] == MARK
    for arguments in (["--rehearse"], ["--to", tmp_path / "try"]):
        refused = invoke("--period", "2025-W50", *arguments)
        assert (refused.exit_code, "DPR659" in refused.output) == (2, True), refused.output
    assert list((tmp_path / ".dprelease").iterdir()) == []


SCHEMAS = {
    "rows": {"unit": "row", "rows": {"max": 50}},
    "persons": {
        "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 2},
        "rows": {"max": 500},
    },
    "a public number": {"unit": "row", "adjacency": "substitution", "rows": {"exact": 37}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_made_up_rows_fit_their_schema(name):
    columns = {
        "who": {"kind": "identifier"},
        "place": {"kind": "category", "values": ["a", "b"]},
        "on": {"kind": "date"},
        "at": {"kind": "timestamp"},
        "yes": {"kind": "boolean"},
        "n": {"kind": "integer", "range": [-5, 5], "forbidden": [[-1, 1]]},
        "x": {"kind": "number", "range": [0, 2], "step": 0.25},
    }
    block = {"name": "t", "adjacency": "add_remove", "columns": columns} | SCHEMAS[name]
    schema = schema_from_dict({"dprelease": "schema/1", **block}, origin="test")
    statistics = ["count", "sum(n)", "sum(x)", "proportion(yes)"]
    if name == "a public number":
        statistics.remove("count")
    plan = plan_release(schema, {"epsilon": 1, "by": ["place"], "statistics": statistics})
    rows = made_up_rows(schema, plan)
    assert rows.num_rows == {"rows": 50, "persons": 400, "a public number": 37}[name]
    assert rows.equals(made_up_rows(schema, plan))
    numbers = {v for v in rows["n"].to_pylist() if v is not None}
    assert numbers <= {-5, -4, -3, -2, -1, 1, 2, 3, 4, 5}
    assert {v for v in rows["x"].to_pylist() if v is not None} <= {k / 4 for k in range(9)}
    preflight.preflight(plan, as_source(rows), preflight.engine_named("duckdb"))


def test_a_graph_too():
    nodes = ["a", "b", "c", "d"]
    block = {
        "dprelease": "schema/1", "name": "g", "adjacency": "add_remove",
        "unit": {"edge": {"source": "s", "target": "t", "k": 1, "nodes": nodes}},
        "columns": {"s": {"kind": "node"}, "t": {"kind": "node"}},
    }  # fmt: skip
    schema = schema_from_dict(block, origin="test")
    plan = plan_release(schema, {"epsilon": 1, "statistics": ["degree(a)"]})
    rows = made_up_rows(schema, plan)
    assert set(rows["s"].to_pylist()) <= set(nodes)
    preflight.preflight(plan, as_source(rows), preflight.engine_named("duckdb"))
