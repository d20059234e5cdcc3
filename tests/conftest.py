"""A line of evidence from every harness that has one to give."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def evidence() -> Iterator[Callable[..., None]]:
    """Note (harness, size, result); `tests.evidence` makes the table, and keeps what passed.

    Seconds are the test's own unless they are given: for what several tests did together.
    """
    started, lines = time.perf_counter(), []

    def note(harness: str, size: str, result: str, *, seconds: float | None = None) -> None:
        lines.append((harness, size, result, seconds))

    yield note
    target = os.environ.get("DPRELEASE_EVIDENCE")
    if target:
        own = time.perf_counter() - started
        with open(target, "a", encoding="utf-8") as file:
            for harness, size, result, given in lines:
                seconds = own if given is None else given
                row = {"harness": harness, "size": size, "seconds": seconds, "result": result}
                file.write(json.dumps(row) + "\n")
