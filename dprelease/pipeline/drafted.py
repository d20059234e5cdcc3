"""A schema drafted from a table's column names and types: never from its values.

A bound, a list of values or a size that follows the data tells about the data; so each of them stays
a question, on a line with ANSWER. For CSV, which has no types, the kind is a question too.
"""

from __future__ import annotations

import re
from pathlib import Path

from dprelease.engines.columns import stored_columns
from dprelease.engines.physical import KINDS, Physical
from dprelease.engines.source import Source, TableLike, as_source, duckdb_table, postgres_table
from dprelease.engines.table_names import table_parts
from dprelease.pipeline.secret_reference import SecretReference
from dprelease.schema.column import Kind
from dprelease.schema.importers.draft import DraftColumn, DraftTable, write_draft

_KINDS = {**KINDS, Physical.whole: Kind.integer, Physical.unsigned: Kind.integer}
_NAMED = re.compile(r"(\$\{[^}]*\}|.+?\.(?:duckdb|ddb|db)):(.+)", re.DOTALL)
"""A place and a table in it, whose quoted name may hold a colon."""
_ID = re.compile(r"(^|_)(id|uuid|guid)$", re.IGNORECASE)


def draft_schema(data: TableLike | Source, *, name: str = "table") -> str:
    """Return the text of a schema file for `data`, made from names and types alone.

    Args:
        data: anything that `release` takes: a frame, an arrow table, a relation, a path, a source.
        name: of the schema.

    Raises:
        SourceError: the table does not open (DPR500 to DPR502) or cannot be described (DPR505, DPR516).
    """
    source = as_source(data)
    found = stored_columns(source)
    columns = tuple(_column(column, stored) for column, stored in found.items())
    return write_draft(DraftTable(name, "column names and types alone", columns), source.name)


def named_source(text: str) -> tuple[Source, str]:
    """Return the source that the command line names, and a name for its schema.

    `visits.parquet`, `clinic.duckdb:visits`, `${env:CLINIC_DSN}:public.visits`; parts of a table's name
    as `table_names` reads them.

    Raises:
        SourceError: it is none of these (DPR500), there is no such file (DPR501), or no table has
            such a name (DPR502).
        ConfigError: the reference to the connection string is faulty, or its place is not there.
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        return as_source(text), Path(text).name.partition(".")[0]
    place, table = found.groups()
    name = table_parts(table)[-1]
    if not place.startswith("${"):
        return duckdb_table(place, table), name
    here = Path.cwd()
    reference = SecretReference(place, base=here, root=here, origin="SOURCE")
    return postgres_table(reference.reveal_to_source, table), name


def _column(name: str, stored: Physical | None) -> DraftColumn:
    if _ID.search(name):  # a name is public; whom it names, the publisher answers
        return DraftColumn(name, Kind.identifier)
    if stored is None:
        return DraftColumn(name, None, said="")
    return DraftColumn(name, _KINDS.get(stored), said=stored.value)
