"""Strict YAML: values, places, and every trap with its code and line."""

from __future__ import annotations

import copy
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dprelease.core.errors import ConfigError
from dprelease.core.numeric import exact
from dprelease.query.load import load_schema
from dprelease.schema.yaml_marks import Ambiguous, Marks, Written, load_yaml, parse_yaml


def value(text: str) -> object:
    return parse_yaml(f"x: {text}\n", "f.yaml").data["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-3", -3),
        ("0.1", Decimal("0.1")),
        ("1e-6", Decimal("1e-6")),
        ("1.5E+3", Decimal(1500)),
        (".5", Decimal("0.5")),
        ("+5", Decimal(5)),
        (".inf", Decimal("Infinity")),
        ("-.INF", Decimal("-Infinity")),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'010'", "010"),
        ('"NO"', "NO"),
        ("north", "north"),
        ("y", "y"),
        ("schema/1", "schema/1"),
        ("2013-W05", "2013-W05"),
        ("mean(age)", "mean(age)"),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
    ],
)
def test_a_scalar_is_read_with_its_type(text: str, expected: object) -> None:
    got = value(text)
    assert got == expected
    assert type(got) is (Written if isinstance(expected, Decimal) else type(expected))


NUMBERS = [
    "+44",
    "1e3",
    ".5",
    "1.",
    "-0",
    "0.10",
    "-0.0",
    "1E+3",
    "+.5e-3",
    ".inf",
    "-.INF",
    ".NaN",
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_shows_as_it_stands_in_the_file(text: str) -> None:
    assert str(value(text)) == text
    assert str(copy.deepcopy(value(text))) == text
    assert type(value("5")) is int  # whose digits are the text


@pytest.mark.parametrize(
    "text", [*NUMBERS, "true", "True", "FALSE", "null", "NULL", "~", "012", "NO", "1_0"]
)
def test_a_label_is_quoted_as_it_stands_in_the_file(tmp_path: Path, text: str) -> None:
    """The fix is followed literally, and the label is then the text of the file."""
    file = tmp_path / "s.yaml"
    head = "dprelease: schema/1\nname: t\nunit: row\nadjacency: add_remove\ncolumns:\n"

    def load(label: str) -> tuple[str, ...]:
        file.write_text(f"{head}  k: {{kind: category, values: [zz, {label}]}}\n")
        return load_schema(file).columns["k"].values

    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.code == "DPR108"
    quoted = str(caught.value.fix).removeprefix("quote it: ")
    assert load(quoted) == ("zz", text)


@pytest.mark.parametrize(
    ("text", "number"), [("+44", 44), ("1e1", 10), (".5", Fraction(1, 2)), ("-0", 0)]
)
def test_a_number_of_any_spelling_is_a_number_where_one_is_needed(
    text: str, number: Fraction
) -> None:
    assert exact(value(text)) == number
    assert exact(value(".inf")) == math.inf


@pytest.mark.parametrize(
    "text",
    [
        "NO",
        "yes",
        "On",
        "off",
        "010",
        "0x1F",
        "0b11",
        "0o17",
        "12:30:00",
        "1:30",
        "1_000",
        "1_0.5",
        "2013-01-31",
        "2013-1-1",
        "2013-01-31 10:00:00",
        "-012",
    ],
)
def test_what_yaml_would_reread_is_ambiguous(text: str) -> None:
    got = value(text)
    assert isinstance(got, Ambiguous)
    assert got.text == text
    # control: the ordinary loader does change it, or YAML 1.2 would
    if text not in ("0o17", "0b11", "2013-1-1"):
        assert yaml.safe_load(text) != text


TRAPS = {
    "duplicate": ("a: 1\nb: 2\na: 3\n", "DPR103", 3),
    "duplicate nested": ("a:\n  b: 1\n  b: 2\n", "DPR103", 3),
    "duplicate in flow": ("a: {b: 1, b: 2}\n", "DPR103", 1),
    "duplicate quoted": ('a: 1\n"a": 2\n', "DPR103", 2),
    "anchor": ("a: &x 1\n", "DPR104", 1),
    "alias": ("a: 1\nb: *x\n", "DPR104", 2),
    "anchor on a mapping": ("a: &x\n  b: 1\n", "DPR104", 1),
    "merge key": ("a: 1\n<<: *x\n", "DPR104", 2),
    "bomb": ("a: &a [x]\nb: &b [*a, *a]\n", "DPR104", 1),
    "python tag": ("a: !!python/object/apply:os.system [ls]\n", "DPR105", 1),
    "standard tag": ("a: 1\nb: !!str 010\n", "DPR105", 2),
    "local tag": ("a: !x 1\n", "DPR105", 1),
    "bare tag": ("a: ! 1\n", "DPR105", 1),
    "number key": ("a: 1\n2013: 2\n", "DPR106", 2),
    "boolean key": ("NO: 1\n", "DPR106", 1),
    "true key": ("true: 1\n", "DPR106", 1),
    "null key": ("~: 1\n", "DPR106", 1),
    "empty key": ("? \n: 1\n", "DPR106", 1),
    "list key": ("? [a]\n: 1\n", "DPR106", 1),
    "date key": ("2013-01-01: 1\n", "DPR106", 1),
    "unclosed": ("a: [1, 2\n", "DPR102", 2),
    "tab": ("a:\n\tb: 1\n", "DPR102", 2),
    "two documents": ("a: 1\n---\nb: 2\n", "DPR102", 2),
    "colon": ("a: b: c\n", "DPR102", 1),
    "histogram in flow": ("a: [histogram(x, [0, 1])]\n", "DPR102", 1),
    "control character": ("a: 1\nb: \x07\n", "DPR102", None),
    "empty": ("", "DPR109", 1),
    "comment": ("# nothing\n", "DPR109", 1),
    "list": ("- a\n", "DPR109", 1),
    "text": ("hello\n", "DPR109", 1),
    "deep": ("a: " + "[" * 30 + "]" * 30 + "\n", "DPR107", 1),
    "very deep": ("a: " + "[" * 5000 + "]" * 5000 + "\n", "DPR107", 1),
    "long number": ("a: 1\nb: " + "9" * 5000 + "\n", "DPR107", 2),
    "exponent": ("a: 1e99999999999999999999\n", "DPR107", 1),
}


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_of_yaml_is_refused_with_its_line(name: str) -> None:
    text, code, line = TRAPS[name]
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    assert caught.value.code == code
    if line is not None:
        assert caught.value.where == f"f.yaml:{line}"


def test_the_ordinary_loader_would_have_taken_the_last_duplicate() -> None:
    """Control for the duplicate guard."""
    assert yaml.safe_load("epsilon: 1\nepsilon: 10\n") == {"epsilon": 10}


def test_a_file_that_cannot_be_read_is_refused_by_its_path(tmp_path: Path) -> None:
    def code(path: Path) -> str:
        with pytest.raises(ConfigError) as caught:
            load_yaml(path)
        assert str(path) in (caught.value.where or "")
        return caught.value.code

    assert code(tmp_path / "none.yaml") == "DPR101"
    assert code(tmp_path) == "DPR101"
    big = tmp_path / "big.yaml"
    big.write_text("a: 1\n" + "# " + "x" * (1 << 20))
    assert code(big) == "DPR107"
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff\xfe\n")
    assert code(binary) == "DPR102"
    marked = tmp_path / "bom.yaml"
    marked.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load_yaml(marked).data == {"a": 1}


def test_each_value_has_its_line() -> None:
    marks = parse_yaml("a:\n  - x\n  - b: 1\n    c: 2\nd: 3\n", "f.yaml").marks
    assert marks.line_of() == "f.yaml:1"
    assert marks.line_of("a", 1, "c") == "f.yaml:4"
    assert marks.line_of("a", "union tag", 1, "c") == "f.yaml:4"
    assert marks.line_of("d", "missing") == "f.yaml:5"
    assert marks.below("a")[(1, "b")] == "f.yaml:3"
    assert Marks("dict").line_of("release", "statistics", 0) == "dict: release.statistics[0]"
