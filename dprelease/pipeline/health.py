"""The health file: what a monitor reads to know whether the scheduler lives and succeeds.

    {"dprelease": "health/1", "state": "waiting", "updated": "…Z",
     "last_success": {pipeline: {"period", "at"}}, "last_error": {pipeline: {"code", …}},
     "next_due": {pipeline: {"period", "at"}}}

States: running, ok (nothing left to do), refused, withheld, waiting, stopped. Written aside and
renamed, so a reader sees a whole file. Successes of earlier processes are kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dprelease.core.errors import DpreleaseError
from dprelease.core.periods import instant_text
from dprelease.core.strict_json import json_text, read_json

VERSION = "health/1"


class Health:
    """One health file and what it remembers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        known = _read(path)
        self._success: dict[str, Any] = known.get("last_success", {})
        self._error: dict[str, Any] = known.get("last_error", {})

    def success(self, pipeline: str, period: str, at: datetime) -> None:
        """Note a release; an error noted before is over."""
        self._success[pipeline] = {"period": period, "at": instant_text(at)}
        self._error.pop(pipeline, None)

    def failure(
        self, pipeline: str, period: str | None, error: DpreleaseError, at: datetime
    ) -> None:
        """Note a refusal, in public words."""
        self._error[pipeline] = {
            "period": period,
            "at": instant_text(at),
            "code": error.code,
            "message": error.what,
        }

    def write(self, state: str, now: datetime, upcoming: Mapping[str, Any]) -> None:
        """Replace the file atomically.

        Raises:
            OSError: the folder does not take it.
        """
        said = {
            "dprelease": VERSION,
            "state": state,
            "updated": instant_text(now),
            "last_success": self._success,
            "last_error": self._error,
            "next_due": dict(upcoming),
        }
        text = json_text(said, indent=2, sort_keys=True) + "\n"
        aside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with aside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.path)
        finally:
            aside.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    """Return what an earlier file of this version says; nothing of any other file."""
    try:
        known = read_json(path.read_bytes())
        if known["dprelease"] == VERSION and all(
            isinstance(known[name], dict) for name in ("last_success", "last_error")
        ):
            return dict(known)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {}
