"""How far a scan is goes to a terminal, and to nothing that is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console
from typer.testing import CliRunner

from dprelease.cli import app, terminal
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.pipeline import run as running

ROOT = Path(__file__).parents[2]


class Stop(Exception):
    """Ends the command before anything is charged."""


@pytest.mark.parametrize(
    ("is_terminal", "quiet", "watched"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_only_a_terminal_is_told(
    is_terminal: bool, quiet: bool, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = terminal.console

    def console(**options: Any) -> Any:
        out = made(**options)
        out._force_terminal = is_terminal
        return out

    given: list[Any] = []

    def run(*_: object, meter: Any, **__: object) -> None:
        given.append(meter)
        if meter is not None:
            meter(0.25, 30.0)
        raise Stop

    monkeypatch.setattr("dprelease.cli.run.console", console)
    monkeypatch.setattr(running, "run", run)
    command = ["run", str(ROOT / "pipelines/flights_weekly.yaml"), "--period", "2013-W05"]
    done = CliRunner().invoke(app, command + ["--quiet"] * quiet)
    assert [meter is not None for meter in given] == [watched]
    assert ("25%, about 30 s left" in done.output) is watched


def test_an_unwatched_engine_measures_nothing() -> None:
    with duckdb.connect() as plain:  # where Python runs no file (a worker of xdist) it has a bar
        (bar,) = plain.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0]
    engine = DuckDBEngine()
    with engine._connection() as connection:
        assert any("SET enable_progress_bar" in said for said in engine.statements) is bar
        for on in ("false", "true"):  # a notebook with widgets has one, and would show it
            connection.execute(f"SET enable_progress_bar = {on}")
            engine._set_bar(connection)
            off = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
            assert off == (False,)


def test_a_watched_engine_measures_and_prints_nothing() -> None:
    engine = DuckDBEngine()
    engine.meter = lambda _share, _left: None
    with engine._connection() as connection:
        names = ("enable_progress_bar", "enable_progress_bar_print")
        asked = ", ".join(f"current_setting('{name}')" for name in names)
        assert connection.execute(f"SELECT {asked}").fetchone() == (True, False)


@pytest.mark.parametrize("quiet", [False, True])
def test_what_is_shown_is_the_plan_that_is_run_and_it_is_made_once(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = running.plan_pipeline
    plans: list[Any] = []

    def counted(*arguments: Any) -> Any:
        plans.append(made(*arguments))
        return plans[-1]

    def stopped(*_: object) -> None:
        raise Stop

    monkeypatch.setattr(running, "plan_pipeline", counted)
    monkeypatch.setattr(running, "_request", stopped)
    command = ["run", str(ROOT / "pipelines/flights_weekly.yaml"), "--period", "2013-W05"]
    done = CliRunner().invoke(app, command + ["--quiet"] * quiet, env={"COLUMNS": "160"})
    assert len(plans) == 1
    assert ("runner-up" in done.output) is not quiet


def test_lines_are_broken_between_words_where_the_screen_is_narrow():
    command = "`dprelease ledger raise " + "a long name " * 3 + "--epsilon 8`"
    text = f"spent {'epsilon of the budget ' * 8}{command} {'and more ' * 9}/a/path/{'long' * 30}"
    screen = Console(width=80, force_terminal=True)
    *narrow, path = terminal.flowing(screen, f"charge    {text}", 10).plain.splitlines()
    assert max(map(len, narrow)) <= 80
    assert path.strip() == "/a/path/" + "long" * 30  # as it can be pasted
    assert any(command in line for line in narrow)
    assert " ".join("\n".join([*narrow, path]).split()) == f"charge {text}"
    assert (
        terminal.flowing(Console(width=80, force_terminal=False), text).plain == text
    )  # to a file
