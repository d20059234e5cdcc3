"""A long scan, watched and cancelled: how far it is, how long it will take, and Ctrl-C.

The share that is done comes from DuckDB's own estimate. It is for a terminal only, never for a
file or a log: it follows the source's size and the machine's speed, as a clock on the wall would,
and no value of any row.

Ctrl-C. DuckDB stops at it, but raises a RuntimeError in place of KeyboardInterrupt, which could not
be told from a failure of the rows. So the signal itself is remembered while a statement runs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

Meter = Callable[[float, float | None], None]
"""Called as (share done in [0, 1], seconds left or None), about once a second, from a thread."""

_PAUSE = 1.0
_LEAST = 0.02


@contextmanager
def cancellable() -> Iterator[Event]:
    """Yield an event that is set once Ctrl-C was pressed inside the block; a failure since is KeyboardInterrupt.

    What Ctrl-C did before it still does. Only in the main thread, where Python handles signals,
    and where it does anything at all.
    """
    pressed = Event()
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield pressed
        return
    usual = before

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        usual(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    except Exception:
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stopped_after(seconds: float | None, stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` once `seconds` have passed, and again until the block ends; never when None."""
    if seconds is None:
        yield
        return

    def watch(done: Event) -> None:
        late = done.wait(seconds)
        while not late:  # an interrupt between two statements stops neither: again
            stop()
            late = done.wait(0.1)

    with _watched_by(watch):
        yield


@contextmanager
def metered(connection: Any, meter: Meter | None) -> Iterator[None]:
    """Tell `meter` how far what runs on `connection` is, until the block ends."""
    if meter is None:
        yield
        return
    report = meter

    def watch(done: Event) -> None:
        start = monotonic()
        while not done.wait(_PAUSE):
            share = min(max(float(connection.query_progress()) / 100, 0.0), 1.0)
            report(share, remaining(share, monotonic() - start))

    with _watched_by(watch):
        yield


@contextmanager
def _watched_by(watch: Callable[[Event], None]) -> Iterator[None]:
    """Run `watch` in a thread until the block ends, which sets its event."""
    done = Event()
    watching = Thread(target=watch, args=(done,), daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()  # it must not find a closed connection


def remaining(share: float, elapsed: float) -> float | None:
    """Return the seconds left if the rest goes as the first `share` went; None while unknown.

    >>> remaining(0.25, 10.0)
    30.0
    """
    return None if share < _LEAST else elapsed * (1 - share) / share
