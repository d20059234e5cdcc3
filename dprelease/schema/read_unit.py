"""Who is protected and how large the table is, from a schema's declaration."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.schema.column import Column, Kind
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.models import EdgeUnitModel, NodeFile, RowsModel, TimeModel, UserModel
from dprelease.schema.paths import read_keys
from dprelease.schema.table import Rows
from dprelease.schema.time import Time, how_to_declare
from dprelease.schema.unit import Adjacency, EdgeUnit, RowUnit, Unit, UserUnit

MAX_NODES = 10**6


def read_unit(file: DeclarationFile, model: object, columns: Mapping[str, Column]) -> Unit:
    """Return who is protected; ConfigError for unusable columns or nodes (DPR115, DPR117, DPR122)."""
    if isinstance(model, UserModel):
        _unit_column(file, model.user, columns, "user")
        return UserUnit(
            model.user, model.max_groups, model.max_rows_per_group, model.max_rows, model.per
        )
    if isinstance(model, EdgeUnitModel):
        edge = model.edge
        for key, name in (("source", edge.source), ("target", edge.target)):
            _unit_column(file, name, columns, "edge", key)
        labels = _nodes(file, edge.nodes)
        count = edge.nodes if isinstance(edge.nodes, int) else len(labels)
        if edge.source == edge.target or count < 2:
            file.fail(
                "an edge joins two different columns of at least two nodes",
                "edge",
                fix="e.g. `edge: {source: a, target: b, k: 2, nodes: 34}`",
                code="DPR115",
            )
        if count > MAX_NODES:
            file.fail(
                f"a graph of {count:,} nodes is too large",
                "edge",
                "nodes",
                why=f"its labels are listed and its matrix is made; at most {MAX_NODES:,} fit",
                fix="release statistics of a part of the graph",
                code="DPR115",
            )
        return EdgeUnit(edge.source, edge.target, edge.k, count, labels)
    return RowUnit()


def _nodes(file: DeclarationFile, model: object) -> tuple[str, ...]:
    """Return the declared nodes; none for a count."""
    if isinstance(model, NodeFile):
        place = ("edge", "nodes")
        path = file.path(model.values_from, *place)
        return tuple(key for (key,) in read_keys(path, ("node",), file.line_of(*place)))
    if not isinstance(model, list):
        return ()
    if len(set(model)) < len(model):
        file.fail(
            "a node appears twice",
            "edge",
            "nodes",
            fix="list every node once",
            code="DPR115",
        )
    return tuple(model)


def _unit_column(
    file: DeclarationFile, name: str, columns: Mapping[str, Column], *place: str
) -> None:
    column = file.column(name, columns, *place, block="unit")
    if column.derived is not None:
        file.fail(
            f"`{name}` is derived and cannot identify a unit",
            *place,
            why="rows of one unit are found by what the source stores",
            fix="name a stored column",
            code="DPR115",
        )
    allowed = [Kind.identifier, Kind.category, Kind.integer]
    if place[0] == "edge":
        allowed.append(Kind.node)
    if column.kind not in allowed:
        file.fail(
            f"`{name}` is of kind {column.kind} and cannot identify a unit",
            *place,
            fix=f"declare it as {'node' if place[0] == 'edge' else 'identifier'}",
            code="DPR115",
        )


def read_rows(file: DeclarationFile, model: RowsModel | None, adjacency: Adjacency) -> Rows:
    """Return the public sizes; ConfigError where they contradict the adjacency (DPR118)."""
    if model is None:
        return Rows()
    if model.exact is not None and adjacency is not Adjacency.substitution:
        file.fail(
            "`rows: {exact: …}` needs `adjacency: substitution`",
            "exact",
            why="when rows are added or removed, their number is private",
            fix="use `max` (a public cap), or change the adjacency",
            code="DPR118",
        )
    if model.exact is not None and model.max is not None and model.max < model.exact:
        file.fail("`max` is below `exact`", "max", fix="remove `max`", code="DPR118")
    guess = model.expected
    most = model.max if model.max is not None else model.exact
    if most is not None and isinstance(guess, int) and guess > most:
        file.fail(
            f"`expected` is {guess:,} rows of one group, and all groups together have at most {most:,}",
            "expected",
            why="`max` and `exact` are of the whole table; `expected` guesses the size of one group",
            fix="give a smaller `expected`, or a larger `max`",
            code="DPR118",
        )
    return Rows(
        maximum=most,
        expected=guess if isinstance(guess, int) else None,
        expected_by_key=dict(guess) if isinstance(guess, dict) else {},
        exact=model.exact,
    )


def read_time(
    file: DeclarationFile, model: TimeModel | None, unit: Unit, columns: Mapping[str, Column]
) -> Time | None:
    """Return the declared time; ConfigError for an unusable column or zone, or a missing one (DPR122, DPR152)."""
    if model is None:
        if isinstance(unit, UserUnit) and unit.per is not None:
            file.fail(
                f"one person's rows of one {unit.per} are protected, and no column says when a row was",
                "unit",
                "per",
                fix=how_to_declare(columns),
                code="DPR152",
            )
        return None
    file = file.below("time")
    column = _column(file, model.column, columns)
    file.zone(model.timezone, "DPR152")
    if model.immutable and isinstance(unit, EdgeUnit):
        file.fail(
            "an edge has no instant, so `immutable` says nothing of it",
            "immutable",
            why="it may have rows at any number of times; losses of its releases add up",
            fix="remove `immutable`",
            code="DPR152",
        )
    return Time(model.column, model.timezone, model.immutable, column.kind is Kind.date)


def _column(file: DeclarationFile, name: str, columns: Mapping[str, Column]) -> Column:
    """Return the stored date or timestamp column `name`."""
    column = file.column(name, columns, "column", block="time")
    if column.kind not in (Kind.date, Kind.timestamp):
        file.fail(
            f"`{name}` is of kind {column.kind} and says no time",
            "column",
            fix="name a date or timestamp column",
            code="DPR152",
        )
    if column.derived is not None:
        file.fail(
            f"`{name}` is derived, and a row's time is what the table stores",
            "column",
            why="a computed time could put one row into two periods",
            fix="name a stored column",
            code="DPR152",
        )
    return column
