"""The names of a table's files, in a folder of one table and in one of several."""

from __future__ import annotations

__all__ = ["table_file"]

_SEVERAL = {"data.parquet": "{}.parquet", "data.csv": "{}.csv", "wide.csv": "{}_wide.csv"}


def table_file(file: str, table: str | None) -> str:
    """Return what the file of one table is called where there are several.

    >>> table_file("wide.csv", "regions"), table_file("wide.csv", None)
    ('regions_wide.csv', 'wide.csv')
    """
    return file if table is None else _SEVERAL[file].format(table)
