"""A process that has imported the packages of others, and forks for each run of tests that its input names.

A line of input is the folder, pytest's words, the file for what pytest prints, and the seconds after which it is killed;
a line of output is the status. The imports take half of the time of such a run. Nothing of the library is imported here:
each run has its own, with the guard that is broken in it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time

sys.path.pop(0)  # the folder of this file
BEFORE = (
    "pytest", "numpy", "pandas", "duckdb", "pyarrow.parquet", "pyarrow.compute", "mpmath", "pydantic",
    "scipy.optimize", "scipy.signal", "scipy.stats", "sqlglot", "typer.testing", "yaml",
)  # fmt: skip


def run(folder: str, words: list[str], printed: str) -> int:
    """Run the tests in this process."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder
    target = os.open(printed, os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(target, 2)
    import pytest

    return int(pytest.main(words))


def waited(child: int, seconds: float) -> int:
    """Return the child's status; kill it if it does not end."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    for name in BEFORE:
        importlib.import_module(name)
    for line in sys.stdin:
        folder, words, printed, seconds = json.loads(line)
        child = os.fork()
        if not child:
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
            sys.exit(run(folder, words, printed))
        print(waited(child, seconds), flush=True)
