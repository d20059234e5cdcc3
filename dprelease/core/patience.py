"""The time limit for reading and planning a request that somebody else wrote.

One's own request may take its time. A verifier reads foreign requests, and one that would keep it
busy for an hour is refused: under `within`, every expression, statistic, block and pricing looks at
the clock first. In the main thread an alarm also ends a single step that takes too long.

Limits  In other threads, and where the caller has an alarm of its own, only between steps. A call
        into a library ends before the alarm is heard.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from dprelease.core.errors import VerificationError

_DEADLINE: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let what is done in this context take `seconds` at most.

    Raises:
        VerificationError: it takes longer (DPR804).
    """
    token = _DEADLINE.set((time.monotonic() + seconds, seconds))
    alarmed = _free_alarm()
    waiting = True

    def ring(*_: object) -> None:
        if waiting:
            _late(seconds)

    try:
        try:
            if alarmed:
                signal.signal(signal.SIGALRM, ring)
                signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            waiting = False  # the alarm rings once: here at the latest, or never
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        _DEADLINE.reset(token)


def tick() -> None:
    """Go on, if there is time left; VerificationError DPR804 if there is none."""
    deadline = _DEADLINE.get()
    if deadline is not None and time.monotonic() > deadline[0]:
        _late(deadline[1])


def _free_alarm() -> bool:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        return False
    unused = signal.getitimer(signal.ITIMER_REAL)[0] == 0
    return unused and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def _late(seconds: float) -> NoReturn:
    raise VerificationError(
        f"this release is not verified within {seconds:g} seconds",
        why="its plan is made again, and it asks for much",
        fix="give more time: `--patience SECONDS`",
        code="DPR804",
    )
