"""What every engine owes: the reference's integers, for any table, in any order of rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, object_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.testing.engines import (
    COLUMNS,
    INPUTS,
    SALT,
    Rows,
    answer,
    query_of,
    rows_of,
    source_of,
    table_of,
)
from tests.newer_statistics import FAMILIES, NOT_OF, answered, loose
from tests.sizes import FULL, whole


def _made(kind: str, rows: Rows, folder: Path) -> Source:
    if kind != "objects":
        return source_of(kind, rows, folder)
    source_of("parquet", rows, folder)
    store = pyarrow.fs.SubTreeFileSystem(str(folder.parent), pyarrow.fs.LocalFileSystem())
    return object_source(f"s3://{folder.name}/*.parquet", store=store)


FEW = {"arrow": (0, 1, 6, 30), "parquet": (1, 4), "duckdb_table": (1, 3)}
"""Of Arrow 6: units of months, whose rows are chosen; 30: the same, and a period of another column.

Weeks of instants in Dublin, which DuckDB plans for seconds, are of objects alone.
"""


@pytest.mark.parametrize("kind", [*INPUTS, "objects"])
def test_the_engines_agree_on_generated_tables(kind: str, tmp_path: Path) -> None:
    nonzero = 0
    seeds = range(32) if FULL else FEW.get(kind, (1, 2))
    for seed in seeds:
        rng = random.Random(f"{kind} {seed}")
        rows = rows_of(rng, rng.choice([0, 1, 2, 12, 40]))
        source, query = _made(kind, rows, tmp_path), query_of(rng)
        engines = DuckDBEngine(threads=1), ReferenceEngine()
        for engine in engines:
            engine.preflight(source, query)
        found, expected = (answer(engine, source, query) for engine in engines)
        assert found == expected, (kind, seed)
        nonzero += any(any(row) for row in found[: len(query.groups.keys)])
    assert nonzero >= max(1, len(seeds) // 4)  # the agreement is not about empty results


@pytest.mark.parametrize("unit", ["row", "user"])
def test_what_is_drawn_by_rank_or_of_a_tree_is_of_the_same_integers(unit: str) -> None:
    found = answered(DuckDBEngine(threads=1), as_source(loose()), unit)
    assert found == answered(ReferenceEngine(), as_source(loose()), unit)
    assert {family for family, _ in found.values()} >= FAMILIES - NOT_OF[unit]
    other = answered(DuckDBEngine(threads=1), as_source(loose(seed=8)), unit)
    assert all(found[name] != other[name] for name in found)  # the control: other rows, other draws


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


def test_row_order_and_threads_do_not_matter() -> None:
    for seed in range(whole(1, 8)):
        rng = random.Random(seed)
        rows = rows_of(rng, 200)
        query = query_of(rng, user="user id", where=None, window=None)
        order = rng.sample(range(200), 200)
        permuted = {name: [cells[i] for i in order] for name, cells in rows.items()}
        before = answer(DuckDBEngine(threads=1), as_source(table_of(rows)), query)
        assert answer(DuckDBEngine(threads=2), as_source(table_of(permuted)), query) == before


def _moved(query: BoundedQuery, before: Any, after: Any) -> dict[str, int]:
    """Return the L1 change of `rows`, `persons`, `power 0` over all groups."""
    groups = len(query.groups.keys)
    change = np.abs(
        np.array(after[:groups], dtype=object) - np.array(before[:groups], dtype=object)
    ).sum(axis=0)
    kinds = [f"{p.kind} {p.power}" for p in query.primitives]
    rows = [{(r[0], r[1]): r[3] - r[2] for r in made[groups + 1 :]} for made in (before, after)]
    tallied = sum(abs(rows[0].get(k, 0) - rows[1].get(k, 0)) for k in {*rows[0], *rows[1]})
    return {**dict(zip(kinds, change.tolist(), strict=False)), "tally 0": tallied}


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_one_unit_moves_each_primitive_by_at_most_its_bound(
    engine: Callable[[], Any],
) -> None:
    reached = set()
    for seed in range(whole(8, 16) if engine is DuckDBEngine else whole(20, 40)):
        rng = random.Random(seed)
        rows = rows_of(rng, 60)
        rows["user id"] = [rng.choice(["a", "a", "b", "c", None]) for _ in range(60)]
        groups, most, total = rng.choice([(1, 2, None), (2, 3, None), (2, 3, 4), (9, 1, None)])
        region = COLUMNS["region"]
        query = query_of(
            rng,
            user="user id",
            per=None,  # the person over all time; of one interval: `test_intervals`
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


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_a_units_rows_are_no_more_than_its_total(engine: Callable[[], Any]) -> None:
    region = COLUMNS["region"]
    rows = rows_of(random.Random(1), 40)
    rows["user id"] = ["a"] * 40
    counted = []
    for total in (None, 1, 2, 3):
        query = query_of(
            random.Random(5),
            user="user id",
            per=None,
            groups=GroupKeys((region,), tuple((k,) for k in region.keys)),
            max_groups=2,
            max_rows=3,
            max_rows_total=total,
            primitives=(Primitive("rows"),),
        )
        cells = answer(engine(), as_source(table_of(rows)), query)
        counted.append(sum(row[0] for row in cells))
    assert counted == [4, 1, 2, 3]  # 4: what the other two bounds keep


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
