"""The contract of an engine: the reference's integers, for generated tables and queries of every kind.

Tables hold what tables hold in practice: nulls, NaN, infinities, numbers as text, dates as text, ids
of several types; queries group, filter, bound, derive and count in random combinations. One random
unit's rows are taken away, too: no primitive may move further than its bound.

An engine that leaves a kind of primitive to others says so in its own preflight, and names the input
formats that it reads: `check_engine(MyEngine, inputs=("arrow", "parquet"))`.
"""

from __future__ import annotations

import csv
import math
import random
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.core.periods import Every
from dprelease.engines import source as sources
from dprelease.engines.engine import Engine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source
from dprelease.query.answer import TALLY_COLUMNS
from dprelease.query.bounded import (
    BoundedQuery,
    Code,
    Condition,
    Fixed,
    GroupKeys,
    Label,
    Near,
    Primitive,
    Window,
)
from dprelease.query.derived import derived_columns
from dprelease.query.expression import parse_condition
from dprelease.query.intervals import Intervals
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

Rows = dict[str, list[Any]]

SALT = b"\x00\x01salt"
INPUTS = (
    "arrow",
    "pandas",
    "polars",
    "parquet",
    "csv",
    "duckdb_relation",
    "duckdb_table",
)
NUMBERS = [0.0, -0.0, 1.0, 2.5, -3.7, 0.05, 0.15, 40.0, 49.9, 50.0, 50.1, 60.0]
NUMBERS += [119.96, 1e308, -1e308]
NUMBERS += [float("nan"), float("inf"), float("-inf"), 5e-324, 123456.789]
TEXT_NUMBERS = [
    "1",
    " 7 ",
    "2.50",
    "-0",
    "1e3",
    "1e400",
    "abc",
    "",
    "12,5",
    "nan",
    "-inf",
    "0x1",
    "1_0",
]
INTEGERS = [0, 1, -1, 7, 45, 50, 55, 119, 2**31, 2**53 + 1, -(2**63), 2**63 - 1]
KEYS = [
    "north",
    "south",
    "east",
    "West",
    "elsewhere",
    "unknown",
    "it's",
    'a "b"',
    "é",
    "",
]
MOMENTS = [datetime(2020, 1, 1) + timedelta(hours=h) for h in (0, 1, 23, 24, 47, 48, 24 * 40)]  # noqa: DTZ001 - naive is UTC
TEXT_MOMENTS = [
    "2020-01-01",
    "2020-01-01 10:00:00",
    "2020-01-01T23:30:00Z",
    "2020-01-02T01:00:00+02:00",
]
TEXT_MOMENTS += ["2020-01-31 23:59:59.999999", "noon", "2020-13-01", " 2020-01-02 "]

COLUMNS = {
    c.name: c
    for c in (
        Column("user id", Kind.identifier),
        Column("region", Kind.category, values=("north", "south", "it's", "é"), other="elsewhere",
               nulls="as", null_label="unknown"),
        Column("flag", Kind.boolean, nulls="default", null_default=Fraction(1)),
        Column("x", Kind.number, Domain(-30, 120, [(2, 3), (51, 55)]), Fraction(1, 10)),
        Column("Y", Kind.integer, Domain(-2, math.inf, [(40, 50)]), Fraction(1), nulls="default",
               null_default=Fraction(7)),
        Column("at", Kind.timestamp),
        Column("day", Kind.date),
        Column("ratio", Kind.number, Domain(-50, 50), Fraction(1, 4), nulls="default",
               null_default=Fraction(5), derived="x / Y * 10"),
        Column("late", Kind.boolean, derived="hour(at) >= 10 or ratio > 50"),
        Column("side", Kind.category, values=("hi", "it's", "lo"), other="elsewhere",
               derived="case when ratio > 4 then 'hi' when flag then 'lo' else region end"),
        Column("moment", Kind.timestamp, derived="coalesce(at, timestamp(day))"),
        Column("waited", Kind.number, derived="floor(minutes_between(day, at) / 7)"),
        Column("twice", Kind.number, Domain(-3000, 3000, [(0, 9)]), Fraction(1, 3),
               derived="waited + waited"),
    )
}  # fmt: skip
CONDITIONS = [
    "x > 1",
    "Y >= 7 and x < 50",
    "flag or Y = 0",
    "region in ('north', 'it''s')",
    "x is null",
    "not (x between 0 and 50)",
    "hour(at) >= 10",
    "day < date '2020-01-02'",
    "x / Y > 0.5",
    "late or ratio < 30",
    "side = 'hi' or hours_between(moment, '2020-01-02') < 0",
    "x in (2, 3, 51, 55, 120, 0.1) or region = 'elsewhere'",
    "twice >= 9 or twice is null or side in ('elsewhere', 'lo')",
    "waited >= 3 and twice < 20 and region != 'unknown'",
]


