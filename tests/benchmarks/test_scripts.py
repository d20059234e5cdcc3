"""The benchmark scripts run, on a few of their cases; what the README quotes comes from them."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("criterion", ["worst", "average"])
def test_no_family_beats_the_optimum_and_the_choice_is_close_to_it(criterion: str) -> None:
    utility = load("utility")
    plans = utility.plans()
    assert len(plans) >= 100
    for _, plan in plans[15:36:5]:
        found = utility.ratios(replace(plan, criterion=criterion))
        assert min(found.values()) >= 1 - 1e-4  # the programme is a lower bound
        assert min(found.values()) <= 1.05
        assert min(found.values()) <= found["rectified_laplace"]
    lines = utility.report(criterion, plans[15:17])
    assert any("planner's choice" in line for line in lines)


def test_the_speed_table_has_its_rows() -> None:
    speed = load("mechanisms")
    rows: list[str] = []
    speed.draws(rows, 500)
    speed.certification(rows)
    assert sum("M/s" in row for row in rows) >= 7
    assert any("1e+09 points" in row for row in rows)
