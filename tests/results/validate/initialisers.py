"""What a process beside does first, in place of importing Great Expectations; it imports this file, and no test."""

from __future__ import annotations

import os
import time

__all__ = ["be_silent", "leave", "nothing"]


def leave() -> None:
    os._exit(0)


def be_silent() -> None:
    time.sleep(600)


def nothing() -> None:
    """Import nothing."""
