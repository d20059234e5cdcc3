"""What Great Expectations does not need is left out of its import, and nothing else notices."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.validate import gx_import

STANDING_IN = gx_import._standing_in


@pytest.fixture
def colorsys(monkeypatch):
    """A small module that is not imported; the one that waits."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(gx_import, "LATER", ("colorsys",))
    monkeypatch.setattr(gx_import, "_left_out", set())
    yield
    sys.modules.pop("colorsys", None)


@pytest.mark.usefixtures("colorsys")
def test_a_stand_in_is_gone_afterwards_and_becomes_the_module_when_it_is_used():
    with STANDING_IN():
        import colorsys as kept

        assert type(kept) is gx_import._Later
    assert "colorsys" not in sys.modules
    assert kept.rgb_to_hsv(1, 0, 0) == (0.0, 1.0, 1)
    import colorsys

    assert type(colorsys) is not gx_import._Later
    assert kept.rgb_to_hsv is colorsys.rgb_to_hsv


@pytest.mark.usefixtures("colorsys")
def test_whoever_uses_it_meanwhile_gets_the_module():
    with STANDING_IN():
        from colorsys import rgb_to_hsv

        assert sys.modules["colorsys"].rgb_to_hsv is rgb_to_hsv
    assert type(sys.modules["colorsys"]) is not gx_import._Later


@pytest.mark.usefixtures("colorsys")
def test_what_is_imported_already_stays():
    import colorsys

    gx_import._left_out.add("colorsys")
    with STANDING_IN():
        assert sys.modules["colorsys"] is colorsys
    assert sys.modules["colorsys"] is colorsys


@pytest.mark.usefixtures("colorsys")
def test_what_is_left_out_is_not_there_and_comes_back_also_after_a_failure(monkeypatch):
    monkeypatch.setattr(gx_import, "LATER", ())
    gx_import._left_out.add("colorsys")
    with pytest.raises(ModuleNotFoundError), STANDING_IN():
        import colorsys
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize("command", ["run", "schedule"])
def test_the_command_leaves_spark_out_and_the_library_does_not(monkeypatch, tmp_path, command):
    """Great Expectations may be used with Spark in a process that is not ours."""
    monkeypatch.setattr(gx_import, "_left_out", set())
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    with STANDING_IN():
        assert "pyspark" not in sys.modules
    CliRunner().invoke(cli.app, [command, str(tmp_path / "none.yaml")])
    with STANDING_IN():
        assert sys.modules["pyspark"] is None
    assert "pyspark" not in sys.modules
