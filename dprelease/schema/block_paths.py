"""Files that a release block names, as absolute paths: relative to the declaration file that names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.schema.declaration_file import DeclarationFile

_LISTED = (("tables", "zeros_from"), ("totals", "values_from"))


def with_paths(file: DeclarationFile, block: Mapping[str, object]) -> dict[str, object]:
    """Return a release block whose files are paths; ConfigError where one leaves the project (DPR116)."""
    out = dict(block)
    if isinstance(out.get("keys_from"), str):
        out["keys_from"] = file.path(str(out["keys_from"]), "release", "keys_from")
    for name, key in _LISTED:
        items = out.get(name)
        if isinstance(items, list):
            out[name] = [_with_path(file, item, key, name, i) for i, item in enumerate(items)]
    return out


def _with_path(file: DeclarationFile, item: Any, key: str, name: str, place: int) -> Any:
    if not isinstance(item, Mapping) or not isinstance(item.get(key), str):
        return item
    return {**item, key: file.path(item[key], "release", name, place, key)}
