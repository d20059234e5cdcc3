"""`dprelease check`: read schema and pipeline files as a run would, for CI; opens no table and no ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dprelease.cli.terminal import AsJson, print_json, say, show_error
from dprelease.core.errors import DpreleaseError
from dprelease.core.numeric import counted


def check(
    files: Annotated[list[Path], typer.Argument(help="Schemas and pipelines.")],
    as_json: AsJson = False,
) -> None:
    """Check files, each a schema or a pipeline, and that what they ask for can be planned.

    Reads no table and no ledger. Every file has its answer; a faulty one makes the exit status 1.

    Example: dprelease check schemas/*.yaml pipelines/*.yaml
    """
    from dprelease.pipeline.checked import checked

    answers: list[dict[str, Any]] = []
    for file in files:
        try:
            said = checked(file) | {"open": open_lines(file)}
        except DpreleaseError as problem:
            answers.append({"file": str(file), "ok": False, **problem.as_dict()})
            if not as_json:
                say(f"{file}: faulty", "red")
                show_error(problem)
            continue
        answers.append({"file": str(file), "ok": True, **said})
        if not as_json:
            words = ", ".join(v for k, v in said.items() if k != "plan" and v)
            say(f"{file}: valid {words}", "green")
    if as_json:
        print_json(answers)
    if not all(answer["ok"] for answer in answers):
        raise typer.Exit(1)


def open_lines(file: Path) -> str:
    """Return how many lines of a draft wait for an answer; nothing of a file without any."""
    lines = file.read_text(encoding="utf-8").splitlines()
    waiting = sum(line.lstrip().startswith("# ANSWER ") for line in lines)
    return f"{counted(waiting, 'line')} still to answer (`# ANSWER`), not read" if waiting else ""
