"""Sums of products that no integer of an engine holds: digit by digit, the same sums."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.engines.digits import WIDEST, DigitProduct, apart, widest
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet
from tests.sizes import some

K = Column("k", Kind.category, values=("a", "b"))
COLUMNS = (Column("x", Kind.integer), Column("z", Kind.integer), K, Column("u", Kind.identifier))
POWERS = (0, 1, 2)
PRIMITIVES = (
    *(Primitive("power", 0, p) for p in POWERS),
    *(Primitive("product", 0, p, other=1, other_power=q) for p in POWERS for q in POWERS),
    Primitive("product", 0, 1, other=0, other_power=2),
    Primitive("rows"),
)
TOPS = (2**20, 5 * 10**7, 2**32 - 1, 2**32, 10**11, 2**53)


def query(top: int, *, by: bool = True, **more: Any) -> BoundedQuery:
    codes = (
        Fixed("x", GridSet(((0, top),)), Fraction(1)),
        Fixed("z", GridSet(((0, top - 7),)), Fraction(1), default=5),
    )
    groups = GroupKeys((K,), (("a",), ("b",))) if by else GroupKeys((), ((),))
    return BoundedQuery(COLUMNS, groups, codes, PRIMITIVES, **more)


def rows(top: int, count: int = 300) -> pa.Table:
    pick = random.Random(top)
    value = lambda: pick.choice([None, 0, 1, top, top - 1, pick.randrange(top)])  # noqa: E731
    return pa.table(
        {
            "x": pa.array([value() for _ in range(count)], pa.int64()),
            "z": pa.array([value() for _ in range(count)], pa.int64()),
            "k": [pick.choice("ab") for _ in range(count)],
            "u": [str(pick.randrange(60)) for _ in range(count)],
        }
    )


def summed(engine: Any, top: int, asked: BoundedQuery) -> Any:
    return engine.compute(as_source(rows(top)), asked, b"salt").reveal_to_mechanism().sums


@pytest.mark.parametrize(
    ("top", "more"),
    some(
        itertools.product(TOPS, ({}, {"by": False}, {"user": "u", "max_rows": 3, "max_groups": 2})),
        2,
    ),
)
def test_wide_sums_are_those_of_the_reference(top: int, more: dict[str, Any]) -> None:
    asked = query(top, **more)
    found, wanted = (summed(e, top, asked) for e in (DuckDBEngine(), ReferenceEngine()))
    assert np.array_equal(found, wanted)
    if top >= 2**32:
        assert max(int(v) for v in wanted.ravel()) > 2**127  # more than a HUGEINT holds


@pytest.mark.parametrize("top", TOPS)
def test_no_part_is_wide_and_few_are_made(top: int) -> None:
    narrow, _ = apart(query(top))
    assert all(widest(narrow, p) < WIDEST for p in narrow.primitives)
    for primitive in PRIMITIVES:
        single = BoundedQuery(COLUMNS, GroupKeys((), ((),)), query(top).codes, (primitive,))
        assert len(apart(single)[0].primitives) <= 60


@pytest.mark.parametrize("top", [5, 2**20, 2**32, 2**53])
def test_the_parts_add_up_for_every_row(top: int) -> None:
    """A row's digit products, weighted, are its product: enumerated at the ends and at random."""
    asked = query(top)
    narrow, together = apart(asked)
    pick = random.Random(3)
    ends = [0, 1, top, top - 7, 2**16, 2**26 - 1, *(pick.randrange(top) for _ in range(20))]
    for a in ends:
        b = min(pick.choice(ends), top - 7)
        codes = (min(a, top), b)
        parts = [_value(p, codes) for p in narrow.primitives]
        whole = [_value(p, codes) for p in asked.primitives]
        assert together(Answer(np.array([parts], dtype=object))).sums.tolist() == [whole]


def _value(primitive: Primitive, codes: tuple[int, int]) -> int:
    if primitive.kind == "rows":
        return 1
    if isinstance(primitive, DigitProduct):
        out = 1
        for digit in primitive.digits:
            rest = codes[digit.code] >> digit.low
            out *= rest if digit.bits is None else rest % (1 << digit.bits)
        return out
    out = codes[primitive.code or 0] ** primitive.power
    return out if primitive.other is None else out * codes[primitive.other] ** primitive.other_power


def test_a_narrow_query_is_left_as_it_is() -> None:
    asked = query(1000)
    assert apart(asked)[0] is asked
