"""`data.csv` (tidy) and `wide.csv` (one row per group): UTF-8, commas, `\\n`, a header line.

A spreadsheet runs a text cell that starts with = + - @ (or hides one behind a tab or a line
break) as a formula, so such text cells, headers included, get a leading apostrophe. Numbers are
never touched: a negative value stays a number.

Values are written with the decimals of their step; intervals and errors in their shortest exact
form; an unknown error is an empty cell. Same release, same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dprelease.formats.numbers import decimals_of, machine_text
from dprelease.formats.wide import is_whole, wide_table
from dprelease.release import TIDY, Noised

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


def write(noised: Noised, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"data.csv": ..., "wide.csv": ...}`; `manifest` is not needed."""
    return {TIDY_FILE: _tidy(noised), WIDE_FILE: _wide(noised)}


def _tidy(noised: Noised) -> bytes:
    table, keys = noised.table, len(noised.plan.by)
    decimals = {c: decimals_of(s.step) for s in noised.plan.statistics for c in s.columns}
    columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    value_at = keys + TIDY.get_field_index("value")
    lines = []
    for row in zip(*columns, strict=True):
        places = decimals.get(row[keys])
        lines.append(
            [
                machine_text(cell, places) if i == value_at else _cell(cell)
                for i, cell in enumerate(row)
            ]
        )
    return _encode(table.column_names, lines)


def _wide(noised: Noised) -> bytes:
    table = wide_table(noised)
    texts: list[list[str]] = []
    places = [
        None if is_whole(s) else decimals_of(s.step)
        for s in noised.plan.statistics
        for _ in s.columns
    ]
    for i in range(table.num_columns):
        cells = table.column(i).to_pylist()
        if i < len(noised.plan.by):
            texts.append([_cell(c) for c in cells])
        else:
            number = places[i - len(noised.plan.by)]
            texts.append([_number(c, number) for c in cells])
    return _encode(table.column_names, list(zip(*texts, strict=True)))


def _number(value: float | None, decimals: int | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else machine_text(value, decimals)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return machine_text(value, None) if isinstance(value, float) else guarded(str(value))


def _encode(header: Sequence[str], lines: Iterable[Sequence[str]]) -> bytes:
    """Return RFC 4180 text with bare newlines.

    The standard library's writer leaves a carriage return unquoted when lines end in a newline,
    and readers then break the cell there, which would bring a guarded formula back to a start.
    """
    text = io.StringIO(newline="")
    for cells in ([guarded(name) for name in header], *lines):
        text.write(",".join(map(_quoted, cells)) + "\n")
    return text.getvalue().encode("utf-8")


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if SPECIAL.search(cell) else cell
