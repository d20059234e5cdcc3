"""Leave out the Parquet files of Hive partitions that a query's period or filter excludes.

The values in the folders' names are public, and the same for every row of a file, so a file whose
values fail the period, or a part of the filter that reads them alone, has no row that counts. Which
fail is asked of DuckDB by the very stages that will filter the rows (`bounded_sql`), over a table of
the folders' values. What a file says of its own values is never asked: that would be private, and
could be false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dprelease.engines.bounded_sql import BoundedSelect
from dprelease.engines.physical import Physical
from dprelease.engines.source import Source
from dprelease.query import nodes as n
from dprelease.query.bounded import BoundedQuery, GroupKeys
from dprelease.query.nodes import Expression, Node, Type

_TABLE = "file_parts"


def files_with_rows(connection: Any, source: Source, query: BoundedQuery) -> Source:
    """Return the source without the files that hold no row that counts; one at least stays.

    Args:
        connection: of DuckDB, set up as for the rows.
        source: of Parquet files or objects.
        query: as for the rows; without a view.
    """
    paths: Any = source.payload
    narrowed = of_columns(query, frozenset(source.keys)) if source.keys else None
    if narrowed is None:
        return source
    values: dict[str, list[object]] = {"file": list(range(len(paths)))}
    stored = {}
    for place, key in enumerate(source.keys):
        values[f"c{place}"] = [folders[place][1] for folders in source.folders]
        stored[key] = (f"c{place}", Physical.text)
    kinds = [pa.int64(), *([pa.string()] * len(stored))]
    arrays = [pa.array(cells, kind) for cells, kind in zip(values.values(), kinds, strict=True)]
    table = pa.table(arrays, names=list(values))
    places = places_with_rows(connection, narrowed, table, stored, "file") or [0]
    return replace(
        source,
        payload=tuple(paths[i] for i in places),
        folders=tuple(source.folders[i] for i in places),
    )


def places_with_rows(
    connection: Any,
    query: BoundedQuery,
    rows: object,
    stored: Mapping[str, tuple[str, Physical]],
    carried: str,
) -> list[int]:
    """Return the numbers in the column `carried` of the rows that `query` keeps, each once, in order.

    Args:
        query: as `of_columns` returns it.
        rows: what DuckDB can register.
        stored: as of `BoundedSelect`.
    """
    statement = BoundedSelect(query, stored, rows_table=_TABLE, carried=carried).passing()
    tables = {_TABLE: rows, **statement.tables}
    for name, table in tables.items():
        connection.register(name, table)
    found = connection.execute(*statement.in_duckdb()).fetchall()
    for name in tables:
        connection.unregister(name)
    return sorted(number for (number,) in found)


def of_columns(query: BoundedQuery, keys: frozenset[str]) -> BoundedQuery | None:
    """Return the period and the parts of the filter that read `keys` alone; None where nothing does."""
    window = query.window if query.window is not None and query.window.column in keys else None
    parts = (
        []
        if query.where is None
        else [p for p in _parts(query.where.tree) if _columns(p) and _columns(p) <= keys]
    )
    if window is None and not parts:
        return None
    where = None
    if parts:
        tree = parts[0] if len(parts) == 1 else n.Logic("and", tuple(parts))
        where = Expression("", tree, frozenset().union(*map(_columns, parts)), Type.boolean)
    columns = (*query.columns, *query.groups.columns)
    return replace(
        query, columns=columns, groups=GroupKeys((), ((),)), codes=(), primitives=(), where=where, window=window,
        user=None, per=None, derived=(),
    )  # fmt: skip


def _parts(node: Node) -> Iterator[Node]:
    if isinstance(node, n.Logic) and node.op == "and":
        for operand in node.operands:
            yield from _parts(operand)
    else:
        yield node


def _columns(node: Node) -> frozenset[str]:
    own = frozenset({node.name}) if isinstance(node, n.ColumnRef) else frozenset()
    return own.union(*map(_columns, n.children(node)))
