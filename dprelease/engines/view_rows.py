"""A proven view row by row: what `view_sql` must agree with.

One private row at a time; every public table is a dictionary from the text of its key to its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dprelease.core.errors import SourceError
from dprelease.engines.identity import text_of_plain
from dprelease.engines.physical import Physical
from dprelease.engines.view_sql import of_type, scope, view_expressions
from dprelease.query.expression import evaluate
from dprelease.query.view import View, ViewJoin
from dprelease.schema.column import Column, Kind

Row = dict[str, object]
Table = tuple[Mapping[str, Physical], Iterator[Row]]
"""How the columns of a table are stored, and its rows as they are stored."""


def view_rows(
    view: View,
    tables: Mapping[str, Callable[[], Table]],
    declared: Mapping[str, Column],
    typed: Callable[[Kind, object], object],
) -> Table:
    """Return the view's columns and rows.

    Args:
        tables: declared table -> reader.
        declared: the schema's columns.
        typed: makes a stored cell one of the expression language.

    Raises:
        SourceError: an unproven view (DPR511), a repeated public key (DPR510).
    """
    if not view.proven or view.private is None:
        raise SourceError(
            "the reference engine reads proven views only",
            fix="use the default engine",
            code="DPR511",
        )
    main = view.private[1]
    opened = {main: tables[view.private[0]](), **{j.alias: tables[j.table]() for j in view.joins}}
    stored = {alias: kinds for alias, (kinds, _) in opened.items()}
    columns = scope(view, stored, declared)
    made, where = view_expressions(view, columns)
    indices = [_by_key(join, opened[join.alias][1]) for join in view.joins]

    def rows() -> Iterator[Row]:
        for private in opened[main][1]:
            found: dict[str, Row] = {main: private}
            for join, index in zip(view.joins, indices, strict=True):
                key: Any = tuple(text_of_plain(found[a].get(n)) for _, (a, n) in join.keys)
                match = index.get(key)
                if match is None and join.kind == "inner":
                    break
                found[join.alias] = match or {}
            else:
                cells = {
                    name: typed(column.kind, _cell(found, name, main))
                    for name, column in columns.items()
                }
                if where is None or evaluate(where, cells) is True:
                    yield {
                        c.name: evaluate(made[c.name], cells)
                        if c.place is None
                        else found[c.place[0]].get(c.place[1])
                        for c in view.columns
                    }

    out = {
        c.name: of_type(made[c.name].type) if c.place is None else stored[c.place[0]][c.place[1]]
        for c in view.columns
    }
    return out, rows()


def _by_key(join: ViewJoin, rows: Iterator[Row]) -> dict[tuple[str, ...], Row]:
    """Return a public table's rows by their key; a row without one joins nothing."""
    index: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(text_of_plain(row[name]) for name, _ in join.keys)
        if None in key:
            continue
        if key in index:
            raise SourceError(f"the public table {join.table} has a key twice", code="DPR510")
        index[key] = row  # type: ignore[index]
    return index


def _cell(found: Mapping[str, Row], name: str, main: str) -> object:
    alias, dot, rest = name.partition(".")
    if dot and alias in found:
        return found[alias].get(rest)
    return found[main].get(name)
