"""Names load lazily; third parties only by name; built-in names cannot be taken over."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from dprelease import mechanisms
from dprelease.core import registry
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms import Staircase


class Point:
    """An installed entry point."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loads = 0

    def load(self) -> str:
        self.loads += 1
        return f"loaded {self.name}"


def install(monkeypatch: pytest.MonkeyPatch, *points: Point) -> None:
    def entry_points(*, group: str, name: str | None = None) -> list[Any]:
        assert group == "dprelease.mechanisms"
        return [p for p in points if name in (None, p.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_a_built_in_name_loads_its_class() -> None:
    assert registry.load("mechanisms", "staircase") is Staircase
    assert "staircase" in registry.names("mechanisms")
    assert set(registry.KINDS) == {"mechanisms", "aggregates", "engines", "formats"}


def test_every_built_in_mechanism_loads() -> None:
    for name in registry.names("mechanisms"):
        assert callable(registry.load("mechanisms", name))


def test_every_built_in_mechanism_is_named_for_users() -> None:
    found = {
        name: registry.load("mechanisms", name).__name__ for name in registry.names("mechanisms")
    }
    missing = {name: cls for name, cls in found.items() if cls not in mechanisms.__all__}
    assert missing == {}, "add the class to dprelease/mechanisms/__init__.py"
    for name, cls in found.items():
        assert getattr(mechanisms, cls) is registry.load("mechanisms", name)


def test_an_unknown_name_offers_the_nearest_or_all() -> None:
    with pytest.raises(ArgumentError, match="did you mean `staircase`"):
        registry.load("mechanisms", "stair_case")
    known = ", ".join(registry.names("mechanisms"))
    with pytest.raises(ArgumentError, match=f"known names: {known}"):
        registry.load("mechanisms", "zzz")


def test_third_party_kinds_are_loaded_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, rival = Point("mine"), Point("staircase")
    install(monkeypatch, mine, rival)
    assert registry.third_party_names("mechanisms") == ("mine",)
    assert mine.loads == 0
    assert registry.load("mechanisms", "mine") == "loaded mine"
    assert registry.load("mechanisms", "staircase") is Staircase
    assert rival.loads == 0


def test_two_offers_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("mine"), Point("mine"))
    with pytest.raises(ArgumentError) as caught:
        registry.load("mechanisms", "mine")
    assert caught.value.code == "DPR611"


def test_asking_for_names_and_mechanisms_imports_no_scipy_and_no_engine() -> None:
    code = (
        "import sys, dprelease.mechanisms, dprelease.core.registry as r; r.names('engines');"
        "assert not {'scipy', 'duckdb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_draws_is_never_another_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = Point("stranger")
    monkeypatch.setattr(registry, "entry_points", lambda **_: [stranger])
    assert registry.load("mechanisms", "stranger") == "loaded stranger"
    with pytest.raises(ArgumentError, match="there is no draw called `stranger`"):
        registry.load("draws", "stranger")
    assert stranger.loads == 1
