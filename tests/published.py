"""What a published folder holds, to be compared."""

from __future__ import annotations

from pathlib import Path

from dprelease.core.strict_json import read_file


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return name to bytes; OSError where something is no regular file."""
    return {path.name: read_file(path) for path in folder.iterdir()}
