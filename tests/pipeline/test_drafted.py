"""Schemas drafted from names and types: the same from every door, and no value in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from tests.engines.postgres_server import binaries, server

SECRET = "Zwetschgenknoedel"
FRAME = pd.DataFrame(
    {
        "patient_id": [1, 2],
        "district": [SECRET, "b"],
        "age": [31, 77],
        "bmi": [22.125, 31.0625],
        "smokes": [True, False],
        "seen": [datetime(2026, 1, 1, tzinfo=UTC)] * 2,
    }
)
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False)


def doors(folder):
    pq.write_table(ARROW, folder / "visits.parquet")
    with duckdb.connect(str(folder / "clinic.duckdb")) as db:
        db.register("found", ARROW)
        db.execute("CREATE TABLE visits AS SELECT * FROM found")
    return {
        "pandas": FRAME,
        "polars": pl.from_arrow(ARROW),
        "lazy": pl.from_arrow(ARROW).lazy(),
        "arrow": ARROW,
        "parquet": folder / "visits.parquet",
    }


def body(text):
    return text.split("\n", 1)[1]  # the first line names the source


def test_an_answer_is_a_line_uncommented_and_nothing_else(tmp_path):
    text = dp.draft_schema(FRAME.assign(**{"Unnamed: 0": 1}))
    assert '"Unnamed: 0": {kind: ...}   # a column without a name' in text
    assert "mean(Unnamed" not in text
    lines = [re.sub("^( *)# ANSWER ", r"\1", line) for line in text.splitlines()]
    dots = {"[..., ...]": "[0, 100]", '["..."]': '["a", "b"]'}
    kept = []
    for line in lines:
        for old, new in dots.items():
            line = line.replace(old, new)
        if "{kind: ...}" not in line:
            kept.append(re.sub(r"^( +)# (by:|- \"mean)", r"\1\2", line))
    schema = tmp_path / "answered.yaml"
    schema.write_text("\n".join(kept) + "\n", encoding="utf-8")
    loaded = dp.Schema.load(schema)
    assert {"district", "age", "bmi"} <= set(loaded.columns)
    assert loaded.release.by == ("district",)
    assert "mean(age)" in [s.text for s in loaded.release.statistics]


def test_every_door_drafts_the_same_and_no_value(tmp_path):
    drafts = {name: dp.draft_schema(data, name="visits") for name, data in doors(tmp_path).items()}
    assert len({body(text) for text in drafts.values()}) == 1, drafts
    text = drafts["pandas"]
    for value in (SECRET, "31", "77", "22.125", "31.0625", "2026"):
        assert value not in text
    assert FRAME.dp.draft_schema(name="visits") == text


def test_what_is_open_is_an_answer_line_and_the_rest_loads(tmp_path):
    text = dp.draft_schema(FRAME, name="visits")
    schema = tmp_path / "visits.yaml"
    schema.write_text(text)
    loaded = dp.Schema.load(schema)
    assert set(loaded.columns) == {"patient_id", "smokes", "seen"}
    asked = [line for line in text.splitlines() if "# ANSWER" in line]
    for word in ("rows:", "district:", "age:", "bmi:", "unit:", "epsilon:"):
        assert any(word in line for line in asked), word
    assert '# - "mean(age)"   # once its range is answered' in text


def test_answering_every_line_plans(tmp_path):
    text = dp.draft_schema(FRAME, name="visits")
    lines = []
    for line in text.splitlines():
        before, asked, after = line.partition("# ANSWER ")
        if asked and not before.strip() and "{" in after:  # the answer is what the line proposes
            line = before + after[: after.rindex("}") + 1]
        lines.append(line.replace("[..., ...]", "[0, 100]").replace('["..."]', '["a", "b"]'))
    schema = tmp_path / "visits.yaml"
    schema.write_text("\n".join(lines) + "\n")
    loaded = dp.Schema.load(schema)
    assert set(loaded.columns) == set(FRAME.columns)
    assert dp.plan(loaded, statistics=["count", "mean(age)", "mean(bmi)"], by=["district"]).keys


def test_csv_has_names_and_no_types(tmp_path):
    FRAME.to_csv(tmp_path / "visits.csv", index=False)
    text = dp.draft_schema(tmp_path / "visits.csv")
    assert "# ANSWER age:" in text
    assert "what does it hold?" in text and "boolean (as yes or true)" in text
    assert SECRET not in text


def test_a_whole_number_is_asked_whether_it_numbers_persons():
    asked = dp.draft_schema(pd.DataFrame({"nr": [1], "wage": [2.5]})).splitlines()
    assert ["kind: identifier" in line for line in asked if "rows are clamped" in line] == [True, False]  # fmt: skip


def test_names_that_repeat_are_named(tmp_path):
    (tmp_path / "twice.csv").write_text("id,visit day,visit day\n1,2,3\n")
    for data in (pd.DataFrame([[1, 2]], columns=["visit day"] * 2), tmp_path / "twice.csv"):
        with pytest.raises(dp.SourceError, match="columns called 'visit day'"):
            dp.draft_schema(data)


def test_the_command(tmp_path):
    doors(tmp_path)
    out = tmp_path / "visits.yaml"
    run = CliRunner().invoke
    done = run(app, ["schema", "draft", str(tmp_path / "visits.parquet"), "-o", str(out)])
    assert (done.exit_code, "lines to answer" in done.output) == (0, True), done.output
    assert (
        run(app, ["schema", "draft", str(tmp_path / "visits.parquet"), "-o", str(out)]).exit_code
        == 2
    )
    done = run(app, ["schema", "draft", f"{tmp_path / 'clinic.duckdb'}:visits"])
    assert body(done.output) == body(out.read_text())
    done = run(app, ["schema", "draft", str(tmp_path / "nothing.parquet")])
    assert (done.exit_code, "DPR501" in done.output) == (1, True), done.output


def test_a_frictionless_resource(tmp_path):
    place = tmp_path / "people.json"
    place.write_text(
        '{"fields": [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}]}'
    )
    done = CliRunner().invoke(app, ["schema", "draft", str(place)])
    assert done.exit_code == 0, done.output
    assert "range: [0, 99]" in done.output


def test_names_that_stand_twice_are_refused():
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(dp.errors.SourceError) as caught:
        dp.draft_schema(twice)
    assert caught.value.code == "DPR505"
    with pytest.raises(dp.errors.SourceError) as caught:
        dp.draft_schema(3)
    assert caught.value.code == "DPR500"


def test_nested_columns_say_what_they_hold():
    text = dp.draft_schema(pa.table({"tags": [[1, 2]], "n": [1]}))
    assert "`a nested or unsupported type` holds nothing that can be released" in text


def test_a_frame_answers_a_select():
    schema = {
        "dprelease": "schema/1",
        "name": "visits",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 100},
        "columns": {"age": {"kind": "integer", "range": [0, 110]}},
        "release": {"epsilon": 1, "statistics": ["count"]},
    }
    with pytest.warns(dp.UnledgeredWarning):
        held = FRAME.dp.sql("SELECT COUNT(*) AS n FROM df WHERE age >= 40", schema)
    assert "n" in held.to_pandas()


@pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)
def test_a_table_of_a_real_postgres_server_is_drafted_without_a_look_at_its_rows(
    tmp_path, monkeypatch
):
    """The same columns as from every other door."""
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    monkeypatch.chdir(tmp_path)
    with server() as dsn:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(
                "CREATE TABLE visits (patient_id bigint, district text, age integer, bmi float8,"
                " smokes boolean, seen timestamptz)"
            )
            db.execute("INSERT INTO visits VALUES (1, %s, 31, 22.125, true, now())", (SECRET,))
        monkeypatch.setenv("CLINIC", dsn)
        result = CliRunner().invoke(app, ["schema", "draft", "${env:CLINIC}:public.visits"])
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    assert dsn not in result.output
    lines = [
        line for line in result.output.splitlines() if re.search(r"^ +(# ANSWER )?\w+: +\{", line)
    ]
    here = dp.draft_schema(FRAME, name="visits").splitlines()
    assert lines
    assert set(lines) <= set(here)
    for name in FRAME.columns:
        assert any(name in line for line in lines), name
