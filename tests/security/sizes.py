"""How much is tried: little enough for every run, all of it when DPRELEASE_NIGHTLY is 1."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("DPRELEASE_NIGHTLY") == "1"


def sized(usual: int, nightly: int) -> int:
    """Return the number of cases of this run."""
    return nightly if NIGHTLY else usual
