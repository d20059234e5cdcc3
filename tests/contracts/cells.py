"""Value types, how each can be stored, and what each declared kind makes of them.

A case is a list of cells. `STORAGES` store it in every way that a caller may; `answer_of` is what an
engine makes of the column as a declared kind, None where it is refused before the charge.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.core.errors import SourceError
from dprelease.engines.source import Source, as_source, duckdb_table
from dprelease.query.bounded import BoundedQuery, Condition, GroupKeys, Primitive
from dprelease.query.cleaning import code_of
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

CELLS: dict[str, list[Any]] = {
    "whole": [1, 2, 2, 0, None],
    "double": [5.5, 0.25, 5.5, 0.745, None],
    "decimal": [Decimal("5.50"), Decimal("0.25"), Decimal("20.00"), Decimal("1.00"), None],
    "truth": [True, False, True, None],
    "text": ["north", "south", "north ", "1", None],
    "day": [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2), None],
    "moment": [datetime(2024, 1, 1), datetime(2024, 1, 2, 13, 30), None],
}
VALUES: dict[str, tuple[str, ...]] = {
    "whole": ("1", "2"),
    "double": ("5.5", "0.25"),
    "decimal": ("5.5", "20"),
    "truth": ("True", "False"),
    "text": ("north", "south"),
    "day": ("2024-01-02",),
    "moment": ("2024-01-02 13:30:00", "2024-01-01 00:00:00"),
}
KINDS = (Kind.number, Kind.integer, Kind.boolean, Kind.category, Kind.date, Kind.timestamp)

EXPECTED: dict[tuple[str, Kind], tuple[int, ...]] = {
    # known cells and the sum of their codes, in hundredths from -10 (integers: in ones)
    ("whole", Kind.number): (4, 4 * 1000 + 500),
    ("whole", Kind.integer): (4, 4 * 10 + 5),
    ("double", Kind.number): (4, 4 * 1000 + 1200),  # .745 is .75
    ("double", Kind.integer): (4, 4 * 10 + 13),  # a half goes up
    ("decimal", Kind.number): (4, 4 * 1000 + 2675 - 1000),  # 20 is clamped to 10
    ("truth", Kind.number): (3, 3 * 1000 + 200),
    ("truth", Kind.integer): (3, 3 * 10 + 2),
    ("text", Kind.number): (1, 1100),
    ("day", Kind.number): (0, 0),
    # known cells and those that are true
    ("whole", Kind.boolean): (2, 1),
    ("double", Kind.boolean): (0, 0),
    ("decimal", Kind.boolean): (1, 1),
    ("truth", Kind.boolean): (3, 2),
    ("text", Kind.boolean): (1, 1),
    # each value, then the rest
    ("whole", Kind.category): (1, 2, 1),
    ("double", Kind.category): (2, 1, 1),
    ("decimal", Kind.category): (1, 1, 2),
    ("truth", Kind.category): (2, 1, 0),
    ("text", Kind.category): (2, 1, 1),
    ("day", Kind.category): (2, 1),
    ("moment", Kind.category): (1, 1, 0),
    # known cells and those before 2024-01-02
    ("day", Kind.date): (3, 1),
    ("day", Kind.timestamp): (3, 1),
    ("moment", Kind.date): (2, 1),
    ("moment", Kind.timestamp): (2, 1),
    ("whole", Kind.date): (0, 0),
    ("truth", Kind.timestamp): (0, 0),
}
"""Where no storage is refused for the type of its cells, what all of them must give."""


def column_of(kind: Kind, values: tuple[str, ...]) -> Column:
    if kind in (Kind.number, Kind.integer):
        step = Fraction(1) if kind is Kind.integer else Fraction(1, 100)
        return Column("x", kind, Domain(-10, 10), step)
    if kind is Kind.category:
        return Column("x", kind, values=values, other="rest")
    return Column("x", kind)


def query_of(kind: Kind, values: tuple[str, ...]) -> BoundedQuery:
    column = column_of(kind, values)
    if kind is Kind.category:
        keys = tuple((key,) for key in column.keys)
        return BoundedQuery((column,), GroupKeys((column,), keys), (), (Primitive("rows"),))
    if kind in (Kind.date, Kind.timestamp):
        code: Any = Condition(
            parse_condition(
                f"x < {kind} '2024-01-02{' 00:00' if kind is Kind.timestamp else ''}'",
                {"x": column},
                origin="test",
            )
        )
    else:
        code = code_of(column)
    sums = (Primitive("power", 0), Primitive("power", 0, power=1))
    return BoundedQuery((column,), GroupKeys((), ((),)), (code,), sums)


def answer_of(
    engine: Any, source: Source, kind: Kind, values: tuple[str, ...]
) -> tuple[int, ...] | None:
    """Return the exact integers; None where the source is refused before the charge."""
    query = query_of(kind, values)
    if refuses(engine, source, query):
        return None
    sums = engine.compute(source, query, b"").reveal_to_mechanism().sums
    return tuple(int(n) for n in sums.ravel())


def refuses(engine: Any, source: Source, query: BoundedQuery) -> bool:
    """Return whether the source is refused before the charge, for the type of its cells."""
    try:
        engine.preflight(source, query)
    except SourceError as refused:
        if refused.code != "DPR504":
            raise
        return True
    return False


def _inferred(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": cells})


def _objects(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(cells, dtype=object)})


def _arrow(cells: list[Any]) -> pa.Table:
    return pa.table({"x": pa.array(cells)})


def _csv(cells: list[Any], folder: Path) -> Path:
    path = folder / "x.csv"
    _inferred(cells).assign(y=0).to_csv(path, index=False)
    return path


def _parquet(cells: list[Any], folder: Path) -> Path:
    path = folder / "x.parquet"
    pq.write_table(_arrow(cells), path)
    return path


def _database(cells: list[Any], folder: Path) -> Source:
    path, table = folder / "x.duckdb", _arrow(cells)
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT x FROM given")
    return duckdb_table(path, "t")


def _reread(cells: list[Any]) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(_inferred(cells).to_csv(index=False)))


STORAGES: dict[str, Callable[[list[Any], Path], Any]] = {
    "pandas, inferred": lambda cells, _: _inferred(cells),
    "pandas, objects": lambda cells, _: _objects(cells),
    "pandas, texts": lambda cells, _: _objects([None if c is None else str(c) for c in cells]),
    "pandas, nullable": lambda cells, _: _objects(cells).infer_objects().convert_dtypes(),
    "pandas on Arrow": lambda cells, _: _objects(cells).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categorical": lambda cells, _: _objects(cells).astype("category"),
    "pandas, categorical inferred": lambda cells, _: _inferred(cells).astype("category"),
    "pandas, without a null": lambda cells, _: _inferred([c for c in cells if c is not None]),
    "read_csv": lambda cells, _: _reread(cells),
    "read_csv, without a null": lambda cells, _: _reread([c for c in cells if c is not None]),
    "own CSV": _csv,
    "Arrow": lambda cells, _: _arrow(cells),
    "Arrow, dictionary": lambda cells, _: pa.table({"x": pa.array(cells).dictionary_encode()}),
    "polars": lambda cells, _: pl.DataFrame({"x": cells}),
    "polars, objects": lambda cells, _: pl.DataFrame({"x": pl.Series(cells, dtype=pl.Object)}),
    "Parquet": _parquet,
    "DuckDB relation": lambda cells, _: duckdb.connect().from_arrow(_arrow(cells)),
    "DuckDB table": _database,
}


def stored(name: str, cells: list[Any], folder: Path) -> Source:
    return as_source(STORAGES[name](cells, folder))
