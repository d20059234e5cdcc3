r"""`data.csv` (tidy) and `wide.csv` (one row per group): UTF-8, commas, `\n`, a header line.

In `wide.csv` every value stands beside its interval and its status; it starts with the mark of UTF-8, without which
Excel reads `Zürich` as `ZÃ¼rich`. Of several tables a finer one ends with the
key columns of the coarser ones that it adds up to: a district's region.

A spreadsheet runs a text cell that starts with = + - @ (or hides one behind a tab or a line
break) as a formula, so such text cells, headers included, get a leading apostrophe. So does text that
starts with an apostrophe itself: what is guarded is what starts with one, no two labels meet in a
cell, and `unguarded` gives the label back. Numbers are never touched: a negative value stays one.

Values and interval ends are written with the decimals of their step, estimates in their shortest
exact form; what is unknown is an empty cell. Same release, same bytes.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.release_plan.statistic import CERTAIN_NAMES, WIDE_PARTS
from dprelease.results.draw import Draw
from dprelease.results.formats.cross_tabs import labels_above_in_folder
from dprelease.results.formats.format import of_today, several_tables
from dprelease.results.formats.numbers import decimals_of
from dprelease.results.formats.text_columns import (
    TEXT,
    fixed_apart,
    joined,
    lines,
    one_array,
    shortest,
)  # fmt: skip
from dprelease.results.formats.tidy_rows import group_places, places_of
from dprelease.results.formats.wide import wide_rows

TIDY_FILE = "data.csv"
WIDE_FILE = "wide.csv"
GUARD = "'"
GUARDED_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", GUARD)
SPECIAL = re.compile(r'[,"\r\n]')


def guarded(text: str) -> str:
    """Return `text` as a cell that no spreadsheet evaluates.

    >>> guarded("=1+1"), guarded("'=1+1"), guarded("north")
    ("'=1+1", "''=1+1", 'north')
    """
    return GUARD + text if text.startswith(GUARDED_STARTS) else text


def unguarded(cell: str) -> str:
    """Return the text that `guarded` made `cell` of."""
    return cell.removeprefix(GUARD)


@several_tables("each")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"data.csv": ..., "wide.csv": ...}`; of the manifest the edition is needed."""
    names, texts, found = (
        noised.table.column_names,
        finished_cells(noised),
        labels_above_in_folder(noised, manifest),
    )
    above = {n: _labels(pa.chunked_array([of])) for n, of in found.items()}
    places = pa.array(group_places(noised.table, noised.plan)) if above else None
    coarser = [column.take(places) for column in above.values()]
    tidy = encoded([*names, *above], [*texts, *coarser])
    mark = BOM_UTF8 if of_today(manifest) else b""
    return {TIDY_FILE: tidy, WIDE_FILE: mark + _wide(noised, texts, above)}


def finished_cells(noised: Draw) -> list[pa.Array]:
    """Return the finished cells of the tidy table, column by column."""
    table, keys = noised.table, len(noised.plan.by)
    decimals = {c: decimals_of(s.step) for s in noised.plan.statistics for c in s.columns}
    which = places_of(table.column(keys), list(decimals))
    texts = []
    for i, name in enumerate(table.column_names):
        if i > keys and name in ("value", "lower", "upper", *CERTAIN_NAMES, "consistent"):
            texts.append(fixed_apart(table.column(i), list(decimals.values()), which))
        elif i > keys and pa.types.is_floating(table.schema.field(i).type):
            texts.append(shortest(table.column(i)))
        else:
            texts.append(_labels(table.column(i)))
    return texts


def _wide(noised: Draw, texts: Sequence[pa.Array], above: Mapping[str, pa.Array]) -> bytes:
    """Return the wide file: the same cells, the columns of a group side by side."""
    plan, by = noised.plan, len(noised.plan.by)
    said = dict(zip(noised.table.column_names[by:], texts[by:], strict=True))
    rows = wide_rows(noised)
    ending = [plan.block(s.block).certain(s.function) for s in plan.statistics for _ in s.columns]
    parts = {certain: ("value", *WIDE_PARTS[certain]) for certain in set(ending)}
    at, found = pa.array(rows.ravel(), mask=rows.ravel() < 0), {}
    for certain, names in parts.items():
        each = joined([said[part] for part in names], ",")
        found[certain] = pc.fill_null(each.take(at), "," * (len(names) - 1))
    cells = found[ending[0]]
    if len(found) > 1:
        cells = pc.if_else(pa.array(np.tile(ending, len(rows))), found[True], found[False])
    ends = np.arange(len(rows) + 1) * rows.shape[1]
    groups = pc.binary_join(pa.LargeListArray.from_arrays(ends, cells), pa.scalar(",", TEXT))
    keys = [_labels(pa.chunked_array([[key[i] for key in plan.keys]], TEXT)) for i in range(by)]
    columns = [c for s in plan.statistics for c in s.columns]
    named = [
        name
        for c, certain in zip(columns, ending, strict=True)
        for name in (c, *(f"{c}_{part}" for part in parts[certain][1:]))
    ]
    return encoded([*plan.by, *named, *above], [*keys, groups, *above.values()])


def _labels(column: pa.ChunkedArray) -> pa.Array:
    """Return guarded, quoted cells; labels repeat, so each is made once."""
    coded = one_array(column).dictionary_encode()
    known = pa.array([cell(label) for label in coded.dictionary.to_pylist()], pa.large_utf8())
    return pc.fill_null(known.take(coded.indices), "")


def encoded(header: Sequence[str], columns: Sequence[pa.Array]) -> bytes:
    """Return RFC 4180 text with bare newlines, from columns of finished cells.

    The standard library's writer leaves a carriage return unquoted when lines end in a newline,
    and readers then break the cell there, which would bring a guarded formula back to a start.
    """
    return lines(",".join(map(cell, header)) + "\n", columns, ",", "\n")


def cell(label: str) -> str:
    """Return a label as a cell: guarded, and in quotes where it needs them."""
    return _quoted(guarded(label))


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if SPECIAL.search(cell) else cell
