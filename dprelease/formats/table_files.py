"""The names of a table's files, in a folder of one table and in one of several."""

from __future__ import annotations


def table_file(file: str, table: str | None) -> str:
    """Return what the file of one table is called where there are several.

    The table's name stands for `data`, and before any other name.

    >>> table_file("data.csv", "regions"), table_file("wide.csv", "regions"), table_file("wide.csv", None)
    ('regions.csv', 'regions_wide.csv', 'wide.csv')
    """
    if table is None:
        return file
    stem, dot, end = file.partition(".")
    return f"{table}{dot}{end}" if stem == "data" else f"{table}_{file}"
