"""Runs as forks of one process that has imported everything: `python -m tests.faults.forked_runs`.

Reads one JSON object a line, `{"code", "words", "folder", "said"}`: a fork runs `code` with `words` as its
arguments, in `folder`, Ctrl-C reaching it as in a terminal; its streams go to the files `said`.out and
`said`.err. Writes its exit status, one a line. Starting Python and its libraries takes seconds, a fork none.
Great Expectations validates in `make evidence`, otherwise the built-in rules alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.results.validate.gx_process import undisturbed
from tests.faults.cut_runs import ended, in_fork
from tests.faults.weekly_project import PERIOD, make_project
from tests.rules_alone import leave_out_great_expectations
from tests.sizes import FULL

__all__ = ["Forks", "prepare"]


class Forks:
    """The process that forks; made once for several runs."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked_runs"],
            cwd=root, env={**os.environ, "COLUMNS": "200"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, code: str, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run `code` in a fork and return how it ended."""
        said = folder.parent / "said"
        asked = {"code": code, "words": words, "folder": str(folder), "said": str(said)}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        end = self._process.stdout.readline().strip()
        assert end.startswith("exit "), end
        out, err = (said.with_suffix(f".{s}").read_text(encoding="utf-8") for s in ("out", "err"))
        return subprocess.CompletedProcess(words, int(end.split()[1]), out, err)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def prepare() -> None:
    """Import what a run of the weekly project needs, and plan it: forks then spend their time behind the charge.

    Engine and formats are imported, not used: they start threads, and a fork has none of them. DuckDB ends the
    process where Ctrl-C finds it importing (before the charge).
    """
    import duckdb  # noqa: F401

    import dprelease.engines.duckdb
    import dprelease.results.formats.csv_
    import dprelease.results.formats.html
    import dprelease.results.formats.parquet
    import dprelease.results.series.write

    if FULL:
        with undisturbed():  # a fork has no process beside
            import dprelease.results.validate.gx_expectations  # noqa: F401
    else:
        leave_out_great_expectations()
    with tempfile.TemporaryDirectory() as folder:
        plan_pipeline(load_pipeline(make_project(Path(folder) / "project")), PERIOD)


def _serve() -> None:
    prepare()
    for line in sys.stdin:
        asked = json.loads(line)

        def work(asked: dict[str, str] = asked) -> None:
            for number, suffix in ((1, "out"), (2, "err")):
                file = os.open(
                    f"{asked['said']}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
                )
                os.dup2(file, number)
            os.chdir(asked["folder"])
            sys.argv = ["-c", *asked["words"]]
            try:
                exec(compile(asked["code"], "<run>", "exec"), {"__name__": "__main__"})
            finally:
                sys.stdout.flush()
                sys.stderr.flush()

        print(ended(in_fork(work)), flush=True)


if __name__ == "__main__":
    _serve()
