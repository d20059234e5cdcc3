"""Names in a database. Of a table: `visits`, `clinic.visits`, `"My Schema"."My.Table"`.

A part in double quotes may hold a dot, or a quote that is written twice. Parts without them stand for
themselves, capitals and blanks included.
"""

from __future__ import annotations

import re

from dprelease.core.errors import SourceError

_PART = r'"(?:[^"]|"")+"|[^".][^.]*'
_NAME = re.compile(rf"(?:{_PART})(?:\.(?:{_PART}))*")


def table_parts(name: str, code: str = "DPR502") -> tuple[str, ...]:
    """Return the parts of a table's name.

    Args:
        code: of the refusal.

    >>> table_parts('"My Schema"."My.Table"'), table_parts("clinic.the visits")
    (('My Schema', 'My.Table'), ('clinic', 'the visits'))

    Raises:
        SourceError: it is no name: a part is empty, or its double quotes are open.
    """
    if not _NAME.fullmatch(name):
        raise SourceError(
            f"{name!r} does not name a table",
            why="it has an empty part, or one that begins with a double quote and does not end with it",
            fix='write schema.table; a part with a dot or a quote in double quotes, quotes in it twice: "a.b", "5"" pipes"',
            code=code,
        )
    found = re.findall(_PART, name)
    return tuple(p[1:-1].replace('""', '"') if p.startswith('"') else p for p in found)


def quoted_name(name: str, code: str = "DPR502") -> str:
    """Return a table's name as SQL; raises as `table_parts`."""
    return ".".join(map(quoted, table_parts(name, code)))


def quoted(name: str) -> str:
    """Return the name of a column, or of a part of a table's name, as SQL."""
    return '"' + name.replace('"', '""') + '"'
