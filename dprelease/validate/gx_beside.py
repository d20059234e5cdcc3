"""Great Expectations in a process of its own, which imports it while a release is planned and its source is opened.

`begin` starts it, at most one. Whoever charges waits first until it has answered (`is_ready`); a table is then
looked at there (`judged`). Where it cannot be started, does not answer or has ended, the answer is "no" or None, and
the caller imports Great Expectations itself: that takes seconds longer and changes nothing else.

Messages are JSON and Arrow streams, each with its length in 8 bytes before it. Only released rows are sent, and counts
come back.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from dprelease.validate.gx_judge import Expected

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_ANSWER = 2**26
_SERVE = (
    "import sys; sys.path[:] = {path!r}; from dprelease.validate.gx_beside import serve; serve()"
)


class _Process:
    """The process, as the one that started it sees it; a forked copy of that one is none of its."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ready: bool | None = None
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a text of ours
            [sys.executable, "-c", _SERVE.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the run, which says what it has spent
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tables: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    def is_ready(self) -> bool:
        """Return whether it has imported Great Expectations; waits until it has, or has ended."""
        if os.getpid() != self._owner:
            return False
        with self._lock:
            if self._ready is None:
                self._ready = self._answer() == {"ready": True}
            return self._ready

    def judged(
        self, frame: pd.DataFrame, expected: Sequence[Expected]
    ) -> list[tuple[str, int]] | None:
        """Return what `gx_judge.judged` finds there, None if it ends before it has answered."""
        if not self.is_ready():
            return None
        with self._lock:
            try:
                _send(self._tables, json.dumps(expected).encode())
                _send(self._tables, _packed(frame))
            except (OSError, ValueError):  # it has ended, or cannot be sent this table
                self._ready = False
                return None
            found = self._answer()
            self._ready = isinstance(found, list)
            return [(rule, failed) for rule, failed in found] if isinstance(found, list) else None

    def _answer(self) -> object:
        try:
            return json.loads(_receive(self._answers, _LONGEST_ANSWER))
        except (OSError, EOFError, ValueError):
            return None

    def end(self) -> None:
        """End it; it holds nothing that would be lost."""
        if os.getpid() != self._owner:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._tables, self._answers):
            with suppress(OSError):
                pipe.close()


_begun: list[_Process] = []
"""The one that was started, if any."""


def begin() -> None:
    """Start it, once, unless Great Expectations is imported here already or no process can be started."""
    if _begun or "great_expectations" in sys.modules or not sys.executable:
        return
    with suppress(OSError):
        _begun.append(_Process())
        atexit.register(_begun[0].end)


def is_ready() -> bool:
    """Return whether Great Expectations is imported beside this process; waits for an import that goes on."""
    return bool(_begun) and _begun[0].is_ready()


def judged(frame: pd.DataFrame, expected: Sequence[Expected]) -> list[tuple[str, int]] | None:
    """Return (rule, rows that break it) as `gx_judge.judged` does; None: nothing here can say it."""
    return _begun[0].judged(frame, expected) if _begun else None


def serve() -> None:
    """Import Great Expectations, say so, and look at tables until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
    tables = sys.stdin.buffer
    from dprelease.validate.gx_import import leave_out_spark, undisturbed
    from dprelease.validate.gx_judge import judged as here

    leave_out_spark()
    with undisturbed():
        import dprelease.validate.gx_expectations  # noqa: F401 - imported before the first table comes
    _send(answers, json.dumps({"ready": True}).encode())
    with suppress(EOFError):
        while True:
            expected = [tuple(one) for one in json.loads(_receive(tables))]
            frame = _unpacked(_receive(tables))
            _send(answers, json.dumps(here(frame, expected)).encode())


def _packed(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(data: bytes) -> pd.DataFrame:
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        frame: pd.DataFrame = stream.read_all().to_pandas()
        return frame


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "big"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes], longest: int = sys.maxsize) -> bytes:
    """Return the next message; EOFError: there is none, not all of it, or a longer one."""
    head = pipe.read(8)
    length = int.from_bytes(head, "big")
    if len(head) < 8 or length > longest:
        raise EOFError
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data
