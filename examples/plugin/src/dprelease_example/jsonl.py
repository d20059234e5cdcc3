"""JSON Lines: the tidy table, one object per line, in the order of the table.

A format is a function of the release and its manifest: equal inputs give equal bytes, so that a
repeated run, or a stranger, makes the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dprelease.results.draw import Draw

FILE = "data.jsonl"


def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"data.jsonl": bytes}`."""
    del manifest
    lines = [
        json.dumps(row, ensure_ascii=False, allow_nan=False) for row in noised.table.to_pylist()
    ]
    return {FILE: "".join(f"{line}\n" for line in lines).encode()}


# Of a release of several tables it is called once per table, and its file gets the table's name.
vars(write)["tables"] = "each"
