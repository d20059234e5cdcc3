"""What every engine owes: the reference's integers, for any table, in any order of rows."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines import source as sources
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source
from dprelease.errors import PlanError
from dprelease.query.bounded import (
    BoundedQuery,
    Code,
    Condition,
    Fixed,
    GroupKeys,
    Label,
    Primitive,
    Window,
    largest_code,
)
from dprelease.query.derived import derived_column
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

Rows = dict[str, list[Any]]

SALT = b"\x00\x01salt"
MAKES = (
    "arrow",
    "pandas",
    "polars",
    "parquet",
    "csv",
    "duckdb_relation",
    "duckdb_table",
)
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    2.5,
    -3.7,
    0.05,
    0.15,
    40.0,
    49.9,
    50.0,
    50.1,
    60.0,
    119.96,
    1e308,
    -1e308,
]
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
MOMENTS = [datetime(2020, 1, 1) + timedelta(hours=h) for h in (0, 1, 23, 24, 47, 48, 24 * 40)]
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
        Column("flag", Kind.boolean),
        Column("x", Kind.number),
        Column("Y", Kind.integer),
        Column("at", Kind.timestamp),
        Column("day", Kind.date),
        Column("ratio", Kind.number, derived="x / Y * 10"),
        Column("late", Kind.boolean, derived="hour(at) >= 10 or ratio > 50"),
        Column("side", Kind.category, values=("hi", "it's", "lo"), other="elsewhere",
               derived="case when ratio > 4 then 'hi' when flag then 'lo' else region end"),
        Column("moment", Kind.timestamp, derived="coalesce(at, timestamp(day))"),
        Column("waited", Kind.number, derived="floor(minutes_between(day, at) / 7)"),
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


def make(kind: str, rows: Rows, folder: Path) -> Source:
    """Return `rows` as a source of the given make."""
    table = table_of(rows)
    match kind:
        case "arrow":
            return as_source(table)
        case "pandas":
            return as_source(pd.DataFrame({k: pd.Series(v) for k, v in rows.items()}))
        case "polars":
            return as_source(pl.from_arrow(table))
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
            return as_source(connection.from_arrow(table))
        case _:
            path = folder / "t.duckdb"
            path.unlink(missing_ok=True)
            with duckdb.connect(str(path)) as connection:
                connection.register("t", table)
                connection.execute('CREATE SCHEMA s; CREATE TABLE s."my t" AS SELECT * FROM t')
            return sources.duckdb_table(path, "s.my t")


def query_of(rng: random.Random, **changes: Any) -> BoundedQuery:
    """Return a random query over `COLUMNS`."""
    codes: list[Code] = []
    for name in rng.sample(["x", "Y", "flag", "x", "ratio", "late", "waited"], rng.randint(1, 4)):
        boolean = COLUMNS[name].kind is Kind.boolean
        step = Fraction(1) if boolean else rng.choice(["1", "0.1", "0.25", "10", "1/3"])
        low, high = (0, 1) if boolean else rng.choice([(0, 120), (-30, 70), (50, 60)])
        gaps = [] if boolean else rng.choice([[], [(51, 55)], [(50, 52), (53, 59)]])
        grid = Domain(low, high, gaps).on_grid(Fraction(step))
        default = rng.choice([None, 0, grid.hull_steps])
        codes.append(Fixed(name, grid, Fraction(step), default))
    for text in rng.sample(CONDITIONS, rng.randint(0, 2)):
        codes.append(Condition(parse_condition(text, COLUMNS, origin="test")))
    if rng.random() < 0.5:
        codes.append(Label("region", tuple(rng.sample(["north", "south", "it's", "é"], 3))))
    if rng.random() < 0.3:
        codes.append(Label("side", ("it's", "hi", "lo")))
    user = rng.choice([None, "user id", "user id"])
    primitives = [Primitive("rows"), Primitive("persons")]
    for j in range(len(codes)):
        primitives += [Primitive("power", j, p) for p in (0, 1, 2)]
        primitives.append(Primitive("between", j, low=1, high=rng.choice([1, 40, 10**6])))
        primitives += [Primitive("tally", j), Primitive("distinct", j)]
    for _ in range(3):
        one, other = rng.randrange(len(codes)), rng.randrange(len(codes))
        powers = rng.randint(0, 2), rng.randint(0, 2)
        primitives.append(Primitive("product", one, powers[0], other=other, other_power=powers[1]))
    primitives = [replace(p, max_rows=rng.choice([None, None, 1, 3])) for p in primitives]
    by = rng.choice([(), ("region",), ("flag",), ("region", "flag"), ("side",), ("late", "side")])
    columns = tuple(COLUMNS[name] for name in by)
    keys: list[tuple[str, ...]] = [()]
    for column in columns:
        keys = [(*key, label) for key in keys for label in column.keys]
    if len(by) > 1:
        keys = rng.sample(keys, len(keys) - 2)
    where = rng.choice([None, None, *CONDITIONS])
    start = datetime(2020, 1, 1, 1)
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
    read = {code.column for code in codes if not isinstance(code, Condition)}
    read |= {c.name for c in out["groups"].columns}
    read |= {out["window"].column} if out["window"] is not None else set()
    made = [name for name in read if COLUMNS[name].derived is not None]
    return BoundedQuery(**out, derived=tuple(derived_column(name, COLUMNS) for name in sorted(made)))


def answer(engine: Any, source: Source, query: BoundedQuery) -> list[list[int]]:
    """Return per group the sums, then the tallies one after the other."""
    exact = engine.compute(source, query, SALT).reveal_to_mechanism()
    out: np.ndarray[Any, Any] = exact.sums
    assert all(type(cell) is int for cell in out.flat)
    assert list(exact.tables) == [i for i, p in enumerate(query.primitives) if p.kind == "tally"]
    for place, tally in exact.tables.items():
        assert tally.dtype == np.int64
        assert tally.shape[1] == largest_code(query.codes[query.primitives[place].code]) + 1
        assert not out[:, place].any()
    cells: list[list[int]] = np.concatenate([out, *exact.tables.values()], axis=1).tolist()
    return cells


@pytest.mark.parametrize("kind", MAKES)
def test_the_engines_agree_on_generated_tables(kind: str, tmp_path: Path) -> None:
    nonzero = 0
    for seed in range(32):
        rng = random.Random(f"{kind} {seed}")
        rows = rows_of(rng, rng.choice([0, 1, 2, 12, 40]))
        source, query = make(kind, rows, tmp_path), query_of(rng)
        DuckDBEngine().preflight(source, query)
        ReferenceEngine().preflight(source, query)
        found = answer(DuckDBEngine(threads=1), source, query)
        assert found == answer(ReferenceEngine(), source, query), (kind, seed)
        nonzero += any(any(row) for row in found)
    assert nonzero >= 8  # the agreement is not about empty results


def test_products_far_beyond_doubles_are_summed_exactly() -> None:
    a, b = (Domain(0, 2**k - 1).on_grid(Fraction(1)) for k in (33, 31))
    columns = (Column("x", Kind.number), Column("z", Kind.number))
    query = BoundedQuery(
        columns,
        GroupKeys((), ((),)),
        (Fixed("x", a, Fraction(1)), Fixed("z", b, Fraction(1))),
        tuple(
            Primitive("product", 0, p, other=1, other_power=q) for p, q in ((1, 1), (0, 1), (0, 0))
        ),
    )
    top, low = 2**33 - 1, 2**31 - 1
    source = as_source(pa.table({"x": [1e308, 1e308, 3.0, None], "z": [1e308, 1e308, 5.0, 7.0]}))
    for engine in (DuckDBEngine(), ReferenceEngine()):
        assert answer(engine, source, query) == [[2 * top * low + 15, 2 * low + 5, 3]]


def test_a_product_that_could_overflow_is_refused() -> None:
    wide = Domain(0, 2**32).on_grid(Fraction(1))
    columns = (Column("x", Kind.number), Column("z", Kind.number))
    query = BoundedQuery(
        columns,
        GroupKeys((), ((),)),
        (Fixed("x", wide, Fraction(1)), Fixed("z", wide, Fraction(1))),
        (Primitive("product", 0, 1, other=1, other_power=1),),
    )
    source = as_source(pa.table({"x": [1.0], "z": [1.0]}))
    for engine in (DuckDBEngine(), ReferenceEngine()):
        with pytest.raises(PlanError) as refused:
            engine.compute(source, query, SALT)  # type: ignore[attr-defined]
        assert refused.value.code == "DPR230"


@pytest.mark.parametrize("threads", [1, 2])
def test_row_order_and_threads_do_not_matter(threads: int) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        rows = rows_of(rng, 200)
        query = query_of(rng, user="user id", where=None, window=None)
        order = rng.sample(range(200), 200)
        permuted = {name: [cells[i] for i in order] for name, cells in rows.items()}
        engine = DuckDBEngine(threads=threads)
        before = answer(engine, as_source(table_of(rows)), query)
        assert answer(engine, as_source(table_of(permuted)), query) == before
        assert answer(DuckDBEngine(threads=1), as_source(table_of(rows)), query) == before


def _moved(query: BoundedQuery, before: Any, after: Any) -> dict[str, int]:
    """Return the L1 change of `rows`, `persons`, `power 0` over all groups."""
    change = np.abs(np.array(after, dtype=object) - np.array(before, dtype=object)).sum(axis=0)
    kinds = [f"{p.kind} {p.power}" for p in query.primitives]
    tallied = int(change[len(kinds) :].sum())
    return {**dict(zip(kinds, change.tolist(), strict=False)), "tally 0": tallied}


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_one_unit_moves_each_primitive_by_at_most_its_bound(
    engine: Callable[[], Any],
) -> None:
    reached = set()
    for seed in range(16 if engine is DuckDBEngine else 40):
        rng = random.Random(seed)
        rows = rows_of(rng, 60)
        rows["user id"] = [rng.choice(["a", "a", "b", "c", None]) for _ in range(60)]
        groups, most, total = rng.choice([(1, 2, None), (2, 3, None), (2, 3, 4), (9, 1, None)])
        region = COLUMNS["region"]
        query = query_of(
            rng,
            user="user id",
            groups=GroupKeys((region,), tuple((k,) for k in region.keys)),
            max_groups=groups,
            max_rows=most,
            max_rows_total=total,
            primitives=(
                Primitive("rows"),
                Primitive("persons"),
                Primitive("power", 0, 1),
                Primitive("tally", 0),
                Primitive("distinct", 0),
            ),
        )
        without = [i for i, user in enumerate(rows["user id"]) if user != "a"]
        fewer = {name: [cells[i] for i in without] for name, cells in rows.items()}
        moved = _moved(
            query,
            answer(engine(), as_source(table_of(rows)), query),
            answer(engine(), as_source(table_of(fewer)), query),
        )
        bound = min(groups * most, total or 99)
        code = query.codes[0]
        assert isinstance(code, Fixed)
        assert moved["rows 0"] <= bound
        assert moved["persons 0"] <= min(groups, total or 99)
        assert moved["power 1"] <= bound * code.grid.hull_steps
        assert moved["tally 0"] <= bound
        assert moved["distinct 0"] <= bound
        reached.add(moved["rows 0"] == bound)
    assert True in reached  # the bound is attained, so a smaller one would be caught


def test_a_unit_with_a_hundred_thousand_rows_is_bounded() -> None:
    count = 10**5
    table = pa.table(
        {
            "user id": ["heavy"] * count + ["light"],
            "region": ["north", "south"] * (count // 2) + ["north"],
            "x": [*range(count), 5],
        }
    )
    region = COLUMNS["region"]
    query = BoundedQuery(
        tuple(COLUMNS.values()),
        GroupKeys((region,), tuple((k,) for k in region.keys)),
        (Fixed("x", Domain(0, 120).on_grid(Fraction(1)), Fraction(1)),),
        (Primitive("rows"), Primitive("persons"), Primitive("power", 0, 1)),
        user="user id",
        max_groups=1,
        max_rows=7,
    )
    total = np.array(answer(DuckDBEngine(), as_source(table), query), dtype=object).sum(axis=0)
    assert total.tolist()[:2] == [8, 2]
    assert total[2] <= 7 * 120 + 5


def test_a_hundred_thousand_groups_are_joined_not_enumerated() -> None:
    labels = tuple(f"k{i}" for i in range(10**5))
    site = Column("site", Kind.category, values=labels)
    query = BoundedQuery(
        (site,),
        GroupKeys((site,), tuple((k,) for k in labels)),
        (),
        (Primitive("rows"),),
    )
    source = as_source(pa.table({"site": ["k99999", "k7", "k7", "nowhere", None]}))
    engine = DuckDBEngine()
    found = engine.compute(source, query, SALT).reveal_to_mechanism().sums
    assert found.shape == (10**5, 1)
    assert (found[7, 0], found[99999, 0], found.sum()) == (2, 1, 3)
    assert max(map(len, engine.statements)) < 10_000


def test_integers_far_beyond_doubles_are_summed_exactly() -> None:
    wide = Domain(0, 2**32 - 1).on_grid(Fraction(1))
    query = BoundedQuery(
        (COLUMNS["x"],),
        GroupKeys((), ((),)),
        (Fixed("x", wide, Fraction(1)),),
        (Primitive("power", 0, 2),),
    )
    source = as_source(pa.table({"x": [1e308, 2.0**32, 3.0, -1e308]}))
    for engine in (DuckDBEngine(), ReferenceEngine()):
        assert answer(engine, source, query) == [[2 * (2**32 - 1) ** 2 + 9]]
