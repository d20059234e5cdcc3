"""The rows of CSV files as Arrow text; total: whatever bytes a line holds, it stays one row.

    record  the bytes up to a line end; or up to a later one, where a quoted cell holds line ends
    quoted  "…" over the whole cell, each quote inside doubled
    plain   everything else, up to the delimiter; quotes in it are characters like others

Each record is one row, an empty line too. Cells that lack are missing, cells too many are left out,
and a cell is missing that is empty, not UTF-8, or longer than `LONGEST_CELL`. Line ends belong to a
quoted cell only where the record that they make is quoted without a fault and at most
`LONGEST_RECORD` long; else the line is a record by itself. So a quote that somebody left open
takes no other row with it, and no line can make another one vanish.

Why not the database's own reader: it drops a line that is too long or not UTF-8, and lets an open
quote run on. Then one person's cell, in whatever column, removes rows: under a public number of
rows that is seen with certainty.

A block without a faulty quote is split by numpy, all columns at once; a block with one, record by
record. Both follow the rules above, and where blocks are cut changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.engines.csv_header import opened_after_header

LONGEST_CELL = 1 << 20
LONGEST_RECORD = 64 << 20
_READ = 4 << 20  # bytes read at a time, at least
_BLOCK = 512 << 10  # bytes split at a time

_SPACES = " \u00a0\u202f"
_QUOTE, _RETURN = ord('"'), ord("\r")

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CsvRows:
    """Some columns of CSV files with one header: each scan of it reads the files again.

    Attributes:
        paths: the files, in order.
        delimiter: between cells, one ASCII character; empty where a line is one cell.
        columns: places of the wanted columns in the header; they are named `c{place}`.
        numbers: those of them that hold numbers.
        decimal: the sign in numbers, if stated (`csv_header.Dialect`).
        labels: those that are categories of numbers, whose other texts stay as they are.
    """

    paths: tuple[Path, ...]
    delimiter: str
    columns: tuple[int, ...]
    numbers: frozenset[int] = frozenset()
    decimal: str | None = None
    labels: frozenset[int] = frozenset()

    @cached_property
    def schema(self) -> pa.Schema:
        """Text columns, or one column of nothing where rows are only counted."""
        names = [f"c{i}" for i in self.columns]
        return pa.schema([(name, pa.large_string()) for name in names] or [("row", pa.bool_())])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream of the rows, by Arrow's PyCapsule protocol."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order.

        Raises:
            OSError, EOFError: a file is damaged as a file, or gone.
        """
        for path in self.paths:
            file, end = opened_after_header(path)
            with file:
                split = _Splitter(self.delimiter.encode(), end)
                for count, cells in split.pieces(file, self.columns):
                    arrays = [
                        self._cells(place, array)
                        for place, array in zip(self.columns, cells, strict=True)
                    ] or [pa.nulls(count, pa.bool_())]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _cells(self, place: int, cells: Any) -> Any:
        text = _text(cells)
        if self.decimal == "," and place in self.labels:
            return pc.replace_substring_regex(text, r"^( *[-+]?\d+),(\d+ *)$", r"\1.\2")
        if self.decimal is None or place not in self.numbers:
            return text
        return _with_points(text, self.decimal)


Piece = tuple[int, list[Any]]
"""A number of rows, and per wanted column a binary array of so many cells."""


