"""The header line of a CSV file: its dialect and column names, public metadata.

The delimiter and the end of a line are decided by the header alone, or stated. A sniffer would decide
them, and types, from rows: then one person's cell could change how everybody's cells are read. A header of
one name shows no delimiter, so a line is one cell. How numbers are written no header says: files with `;` are
mostly written with a decimal comma, those with a tab or another sign and one column alone may be, so there it is stated.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, cast

from dprelease.core.errors import ArgumentError, SourceError
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import compared_by_value

_LONGEST = 1 << 20  # bytes read in search of the end of the header
_DELIMITERS = ",;\t|"
_BOM = codecs.BOM_UTF8
_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
IN_CELLS = '"+-._ '
"""ASCII that is in numbers or names, besides digits and letters."""
_MOSTLY_COMMA = ";"
"""The delimiter of files whose numbers have a decimal comma, mostly."""
_NO_DELIMITER = ""
_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
_NUMBERS = (Kind.number, Kind.integer)
"""Whole numbers too: one beside an empty cell is written 12,0 by pandas, and twelve thousand as 12.000."""


class Dialect(NamedTuple):
    """How a CSV file is written; None where its header decides, or the files with `,` that all write.

    Attributes:
        delimiter: between cells, one ASCII character.
        decimal: `.` or `,` in numbers; the other sign, a space or an apostrophe may part groups of
            three digits.
    """

    delimiter: str | None = None
    decimal: str | None = None


def dialect(delimiter: object, decimal: object) -> Dialect:
    """Return the dialect of these signs, None where one is not stated.

    Raises:
        ArgumentError: no such sign can be one (DPR643).
    """
    if delimiter is not None and not (
        isinstance(delimiter, str)
        and len(delimiter) == 1
        and delimiter.isascii()
        and (delimiter == "\t" or delimiter.isprintable())
        and not delimiter.isalnum()
        and delimiter not in IN_CELLS
    ):
        raise ArgumentError(
            f"{delimiter!r} cannot be a delimiter",
            why="cells are separated by one ASCII character that is in no number or name",
            fix='e.g. delimiter: ";", or "\\t" for a tab',
            code="DPR643",
        )
    if decimal is not None and not (isinstance(decimal, str) and decimal in (".", ",")):
        raise ArgumentError(
            f"{decimal!r} cannot be a decimal sign", fix='decimal: "," or "."', code="DPR643"
        )
    return Dialect(delimiter, decimal)


def decimal_labels(columns: Collection[Column]) -> frozenset[str]:
    """Return the categories of numbers, as which a file with a decimal comma writes 12,5 for a declared 12.5."""
    return frozenset(
        c.name
        for c in columns
        if compared_by_value(c.values, c.lists) and not any(map(_COMMA.fullmatch, c.values))
    )


def require_decimal(
    source: str, header: Header, said: Dialect, columns: Collection[Column]
) -> None:
    """Refuse a file whose header leaves open how its numbers are written.

    Args:
        columns: that are read.

    Raises:
        SourceError: its delimiter is `;`, or it is not `,` and a column of numbers is read; and no decimal
            sign is stated (DPR526).
    """
    between = header.delimiter
    kinds = (Kind.number,) if between == _NO_DELIMITER else _NUMBERS
    numbers = any(c.kind in kinds and c.name in header.names for c in columns)
    open_ = (columns and between == _MOSTLY_COMMA) or (numbers and between != ",")
    if open_ and said.decimal is None:
        alone = between == _NO_DELIMITER
        shown = "a tab" if between == "\t" else f"`{between}`"
        raise SourceError(
            ("the file has one column" if alone else f"the header has {shown} between its names")
            + ", and how numbers are written is not said",
            where=source,
            why="12,5 may be twelve and a half, or 12 and a cell too many"
            if alone
            else f"{'most' if between == _MOSTLY_COMMA else 'many'} such files write 12,5 for twelve and a half;"
            " read with a point, all these numbers would be null",
            fix='`source: {csv: {path: FILE, decimal: ","}}` (or "."); in Python {"csv": {"path": FILE, "decimal": ","}}',
            code="DPR526",
        )


@dataclass(frozen=True, slots=True)
class Header:
    """Delimiter and column names, in file order; no delimiter, an empty text, where a line is one cell."""

    delimiter: str
    names: tuple[str, ...]


def read_header(paths: tuple[Path, ...], said: Dialect = Dialect()) -> Header:  # noqa: B008 - immutable
    """Return the header that all of `paths` share.

    Raises:
        SourceError: a file does not open or has no header (DPR518), or two headers differ (DPR506).
    """
    first: Header | None = None
    for path in paths:
        header = _header_of(path, said)
        if first is not None and header != first:
            raise SourceError(
                f"{path.name} and {paths[0].name} have different headers",
                why="files read together must have the same columns in the same order",
                fix="name the files separately, or rewrite one",
                code="DPR506",
            )
        first = header
    assert first is not None
    return first


def opened_after_header(path: Path) -> tuple[IO[bytes], bytes]:
    """Return the file, open and positioned after its header, and the byte that ends its lines.

    That is a line feed, or a carriage return where one alone ends the header (as old Macs wrote).

    Raises:
        OSError, EOFError: the file cannot be read any more.
    """
    file = _open(path)
    head = file.read(_LONGEST)
    line = _first_line(head)
    end = (
        b"\r"
        if head[len(line) :].startswith(b"\r") and head[len(line) + 1 :][:1] != b"\n"
        else b"\n"
    )
    file.seek(len(line) + len(b"\r\n" if head[len(line) :].startswith(b"\r\n") else end))
    return file, end


def _open(path: Path) -> IO[bytes]:
    packed = path.name.lower().endswith(".gz")
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")


def _first_line(head: bytes) -> bytes:
    return (head.splitlines() or [b""])[0]


def _header_of(path: Path, said: Dialect) -> Header:
    head, text, why, mend = b"", "", "", "write it again: the names of the columns first"
    try:
        with _open(path) as file:
            head = file.read(_LONGEST)
        line = _first_line(head)
        why = _unreadable(head, line)
        text = "" if why else line.removeprefix(_BOM).decode("utf-8")
    except (OSError, EOFError) as error:
        why = f"it does not open ({getattr(error, 'strerror', None) or 'it is damaged'})"
        mend = "let this user read it, or restore the file"
    except UnicodeDecodeError:
        why = "its first line is not UTF-8"
    if not text:
        raise SourceError(
            f"{path.name} has no readable header line",
            why=f"{why}; the first line must be column names in UTF-8",
            fix=mend
            if not head
            else "save it as UTF-8, with the names of the columns in the first line",
            code="DPR518",
        )
    if said.delimiter is not None:
        delimiter = said.delimiter
    elif path.name.lower().endswith((".tsv", ".tsv.gz")):
        delimiter = "\t"
    else:
        delimiter = max(_DELIMITERS, key=lambda d: (text.count(d), d == ","))
    names = tuple(next(csv.reader([text], delimiter=delimiter, strict=False)))
    shown = said.delimiter is not None or delimiter in text
    return Header(delimiter if shown else _NO_DELIMITER, names)


def _unreadable(head: bytes, line: bytes) -> str:
    """Return why no names can be read from the first bytes of a file; empty where they can."""
    if not head.removeprefix(_BOM):
        return "the file is empty"
    if head.startswith(_WIDE) or b"\0" in line:
        return "the file is UTF-16 or UTF-32, or no text at all"
    if not line.removeprefix(_BOM):
        return "its first line is empty"
    # cut off, or with a name that holds a line end: where the rows begin is then not known
    if len(line) >= _LONGEST or line.count(b'"') % 2:
        return "its first line does not end, or a name in it holds a line end"
    return ""
