"""How much the harness does: fixed small sizes with every change, the full sizes at night.

`make nightly` (DPRELEASE_NIGHTLY=1) takes the right-hand numbers; both run the same code.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

NIGHTLY = os.environ.get("DPRELEASE_NIGHTLY") == "1"


def size(often: int, nightly: int) -> int:
    return nightly if NIGHTLY else often


RACERS = size(50, 200)
SAME_KEY = 50
KILL_ROUNDS = size(100, 1000)
POWER_STATES = size(150, 1_000_000)  # at night all prefixes, `POWER_VARIANTS` ways each
POWER_VARIANTS = size(4, 8)
SYSCALL_STEP = size(7, 1)  # every 7th call, or all
FLIPS = size(500, 10_000)
WAL_FLIPS = size(100, 2_000)
SEQUENCES = size(15, 2_000)
FILLINGS = size(10, 60)


def memory_folder() -> Path:
    """Return a new folder on a memory file system where there is one: a kill needs no disk."""
    place = Path("/dev/shm")
    usable = place.is_dir() and os.access(place, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="dprelease-", dir=place if usable else None))
