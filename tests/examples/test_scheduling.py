"""The scheduling examples: units parse, files exist, commands are the program's own."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import types
from datetime import UTC, datetime

import duckdb
import pytest
from typer.main import get_command

from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.due import due_periods
from dprelease.pipeline.run import init_ledger
from tests.end_to_end.projects import ROOT, flights
from tests.rules_alone import rules_alone

HERE = ROOT / "examples" / "scheduling"
COMMAND = re.compile(r"dprelease (schedule (?:pipelines/[\w*]+\.yaml ?)+[^>\n`\"']*)")


def commands():
    for path in sorted(HERE.iterdir()):
        if path.is_file():
            for found in COMMAND.finditer(path.read_text()):
                yield path.name, found[1].strip()


def test_every_command_is_one_that_the_program_takes():
    found = list(commands())
    assert {name for name, _ in found} >= {"README.md", "crontab", "dprelease.service"}
    known = {o for p in get_command(app).commands["schedule"].params for o in p.opts}
    for name, line in found:
        words = shlex.split(line)
        assert {w for w in words if w.startswith("--")} <= known, name
        for word in words:
            if word.endswith(".yaml") and "*" not in word:
                assert (ROOT / word).is_file(), (name, word)


def unit(name):
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str
    parsed.read_string((HERE / name).read_text())
    return parsed


def test_the_systemd_units_parse_and_fit_each_other():
    service, timer = unit("dprelease.service"), unit("dprelease.timer")
    assert service["Service"]["Type"] == "oneshot"
    assert "--once" in service["Service"]["ExecStart"]
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert timer["Timer"]["Persistent"] == "true"
    writable = service["Service"]["ReadWritePaths"].split()
    folder = service["Service"]["WorkingDirectory"]
    assert writable == [f"{folder}/.dprelease", f"{folder}/public"]


def test_the_crontab_has_five_fields():
    from datetime import datetime

    from cronsim import CronSim

    [line] = [t for t in (HERE / "crontab").read_text().splitlines() if t and not t.startswith("#")]
    assert next(CronSim(" ".join(line.split()[:5]), datetime(2026, 1, 1))) > datetime(2026, 1, 1)


def recording(name, made):
    """Return a module whose attributes accept any call, so that an example can be imported."""
    module = types.ModuleType(name)

    class Anything:
        def __init__(self, *args, **kwargs):
            made.append((name, args, kwargs))

        def __rshift__(self, later):
            return later

        def __call__(self, function, *args, **kwargs):
            return function

    def decorator(*args, **kwargs):
        made.append((name, args, kwargs))
        return args[0] if args and callable(args[0]) else lambda function: function

    module.__getattr__ = lambda attribute: decorator if attribute.islower() else Anything
    return module


def load(path, monkeypatch, *names):
    """Import an example; the orchestrators are large and are not installed for this."""
    made = []
    for name in names:
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            monkeypatch.setitem(
                sys.modules, ".".join(parts[:i]), recording(".".join(parts[:i]), made)
            )
    source = (HERE / path).read_text()
    ast.parse(source)
    scope = {"__name__": path.removesuffix(".py")}
    exec(
        compile(source, path, "exec", dont_inherit=True), scope
    )  # not with this file's annotations
    return scope, made


def test_the_airflow_dag_starts_one_pass(monkeypatch):
    scope, made = load(
        "airflow_dag.py", monkeypatch, "airflow.sdk", "airflow.providers.standard.operators.bash"
    )
    [settings] = [kwargs for name, _, kwargs in made if name == "airflow.sdk"]
    assert (
        settings["catchup"],
        settings["max_active_runs"],
        settings["default_args"]["retries"],
    ) == (False, 1, 0)
    load_first, task = [kwargs for name, _, kwargs in made if name.endswith("bash")]
    assert load_first["task_id"] == "load"
    assert task["bash_command"] == scope["command"]("pipelines/flights_landed.yaml")
    assert "schedule pipelines/flights_landed.yaml" in task["bash_command"]
    assert "--once" in task["bash_command"]


# -- what the examples do, on the shipped pipelines -------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The flights project as a clone has it, its own `.venv/bin/dprelease` included; the rules alone validate."""
    folder = flights(tmp_path / "project")
    script = folder / ".venv" / "bin" / "dprelease"
    script.parent.mkdir(parents=True)
    rules = (
        "from tests.rules_alone import leave_out_great_expectations; leave_out_great_expectations()"
    )
    code = f"import sys; from dprelease.cli import main; {rules}; sys.argv[0] = 'dprelease'; main()"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{code}" "$@"\n')
    script.chmod(0o755)
    init_ledger(load_pipeline(folder / "pipelines" / "flights_landed.yaml"))
    monkeypatch.setenv("DPRELEASE_PROJECT", str(folder))
    with rules_alone():
        yield folder


def released_and_filled(project):
    """Return period -> rows of the table in it, for every period that was charged."""
    landed = load_pipeline(project / "pipelines" / "flights_landed.yaml")
    found = {}
    for row in Ledger.open(landed.budget.ledger).entries():
        assert row.state == "published"
        assert (project / "public" / row.entry.key.pipeline / row.entry.key.period).is_dir()
        # A road of its own: the calendar by DuckDB, in the zone of the pipeline.
        [(count,)] = duckdb.sql(
            "SET TimeZone = 'America/New_York'; SELECT count(*) FROM"
            f" '{project}/examples/data/flights_nyc_2013.parquet'"
            f" WHERE strftime(time_hour, '%G-W%V') = '{row.entry.key.period}'"
        ).fetchall()
        found[row.entry.key.period] = count
    return found


