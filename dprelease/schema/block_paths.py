"""Files that a release block names, as absolute paths: relative to what declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Named = Callable[..., Path]
"""Makes a path of a text, given its place in the block."""

_LISTED = (("tables", "zeros_from"), ("totals", "values_from"), ("statistics", "edges_from"))


def with_paths(named: Named, block: Mapping[str, object]) -> dict[str, object]:
    """Return a release block whose files are paths; ConfigError where one leaves the project (DPR116)."""
    out = dict(block)
    if isinstance(out.get("keys_from"), str):
        out["keys_from"] = named(str(out["keys_from"]), "keys_from")
    for name, key in _LISTED:
        items = out.get(name)
        if isinstance(items, list) and {*map(type, items)} - {str}:
            out[name] = _with_paths(named, items, key, name)
    return out


def _with_paths(named: Named, items: Sequence[Any], key: str, *place: str | int) -> list[Any]:
    made = list(items)
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            continue
        made[i] = dict(item)
        if isinstance(item.get(key), str):
            made[i][key] = named(item[key], *place, i, key)
        if isinstance(item.get("statistics"), list):  # of a table
            below = (*place, i, "statistics")
            made[i]["statistics"] = _with_paths(named, item["statistics"], "edges_from", *below)
    return made
