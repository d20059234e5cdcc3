"""A connection string's password is in no output, whether the database opens or not.

The canary stands in the password. It is looked for in both streams, every file of the project and of
the folder for temporary files, the ledger, the representations of everything that holds the
reference, and the whole chain of every exception, local variables of our frames included.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.core.errors import ConfigError, DpreleaseError
from dprelease.engines.source import postgres_table
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import load_pipeline, open_source, run
from tests.end_to_end.projects import clinic, tree
from tests.engines.postgres_server import binaries, server
from tests.sizes import FULL

CANARY = "hunter2canary"
CLOSED = f"postgresql://release:{CANARY}@127.0.0.1:1/clinic?connect_timeout=1"
FAULTY = [
    CLOSED,
    f"host=127.0.0.1 port=1 password={CANARY} connect_timeout=1",
    f"password='{CANARY}",  # does not parse: the driver's message quotes it
    f"host=/{CANARY}",  # the driver's message names it
    f"nonsense={CANARY}",
    f"{CANARY}\x00",
]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server() as dsn:
        yield dsn


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLINIC_DSN", CLOSED)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    pipeline = clinic(tmp_path / "project")
    text = pipeline.read_text()
    changed = text.replace(
        "{csv: ../data/visits.csv}", '{postgres: {dsn: "${env:CLINIC_DSN}", table: visits}}'
    )
    assert changed != text
    pipeline.write_text(changed)
    return pipeline


def clean(folder: Path) -> None:
    assert [name for name, data in tree(folder).items() if CANARY.encode() in data] == []


def frames(error: BaseException | None) -> Iterator[str]:
    """Return the text of an exception, of those it hangs on, and of our frames' variables."""
    while error is not None:
        yield from traceback.format_exception(error)
        yield repr(error) + str(error.args)
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith("dprelease"):
                yield repr(frame.f_locals)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("dsn", FAULTY)
def test_a_database_that_does_not_open(
    dsn: str,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    # a NUL cannot be set in a real environment, but a file may hold it
    monkeypatch.setattr(os, "environ", {**os.environ, "CLINIC_DSN": dsn})
    with pytest.raises(DpreleaseError) as caught:
        run(project, period="2026-W46")
    assert caught.value.code == "DPR512" and caught.value.spent == "nothing"
    assert not any(CANARY in text for text in frames(caught.value))
    assert CANARY not in caplog.text
    for more in ([], ["--json"]) if FULL or dsn in FAULTY[:3] else ():
        said = CliRunner().invoke(app, ["run", str(project), "--period", "2026-W46", *more])
        assert said.exit_code == 1
        assert CANARY not in said.stdout + said.stderr
    clean(tmp_path)


def test_a_secret_in_the_file_itself_is_refused_and_not_repeated(project: Path) -> None:
    project.write_text(project.read_text().replace("${env:CLINIC_DSN}", CLOSED))
    with pytest.raises(ConfigError) as caught:
        load_pipeline(project)
    assert caught.value.code == "DPR142"
    assert CANARY not in str(caught.value)


def test_nothing_that_holds_the_reference_shows_or_copies_it(project: Path) -> None:
    config = load_pipeline(project)
    source = open_source(config.source)
    plan = plan_pipeline(config, "2026-W46")
    shown = [
        repr(config),
        str(config),
        repr(config.source),
        repr(source),
        str(source),
        f"{config.source.dsn}",
        plan.hash,
    ]
    shown += [
        repr(plan),
        str(plan.to_json()),
        str(vars(type(config.source.dsn))),
        repr(dict(config.raw)),
    ]
    assert not any(CANARY in text for text in shown)
    for door in (pickle.dumps, copy.copy, copy.deepcopy, asdict):
        with pytest.raises(TypeError):
            door(config.source if door is asdict else config.source.dsn)
    assert CANARY in config.source.dsn.reveal_to_source()  # type: ignore[union-attr]  # control: it is there


def test_the_plan_does_not_depend_on_the_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = plan_pipeline(load_pipeline(project), "2026-W46")
    monkeypatch.delenv("CLINIC_DSN")
    assert plan_pipeline(load_pipeline(project), "2026-W46").hash == one.hash


def test_the_search_would_find_it(tmp_path: Path) -> None:
    """Control: a message that quotes the string, as the driver's do, is seen by the search."""
    import psycopg

    def quoting() -> None:
        try:
            psycopg.connect(FAULTY[3])
        except psycopg.Error:
            raise ConfigError("the database does not open") from None

    with pytest.raises(ConfigError) as caught:
        quoting()
    assert any(CANARY in text for text in frames(caught.value))
    (tmp_path / "log").write_text(CANARY)
    with pytest.raises(AssertionError):
        clean(tmp_path)


@pytest.mark.skipif(binaries() is None, reason="needs a PostgreSQL server's programs")
def test_a_database_that_opens(
    database: str,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import psycopg

    caplog.set_level(logging.DEBUG)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE visits (patient_id text, region text, visited_at timestamp, age int, bmi float)"
        )
        connection.execute("INSERT INTO visits VALUES ('p1', 'north', '2026-11-10', 50, 25.0)")
    secret = f"{database} password={CANARY}"
    monkeypatch.setenv("CLINIC_DSN", secret)
    done: list[Any] = []
    for words in (
        ["plan", project],
        ["run", project, "--period", "2026-W46", "--json"],
        ["ledger", "show", project],
    ):
        said = CliRunner().invoke(app, [str(w) for w in words])
        done.append((words, said.exit_code, said.stderr))
        assert CANARY not in said.stdout + said.stderr
    assert [code for _, code, _ in done] == [0] * len(done), done
    assert CANARY not in caplog.text
    source = open_source(load_pipeline(project).source)
    assert CANARY not in repr(replace(source)) + repr(postgres_table(lambda: secret, "visits"))
    clean(tmp_path)
