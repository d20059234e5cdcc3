"""Names and storage of a source's columns, from its public metadata alone: no value is read."""

from __future__ import annotations

from functools import partial

from dprelease.core.errors import SourceError
from dprelease.core.secret import unquoted
from dprelease.engines import in_memory
from dprelease.engines.duckdb_tables import DuckDBTables, closed
from dprelease.engines.physical import Physical
from dprelease.engines.source import Source
from dprelease.schema.column import Column, Kind

_IN_MEMORY = ("arrow", "pandas", "polars")


def stored_columns(source: Source) -> dict[str, Physical | None]:
    """Return how each column is stored, in order; None where the source does not say (CSV).

    Raises:
        SourceError: the source does not open (DPR501, DPR502), is one of Spark's (DPR516), or names
            a column twice (DPR505).
    """
    import duckdb

    names = in_memory.names(source) if source.kind in _IN_MEMORY else ()
    columns = tuple(Column(name, Kind.category) for name in names)
    with duckdb.connect(":memory:") as connection:
        tables = DuckDBTables(lambda: connection, [])
        opened = unquoted(partial(tables.open, source, columns, rows=False), closed(source))
    if opened.repeated:
        raise SourceError(
            f"{source.name} has several columns called {min(opened.repeated)!r}",
            fix="rename them in the source",
            code="DPR505",
        )
    said = source.kind != "csv"
    return {name: stored if said else None for name, (_, stored) in opened.stored.items()}
