r"""`data.csv` (tidy) and `wide.csv` (one row per group): UTF-8, commas, `\n`, a header line.

A spreadsheet runs a text cell that starts with = + - @ (or hides one behind a tab or a line
break) as a formula, so such text cells, headers included, get a leading apostrophe. Numbers are
never touched: a negative value stays a number.

Values are written with the decimals of their step; intervals, estimates and errors in their shortest exact
form; an unknown error is an empty cell. Same release, same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from dprelease.formats.numbers import decimals_of, machine_text
from dprelease.formats.wide import wide_table
from dprelease.noised import TIDY, Noised

__all__ = ["TIDY_FILE", "WIDE_FILE", "guarded", "write"]

TIDY_FILE = "data.csv"
WIDE_FILE = "wide.csv"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
SPECIAL = re.compile(r'[,"\r\n]')


def guarded(text: str) -> str:
    """Return `text` as a cell that no spreadsheet evaluates.

    >>> guarded("=1+1"), guarded("north")
    ("'=1+1", 'north')
    """
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def write(noised: Noised, manifest: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG001 - the contract of formats
    """Return `{"data.csv": ..., "wide.csv": ...}`; `manifest` is not needed."""
    return {TIDY_FILE: _tidy(noised), WIDE_FILE: _wide(noised)}


def _tidy(noised: Noised) -> bytes:
    table, keys = noised.table, len(noised.plan.by)
    decimals = {c: decimals_of(s.step) for s in noised.plan.statistics for c in s.columns}
    names = table.column(keys).to_pylist()
    texts = []
    for i, name in enumerate(table.column_names):
        cells = table.column(i).to_pylist()
        if i > keys and name in ("value", "consistent"):
            texts.append(_numbers(cells, [decimals[name] for name in names]))
        elif i > keys and pa.types.is_floating(TIDY.field(name).type):
            texts.append(_numbers(cells, None))
        else:
            texts.append(_labels(cells))
    return _encode(table.column_names, texts)


def _wide(noised: Noised) -> bytes:
    table, keys = wide_table(noised), len(noised.plan.by)
    texts = [_labels(table.column(i).to_pylist()) for i in range(keys)]
    places = [decimals_of(s.step) for s in noised.plan.statistics for _ in s.columns]
    for i, number in enumerate(places, start=keys):
        cells = table.column(i).to_pylist()
        texts.append(_numbers(cells, [number] * len(cells)))
    return _encode(table.column_names, texts)


def _numbers(
    cells: Sequence[float | None], decimals: Sequence[int | None] | None
) -> list[str]:
    """Return finished cells, with `decimals` each, or all in their shortest exact form."""
    if decimals is None:
        return ["" if x is None else repr(x + 0.0) for x in cells]
    writers: dict[int | None, Callable[[float], str]] = {d: partial(machine_text, decimals=d) for d in set(decimals)}
    if None not in writers:  # the C formatter itself, without a call of ours per cell
        writers = {d: f"%.{d}f".__mod__ for d in writers}
    return [
        "" if x is None else str(x) if type(x) is int else writers[d](x + 0.0)
        for x, d in zip(cells, decimals, strict=True)
    ]


def _labels(cells: Sequence[str | None]) -> list[str]:
    """Return guarded, quoted cells; labels repeat, so each is made once."""
    known = {cell: "" if cell is None else _quoted(guarded(cell)) for cell in set(cells)}
    return [known[cell] for cell in cells]


def _encode(header: Sequence[str], columns: Sequence[Sequence[str]]) -> bytes:
    """Return RFC 4180 text with bare newlines, from columns of finished cells.

    The standard library's writer leaves a carriage return unquoted when lines end in a newline,
    and readers then break the cell there, which would bring a guarded formula back to a start.
    """
    lines = [",".join(_labels(header)), *map(",".join, zip(*columns, strict=True)), ""]
    return "\n".join(lines).encode("utf-8")


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if SPECIAL.search(cell) else cell
