"""A test without an end ends its process, so that a run ends: it fails, and the others go on in a new worker.

Java, or a server, that turns for ever would otherwise hold a run for as long as whoever waits for it.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

from tests.sizes import FULL

LONGEST = float(os.environ.get("DPRELEASE_LONGEST_TEST", "0" if FULL else "900"))
"""Seconds that one test may take, many times what the slowest does; 0: as long as it likes."""


_shown: list[int] = []
"""What standard error was before tests began: what a test writes there is caught, and lost with its process."""


def pytest_configure() -> None:
    """Keep standard error while nothing is caught yet."""
    _shown.append(os.dup(2))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Show where a test stands after `LONGEST` seconds, and end the process."""
    if LONGEST:
        faulthandler.dump_traceback_later(LONGEST, exit=True, file=_shown[-1])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
