"""A proven view row by row: what `view_sql` must agree with.

One private row at a time; every public table is a dictionary from the text of its key to its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dprelease.core.errors import SourceError
from dprelease.engines.identity import text_of_plain
from dprelease.engines.physical import Physical
from dprelease.engines.view_sql import MOST, of_type, scope, view_expressions
from dprelease.query.expression import evaluate
from dprelease.query.view import COUNTS, ENDS, Over, View, ViewColumn, ViewJoin
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

    def rows() -> Iterator[tuple[tuple[object, ...], Row]]:
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
                    group = tuple(text_of_plain(found[a].get(n)) for a, n in view.groups)
                    calculated = {name: evaluate(tree, cells) for name, tree in made.items()}
                    places = ((c.name, *c.place) for c in view.columns if c.place is not None)
                    yield group, {**calculated, **{c: found[a].get(n) for c, a, n in places}}

    out = {
        c.name: of_type(made[c.name].type) if c.place is None else stored[c.place[0]][c.place[1]]
        for c in view.columns
    }
    return _grouped(view, out, rows()) if view.groups else (out, (row for _, row in rows()))


def _grouped(
    view: View, kinds: dict[str, Physical], rows: Iterator[tuple[tuple[object, ...], Row]]
) -> Table:
    """Return one row per group."""
    kinds |= {c.name: Physical.text for c in view.columns if c.place is not None}
    groups: dict[Any, list[Row]] = {}
    for group, row in rows:
        groups.setdefault(group, []).append(row)
    return kinds, ({c.name: _over_rows(c, g) for c in view.columns} for g in groups.values())


def _over_rows(column: ViewColumn, rows: list[Row]) -> object:
    if column.over is None:
        return text_of_plain(rows[0][column.name])
    cells: list[Any] = [row[column.name] for row in rows if row[column.name] is not None]
    if column.over in COUNTS:
        return float(len(set(cells) if column.over is Over.different else cells))
    if not cells or column.over in ENDS:
        return (min if column.over is Over.least else max)(cells, default=None)
    total = 0.0
    for cell in sorted(cells):
        total += min(max(float(cell), -float(MOST)), float(MOST))
    return total / len(cells) if column.over is Over.average else total


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
