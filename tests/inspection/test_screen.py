"""Raw-row inspection of a frame: on a curator's screen, a terminal's or a notebook's, and nowhere else."""

from __future__ import annotations

import sys
import types

import pytest

from dprelease.core.errors import ArgumentError
from dprelease.inspection import screen as inspecting
from tests.inspection.test_rows import ROWS, SCHEMA


def test_a_frame_is_inspected_in_a_notebook_and_returns_nothing(monkeypatch, capsys):
    with pytest.raises(ArgumentError) as caught:
        ROWS.dp.inspect(SCHEMA)
    assert caught.value.code == "DPR616"
    assert capsys.readouterr().out == ""
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert ROWS.dp.inspect(SCHEMA) is None
    said = capsys.readouterr().out
    assert "rows looked at" in said
    assert "clear this output before you save the notebook" in said


@pytest.mark.parametrize("name", [None, "TerminalInteractiveShell"])
def test_a_shell_whose_output_goes_elsewhere_is_not_a_notebook(name, monkeypatch):
    shell = None if name is None else type(name, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert not inspecting.in_notebook()
