"""Shortcuts without a proof that concern the whole release, accepted by name in `allow`.

    visible-timeout   the engine may have a time limit: whether a run exceeds it can depend on the
                      rows, and it ends after the charge, so that its period is missing says
                      something about them that no noise hides

What concerns one statistic or a view is named where it is read (`query.graph`, `query.view`). Plan, manifest
and report repeat what was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["VISIBLE_TIMEOUT", "shortcut_notes"]

VISIBLE_TIMEOUT = "visible-timeout"


def shortcut_notes(allow: Iterable[str]) -> list[str]:
    """Return what plan and manifest say of the accepted shortcuts."""
    if VISIBLE_TIMEOUT not in tuple(allow):
        return []
    return [
        (
            f"observed, not proved ({VISIBLE_TIMEOUT}): a run over the engine's time limit ends after the "
            "charge and publishes nothing; that it did can depend on the rows, outside the guarantee"
        )
    ]
