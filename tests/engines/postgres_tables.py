"""Tables of a PostgreSQL server, made of the rows that tests generate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dprelease.engines.source import Source, postgres_table
from dprelease.testing.engines import table_of

__all__ = ["load", "table"]

COLUMN_TYPES = {
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.date32(): "date",
}


def table(dsn: str, name: str = "t") -> Source:
    return postgres_table(lambda: dsn, name)


def column_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return "numeric"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return COLUMN_TYPES.get(kind, "text")


def load(connection: Any, rows: dict[str, list[Any]], name: str = "t") -> None:
    """Make the table anew from the rows."""
    parts = [f'"{f.name}" {column_type(f.type)}' for f in table_of(rows).schema]
    connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({', '.join(parts)})")
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {name} FROM STDIN") as copy,
    ):
        for row in zip(*rows.values(), strict=True):
            copy.write_row(row)
    connection.commit()
