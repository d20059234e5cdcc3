"""The reference engine against answers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

X = Column("x", Kind.number)
K = Column("k", Kind.category, values=("a", "b"), other="rest", nulls="as", null_label="none")
ENGINES = (ReferenceEngine(), DuckDBEngine(threads=1))


def ask(engine: Any, table: dict[str, Any], asked: BoundedQuery) -> list[list[int]]:
    found = engine.compute(as_source(pa.table(table)), asked, b"s").reveal_to_mechanism().sums
    cells: list[list[int]] = found.tolist()
    return cells


def one_code(x: object, fixed: Fixed) -> int | None:
    """Return x's code, by both engines, through its count and sum."""
    asked = BoundedQuery(
        (X,),
        GroupKeys((), ((),)),
        (fixed,),
        (Primitive("power", 0, 0), Primitive("power", 0, 1)),
    )
    (first, second) = (ask(engine, {"x": [x]}, asked) for engine in ENGINES)
    assert first == second
    return first[0][1] if first[0][0] else None


@pytest.mark.parametrize(
    ("x", "code"),
    [
        (10.0, 0),
        (12.0, 20),
        (12.04, 20),
        (12.06, 21),
        (5.0, 0),
        (-math.inf, 0),
        (math.inf, 100),
        (1e308, 100),
        (math.nan, None),
        (None, None),
        ("14", 30),  # in the gap (13, 15), half-way: the lower end
        ("14.04", 30),  # still nearer to 13 after rounding to 14.0
        ("14.1", 50),
        ("x", None),
        (True, 0),
    ],
)
def test_codes_by_hand(x: object, code: int | None) -> None:
    domain, step = Domain(10, 20, [(13, 15)]), Fraction(1, 10)
    assert one_code(x, Fixed("x", domain.on_grid(step), step)) == code
    default = Fixed("x", domain.on_grid(step), step, 7)
    assert one_code(x, default) == (7 if code is None else code)


def test_keys_by_hand() -> None:
    asked = BoundedQuery(
        (K,),
        GroupKeys((K,), (("a",), ("b",), ("rest",), ("none",))),
        (),
        (Primitive("rows"),),
    )
    cells = ["a", "a", "b", "z", "none", "rest", "A", None]
    for engine in ENGINES:
        assert ask(engine, {"k": cells}, asked) == [[2], [1], [4], [1]]
        assert ask(engine, {"k": cells[:0]}, asked) == [[0], [0], [0], [0]]
        without = BoundedQuery((K,), GroupKeys((K,), (("b",), ("a",))), (), (Primitive("rows"),))
        assert ask(engine, {"k": cells}, without) == [[1], [2]]


def test_bounds_by_hand() -> None:
    keys = GroupKeys((K,), (("a",), ("b",)))
    table = {"u": ["p"] * 6 + ["q"], "k": ["a"] * 3 + ["b"] * 3 + ["a"], "x": [1.0] * 7}
    primitives = (
        Primitive("rows"),
        Primitive("rows", max_rows=1),
        Primitive("rows", max_rows=3),
        Primitive("persons"),
    )
    for engine in ENGINES:

        def column_sums(engine: Any = engine, **bounds: Any) -> list[int]:
            asked = BoundedQuery((K, X), keys, (), primitives, user="u", **bounds)
            found = ask(engine, table, asked)
            return [sum(cells) for cells in zip(*found, strict=True)]

        assert column_sums(max_groups=2, max_rows=2) == [5, 3, 7, 3]
        assert column_sums(max_groups=1, max_rows=2) == [3, 2, 4, 2]
        assert column_sums(max_groups=2, max_rows=2, max_rows_total=3) == [4, 3, 4, 3]
        assert column_sums(max_groups=2, max_rows=2, max_rows_total=1) == [2, 2, 2, 2]
