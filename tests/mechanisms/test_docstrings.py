"""A reader finds in each mechanism's file where it stands, its paper, its theorem and its erratum."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dprelease.core import registry

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dprelease/mechanisms"
LINES = ("Place", "Theorem", "Erratum", "Units", "Sources", "Limits")


def parts(name: str) -> dict[str, str]:
    """Return the labelled lines of the docstring of a mechanism's module."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    found = re.split(rf"^({'|'.join(LINES)}) +", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("name", registry.names("mechanisms"))
def test_a_mechanism_says_where_it_stands_and_what_proves_it(name: str) -> None:
    said = parts(name)
    assert set(said) == set(LINES)
    assert "docs/theory/" in said["Theorem"]
    assert "errata.md#" in said["Erratum"] or said["Erratum"].startswith("none known")


@pytest.mark.parametrize("name", registry.names("mechanisms"))
def test_the_place_of_a_mechanism_names_forms_that_exist(name: str) -> None:
    place = parts(name)["Place"]
    forms = re.findall(r"`(forms/\w+\.py)`", place)
    assert forms
    assert all((FOLDER / form).exists() for form in forms)


def test_the_theory_shows_the_table_with_the_name_of_each() -> None:
    text = (ROOT / "docs" / "theory" / "kernels-and-boundaries.md").read_text(encoding="utf-8")
    table = text[: text.index("## Noise and a fixed map")]
    assert set(re.findall(r"`([a-z_]+)`", table)) == set(registry.names("mechanisms"))
