"""The nearest declared name, for "did you mean"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like `name`, case ignored, or None when nothing is close."""
    pool = list(candidates)
    folded = {c.casefold(): c for c in reversed(pool)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    found = difflib.get_close_matches(name.casefold()[:200], list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None