def rows_of(rng: random.Random, count: int) -> Rows:
    """Return random rows, of one physical type per column."""

    def some(values: list[Any], nulls: float = 0.15) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(values) for _ in range(count)]

    few = max(1, count // 4)
    users: list[Any] = rng.choice([[f"u{i}" for i in range(few)], list(range(-2, few)), [1.0, 2.5]])
    moments: list[Any] = rng.choice(
        [MOMENTS, [m.replace(tzinfo=UTC) for m in MOMENTS], TEXT_MOMENTS]
    )
    days: list[Any] = rng.choice(
        [[date(2020, 1, 1), date(2020, 1, 2), date(1, 1, 1)], MOMENTS, TEXT_MOMENTS]
    )
    return {
        "user id": some(users),
        "region": some(KEYS),
        "flag": some(rng.choice([[True, False], [0, 1, 2], ["true", "F", "YES", "maybe", " n "]])),
        "x": some(rng.choice([NUMBERS, TEXT_NUMBERS, [Decimal("1.25"), Decimal("49.99")], [True]])),
        "Y": some(rng.choice([INTEGERS, ["7", "x", "1.5"], [0.5, 1.5, 2.0]])),
        "at": some(moments),
        "day": some(days),
    }


def table_of(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array(cells) for name, cells in rows.items()})


