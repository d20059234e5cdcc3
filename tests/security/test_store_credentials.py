"""A release from an object store: its credentials are in no output, whether the store answers or not."""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.core.errors import ConfigError, DpreleaseError, SourceError
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import load_pipeline, open_source, run
from tests.end_to_end.projects import clinic, tree
from tests.engines.object_server import KEY, SECRET, ObjectServer, configured, served
from tests.security.test_secrets import frames

PERIOD = "2026-W46"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with served() as state:
        configured(monkeypatch, state)
        yield state


@pytest.fixture
def project(tmp_path: Path, store: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The starter project, its visits as two objects of typed columns."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    pipeline = clinic(tmp_path / "project")
    visits = tmp_path / "project" / "data" / "visits.csv"
    rows = pd.read_csv(visits, dtype=str)
    visits.unlink()
    for name, part in (("a", rows[: len(rows) // 2]), ("b", rows[len(rows) // 2 :])):
        out = io.BytesIO()
        part.to_parquet(out, index=False, row_group_size=50)
        store.objects[f"clinic/visits/{name}.parquet"] = out.getvalue()
    return named(pipeline, '{parquet: "s3://clinic/visits/*.parquet"}')


def named(pipeline: Path, source: str) -> Path:
    text = pipeline.read_text()
    before = next(line for line in text.splitlines() if line.startswith("source:"))
    pipeline.write_text(text.replace(before, f"source: {source}"))
    return pipeline


def clean(folder: Path, *texts: str) -> None:
    for canary in (SECRET, KEY):
        assert [name for name, data in tree(folder).items() if canary.encode() in data] == []
        assert not any(canary in text for text in texts)


def test_a_release_from_a_store_holds_no_credential(
    project: Path, store: ObjectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for more in ([], ["--json"]):  # the second finds the release made
        said = CliRunner().invoke(app, ["run", str(project), "--period", PERIOD, *more])
        assert said.exit_code == 0, said.output
        clean(tmp_path, said.stdout, said.stderr, caplog.text)
    assert dp.verify(tmp_path / "project" / "public" / "clinic_weekly" / PERIOD).ok
    config = load_pipeline(project)
    source = open_source(config.source)
    plan = plan_pipeline(config, PERIOD)
    clean(tmp_path, repr(config), repr(source), repr(source.payload), str(plan.to_json()))
    assert store.read  # control: it was read


def test_a_store_that_refuses_spends_nothing_and_is_not_quoted(
    project: Path,
    store: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    plan = plan_pipeline(load_pipeline(project), PERIOD).hash
    for refuse in (None, (403, "AccessDenied")):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET if refuse else f"{SECRET}wrong")
        store.refuse = refuse
        with pytest.raises(DpreleaseError) as caught:
            run(project, period=PERIOD)
        assert caught.value.code == "DPR524" and caught.value.spent == "nothing"
        said = CliRunner().invoke(app, ["run", str(project), "--period", PERIOD])
        assert said.exit_code == 1
        clean(tmp_path, *frames(caught.value), said.stdout, said.stderr, caplog.text)
        assert plan_pipeline(load_pipeline(project), PERIOD).hash == plan  # needs no store


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (f'{{parquet: "s3://{KEY}:{SECRET}@clinic/visits/*.parquet"}}', "DPR525"),
        (f'{{parquet: "az://clinic/visits.parquet?sig={SECRET}"}}', "DPR525"),
        ('{csv: "s3://clinic/visits/*.csv"}', "DPR140"),
        ('{arrow: "gs://clinic/visits.arrow"}', "DPR140"),
        ('{parquet: "http://clinic/visits.parquet"}', "DPR525"),
    ],
)
def test_an_address_that_cannot_be_is_refused_with_its_line(
    source: str, code: str, project: Path
) -> None:
    with pytest.raises((ConfigError, SourceError)) as caught:
        load_pipeline(named(project, source))
    assert caught.value.code == code
    assert caught.value.where is not None and "clinic_weekly.yaml:" in caught.value.where
    assert SECRET not in str(caught.value) and KEY not in str(caught.value)


def test_spark_reads_a_store_by_its_own_catalogue(project: Path) -> None:
    text = project.read_text()
    project.write_text(text.replace("\nschema:", "\nengine: spark\nschema:", 1))
    with pytest.raises(ConfigError) as caught:
        load_pipeline(project)
    assert caught.value.code == "DPR140"