def must_have_released_the_last_four_weeks(project):
    found = released_and_filled(project)
    assert list(found) == ["2013-W49", "2013-W50", "2013-W51", "2013-W52"]
    assert min(found.values()) > 5_000


def run_task(task):
    """Do what a BashOperator does: bash, in its folder."""
    return subprocess.run(
        ["bash", "-c", task["bash_command"]],
        cwd=task["cwd"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_airflow_task_waits_for_the_load_and_releases_weeks_that_have_data(
    project, monkeypatch
):
    """A stand-in runs the DAG's commands: before the load nothing is spent, after it four weeks."""
    _, made = load(
        "airflow_dag.py", monkeypatch, "airflow.sdk", "airflow.providers.standard.operators.bash"
    )
    load_first, task = [kwargs for name, _, kwargs in made if name.endswith("bash")]
    assert load_first["cwd"] == task["cwd"] == str(project)
    early = run_task(task)
    events = {json.loads(line)["event"] for line in early.stdout.splitlines()}
    assert (early.returncode, events) == (0, {"waiting"}), early.stdout + early.stderr
    assert released_and_filled(project) == {}
    assert run_task(load_first).returncode == 0
    done = run_task(task)
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (done.returncode, events) == (0, ["released"] * 4), done.stdout + done.stderr
    must_have_released_the_last_four_weeks(project)


def test_the_dagster_ops_wait_for_the_load_and_release_weeks_that_have_data(project, monkeypatch):
    scope, _ = load("dagster_job.py", monkeypatch, "dagster")
    told = []

    class Log:
        def __getattr__(self, level):
            return lambda text: told.append((level, ast.literal_eval(text)))

    monkeypatch.setitem(scope, "Failure", FailureError)
    context = types.SimpleNamespace(log=Log())
    scope["release_what_is_due"](context, 0)
    assert {e.get("event", "loaded") for _, e in told} == {"loaded", "waiting"}
    assert released_and_filled(project) == {}
    told.clear()
    scope["release_what_is_due"](context, scope["load"]())
    assert [e["event"] for _, e in told[1:]] == ["released"] * 4
    must_have_released_the_last_four_weeks(project)
    told.clear()
    scope["release_what_is_due"](context, scope["load"]())
    assert [e["event"] for _, e in told[1:]] == ["idle"]
    must_have_released_the_last_four_weeks(project)


def test_a_refusal_fails_the_dagster_op(project, monkeypatch):
    """A month costs more than the budget has: it is refused."""
    scope, _ = load("dagster_job.py", monkeypatch, "dagster")
    monthly = project / "pipelines" / "flights_monthly.yaml"
    monthly.write_text(monthly.read_text().replace("epsilon: 8}", "epsilon: 0.5}"))
    init_ledger(load_pipeline(monthly))
    monkeypatch.setitem(scope, "Failure", FailureError)
    monkeypatch.setitem(scope, "PIPELINES", ("pipelines/flights_monthly.yaml",))
    log = types.SimpleNamespace(info=lambda text: None, error=lambda text: None)
    with pytest.raises(FailureError, match="exit status 1"):
        scope["release_what_is_due"](types.SimpleNamespace(log=log), 0)


class FailureError(Exception):
    def __init__(self, text, *, allow_retries):
        assert allow_retries is False
        super().__init__(text)


def test_without_the_ends_of_the_data_empty_weeks_would_be_paid_for(project):
    """Control: what the same pass did before the pipelines said which weeks they hold."""
    for path in (project / "pipelines").glob("flights_*.yaml"):
        path.write_text(re.sub(r", first: [^,]+, last: [^}]+}", "}", path.read_text()))
    config = load_pipeline(project / "pipelines" / "flights_weekly.yaml")
    assert len(due_periods(config, datetime.now(UTC), 4)) == 4
    assert all(due.period > "2025" for due in due_periods(config, datetime.now(UTC), 4))


@pytest.mark.skipif(
    importlib.util.find_spec("airflow") is None, reason="Airflow is not installed beside the tests"
)
def test_airflow_itself_runs_the_dag(project):
    settings = {
        "AIRFLOW_HOME": str(project / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for words in (["db", "migrate"], ["dags", "test", "dprelease_schedule"]):
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *words],
            env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
    assert "exit code 1" not in done.stdout + done.stderr
    must_have_released_the_last_four_weeks(project)


@pytest.mark.skipif(
    importlib.util.find_spec("dagster") is None, reason="Dagster is not installed beside the tests"
)
def test_dagster_itself_runs_the_job(project):
    scope = {"__name__": "dagster_job"}
    exec(
        compile((HERE / "dagster_job.py").read_text(), "dagster_job.py", "exec", dont_inherit=True),
        scope,
    )
    assert scope["dprelease_schedule"].execute_in_process(raise_on_error=False).success
    must_have_released_the_last_four_weeks(project)


def test_the_op_s_context_is_annotated_by_a_class_as_dagster_demands(monkeypatch):
    scope, _ = load("dagster_job.py", monkeypatch, "dagster")
    assert not isinstance(scope["release_what_is_due"].__annotations__["context"], str)


@pytest.mark.parametrize("path", sorted(HERE.iterdir()), ids=lambda p: p.name)
def test_the_readme_names_every_file(path):
    assert f"]({path.name})" in (HERE / "README.md").read_text() or path.name in (
        "README.md",
        "__pycache__",
    )
