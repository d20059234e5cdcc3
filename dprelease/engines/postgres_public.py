"""Public tables of a view for a statement in PostgreSQL: read here, checked, and sent as arrays.

DuckDB reads them, as for its own engine, and makes each cell the value of its kind (`typed_sql`).
What PostgreSQL has no place for is refused: texts with NUL or of more than `LARGEST_CELL` bytes, and
days outside the years 1 to 9999. Public tables are read before the charge, and such a refusal tells
what everybody may know.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sqlglot import exp

from dprelease.core.errors import SourceError
from dprelease.core.secret import unquoted
from dprelease.engines.code_sql import aliased, column
from dprelease.engines.duckdb_tables import DuckDBTables, Opened, closed
from dprelease.engines.duckdb_view import (
    every_column,
    read_again,
    repeated_key_error,
    two_readings,
)
from dprelease.engines.physical import Physical
from dprelease.engines.postgres_cells import LARGEST_CELL
from dprelease.engines.source import Source
from dprelease.engines.typed_sql import typed
from dprelease.query.view import ViewJoin
from dprelease.schema.column import Column, Kind

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET temp_directory = ''",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
)


class PublicTables:
    """The public tables of one view, by alias; to be entered.

    Attributes:
        opened: alias -> what the table stores.
    """

    def __init__(self, sources: Mapping[str, Source], *, missing: bool = False) -> None:
        import duckdb

        self.sources = dict(sources)
        self.opened: dict[str, Opened] = {}
        self._connection: Any = duckdb.connect(":memory:")
        # the way that takes every file: a text that is not UTF-8 is a null, and stops nothing
        self._tables = DuckDBTables(lambda: self._connection, [], exact=True, missing=missing)

    def __enter__(self) -> Self:
        for setting in _SETTINGS:
            self._connection.execute(setting)
        for i, (alias, source) in enumerate(self.sources.items()):
            self.opened[alias] = self._open(source, every_column(source), f"public_{i}", rows=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def physical(self) -> dict[str, dict[str, Physical]]:
        """Return alias -> column -> storage class."""
        return {a: {n: p for n, (_, p) in o.stored.items()} for a, o in self.opened.items()}

    def rows(self, alias: str, wanted: Mapping[str, tuple[str, Kind]]) -> pa.Table:
        """Return the rows of a table.

        Args:
            wanted: column of the result -> (column of the table, the kind it is read as).

        Raises:
            SourceError: it does not open (DPR502 and its like), holds what has no place (DPR516), or is read
                in two ways (`two_readings`).
        """
        source, opened = self.sources[alias], self.opened[alias]
        name = f"public_{list(self.sources).index(alias)}"
        if read_again(source):
            kinds: dict[str, Kind] = {}
            for own, kind in wanted.values():
                both = {kind, kinds.get(own, kind)}
                if Kind.identifier in both and Kind.number in both and source.dialect.decimal:
                    raise two_readings(alias, own)
                kinds[own] = Kind.identifier if Kind.identifier in both else kind
            columns = tuple(Column(own, kind) for own, kind in kinds.items())
            opened = self._open(source, columns, name, rows=True)
        parts = []
        for place, (own, kind) in wanted.items():
            identifier, physical = opened.stored[own]
            tree = typed(kind, physical, lambda identifier=identifier: column(identifier))  # type: ignore[misc]
            parts.append(aliased(tree, place))
        select = exp.Select(expressions=parts).from_(exp.to_table(name), copy=False)
        sql = select.sql(dialect="duckdb")
        found = unquoted(lambda: self._connection.sql(sql).to_arrow_table(), closed(source))
        for place, (own, _) in wanted.items():
            if not all(_has_place(cell) for cell in found.column(place).to_pylist()):
                raise SourceError(
                    f"the public table {source.name} holds a value in {own!r} that PostgreSQL cannot take",
                    why="texts there have no NUL and at most 16 MiB",
                    fix="leave such rows out of the public table, or use `engine: duckdb`",
                    code="DPR516",
                )
        return found

    def _open(
        self, source: Source, columns: tuple[Column, ...], name: str, *, rows: bool
    ) -> Opened:
        open_ = partial(self._tables.open, source, columns, rows=rows, name=name)
        return unquoted(open_, closed(source))


def check_keys(join: ViewJoin, keys: pa.Table) -> None:
    """Refuse a public table whose key occurs twice; a null is not a key.

    Raises:
        SourceError: so it is (DPR510).
    """
    seen: set[tuple[object, ...]] = set()
    for key in zip(*(cells.to_pylist() for cells in keys.columns), strict=True):
        if key in seen:
            raise repeated_key_error(join.table, (name for name, _ in join.keys))
        if None not in key:
            seen.add(key)


def _has_place(cell: object) -> bool:
    if isinstance(cell, str):
        return "\0" not in cell and len(cell.encode()) <= LARGEST_CELL
    return True