class _Splitter:
    """Splits the bytes of one file."""

    def __init__(self, delimiter: bytes, end: bytes) -> None:
        delimiter = delimiter or end
        d, e = re.escape(delimiter), re.escape(end)
        self.delimiter, self.end = delimiter[0], end[0]
        self.end_text = end
        # possessive: no backtracking, whatever a cell holds
        self._quoted = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"(?=%b|\r?%b)' % (d, e))
        self._open = re.compile(rb'"[^"]*+(?:""[^"]*+)*+("\r?)?\Z')
        self._plain = re.compile(rb"[^%b%b]*+" % (d, e))

    def pieces(self, file: IO[bytes], columns: Sequence[int]) -> Iterator[Piece]:
        """Yield what `file` holds from here on."""
        rest = b""
        while True:
            read = file.read(max(_READ, len(rest)))  # doubling: a long record is scanned few times
            data = rest + read
            if not read and data and not data.endswith(self.end_text):
                data += self.end_text
            at = 0
            while at < len(data):
                found = self._at_once(data[at : at + _BLOCK], columns)
                found = found or self._one_by_one(data, at, columns, last=not read)
                (count, cells), used = found
                if not used:
                    break
                yield count, cells
                at += used
            rest = data[at:]
            if not read:
                return

    # -- a block without a faulty quote --------------------------------------------------------

    def _at_once(self, data: bytes, columns: Sequence[int]) -> tuple[Piece, int] | None:
        """Return the rows of `data` and how many bytes they are; None for a faulty quote in them."""
        text = np.frombuffer(data, np.uint8)
        is_end = text == self.end
        marked = is_end | (text == self.delimiter)
        is_quote = text == _QUOTE
        quotes = np.flatnonzero(is_quote)
        if quotes.size:
            marked &= ~np.logical_xor.accumulate(is_quote)
        marks = np.flatnonzero(marked)
        lines = np.flatnonzero(is_end[marks])  # which of the marks end a record
        if not lines.size:
            return None
        used = int(marks[lines[-1]]) + 1
        quotes = quotes[: np.searchsorted(quotes, used)]
        ends = marks[lines]
        starts = np.concatenate(([0], ends[:-1] + 1))
        if not self._sound(text, quotes, used) or int((ends - starts).max()) >= LONGEST_RECORD:
            return None
        first = np.concatenate(([0], lines[:-1] + 1))
        doubled = bool(quotes.size) and bool((np.diff(quotes) == 1).any())
        made = [
            self._column(text, starts, marks, first, lines - first, k, doubled) for k in columns
        ]
        return (len(lines), made), used

    def _sound(self, text: npt.NDArray[np.uint8], quotes: Places, used: int) -> bool:
        """Return whether each quote opens, closes, or is one of two inside."""
        if not quotes.size:
            return True
        opening, closing = quotes[0::2], quotes[1::2]
        if opening.size != closing.size:
            return False
        before = text[np.maximum(opening - 1, 0)]
        outside = (
            (before == self.delimiter) | (before == self.end) | (before == _QUOTE) | (opening == 0)
        )
        after = text[closing + 1]  # the block's last byte is a line end
        second = text[np.minimum(closing + 2, used - 1)]
        over = (after == self.delimiter) | (after == self.end) | (after == _QUOTE)
        if self.end != _RETURN:
            over |= (after == _RETURN) & (second == self.end)
        return bool(outside.all() and over.all())

    def _column(
        self,
        text: npt.NDArray[np.uint8],
        starts: Places,
        marks: Places,
        first: Places,
        delimiters: Places,
        place: int,
        doubled: bool,
    ) -> Any:
        """Return the cells at `place` of each record; empty where it lacks.

        Args:
            starts: where each record begins.
            marks: delimiters and line ends outside quotes; `first` is each record's first.
            delimiters: how many each record has.
        """
        there = delimiters >= place
        at = np.where(there, first + place, 0)
        low = starts if place == 0 else np.where(there, marks[np.maximum(at - 1, 0)] + 1, 0)
        high = np.where(there, marks[at], 0)
        if self.end != _RETURN:
            high = high - ((delimiters == place) & (high > low) & (text[high - 1] == _RETURN))
        quoted = (high > low) & (text[np.minimum(low, len(text) - 1)] == _QUOTE)
        lengths = high - low - 2 * quoted
        lengths[lengths > 2 * LONGEST_CELL] = 0  # doubled quotes are counted twice
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(offsets[-1]) + np.repeat(low + quoted - offsets[:-1], lengths)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text[places])]
        cells = pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
        return pc.replace_substring(cells, pattern=b'""', replacement=b'"') if doubled else cells

    # -- a block with a faulty quote, or without a whole record --------------------------------

    def _one_by_one(
        self, data: bytes, start: int, columns: Sequence[int], *, last: bool
    ) -> tuple[Piece, int]:
        """Return about a block of rows, record by record, and how many bytes they are.

        Args:
            start: where in `data` the first of them begins.
            last: no more bytes follow `data`.
        """
        cells: list[list[bytes]] = [[] for _ in columns]
        count, at, stop = 0, start, min(start + _BLOCK, len(data))
        while at < stop and (record := self._record(data, at, last=last)) is not None:
            found, at = record
            count += 1
            for column, place in zip(cells, columns, strict=True):
                column.append(found[place] if place < len(found) else b"")
        return (count, [pa.array(column, pa.large_binary()) for column in cells]), at - start

    def _record(self, data: bytes, at: int, *, last: bool) -> tuple[list[bytes], int] | None:
        """Return the cells of the record at `at` and where the next one begins.

        None: more bytes are needed to tell.
        """
        whole = self._cells(data, at)
        if whole is None and not last and len(data) - at <= LONGEST_RECORD:
            return None
        line = data.find(self.end_text, at)
        if whole is not None:
            cells, after, sound = whole
            if after == line + 1 or (sound and after - at <= LONGEST_RECORD):
                return cells, after
        if line < 0:
            return None
        alone = self._cells(data[at : line + 1], 0, closed=True)
        assert alone is not None
        return alone[0], line + 1

    def _cells(
        self, data: bytes, at: int, *, closed: bool = False
    ) -> tuple[list[bytes], int, bool] | None:
        """Return the cells from `at` to the first line end outside quotes.

        Also where the next record begins, and whether all quotes are sound. None: `data` ends
        before that. With `closed` it does not: an open quote is a character like others.
        """
        cells, sound = [], True
        while True:
            if quoted := self._quoted.match(data, at):
                cells.append(quoted[1].replace(b'""', b'"'))
                at = quoted.end()
                at += data[at : at + 1] == b"\r" != self.end_text
            elif not closed and self._open.match(data, at):
                return None
            else:
                plain = self._plain.match(data, at)
                assert plain is not None
                at = plain.end()
                if at == len(data):
                    return None
                cell = plain[0]
                if data[at] == self.end != _RETURN:
                    cell = cell.removesuffix(b"\r")
                sound = sound and b'"' not in cell
                cells.append(cell)
            at += 1
            if data[at - 1] == self.end:
                return cells, at, sound


