"""What a caller gives, as Python's own: numpy's scalars become plain values, and a path is one.

The public doors read their arguments through here, so that nothing behind them meets a type of
another package: numbers stay exact, and what is stored or hashed is plain. Files are written through here
as well: never into a published folder.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from dprelease.core.errors import ArgumentError

MOST_LEVELS = 24
"""Levels of lists and mappings that are looked into: as deep as a file of declarations may be."""


def plain_values(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return `value` with numpy's scalars replaced by Python's, also inside mappings and lists.

    A float of any width becomes the number that it is printed as: float32's 0.1 is 0.1.

    >>> import numpy as np
    >>> plain_values({"epsilon": np.float32(0.1), "range": [np.int64(0), 5]})
    {'epsilon': 0.1, 'range': [0, 5]}
    """
    if isinstance(value, Mapping):
        if levels == 0:
            return value
        return {plain_values(k): plain_values(v, levels - 1) for k, v in value.items()}
    if type(value) in (list, tuple) and levels:
        return type(value)(plain_values(item, levels - 1) for item in value)
    numpy = sys.modules.get("numpy")  # where nothing has loaded it, nothing is of its types
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 0:
        value = value[()]  # its one scalar
    if numpy is None or not isinstance(value, numpy.generic):
        return value
    if isinstance(value, numpy.floating):
        return _shortest(str(value))
    plain = isinstance(value, numpy.integer | numpy.bool_ | numpy.str_)
    return value.item() if plain and not isinstance(value, numpy.timedelta64) else value


def _shortest(text: str) -> float | Decimal:
    """Return the float of this text, or a Decimal where no float has this shortest form."""
    number = float(text)
    known = math.isnan(number) or Decimal(repr(number)) == Decimal(text)
    return number if known else Decimal(text)


def path_from(value: object, what: str, example: str) -> Path:
    """Return the path of `what` that a caller gave, as text or as a path.

    Raises:
        ArgumentError: it is neither, or holds a null character (DPR642).
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if isinstance(path, str) and "\0" not in path and path.strip():
        return Path(path)
    holds = f"an object of type {type(value).__name__}"
    if isinstance(path, str):
        holds = "a text with a null character" if path.strip() else "an empty text"
    raise ArgumentError(
        f"{what} is named by a path, not by {holds}",
        why="a path is a text or a `pathlib.Path`",
        fix=f'e.g. "{example}"',
        code="DPR642",
    )


def outside_published(to: Path) -> Path:
    """Return where a caller has a file written; ArgumentError DPR668 if that would change a published folder."""
    changed = next(at for at in Path(os.path.realpath(to)).parents if os.path.lexists(at))
    if os.path.lexists(changed / "release.json"):
        why = f"{changed} is a published folder: with another file or page it does not verify"
        raise cannot_write(to, why, "name a file outside it")
    return to


def cannot_write(to: Path, why: str | None, fix: str) -> ArgumentError:
    return ArgumentError(f"cannot write {to.name}", where=str(to), why=why, fix=fix, code="DPR668")
