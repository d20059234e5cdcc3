"""The header line of a CSV file: its dialect and column names, public metadata.

The delimiter is decided by the header alone. A sniffer would decide it, and types, from rows:
then one person's cell could change how everybody's cells are read.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import SourceError

__all__ = ["Header", "read_header"]

_LONGEST = 1 << 20  # bytes read in search of the end of the header
_DELIMITERS = ",;\t|"


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


def _one(path: Path) -> Header:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            line = file.readline(_LONGEST).splitlines()
        text = line[0].decode("utf-8-sig") if line else ""
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