def source_of(kind: str, rows: Rows, folder: Path) -> Source:
    """Return `rows` as a source of the given input format."""
    table = table_of(rows)
    match kind:
        case "arrow":
            return as_source(table)
        case "pandas":
            return as_source(pd.DataFrame({k: pd.Series(v) for k, v in rows.items()}))
        case "polars":
            import polars as pl  # an optional input format

            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)  # of a table; of an array it is a Series
            return as_source(frame)
        case "parquet":
            pq.write_table(table.slice(0, len(table) // 2), folder / "a.parquet")
            pq.write_table(table.slice(len(table) // 2), folder / "b.parquet")
            return as_source(str(folder / "*.parquet"))
        case "csv":
            with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(rows)
                writer.writerows(zip(*rows.values(), strict=True))
            return as_source(folder / "t.csv")
        case "duckdb_relation":
            connection = duckdb.connect()
            # not over Arrow itself: DuckDB would convert instants with a zone while it scans
            connection.from_arrow(table).create("rows")
            return as_source(connection.table("rows"))
        case _:
            path = folder / "t.duckdb"
            path.unlink(missing_ok=True)
            with duckdb.connect(str(path)) as connection:
                connection.register("t", table)
                connection.execute('CREATE SCHEMA s; CREATE TABLE s."my t" AS SELECT * FROM t')
            return sources.duckdb_table(path, "s.my t")


def _codes(rng: random.Random) -> list[Code]:
    """Return random codes over `COLUMNS`: steps, conditions and labels."""
    codes: list[Code] = []
    for name in rng.sample(["x", "Y", "flag", "x", "ratio", "late", "waited"], rng.randint(1, 4)):
        boolean = COLUMNS[name].kind is Kind.boolean
        step = Fraction(1) if boolean else rng.choice(["1", "0.1", "0.25", "10", "1/3"])
        low, high = (0, 1) if boolean else rng.choice([(0, 120), (-30, 70), (50, 60)])
        gaps = [] if boolean else rng.choice([[], [(51, 55)], [(50, 52), (53, 59)]])
        grid = Domain(low, high, gaps).on_grid(Fraction(step))
        default = rng.choice([None, 0, grid.hull_steps])
        codes.append(Fixed(name, grid, Fraction(step), default))
    codes += [
        Condition(parse_condition(text, COLUMNS, origin="test"))
        for text in rng.sample(CONDITIONS, rng.randint(0, 2))
    ]
    if rng.random() < 0.5:
        codes.append(Label("region", tuple(rng.sample(["north", "south", "it's", "é"], 3))))
    if rng.random() < 0.3:
        codes.append(Label("side", ("it's", "hi", "lo")))
    return codes


def _primitives(rng: random.Random, codes: list[Code]) -> list[Primitive]:
    """Return every kind of primitive over the codes, some with a cap of rows of their own."""
    primitives = [Primitive("rows"), Primitive("persons")]
    for j in range(len(codes)):
        primitives += [Primitive("power", j, p) for p in (0, 1, 2)]
        primitives.append(Primitive("between", j, low=1, high=rng.choice([1, 40, 10**6])))
        primitives += [
            Primitive("tally", j),
            Primitive("tally", j, near=_near(rng)),
            Primitive("distinct", j),
        ]
        if rng.random() < 0.5:
            primitives.append(Primitive("tally", j, near=_near(rng)))
    for _ in range(3):
        one, other = rng.randrange(len(codes)), rng.randrange(len(codes))
        powers = rng.randint(0, 2), rng.randint(0, 2)
        primitives.append(Primitive("product", one, powers[0], other=other, other_power=powers[1]))
    return [replace(p, max_rows=rng.choice([None, None, 1, 3])) for p in primitives]


def _near(rng: random.Random) -> Near:
    a, b = rng.choice([(1, 2), (0, 1), (2, 2), (9, 10)])
    return Near(a, b, rng.choice([0, 0, -3, 1, 7]), rng.choice([0, 1, 2, 5, 40]))


def query_of(rng: random.Random, **changes: Any) -> BoundedQuery:
    """Return a random query over `COLUMNS`."""
    codes = _codes(rng)
    user = rng.choice([None, "user id", "user id"])
    primitives = _primitives(rng, codes)
    by = rng.choice([(), ("region",), ("flag",), ("region", "flag"), ("side",), ("late", "side")])
    columns = tuple(COLUMNS[name] for name in by)
    keys: list[tuple[str, ...]] = [()]
    for column in columns:
        keys = [(*key, label) for key in keys for label in column.keys]
    if len(by) > 1:
        keys = rng.sample(keys, len(keys) - 2)
    where = rng.choice([None, None, *CONDITIONS])
    start = datetime(2020, 1, 1, 1)  # noqa: DTZ001 - naive is UTC
    window = Window(rng.choice(["at", "day", "moment"]), start, start + timedelta(days=1))
    out: dict[str, Any] = {
        "columns": tuple(COLUMNS.values()),
        "groups": GroupKeys(columns, tuple(keys)),
        "codes": tuple(codes),
        "primitives": tuple(primitives),
        "where": None if where is None else parse_condition(where, COLUMNS, origin="test"),
        "window": rng.choice([None, None, window]),
        "user": user,
        "max_groups": rng.choice([1, 1, 2, 9]),
        "max_rows": rng.choice([1, 2, 5]),
        "max_rows_total": rng.choice([None, 1, 3]),
    }
    out |= changes
    if "primitives" not in changes:  # groups put together in a few cells, with a stream of its own
        groups = len(out["groups"].keys)
        few = random.Random(f"cells {groups}")  # noqa: S311 - makes test queries
        cells = tuple(few.randrange(min(groups, 3)) for _ in range(groups))
        maps = (cells, (0,) * groups)
        out["primitives"] += tuple(Primitive("persons_in_cells", cells=m) for m in maps)
    read = {code.column for code in codes if isinstance(code, Fixed | Label)}
    read |= {n for c in codes if isinstance(c, Condition) for n in c.expression.columns}
    read |= {c.name for c in out["groups"].columns}
    read |= {out["window"].column} if out["window"] is not None else set()
    read |= out["where"].columns if out["where"] is not None else set()
    if out["user"] is not None and "per" not in changes and rng.random() < 0.5:
        out["per"] = _intervals(rng)
    return BoundedQuery(**out, derived=derived_columns(sorted(read), COLUMNS))


def _intervals(rng: random.Random) -> Intervals:
    column, zone = rng.choice(["at", "day"]), rng.choice(["UTC", "Europe/Dublin", "Pacific/Apia"])
    return Intervals(column, rng.choice(get_args(Every)), zone, dates=column == "day")


def answer(engine: Engine, source: Source, query: BoundedQuery) -> list[list[int]]:
    """Return per group the sums, then the tallies one after the other."""
    exact = engine.compute(source, query, SALT).reveal_to_mechanism()
    out: np.ndarray[Any, Any] = exact.sums
    assert all(type(cell) is int for cell in out.flat)
    assert list(exact.tallies) == [i for i, p in enumerate(query.primitives) if p.kind == "tally"]
    cells: list[list[int]] = out.tolist()
    for place, tally in exact.tallies.items():
        assert tally.dtype == np.int64
        assert tally.shape[1] == TALLY_COLUMNS
        assert not out[:, place].any()
        cells += [[place], *tally.tolist()]
    return cells


def check_engine(
    engine: Callable[[], Engine], inputs: Iterable[str] = INPUTS, tables: int = 32
) -> int:
    """Compare an engine with the reference on `tables` generated tables per input format.

    Args:
        engine: makes a new engine.
        inputs: of `INPUTS`, those that it reads.

    Returns:
        How many answers were compared.

    Raises:
        AssertionError: it is not all that `dprelease.engines.engine.Engine` says, or an answer
            differs, is not of Python integers, or depends on row order.
    """
    assert isinstance(engine(), Engine), "an engine has name, timeout, preflight and compute"
    compared = 0
    for kind in inputs:
        nonzero = 0
        for seed in range(tables):
            rng = random.Random(f"{kind} {seed}")  # noqa: S311 - makes test tables
            rows = rows_of(rng, rng.choice([0, 1, 2, 12, 40]))
            with tempfile.TemporaryDirectory() as folder:
                source, query = source_of(kind, rows, Path(folder)), query_of(rng)
                engine().preflight(source, query)
                found = answer(engine(), source, query)
                expected = answer(ReferenceEngine(), source, query)
            assert found == expected, f"{kind} table {seed}: not the reference's integers"
            nonzero += any(any(row) for row in found[: len(query.groups.keys)])
            compared += 1
        assert nonzero >= tables // 4, "the agreement is about empty results"
    _check_bounds(engine)
    return compared


def _check_bounds(engine: Callable[[], Engine]) -> None:
    """Few units with many rows in many groups: each bound cuts, whatever order the rows have."""
    region = COLUMNS["region"]
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311 - makes test tables
        rows = rows_of(rng, 60)
        rows["user id"] = [rng.choice(["a", "a", "b", "c", None]) for _ in range(60)]
        query = query_of(
            rng,
            user="user id",
            where=None,
            window=None,
            groups=GroupKeys((region,), tuple((k,) for k in region.keys)),
            max_groups=(1, 2, 3)[seed % 3],
            max_rows=(1, 2, 3)[seed // 3 % 3],
            max_rows_total=(None, 2, 4, None)[seed % 4],
            per=Intervals("at", "day", "Europe/Dublin") if seed % 2 else None,
        )
        order = rng.sample(range(60), 60)
        permuted = {name: [cells[i] for i in order] for name, cells in rows.items()}
        expected = answer(ReferenceEngine(), as_source(table_of(rows)), query)
        found = answer(engine(), as_source(table_of(rows)), query)
        assert found == expected, f"bounded table {seed}: not the reference's integers"
        again = answer(engine(), as_source(table_of(permuted)), query)
        assert again == found, f"bounded table {seed}: the answer depends on the order of rows"
