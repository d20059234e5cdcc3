"""Runs the tutorial's cells as a notebook does; `python -m tests.examples.notebook` stores what they show."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
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
    with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")  # a kernel shows what is meant for users
        warnings.simplefilter("default", UserWarning)
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    out: list[Output] = []
    if said.getvalue():
        out.append({"output_type": "stream", "name": "stdout", "text": said.getvalue()})
    if warned:
        text = "".join(f"{w.category.__name__}: {w.message}\n" for w in warned)
        out.append({"output_type": "stream", "name": "stderr", "text": text})
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


def copied(folder: Path) -> None:
    """Copy what the example reads."""
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    (folder / "examples" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "examples/data/fair_1978.csv", folder / "examples/data")


def run_all(cells: list[str], folder: Path) -> list[list[Output]]:
    """Run the cells in a copy of the example, from where a notebook server starts."""
    copied(folder)
    before, old = Path.cwd(), tempfile.tempdir
    os.chdir(folder / "examples")
    tempfile.tempdir = str(folder)
    try:
        names: dict[str, object] = {"__name__": "tutorial"}
        return [run(cell, names, i) for i, cell in enumerate(cells, 1)]
    finally:
        os.chdir(before)
        tempfile.tempdir = old


def run_in_kernel(cells: list[str], folder: Path) -> list[list[Output]]:
    """Run the cells as `run_all`, in a kernel of their own that has no ipywidgets; a cell's error ends it."""
    copied(folder)
    given, done = folder / "given.json", folder / "done.ipynb"
    given.write_text(json.dumps([_NO_WIDGETS, *cells]), encoding="utf-8")
    command = [sys.executable, "-c", _EXECUTE, str(given), str(done), str(folder / "examples")]
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )
    assert said.returncode == 0, said.stderr[-3000:]
    cells_done = json.loads(done.read_text(encoding="utf-8"))["cells"]
    return [cell["outputs"] for cell in cells_done[1:]]


_NO_WIDGETS = "import sys\nsys.modules['ipywidgets'] = None  # as if it were not installed"
_EXECUTE = """
import json, sys, nbformat, nbclient
given, done, folder = sys.argv[1:]
book = nbformat.v4.new_notebook()
book.cells = [nbformat.v4.new_code_cell(text) for text in json.load(open(given))]
nbclient.NotebookClient(book, timeout=200, resources={"metadata": {"path": folder}}).execute()
nbformat.write(book, done)
"""


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
