"""JSON, written and read: from files that somebody else wrote one meaning, bounded in size, or a `ValueError`.

What Python's reader lets through and no two readers agree on is refused: a key that occurs twice,
NaN and infinities (`1e999` among them), numbers of thousands of digits, bytes that are not UTF-8.
What only costs is bounded before it is parsed: bytes, values, depth; and what short lists stand for before they are read.

Limits  Depth by the interpreter's own limit, which its C reader keeps.
"""

from __future__ import annotations

import json
import math
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from dprelease.core.numeric import edges_of

PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK: a named pipe must be recognised, not waited for."""
MOST_BYTES = 64 * 2**20
MOST_VALUES = 5_000_000
"""A value takes up to a hundred bytes of memory, and in the file as few as two."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of `value`: sorted keys, no spaces, strict numbers."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def json_text(value: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return the JSON text of `value` with strict numbers; without `indent` in one line and no spaces.

    Raises:
        ValueError: a NaN or an infinity.
    """
    if indent is None:
        return canonical_json(value) if sort_keys else _COMPACT.encode(value)
    return json.dumps(
        value, indent=indent, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_file(path: Path | str, most: int = MOST_BYTES, within: int | None = None) -> bytes:
    """Return the bytes of a regular file that is not a link; OSError, or larger than `most`.

    Args:
        within: the open folder that the path begins in; the current one by default.
    """
    with os.fdopen(os.open(path, PLAIN, dir_fd=within), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError("larger than it may be")
    return data


def read_json(data: bytes | str, *, texts: bool = False) -> Any:
    """Return the value of one JSON text.

    Args:
        texts: give numbers as they are written, not as what they come to.

    Raises:
        ValueError: it is not strict JSON, or larger than `MOST_BYTES` or `MOST_VALUES`.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise ValueError(f"it holds more than {MOST_VALUES:,} values")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=str if texts else _float,
            parse_int=str if texts else int,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    ranged = text.count("range") > text.count('"range"')  # more than the key of a domain
    if ranged or '"edges"' in text or "\\u" in text:
        _check_stood_for(value)
    return value


def _check_stood_for(value: Any) -> None:
    """Refuse short lists (`numeric.short_list`) that stand for more than `MOST_VALUES`: one of many comes to as little as a line."""
    parts, count = [value], 0
    while parts:
        part = parts.pop()
        if isinstance(part, str) and part.lstrip().startswith("range"):
            with suppress(ValueError):
                count += len(edges_of(part))
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
            name, edges = part.get("name"), part.get("edges")
            if isinstance(name, str) and isinstance(edges, str):
                with suppress(ValueError):
                    count += len(edges_of(edges)) * (len(name) // 64)
        if count > MOST_VALUES:
            raise ValueError(f"it stands for more than {MOST_VALUES:,} values")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key occurs twice")
    return out


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _float(text: str) -> float:
    value = float(text) if len(text) <= 400 else math.inf
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value
