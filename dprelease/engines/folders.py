"""The folders `key=value` above files: columns that are the same for every row of a file.

Only folders below the part of a path that is a pattern count. Who names `…/x=5/data/f.parquet` in full
names one file, whatever the folders above it are called, and a column of its own keeps its cells.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from urllib.parse import unquote

from dprelease.core.errors import SourceError, printable

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

Folders = tuple[tuple[str, str | None], ...]
"""Key and value of each such folder above one file, outermost first; Hive's null is None."""


def first_pattern(parts: Sequence[str]) -> int:
    """Return the place of the first part that is a pattern; how many there are if none is.

    A part that stands for itself alone, as `glob.escape` writes it, is none.
    """
    return next((i for i, part in enumerate(parts) if _is_pattern(part)), len(parts))


def _is_pattern(part: str) -> bool:
    plain = re.sub(r"\[([*?[])\]", r"\1", part)
    return glob.has_magic(part) and glob.escape(plain) != part


def folders_in(parts: Sequence[str]) -> Folders:
    """Return the folders `key=value` among the parts of a path that are folders.

    Raises:
        SourceError: a name holds bytes that are not UTF-8 (DPR513): decoded, %FE and %FF would be one.
    """
    pairs = [part.partition("=") for part in parts]
    try:
        return tuple(
            (_decoded(key), None if value == _HIVE_NULL else _decoded(value))
            for key, equal, value in pairs
            if key and equal
        )
    except UnicodeError:
        raise SourceError(
            "the name of a folder `key=value` is not UTF-8",
            where=printable("/".join(parts)),
            why="such folders are read as a column, and two such names would be read as one value",
            fix="rename the folder",
            code="DPR513",
        ) from None


def shared_keys(folders: Sequence[Folders]) -> tuple[str, ...]:
    """Return the keys of files that all lie in folders of the same keys; else none."""
    keys = [tuple(key for key, _ in one) for one in folders]
    return keys[0] if keys and all(k == keys[0] for k in keys) else ()


def _decoded(name: str) -> str:
    """Return the text that a name's escapes stand for; UnicodeError if their bytes are none."""
    return unquote(name, errors="strict")
