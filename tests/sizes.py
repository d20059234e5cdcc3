"""How much is tried: fixed small sizes with every change, more in `make evidence`, all at night.

`make nightly` (DPRELEASE_NIGHTLY=1) takes the right-hand numbers; every size runs the same code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
NIGHTLY = os.environ.get("DPRELEASE_NIGHTLY") == "1"
FULL = NIGHTLY or "DPRELEASE_EVIDENCE" in os.environ
"""Whether crosses are taken whole: in `make evidence` and `make nightly`."""


def sized(often: int, nightly: int) -> int:
    """Return the number of cases of this run."""
    return nightly if NIGHTLY else often


def whole(often: int, full: int) -> int:
    """Return the number of cases of this run: `full` in `make evidence` and `make nightly`."""
    return full if FULL else often


def some(cases: Iterable[T], every: int) -> list[T]:
    """Return the cases of this run: every so many of them, the first among them; all in `make evidence`.

    For cases that are alike. What only one case would notice stays in every run.
    """
    found = list(cases)
    return found if FULL else found[::every]
