"""Guards that make overflow, double counting and unusable grids impossible before any row."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import PlanError
from dprelease.engines.request import (
    check_query,
    declared_labels,
    rounding,
    row_cap,
    used_columns,
)
from dprelease.query.bounded import (
    BoundedQuery,
    Condition,
    Fixed,
    GroupKeys,
    Label,
    Near,
    Primitive,
    Window,
)
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet

X = Column("x", Kind.number)
K = Column("k", Kind.category, values=("a", "b"), other="rest")


def query(**changes: Any) -> BoundedQuery:
    base: dict[str, Any] = {
        "columns": (X, K),
        "groups": GroupKeys((K,), (("a",), ("rest",))),
        "codes": (Fixed("x", GridSet(((0, 10),)), Fraction(1)),),
        "primitives": (Primitive("power", 0, 2),),
    }
    return BoundedQuery(**{**base, **changes})


def code_of(asked: BoundedQuery) -> str:
    with pytest.raises(PlanError) as caught:
        check_query(asked)
    return str(caught.value.code)


def grid(low: int, high: int, **parts: Any) -> tuple[Fixed]:
    return (Fixed("x", GridSet(((low, high),)), Fraction(1), **parts),)


def test_products_of_many_wide_codes_are_refused() -> None:
    for codes in (grid(0, 2**32), grid(0, 5, default=2**32), grid(0, 2**53)):
        check_query(query(codes=codes))
    assert code_of(query(primitives=(Primitive("power", 0, 20),))) == "DPR230"
    check_query(query(primitives=(Primitive("power", 0, 18),)))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"codes": (Fixed("x", GridSet(((0, 2**53 + 1),)), Fraction(1)),)}, "DPR231"),
        ({"codes": (Fixed("x", GridSet(((0, 1),)), Fraction(10**400)),)}, "DPR231"),
        ({"codes": (Fixed("x", GridSet(((0, 1),)), Fraction(0)),)}, "DPR231"),
        ({"codes": (Fixed("k", GridSet(((0, 1),)), Fraction(1)),)}, "DPR232"),
        ({"codes": (Fixed("y", GridSet(((0, 1),)), Fraction(1)),)}, "DPR232"),
        ({"groups": GroupKeys((K,), (("a",), ("a",)))}, "DPR233"),
        ({"groups": GroupKeys((K,), (("a", "b"),))}, "DPR233"),
        ({"codes": (Label("x", ("a", "b")),)}, "DPR232"),
        ({"codes": (Label("k", ()),)}, "DPR232"),
        ({"codes": (Label("k", ("a", "a")),)}, "DPR232"),
        (
            {
                "codes": (Fixed("x", GridSet(((0, 2**24),)), Fraction(1)),),
                "primitives": (Primitive("tally", 0),),
            },
            "DPR219",
        ),
        ({"max_groups": 0}, "DPR235"),
        ({"max_rows": 0}, "DPR235"),
        ({"max_rows_total": 0}, "DPR235"),
        ({"primitives": (Primitive("rows", max_rows=0),)}, "DPR235"),
    ],
)
def test_unsafe_queries_are_refused(changes: dict[str, Any], code: str) -> None:
    check_query(query())
    assert code_of(query(**changes)) == code


def test_the_constants_of_a_code_are_made_once_for_all_cells() -> None:
    code = Fixed("x", GridSet(((0, 9),)), Fraction(1, 2))
    assert rounding(code) is rounding(replace(code))


@given(
    st.integers(-1000, 1000),
    st.integers(1, 10**6),
    st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_rounding_stays_within_one_step_of_the_hull(
    low: int, width: int, step: Fraction, x: float
) -> None:
    """The second clip is needed, but never moves a code by more than one step."""
    doubles = rounding(Fixed("x", GridSet(((low, low + width),)), step))
    inside = min(max(x, doubles.low), doubles.high)
    steps = inside * doubles.den / doubles.num + 0.5
    assert low - 1 <= steps <= low + width + 1.5


def test_used_columns_in_order_and_once() -> None:
    day, user = Column("day", Kind.date), "person"
    condition = parse_condition("x > 1 and k = 'a'", {"x": X, "k": K}, origin="t")
    asked = query(
        columns=(X, K, day),
        user=user,
        codes=(Condition(condition),),
        primitives=(),
        window=Window("day", None, None),  # type: ignore[arg-type]
        where=condition,
    )
    assert [c.name for c in used_columns(asked)] == ["person", "k", "x", "day"]
    assert used_columns(asked)[0].kind is Kind.identifier


def test_labels_of_each_kind_of_key_column() -> None:
    assert declared_labels(query(), 0) == ("a", "b")
    flag = Column("f", Kind.boolean)
    assert declared_labels(query(groups=GroupKeys((flag,), (("true",),))), 0) == (
        "false",
        "true",
    )
    free = Column("s", Kind.category, other="rest", null_label="none")
    keys = (("p",), ("q",), ("rest",), ("none",))
    assert declared_labels(query(groups=GroupKeys((free,), keys)), 0) == ("p", "q")


def test_tallies_near_a_rank_need_room_for_the_codes_near_it_only() -> None:
    wide = (Fixed("x", GridSet(((0, 2**50),)), Fraction(1)),)
    near = Near(1, 2, 0, 2**20)
    assert near.most == 2**20 + 3
    check_query(query(codes=wide, primitives=(Primitive("tally", 0, near=near),)))
    for other, code in (
        (replace(near, last=2**26), "DPR219"),
        (replace(near, a=3), "DPR234"),
        (replace(near, b=0), "DPR234"),
        (replace(near, last=-1), "DPR234"),
    ):
        with pytest.raises(PlanError) as caught:
            check_query(query(codes=wide, primitives=(Primitive("tally", 0, near=other),)))
        assert caught.value.code == code


def test_row_caps() -> None:
    asked = query(max_rows=5)
    assert row_cap(asked, Primitive("rows")) == 5
    assert row_cap(asked, Primitive("rows", max_rows=2)) == 2
    assert row_cap(asked, Primitive("persons", max_rows=9)) == 1
