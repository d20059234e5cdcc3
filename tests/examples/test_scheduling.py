"""The scheduling examples: units parse, files exist, commands are the program's own."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import sys
import types

import pytest
from typer.main import get_command

from dprelease.cli import app
from dprelease.pipeline import stages
from dprelease.validate.rules import check
from tests.end_to_end.projects import ROOT
from tests.pipeline.tiny import loaded

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
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), recording(".".join(parts[:i]), made))
    source = (HERE / path).read_text()
    ast.parse(source)
    scope = {"__name__": path.removesuffix(".py")}
    exec(compile(source, path, "exec", dont_inherit=True), scope)  # not with this file's annotations
    return scope, made


def test_the_airflow_dag_starts_one_pass(monkeypatch):
    scope, made = load(
        "airflow_dag.py", monkeypatch, "airflow.sdk", "airflow.providers.standard.operators.bash"
    )
    [settings] = [kwargs for name, _, kwargs in made if name == "airflow.sdk"]
    assert (settings["catchup"], settings["max_active_runs"], settings["default_args"]["retries"]) == (False, 1, 0)
    [task] = [kwargs for name, _, kwargs in made if name.endswith("bash")]
    assert task["bash_command"] == scope["command"](
        "pipelines/flights_weekly.yaml", "pipelines/flights_monthly.yaml"
    )
    assert "schedule pipelines/flights_weekly.yaml" in task["bash_command"]
    assert "--once" in task["bash_command"]


def test_the_dagster_op_runs_a_pass(monkeypatch, tmp_path):
    monkeypatch.setattr(stages, "validated", lambda noised, *, great_expectations: check(noised))
    scope, _ = load("dagster_job.py", monkeypatch, "dagster")
    loaded(tmp_path, catch_up=2)
    scope["run_what_is_due"].__globals__["PIPELINES"] = ("pipelines/weekly.yaml",)
    told = []
    assert scope["run_what_is_due"](tmp_path, told.append) == 0
    assert [e["event"] for e in told] == ["released", "released"]
    assert scope["run_what_is_due"](tmp_path, told.append) == 0
    assert told[-1]["event"] == "idle"


def test_the_op_s_context_is_annotated_by_a_class_as_dagster_demands(monkeypatch):
    scope, _ = load("dagster_job.py", monkeypatch, "dagster")
    assert not isinstance(scope["release_what_is_due"].__annotations__["context"], str)


@pytest.mark.parametrize("path", sorted(HERE.iterdir()), ids=lambda p: p.name)
def test_the_readme_names_every_file(path):
    assert f"]({path.name})" in (HERE / "README.md").read_text() or path.name in ("README.md", "__pycache__")
