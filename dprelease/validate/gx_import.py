"""Importing Great Expectations, in half its time: what no rule of ours uses is not imported with it.

Great Expectations imports every expectation that it has. Those of distributions import `scipy.stats` and
`altair`, a third of the whole import; that of JSON imports `jsonschema`, and its pages import `mistune`. While
Great Expectations is imported, a stand-in takes the place of each; its modules keep it, and the first attribute
asked of it imports the real one. Afterwards `sys.modules` holds no stand-in: whoever imports one of these gets
the real one.

Its import makes hundreds of thousands of objects and hardly a cycle: the collector waits until it is over,
which takes a sixth of the time away.

It also imports PySpark where that is installed, to look at data frames of Spark. In a process of our own
(`leave_out_spark`) it is told that there is none. In anybody else's process it is not: they may use Great
Expectations with Spark after us.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, cast

LATER = ("scipy.stats", "altair", "jsonschema", "mistune")
"""What Great Expectations imports at its own import and uses only inside functions that we never call."""

_left_out: set[str] = set()


class _Later(ModuleType):
    """Stands for a module that is imported when something is first asked of it."""

    def __getattr__(self, name: str) -> Any:
        _take_away(self.__name__, self)  # else the import below would find this stand-in
        return getattr(import_module(self.__name__), name)


def _take_away(name: str, stand_in: ModuleType | None) -> None:
    if name in sys.modules and sys.modules[name] is stand_in:
        del sys.modules[name]


@contextmanager
def _standing_in() -> Iterator[None]:
    """Let imports find stand-ins, and of what is left out nothing; of what is imported already, itself."""
    asked: dict[str, ModuleType | None] = {name: _Later(name) for name in LATER}
    asked |= dict.fromkeys(_left_out)  # None: "no module named so"
    missing = {name: module for name, module in asked.items() if name not in sys.modules}
    sys.modules.update(cast("dict[str, ModuleType]", missing))
    try:
        yield
    finally:
        for name, module in missing.items():
            _take_away(name, module)


def leave_out_spark() -> None:
    """Let Great Expectations find no PySpark in this process, unless it is imported by then."""
    _left_out.add("pyspark")


@contextmanager
def _collector_waits() -> Iterator[None]:
    """Look for no cycles meanwhile; afterwards as before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_great_expectations() -> None:
    """Import it, once; whatever its import raises passes."""
    with _standing_in(), _collector_waits():
        import great_expectations  # noqa: F401 - what is imported is found in sys.modules


@contextmanager
def undisturbed() -> Iterator[None]:
    """Import Great Expectations, and undo what it does to the process: warnings, logging, environment."""
    captured = getattr(warnings.showwarning, "__module__", "") == "logging"
    before = os.environ.get("GX_ANALYTICS_ENABLED")
    level = logging.getLogger("great_expectations").level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        # An expectation that cannot be evaluated logs its row; we report it as failed instead.
        logging.getLogger("great_expectations").setLevel(logging.CRITICAL + 1)
        try:
            import_great_expectations()
            yield
        finally:
            logging.getLogger("great_expectations").setLevel(level)
            if before is None:
                os.environ.pop("GX_ANALYTICS_ENABLED", None)
            else:
                os.environ["GX_ANALYTICS_ENABLED"] = before
            if not captured:
                # Inside `catch_warnings`: otherwise logging would believe it still captures.
                logging.captureWarnings(False)
