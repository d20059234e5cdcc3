"""How long planning may take, where the request is somebody else's.

A plan's own request may take its time. A verifier reads foreign requests, and one that would plan
for an hour must be refused: under `within`, every pricing looks at the clock first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dprelease.errors import VerificationError

__all__ = ["tick", "within"]

_DEADLINE: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let everything in this context that calls `tick` take `seconds` at most."""
    token = _DEADLINE.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def tick() -> None:
    """Go on, if there is time left.

    Raises:
        VerificationError: there is not (DPR804).
    """
    deadline = _DEADLINE.get()
    if deadline is not None and time.monotonic() > deadline[0]:
        raise VerificationError(
            f"this release is not verified within {deadline[1]:g} seconds",
            why="its plan is made again, and it asks for much",
            fix="give more time: `--patience SECONDS`",
            code="DPR804",
        )
