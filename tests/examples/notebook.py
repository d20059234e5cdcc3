"""Runs the tutorial's cells as a notebook does; `python -m tests.examples.notebook` stores what they show."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.end_to_end.projects import ROOT

NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
Output = dict[str, Any]


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return found


def code(notebook: dict[str, Any]) -> list[str]:
    """Return the code cells' texts."""
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def run(cell: str, names: dict[str, object], number: int = 1) -> list[Output]:
    """Run a cell: statements, then the last expression; return its outputs as a notebook stores them."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    out: list[Output] = []
    if said.getvalue():
        out.append({"output_type": "stream", "name": "stdout", "text": said.getvalue()})
    if value is not None:
        rich = getattr(value, "_repr_html_", None)
        data = {"text/plain": repr(value)} | ({} if rich is None else {"text/html": rich()})
        out.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": data,
                "metadata": {},
            }
        )
    return out


def texts(outputs: list[Output]) -> str:
    """Return everything that outputs show."""
    return "\n".join(
        "".join(text)
        for output in outputs
        for text in (output.get("text", ""), *output.get("data", {}).values())
    )


def run_all(cells: list[str], folder: Path) -> list[list[Output]]:
    """Run the cells in a copy of the example, from where a notebook server starts."""
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    (folder / "examples" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "examples/data/fair_1978.csv", folder / "examples/data")
    before, old = Path.cwd(), tempfile.tempdir
    os.chdir(folder / "examples")
    tempfile.tempdir = str(folder)
    try:
        names: dict[str, object] = {"__name__": "tutorial"}
        return [run(cell, names, i) for i, cell in enumerate(cells, 1)]
    finally:
        os.chdir(before)
        tempfile.tempdir = old


def main() -> None:
    """Store the outputs of a fresh run, without the folder that it ran in."""
    notebook = read()
    with tempfile.TemporaryDirectory() as place:
        shown = run_all(code(notebook), Path(place) / "tutorial")
        text = json.dumps(shown).replace(str(Path(place) / "tutorial"), "…")
        text = re.sub(r"…/tmp\w+", "…", text)
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, json.loads(text), strict=True), 1):
        cell["outputs"], cell["execution_count"] = outputs, number
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
