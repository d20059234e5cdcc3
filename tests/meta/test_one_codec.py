"""Values are written and read by `dprelease.core.codec`, and JSON by `dprelease.core.strict_json`; what is not is listed, with its reason.

The lists may only shrink: a new function of such a name is a second codec, a new call of `json` a second
writer or reader. A name that is gone is taken out here and in ARCHITECTURE.md.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dprelease.core import registry
from tests.meta.trees import library, walked

ROOT = Path(__file__).resolve().parents[2]

CODEC = {"core/codec.py": {"to_json", "from_json"}}
NUMBERS = {"core/numeric.py": {"fraction_to_json", "fraction_from_json", "whole_from_json"}}
DECLARATIONS = {
    "query/request.py": {"request_from_json"},
    "query/written.py": {"request_to_json"},
    "schema/about.py": {"about_from_json", "to_json"},
    "schema/domain.py": {"to_json", "from_json"},
    "schema/hierarchy.py": {"hierarchy_to_json"},
    "schema/time.py": {"time_to_json"},
    "schema/unit.py": {"unit_to_json", "unit_from_json"},
    "schema/written.py": {"schema_to_json", "domain_to_json"},
}
WHOSE_KIND_IS_NAMED = {
    "measurements/law.py": {"draw_from_json"},
    "mechanisms/forms/gaussian_release.py": {"grid_law_from_json"},
    "mechanisms/law.py": {"to_json", "grid_law_from_json", "law_from_json"},
}
OF_A_PLANS_SHAPE = {"results/formats/json_.py": {"cells_from_json"}}
NEVER_READ = {
    "audit/plan.py": {"to_json"},
    "pipeline/explore.py": {"to_json"},
    "pipeline/run.py": {"to_json"},
    "reading/derived.py": {"to_json"},
    "verification/verify.py": {"to_json"},
}
LISTED = {
    **CODEC,
    **NUMBERS,
    **DECLARATIONS,
    **WHOSE_KIND_IS_NAMED,
    **OF_A_PLANS_SHAPE,
    **NEVER_READ,
}
OF_A_KIND = "grid_law_from_json"
"""What each mechanism's file says of itself: which of its laws a stored one is. A new mechanism has one more."""
MOST = 29

THE_LEDGERS_OWN = "the ledger's own canonical text, of which its chain has the hash"
ALONE = "runs beside Great Expectations, where this package need not be installed"
BY_JSON: dict[str, tuple[set[str], str]] = {
    "core/strict_json.py": ({"JSONEncoder", "dumps", "loads"}, "the one writer and reader"),
    "budget/record.py": ({"dumps", "loads"}, "the ledger's canonical text: ASCII, as chains have hashed it"),
    **{
        f"budget/{name}.py": ({"loads"}, THE_LEDGERS_OWN)
        for name in (
            "chain", "cited", "connection", "declarations", "moving", "rho_filter", "rows", "stored",
            "timeline",
        )
    },
    "budget/approval_words.py": ({"dumps"}, "words of a message, which must not fail"),
    "cli/schedule.py": ({"dumps"}, "a line of a log, which must not fail"),
    "results/validate/gx.py": ({"dumps"}, "a rule's parameters, for Great Expectations"),
    "results/validate/gx_expectations.py": ({"loads"}, ALONE),
    "results/validate/gx_project.py": ({"dumps"}, "read by `gx_release`"),
    "results/validate/gx_release.py": ({"dumps", "loads"}, ALONE),
}  # fmt: skip
MOST_BY_JSON = 18


def called(tree: ast.Module) -> set[str]:
    """Return what a module uses of `json`, however it imports it."""
    imports = [node for node in walked(tree) if isinstance(node, ast.Import)]
    names = {n.asname or n.name for node in imports for n in node.names if n.name == "json"}
    out = {
        name.name
        for node in walked(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "json"
        for name in node.names
    }
    for node in walked(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            out |= {node.attr} if node.value.id in names else set()
    return out


def test_json_is_written_and_read_at_one_place() -> None:
    files = {path.removeprefix("dprelease/"): called(tree) for path, tree in library().items()}
    assert {file: names for file, names in files.items() if names} == {
        file: names for file, (names, _) in BY_JSON.items()
    }


def test_the_list_of_other_writers_only_shrinks() -> None:
    assert len(BY_JSON) <= MOST_BY_JSON
    assert all(why for _, why in BY_JSON.values())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json\njson.dumps(1)", {"dumps"}),
        ("import json as j\ndef f():\n    return j.load(1)", {"load"}),
        ("from json import loads as read\nread(1)", {"loads"}),
        ("from json.decoder import JSONDecoder", {"JSONDecoder"}),
        ("import json\nmap(json.loads, [])", {"loads"}),
        ("from dprelease.core.strict_json import read_json\nread_json(1)", set()),
        ("json = 1\njson.dumps", set()),
    ],
)
def test_a_second_writer_is_found(text: str, names: set[str]) -> None:
    assert called(ast.parse(text)) == names


def named(tree: ast.Module) -> set[str]:
    """Return the names of functions that write or read JSON."""
    return {
        node.name
        for node in walked(tree)
        if isinstance(node, ast.FunctionDef) and node.name.endswith(("to_json", "from_json"))
    }


def found() -> dict[str, set[str]]:
    files = {path.removeprefix("dprelease/"): named(tree) for path, tree in library().items()}
    for name in registry.names("mechanisms"):
        files[f"mechanisms/{name}.py"].discard(OF_A_KIND)
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
    text = "class A:\n    def to_json(self): ...\ndef a_from_json(v): ..."
    assert named(ast.parse(text)) == {"to_json", "a_from_json"}
