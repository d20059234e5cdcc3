"""Values are written and read by `dprelease.codec`; what is written by hand is listed, with its reason.

The list may only shrink: a new function of such a name is a second codec, and a name that is gone is
taken out here and in ARCHITECTURE.md.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dprelease"

CODEC = {"codec.py": {"to_json", "from_json"}}
NUMBERS = {"numeric.py": {"fraction_to_json", "fraction_from_json", "whole_from_json"}}
DECLARATIONS = {
    "query/request.py": {"request_to_json", "request_from_json"},
    "schema/about.py": {"about_from_json"},
    "schema/domain.py": {"to_json", "from_json"},
    "schema/hierarchy.py": {"hierarchy_to_json"},
    "schema/time.py": {"time_to_json"},
    "schema/unit.py": {"unit_to_json", "unit_from_json"},
    "schema/written.py": {"schema_to_json", "domain_to_json"},
}
WHOSE_KIND_IS_NAMED = {
    "measurements/draw.py": {"draw_from_json"},
    "mechanisms/boundaries/remap.py": {"to_json"},
    "mechanisms/boundaries/truncate.py": {"from_json", "truncated_from_json"},
    "mechanisms/bounded_gaussian.py": {"grid_law_from_json"},
    "mechanisms/bounded_laplace.py": {"grid_law_from_json"},
    "mechanisms/discrete_laplace.py": {"grid_law_from_json"},
    "mechanisms/exponential.py": {"grid_law_from_json"},
    "mechanisms/forms/gaussian_release.py": {"grid_law_from_json"},
    "mechanisms/law.py": {"to_json", "grid_law_from_json", "law_from_json"},
    "mechanisms/optimal_grid.py": {"grid_law_from_json"},
    "mechanisms/randomized_response.py": {"grid_law_from_json"},
    "mechanisms/rectified_laplace.py": {"grid_law_from_json"},
    "mechanisms/reflected_laplace.py": {"grid_law_from_json"},
    "mechanisms/staircase.py": {"grid_law_from_json"},
}
OF_A_PLANS_SHAPE = {"noised.py": {"cells_from_json"}}
NEVER_READ = {
    "audit/plan.py": {"to_json"},
    "formats/json_.py": {"to_json"},
    "pipeline/explore.py": {"to_json"},
    "pipeline/run.py": {"to_json"},
    "reading/derived.py": {"to_json"},
    "verification.py": {"to_json"},
}
LISTED = {
    **CODEC,
    **NUMBERS,
    **DECLARATIONS,
    **WHOSE_KIND_IS_NAMED,
    **OF_A_PLANS_SHAPE,
    **NEVER_READ,
}
MOST = 44


def named(text: str) -> set[str]:
    """Return the names of functions that write or read JSON."""
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.endswith(("to_json", "from_json"))
    }


def found() -> dict[str, set[str]]:
    files = {p.relative_to(PACKAGE).as_posix(): named(p.read_text()) for p in PACKAGE.rglob("*.py")}
    return {file: names for file, names in files.items() if names}


def test_what_is_written_by_hand_is_listed() -> None:
    assert found() == LISTED


def test_the_list_only_shrinks() -> None:
    assert sum(map(len, LISTED.values())) <= MOST


@pytest.mark.parametrize("file", sorted(LISTED))
def test_the_architecture_says_why(file: str) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    said = page.partition("## One codec")[2].partition("\n## ")[0]
    place = file.removesuffix(".py")
    assert f"`{place}`" in said or f"`{place.rpartition('/')[0]}/`" in said


def test_a_second_codec_is_found() -> None:
    assert named("class A:\n    def to_json(self): ...\ndef a_from_json(v): ...") == {
        "to_json",
        "a_from_json",
    }
