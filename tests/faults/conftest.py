"""A place in memory, and a line of evidence from every harness that asks for one."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.sizes import memory_folder


@pytest.fixture
def place() -> Iterator[Path]:
    folder = memory_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def evidence(request) -> Iterator[Callable[[str, str, str], None]]:
    """Note (harness, size, result); written only if the test then passes its teardown."""
    started, lines = time.perf_counter(), []
    yield lambda harness, size, result: lines.append((harness, size, result))
    target = os.environ.get("DPRELEASE_EVIDENCE")
    if target:
        seconds = time.perf_counter() - started
        with open(target, "a", encoding="utf-8") as file:
            for harness, size, result in lines:
                row = {"harness": harness, "size": size, "seconds": seconds, "result": result}
                file.write(json.dumps(row) + "\n")
