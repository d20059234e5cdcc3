"""The server goes away at every moment of a run: what is said is what is true."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.connection import PostgresPlace
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import DpreleaseError
from dprelease.pipeline import flow
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from tests.engines.postgres_server import binaries, server, start, stop
from tests.pipeline.tiny import project
from tests.rules_alone import built_in_rules_only

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)
WEEK = "2026-W02"


@pytest.fixture(scope="module")
def dsn():
    with server(durable=True) as found:
        yield found


@pytest.fixture
def file(dsn, tmp_path, monkeypatch):
    built_in_rules_only(monkeypatch)
    monkeypatch.setenv("LEDGER_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
    path = project(tmp_path)
    path.write_text(path.read_text().replace("../.dprelease/ledger.db", '"${env:LEDGER_DSN}"'))
    init_ledger(load_pipeline(path))
    return path


def spent(dsn):
    return Ledger(PostgresPlace("PostgreSQL ${env:LEDGER_DSN}", lambda: dsn)).budget("visits").spent


def at_stage(name):
    def arrange(_patch, cut):
        return lambda stage, _: cut() if stage == name else None

    return arrange


def at_commit_of_the_charge(patch, cut):
    """The last commit before the receipt; readers commit too, so the writer's BEGIN arms it."""
    raw, armed = psycopg.Connection.execute, []

    def execute(self, query, *args, **kwargs):
        if query == "BEGIN ISOLATION LEVEL SERIALIZABLE":
            armed.append(1)
        if query == "COMMIT" and armed:
            cut()
        return raw(self, query, *args, **kwargs)

    patch.setattr(psycopg.Connection, "execute", execute)


def between_publication_and_its_record(patch, cut):
    raw = flow.publish_files

    def publish(*args, **kwargs):
        folder = raw(*args, **kwargs)
        cut()
        return folder

    patch.setattr(flow, "publish_files", publish)


MOMENTS = {
    "before the run": (None, "DPR425", "nothing", 1, 0),
    "before the charge": (at_stage("preflight"), "DPR425", "nothing", 1, 0),
    "at the commit of the charge": (at_commit_of_the_charge, "DPR900", "unknown", 3, 0),
    "after the charge": (at_stage("charge"), "DPR717", "charged", 3, 1),
    "before the validation": (at_stage("validate"), "DPR717", "charged", 3, 1),
    "after publication": (between_publication_and_its_record, "DPR716", "charged", 3, 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_is_said_is_what_is_spent_and_a_repeat_ends_the_run(moment, file, dsn, monkeypatch):
    arrange, code, said, status, cost = MOMENTS[moment]
    down = []

    def cut() -> None:
        if not down:
            down.append(1)
            stop(dsn)

    try:
        with monkeypatch.context() as patch:
            progress = cut() if arrange is None else arrange(patch, cut)
            with pytest.raises(DpreleaseError) as caught:
                run(file, period=WEEK, progress=progress)
    finally:
        if down:
            start(dsn)
    error = caught.value
    assert down
    assert (error.code, error.spent, error.exit_status) == (code, said, status)
    assert "cannot be created" not in str(error)
    assert "host=" not in str(error)
    published = (file.parents[1] / "public" / "weekly" / WEEK).is_dir()
    assert published == (moment == "after publication")
    assert ("the release is published" in error.spent_in_words()) == published
    assert spent(dsn) == cost

    again = run(file, period=WEEK)
    assert again.receipt.fresh == (cost == 0)
    assert spent(dsn) == 1
    assert dp.verify(again.folder, ledger="${env:LEDGER_DSN}").ok


def test_the_commands_say_it_too(file, dsn):
    run(file, period=WEEK)
    stop(dsn)
    try:
        for words in (
            ["run", file, "--period", "2026-W03", "--json"],
            ["run", file, "--period", WEEK, "--json"],
            ["ledger", "show", file, "--json"],
        ):
            done = CliRunner().invoke(app, [str(w) for w in words])
            found = json.loads(done.stdout[done.stdout.index("{") :])
            assert (done.exit_code, found["code"], found["spent"]) == (1, "DPR425", "nothing")
        done = CliRunner().invoke(app, ["ledger", "init", str(file)])
        assert (done.exit_code, "does not answer" in done.output) == (1, True)
    finally:
        start(dsn)
    assert spent(dsn) == 1
