"""Opt-ins that concern the whole release, accepted by name in `allow`.

    visible-timeout   the engine may have a time limit: whether a run exceeds it can depend on the
                      rows, and it ends after the charge, so that its period is missing says
                      something about them that no noise hides
    missing-column    a Parquet file may lack a column that is used, or spell it in another case: its
                      cells are null. Which columns a file has is public; the guarantee is the same

What concerns one statistic or a view is named where it is read (`query.graph`, `query.view`). Plan, manifest
and report repeat what was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable

VISIBLE_TIMEOUT = "visible-timeout"
MISSING_COLUMN = "missing-column"


def shortcut_notes(allow: Iterable[str]) -> list[str]:
    """Return what plan and manifest say of the accepted shortcuts."""
    said = {
        VISIBLE_TIMEOUT: f"observed, not proved ({VISIBLE_TIMEOUT}): a run over the engine's time limit ends after "
        "the charge and publishes nothing; that it did can depend on the rows, outside the guarantee",
        MISSING_COLUMN: f"files may lack a column ({MISSING_COLUMN}): its cells are null in their rows",
    }
    accepted = tuple(allow)
    return [note for name, note in said.items() if name in accepted]
