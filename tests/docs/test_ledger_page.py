"""The part of `how-to/ledger.md` that needs a server, on one; and what is said to who takes another way."""

from __future__ import annotations

import shlex
import shutil

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from tests.docs import test_pages
from tests.docs.test_pages import blocks, run_shell
from tests.end_to_end import projects
from tests.engines.postgres_server import binaries, server

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = [
    pytest.mark.usefixtures("one_other_budget", "own_rules"),
    pytest.mark.skipif(
        binaries() is None,
        reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
    ),
]
one_other_budget, own_rules = projects.one_other_budget, projects.own_rules
NAME = "${env:LEDGER_DSN}"
SHARED = "pipelines/clinic_shared.yaml"


@pytest.fixture(scope="module")
def cluster():
    """One server for the tests of this file."""
    with server(durable=True) as dsn:
        yield dsn


@pytest.fixture
def database(cluster, request):
    """An empty database on it."""
    import psycopg

    name = request.node.name[:40]
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return cluster.replace("dbname=postgres", f"dbname={name}")


@pytest.fixture(scope="module")
def page(tmp_path_factory, one_other_budget, own_rules):
    """Run the page up to its server's block; return the folder where it stands then, and that block."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        projects.plans_once(patch)
        block = until_the_server(patch)
        return test_pages.Path.cwd(), block


@pytest.fixture
def block(page, tmp_path, monkeypatch):
    """Go to a copy of that folder; return the block."""
    shutil.copytree(page[0], tmp_path / "page", symlinks=True)
    monkeypatch.chdir(tmp_path / "page")
    monkeypatch.setenv("COLUMNS", "160")
    return page[1]


def until_the_server(monkeypatch):
    """Run the page up to its server's block, and return that block."""
    names = {"__name__": "page"}
    for language, title, text in blocks("how-to/ledger.md"):
        if language == "text" and "LEDGER_DSN" in text:
            return text
        if language == "sh":
            run_shell(text, monkeypatch)
        elif language == "python":
            exec(compile(text, "ledger.md", "exec"), names)
        elif language == "yaml":
            test_pages.Path(title).write_text(text, encoding="utf-8")
    raise AssertionError("the page has no block for a server")


def command(*words):
    done = CliRunner().invoke(app, [str(w) for w in words])
    return done.exit_code, done.output


def test_the_block_runs_as_written(block, database, monkeypatch, capsys):
    export, *lines = block.splitlines()
    assert export.startswith("export LEDGER_DSN=")
    monkeypatch.setenv("LEDGER_DSN", database)
    spent = Ledger.open(".dprelease/ledger.db").budget("clinic").spent
    for line in lines:
        status, said = command(*shlex.split(line)[1:])
        assert status == 0, f"{line}\n{said}"
    assert dp.open_ledger(NAME).balance("clinic").spent == spent + 1
    status, said = command("run", "pipelines/clinic_weekly.yaml", "--period", "2026-W45")
    assert (status, "was moved to PostgreSQL ${env:LEDGER_DSN}" in said) == (1, True)
    assert command("ledger", "init", SHARED)[0] == 0  # nothing to do


def test_init_and_run_refuse_alike_and_both_ways_out_work(block, database, monkeypatch, capsys):
    """The dead loop: init said restore, run said init."""
    monkeypatch.setenv("LEDGER_DSN", database)
    said = [
        command("ledger", "init", SHARED),
        command("run", SHARED, "--period", "2026-W46", "--quiet"),
    ]
    assert said[0] == said[1]
    status, text = said[0]
    assert status == 1
    for part in (
        "DPR401", "published manifests rest on it", "`dprelease ledger move FROM '${env:LEDGER_DSN}'`",
        "`dprelease ledger init --ledger '${env:LEDGER_DSN}' --schema SCHEMA --dataset NAME --epsilon E`",
        f"`dprelease ledger reconcile {SHARED}`",
    ):  # fmt: skip
        assert part in text

    # The other way, for a ledger that is lost: an empty one, and what was published is debited.
    made = (
        "ledger",
        "init",
        "--ledger",
        NAME,
        "--schema",
        "schemas/clinic.yaml",
        "--dataset",
        "clinic",
    )
    assert command(*made, "--epsilon", 10)[0] == 0
    status, text = command("run", SHARED, "--period", "2026-W46", "--quiet")
    assert (status, f"`dprelease ledger reconcile {SHARED}`" in text) == (1, True)
    assert command("ledger", "reconcile", SHARED)[0] == 0
    assert dp.open_ledger(NAME).balance("clinic").spent > 0
    assert command("run", SHARED, "--period", "2026-W46", "--quiet")[0] == 0
