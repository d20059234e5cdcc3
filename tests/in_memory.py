"""Where files of tests are kept in memory, so that no commit of a ledger waits for a disk."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

_PLACE = Path("/dev/shm")
_ROOM = 4 << 30


@cache
def in_memory() -> Path | None:
    """Return a folder of a memory file system with room for a whole run, whose scripts may be started; or None."""
    if not os.access(_PLACE, os.W_OK) or shutil.disk_usage(_PLACE).free < _ROOM:
        return None
    return None if os.statvfs(_PLACE).f_flag & os.ST_NOEXEC else _PLACE
