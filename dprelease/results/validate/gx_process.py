"""Great Expectations in a process beside this one: what it finds in a table of released values.

`ready` has it imported and tried out there and waits for it, `judged` sends a table; `begin` starts the process earlier, while a
release is planned. Only released values are sent, and numbers of rows come back. Where no process can be started,
this process does the same itself (`judge`): that takes seconds longer. An import that failed beside is never
repeated here: it could end this process, or never end.
"""

from __future__ import annotations

import atexit
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from dprelease.results.validate.gx_release import COUNTS, NAME

if TYPE_CHECKING:
    import pandas as pd

Answer = TypeVar("Answer")

_UNUSED = ("scipy.stats", "altair", "jsonschema", "mistune")
"""What Great Expectations imports, half of its time, for expectations and pages of no use here."""

NEEDED = "great-expectations>=1.24,<2"

_LONGEST = 600.0
"""Seconds until an answer that has not come is not waited for."""

_begun: dict[int, ProcessPoolExecutor] = {}
"""By the id of the process that began it: a forked copy has none."""


class _WorkerProcess(SpawnProcess):
    """A spawned process that does not run the caller's script again, and that Ctrl-C does not reach."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        main.__spec__ = ModuleSpec("dprelease.__main__", None)  # `python -m` runs no script
        try:
            super().start()
        finally:
            main.__spec__ = spec
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Spawn(SpawnContext):
    Process = _WorkerProcess


def begin() -> bool:
    """Return whether a process is beside, started now if need be.

    None is where Great Expectations is imported here already, or where no process can be started.
    """
    with suppress(Exception):
        if os.getpid() not in _begun and "great_expectations" not in sys.modules:
            made = ProcessPoolExecutor(1, _Spawn(), _import_quietly)
            made.submit(os.getpid)  # starts it, or fails
            _begun.setdefault(os.getpid(), made)
    return os.getpid() in _begun


@contextmanager
def begun() -> Iterator[None]:
    """Begin it, and leave no import behind that nobody waits for any more."""
    begin()
    try:
        yield
    finally:
        if os.getpid() in _begun:
            ready(0.1)


def ready(longest: float | None = None) -> bool:
    """Return whether Great Expectations judges beside this process; waits until it does, or cannot."""
    return _answer(_LONGEST if longest is None else longest, os.getpid) is not None


def judged(frame: pd.DataFrame, suite: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return (rule, rows that break it) as `judge` does, from the process beside if there is one."""
    found = _answer(_LONGEST, judge, frame, suite)
    return judge(frame, suite) if found is None else found


def _answer(longest: float, ask: Callable[..., Answer], *arguments: object) -> Answer | None:
    """Return what the process answers, or another one where it has ended; None, and its end, if neither does."""
    for _ in range(2):
        try:
            return _begun[os.getpid()].submit(ask, *arguments).result(longest) if begin() else None
        except BrokenExecutor:
            end()
        except (Exception, SystemExit):  # noqa: BLE001 - it is silent, or fails
            end()
            break
    return None


def end() -> None:
    """End the process; it holds nothing that would be lost."""
    made = _begun.pop(os.getpid(), None)
    if made is not None:
        for process in multiprocessing.active_children():
            if isinstance(process, _WorkerProcess):
                process.kill()
        made.shutdown()  # its thread would close what the interpreter's end writes to


def _import_quietly() -> None:
    """Import Great Expectations, in a process that prints nothing and ends with the one that started it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    atexit.register(os._exit, 0)  # nothing is put away
    sys.modules.update({name: ModuleType(name) for name in _UNUSED})
    sys.modules["pyspark"] = None  # type: ignore[assignment]  # "no module named so"
    # Bars of progress would leave a semaphore behind.
    vars(multiprocessing).update(RLock=threading.RLock)
    gc.disable()  # hundreds of thousands of objects and hardly a cycle
    try_out()
    gc.enable()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Import Great Expectations, and undo what it does to the process: warnings, logging, environment."""
    captured = getattr(warnings.showwarning, "__module__", "") == "logging"
    before = os.environ.get("GX_ANALYTICS_ENABLED")
    logger = logging.getLogger("great_expectations")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        # An expectation that cannot be evaluated logs its row; we report it as failed instead.
        logger.setLevel(logging.CRITICAL + 1)
        try:
            import great_expectations  # noqa: F401

            yield
        finally:
            logger.setLevel(level)
            del os.environ["GX_ANALYTICS_ENABLED"]
            if before is not None:
                os.environ["GX_ANALYTICS_ENABLED"] = before
            if not captured:
                # Inside `catch_warnings`: otherwise logging would believe it still captures.
                logging.captureWarnings(False)


def try_out() -> None:
    """Judge a table of one row that is right; fails for a Great Expectations that cannot judge one, of whatever version.

    A judgement asks all that a version may lack, and one of one row takes a tenth of a second, beside the planning.
    """
    import pandas as pd

    table = pd.DataFrame({"statistic": ["n"], "status": ["ok"]})
    asked = {"column_list": [*table], "rule": "among", "parameters": '{"status": ["ok"]}'}
    kind = "expect_released_rows_to_obey"
    suite = [{"type": kind, "kwargs": asked, "meta": {"rule": "labels"}}]
    if judge(table, suite) != [("labels", 0)]:
        raise ImportError(NEEDED)


def judge(frame: pd.DataFrame, suite: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return (rule, rows that break it) of every expectation; never raises on the values of `frame`.

    Results of Great Expectations quote rows that fail: nothing but counts is returned.
    """
    with undisturbed():
        import great_expectations as gx
        from great_expectations.data_context.types import base

        import dprelease.results.validate.gx_expectations  # noqa: F401 - the suite's own expectation

        config = base.DataContextConfig(
            analytics_enabled=False,
            progress_bars=base.ProgressBarsConfig(globally=False, metric_calculations=False),
            store_backend_defaults=base.InMemoryStoreBackendDefaults(),
        )
        context = gx.get_context(mode="ephemeral", project_config=config)
        asset = context.data_sources.add_pandas(NAME).add_dataframe_asset(NAME)
        batch = asset.add_batch_definition_whole_dataframe(NAME).get_batch({"dataframe": frame})
        expected = gx.ExpectationSuite(name=NAME, expectations=list(suite))
        return [_counted(one) for one in batch.validate(expected, result_format=COUNTS).results]


def _counted(result: Any) -> tuple[str, int]:
    """Return the count of one expectation's result; nothing else of it is kept."""
    rule = str(result.expectation_config.meta["rule"])
    return rule, 0 if result.success else int(result.result.get("unexpected_count", 0) or 1)
