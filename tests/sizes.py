"""How much is tried: fixed small sizes with every change, the full sizes at night.

`make nightly` (DPRELEASE_NIGHTLY=1) takes the right-hand numbers; both run the same code.
"""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("DPRELEASE_NIGHTLY") == "1"


def sized(often: int, nightly: int) -> int:
    """Return the number of cases of this run."""
    return nightly if NIGHTLY else often
