"""Thirty traps of YAML in a real schema: each refused at its line, none read as something else.

The facts they rest on: YAML keeps the last of two equal keys, reads NO as false, 010 as 8, 12:30:00
as 45000, 1e-6 as text, and follows references without a bound.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.core.errors import ConfigError
from dprelease.query.load import load_schema
from dprelease.schema.yaml_marks import MAX_BYTES
from tests.end_to_end.projects import tree

SCHEMA = """\
dprelease: schema/1
name: traps
unit: row
adjacency: add_remove
rows: {max: 100}
columns:
  region: {kind: category, values: ["north", "south"]}
  age: {kind: integer, range: [0, 120]}
  bmi: {kind: number, range: [10, 60], step: 0.1}
release:
  epsilon: 1
  statistics: [count, mean(age)]
"""
BOMB = "".join(f"  a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]\n" for i in range(1, 9))
# replaced text, its replacement, code, line
TRAPS: list[tuple[str, str, str, int]] = [
    ("  epsilon: 1\n", "  epsilon: 1\n  epsilon: 10\n", "DPR103", 12),
    ("rows: {max: 100}", "rows: {max: 100, max: 9}", "DPR103", 5),
    ("unit: row\n", 'unit: row\n"unit": row\n', "DPR103", 4),
    ("unit: row", "unit: &u row", "DPR104", 3),
    ("unit: row", "unit: *u", "DPR104", 3),
    ("  epsilon: 1\n", "  <<: *x\n  epsilon: 1\n", "DPR104", 11),
    ("release:\n", f"bomb:\n  a0: &a0 [x]\n{BOMB}release:\n", "DPR104", 11),
    ("unit: row", "unit: !!python/object/apply:os.system [ls]", "DPR105", 3),
    ("unit: row", "unit: !!python/name:os.system", "DPR105", 3),
    ("name: traps", "name: !!str traps", "DPR105", 2),
    ("name: traps", "name: ! traps", "DPR105", 2),
    ("epsilon: 1", "epsilon: !!float 1", "DPR105", 11),
    ("  age:", "  2013:", "DPR106", 8),
    ("  age:", "  NO:", "DPR106", 8),
    ("  age:", "  true:", "DPR106", 8),
    ("  age:", "  ~:", "DPR106", 8),
    ("  age:", "  2013-01-01:", "DPR106", 8),
    ("  age:", "  12:30:", "DPR106", 8),
    ("  age:", "  ? [age]\n  :", "DPR106", 8),
    ("range: [0, 120]", "range: [0, 0170]", "DPR113", 8),
    ("range: [0, 120]", "range: [0, 0x78]", "DPR113", 8),
    ("range: [0, 120]", "range: [0, 2:00]", "DPR113", 8),
    ("range: [0, 120]", "range: [0, 1_20]", "DPR113", 8),
    ("rows: {max: 100}", "rows: {max: .inf}", "DPR113", 5),
    ("range: [10, 60]", "range: [.nan, 60]", "DPR113", 9),
    ("epsilon: 1", "epsilon: .inf", "DPR119", 11),
    ("epsilon: 1", "epsilon: 1001", "DPR119", 11),  # beyond it planning takes minutes
    ("epsilon: 1", "epsilon: 1e400", "DPR113", 11),
    ("range: [0, 120]", "range: [0, 1e400]", "DPR113", 8),
    ("rows: {max: 100}", "rows: {max: 100, expected: 1e400}", "DPR113", 5),
    ("[count, mean(age)]", "[{statistic: count, weight: 1e400}]", "DPR135", 12),
    ("epsilon: 1", "epsilon: .nan", "DPR113", 11),
    ("epsilon: 1", "epsilon: 12:30:00", "DPR113", 11),
    ("epsilon: 1", "epsilon: yes", "DPR113", 11),
    ("epsilon: 1", "epsilon: true", "DPR113", 11),
    ("epsilon: 1", "epsilon: 2013-01-01", "DPR113", 11),
    ('["north", "south"]', "[NO, south]", "DPR108", 7),
    ('["north", "south"]', "[010, south]", "DPR108", 7),
    ('["north", "south"]', "[2013-01-01, south]", "DPR108", 7),
    ('["north", "south"]', "[true, south]", "DPR108", 7),
    ('["north", "south"]', "[north, north]", "DPR157", 7),
    ("name: traps", 'name: "a\\0b"', "DPR112", 2),
    ("name: traps", "name: traps\n---\nname: other", "DPR102", 3),
    ("unit: row", "unit: {row", "DPR102", 0),
    ("unit: row", "unit:\n\trow", "DPR102", 4),
    ("unit: row", "unit: " + "[" * 4000 + "]" * 4000, "DPR107", 3),
    ("epsilon: 1", "epsilon: " + "1" * 5000, "DPR107", 11),
    ("epsilon: 1", "epsilon: 1e999999999999999999", "DPR113", 11),
    ("name: traps", "name: " + "x" * MAX_BYTES, "DPR107", 0),
]


def refused(folder: Path, text: str) -> ConfigError:
    file = folder / "schema.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_schema(file)
    return caught.value


def test_the_schema_without_a_trap_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    assert load_schema(tmp_path / "schema.yaml").name == "traps"
    assert len(TRAPS) >= 30


@pytest.mark.parametrize("i", range(len(TRAPS)))
def test_a_trap_is_refused_at_its_line(i: int, tmp_path: Path) -> None:
    old, new, code, line = TRAPS[i]
    assert SCHEMA.count(old) == 1
    error = refused(tmp_path, SCHEMA.replace(old, new))
    assert error.code == code, str(error)
    assert error.spent == "nothing"
    if line:
        assert (error.where or "").split(",")[0].endswith(f"schema.yaml:{line}"), str(error)
    assert len(str(error)) < 2000  # a megabyte of input is not repeated


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", "1/1000000"),
        ('"1e-6"', "1/1000000"),
        ("0.1", "1/10"),
        ("'0.30'", "3/10"),
        ("1E0", "1"),
    ],
)
def test_a_number_is_exactly_what_it_says(text: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.yaml"
    file.write_text(SCHEMA.replace("epsilon: 1", f"epsilon: {text}"))
    assert load_schema(file).release_raw["epsilon"] is not None
    from dprelease.query.merge import merge_release

    assert merge_release(load_schema(file), None, "test").epsilon == Fraction(value)


def test_the_ordinary_loader_falls_into_them() -> None:
    """Control: what the strict reader refuses, YAML 1.1 reads as something else."""
    assert yaml.safe_load("e: 1\ne: 10") == {"e": 10}
    assert yaml.safe_load("[NO, 010, 12:30:00, 1_0]") == [False, 8, 45000, 10]
    assert yaml.safe_load("1e-6") == "1e-6"
    grown = yaml.safe_load("b:\n  a0: &a0 [x]\n" + BOMB)["b"]["a4"]
    while isinstance(grown, list) and isinstance(grown[0], list):
        grown = [item for part in grown for item in part]
    assert len(grown) == 9**4


@pytest.mark.parametrize("i", range(0, len(TRAPS), 6))
def test_the_command_line_says_it_without_a_traceback(i: int, tmp_path: Path) -> None:
    old, new, code, _ = TRAPS[i]
    file = tmp_path / "schema.yaml"
    file.write_text(SCHEMA.replace(old, new))
    before = tree(tmp_path)
    said = CliRunner().invoke(app, ["schema", "check", str(file)])
    assert said.exit_code == 2, said.output
    assert code in said.stderr and "nothing was spent" in said.stderr
    assert "Traceback" not in said.output
    assert tree(tmp_path) == before
