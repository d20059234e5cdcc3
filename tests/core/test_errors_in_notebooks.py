"""Errors as a real IPython shell shows them: five parts and what is spent, no page of frames."""

from __future__ import annotations

import pytest

CELL = """
import dprelease as dp
schema = {
    "dprelease": "schema/1", "name": "s", "unit": "row", "adjacency": "add_remove",
    "rows": {"max": 10, "expected": 5}, "columns": {"age": {"kind": "integer", "range": [0, 110]}},
    "release": {"epsilon": 1, "statistics": ["mean(agee)"]},
}
dp.plan(schema)
"""


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()  # not the singleton: no history, no configuration of the user's
    made.colors = "nocolor"
    yield made
    made.history_manager.end_session()


def shown(shell, cell, capsys):
    result = shell.run_cell(cell, store_history=False)
    said = capsys.readouterr()
    return result, said.out + said.err


def test_an_error_of_ours_is_its_five_parts(shell, capsys):
    result, text = shown(shell, CELL, capsys)
    assert type(result.error_in_exec).__name__ == "ConfigError"
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("ConfigError: ")
    assert "agee" in lines[0]
    labels = [line.split()[0] for line in lines[1:]]
    assert labels[-2:] == ["code", "spent"]
    assert "fix" in labels
    assert lines[-1] == "  spent  nothing was spent"
    assert "Traceback" not in text
    assert 'File "' not in text


def test_another_error_keeps_its_traceback(shell, capsys):
    _, text = shown(shell, "1 / 0", capsys)
    assert "Traceback" in text
    assert "ZeroDivisionError" in text


def test_a_twin_without_the_hook_shows_frames(shell, capsys, monkeypatch):
    from dprelease.core.errors import DpreleaseError

    monkeypatch.delattr(DpreleaseError, "_render_traceback_")
    _, text = shown(shell, CELL, capsys)
    assert "Traceback" in text


def test_plans_and_pictures_show_themselves_as_html(shell):
    cell = CELL.replace("agee", "age")
    found = shell.run_cell(cell, store_history=False)
    assert found.success
    data, _ = shell.display_formatter.format(found.result)
    assert "<table" in data["text/html"]
