"""The header line of a CSV file: its dialect and column names, public metadata.

The delimiter and the end of a line are decided by the header alone. A sniffer would decide them,
and types, from rows: then one person's cell could change how everybody's cells are read.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from dprelease.errors import SourceError

__all__ = ["Header", "opened_after_header", "read_header"]

_LONGEST = 1 << 20  # bytes read in search of the end of the header
_DELIMITERS = ",;\t|"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Header:
    """Delimiter and column names, in file order."""

    delimiter: str
    names: tuple[str, ...]


def read_header(paths: tuple[Path, ...]) -> Header:
    """Return the header that all of `paths` share.

    Raises:
        SourceError: a file does not open or has no header (DPR502), or two headers differ (DPR506).
    """
    first: Header | None = None
    for path in paths:
        header = _one(path)
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


def _one(path: Path) -> Header:
    text = ""
    try:
        with _open(path) as file:
            head = file.read(_LONGEST)
        line = _first_line(head)
        # cut off, or with a name that holds a line end: where the rows begin is then not known
        if len(line) < _LONGEST and line.count(b'"') % 2 == 0:
            text = line.removeprefix(_BOM).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        text = ""
    if not text:
        raise SourceError(
            f"{path.name} has no readable header line",
            why="its first line must be column names in UTF-8",
            fix="check the file",
            code="DPR502",
        )
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        delimiter = "\t"
    else:
        delimiter = max(_DELIMITERS, key=lambda d: (text.count(d), d == ","))
    return Header(delimiter, tuple(next(csv.reader([text], delimiter=delimiter, strict=False))))
