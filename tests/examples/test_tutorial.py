"""The tutorial notebook runs from top to bottom, and is committed without outputs."""

from __future__ import annotations

import ast
import json
import shutil

import pytest

from tests.end_to_end.projects import ROOT

NOTEBOOK = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code"]


def shown(value: object) -> str:
    """What a notebook would show of a cell's last value."""
    if value is None:
        return ""
    rich = getattr(value, "_repr_html_", None)
    return str(rich() if rich is not None else repr(value))


def run(cell: str, names: dict[str, object]) -> str:
    """Run a cell as a notebook does: statements, then the last expression's value."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return ""
    return shown(eval(compile(ast.Expression(last.value), "cell", "eval"), names))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    (folder / "examples" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "examples/data/fair_1978.csv", folder / "examples/data")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder / "examples")  # where a notebook server starts
    patch.setenv("TMPDIR", str(folder))
    patch.setattr("tempfile.tempdir", str(folder))
    try:
        names: dict[str, object] = {"__name__": "tutorial"}
        return [run(cell, names) for cell in CODE]
    finally:
        patch.undo()


def test_every_cell_runs_and_the_rich_ones_are_html(outputs):
    text = "\n".join(outputs)
    for words in (
        "<strong>Schema fair</strong>",
        "runner-up",
        "<svg",
        "spent epsilon 1",
        "cost nothing",
    ):
        assert words in text
    assert outputs[-1] == "True"


def test_a_broken_cell_is_noticed():
    with pytest.raises(NameError):
        run("nowhere", {})


def test_it_is_committed_without_outputs():
    assert NOTEBOOK["nbformat"] == 4
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