def _with_points(cells: Any, decimal: str) -> Any:
    """Return numbers as they are written with a point and without groups.

    With a decimal comma, a cell with a point or comma that is no such number is none: 12.5 becomes 12·5.
    """
    signs = pc.match_substring_regex(cells, pattern=f"[.,{_SPACES}'\u2019]")
    if not pc.any(signs).as_py():
        return cells
    digits = "|".join(
        rf"\d{{1,3}}([{sign}]\d{{3}})+"
        for sign in ("," if decimal == "." else ".", _SPACES, "'\u2019")
    )
    blank = r"[ \t\n\v\f\r]*"
    number = rf"^{blank}[+-]?({digits}|\d*)([{decimal}]\d*)?([eE][+-]?\d+)?{blank}$"
    written = pc.match_substring_regex(cells, pattern=number)
    parts = "[,.\u2019'\\s\u00a0\u202f]".replace(decimal, "")
    plain = pc.replace_substring_regex(cells, pattern=parts, replacement="")
    plain = pc.replace_substring(plain, pattern=decimal, replacement=".")
    other = cells if decimal == "." else pc.replace_substring_regex(cells, "[.,]", "\u00b7")
    return pc.if_else(signs, pc.if_else(written, plain, other), cells)


def _text(cells: Any) -> Any:
    """Return cells as text; missing where empty, too long, or not UTF-8."""
    lengths = pc.binary_length(cells)
    readable = pc.and_(pc.greater(lengths, 0), pc.less_equal(lengths, LONGEST_CELL))
    cells = pc.if_else(readable, cells, pa.scalar(None, pa.large_binary()))
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(cell) for cell in cells.to_pylist()], pa.large_string())


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return None
