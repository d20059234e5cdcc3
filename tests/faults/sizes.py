"""How much the harness does, and where."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.in_memory import in_memory
from tests.sizes import sized, whole

RACERS = sized(whole(16, 50), 200)
SAME_KEY = whole(12, 50)
RUN_CUTS = sized(whole(2, 8), 200)  # whole runs that are killed or interrupted at random
KILL_ROUNDS = sized(whole(16, 100), 1000)
WINDOW_KILLS = whole(6, 300)  # kills on a ledger with windows, per adjacency
WINDOW_RACERS = whole(10, 100)
POWER_STATES = sized(whole(55, 150), 1_000_000)  # at night all, `POWER_VARIANTS` ways each
POWER_VARIANTS = sized(4, 8)
RUN_STATES = sized(
    whole(13, 40), 1_000_000
)  # cuts of a whole run; those that leave the same bytes run once
SYSCALL_STEP = sized(whole(19, 7), 1)  # every 19th or 7th call, or all
FLIPS = sized(whole(60, 500), 10_000)
WAL_FLIPS = sized(whole(50, 100), 2_000)
SEQUENCES = sized(whole(8, 15), 2_000)
FILLINGS = sized(10, 60)


def memory_folder() -> Path:
    """Return a new folder on a memory file system where there is one: a kill needs no disk."""
    return Path(tempfile.mkdtemp(prefix="dprelease-", dir=in_memory()))
