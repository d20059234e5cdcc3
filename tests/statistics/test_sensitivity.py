"""The wall's own arithmetic on primitives it did not choose: never below brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import InternalError
from dprelease.planning.layout import layout
from dprelease.planning.make import make_plan
from dprelease.query.bounded import BoundedQuery, Code, Fixed, GroupKeys, Primitive
from dprelease.schema.domain import GridSet
from dprelease.schema.unit import Adjacency, RowUnit, Unit, UserUnit
from dprelease.statistics.measurement import Family, Measurement
from dprelease.statistics.sensitivity import Bounds, bounded_query, sensitivity, unit_bounds
from dprelease.wall.recompute import recompute, row_sensitivity
from tests.planning.requests import asked, planned
from tests.sizes import whole

ONE = ((),)


def measurement(
    weights: tuple[tuple[int, ...], ...], family: Family = "scalar", **more: object
) -> Measurement:
    made = Measurement(
        family, ("k",), tuple(f"cell {i}" for i in range(max(1, len(weights)))), weights, 0, 0
    )
    return replace(made, **more)  # type: ignore[arg-type]


def code(steps: int, default: int | None = None, column: str = "x") -> Fixed:
    return Fixed(column, GridSet(((0, steps),)), Fraction(1), default)


def query(
    codes: tuple[Code, ...], primitives: tuple[Primitive, ...], **more: object
) -> BoundedQuery:
    return replace(BoundedQuery((), GroupKeys((), ONE), codes, primitives), **more)  # type: ignore[arg-type]


@st.composite
def measured(draw: st.DrawFn) -> tuple[BoundedQuery, Measurement]:
    """Any linear cells of any primitives of one or two codes, however odd."""
    codes = tuple(
        code(draw(st.integers(0, 4)), draw(st.sampled_from([None, 0])), c) for c in ("x", "y")
    )
    kinds = st.one_of(
        st.builds(Primitive, st.sampled_from(["rows", "persons"])),
        st.builds(Primitive, st.just("power"), st.integers(0, 1), st.integers(0, 2)),
        st.builds(
            Primitive,
            st.just("between"),
            st.integers(0, 1),
            low=st.integers(0, 3),
            high=st.integers(1, 4),
        ),
    )
    primitives = tuple(draw(st.lists(kinds, min_size=1, max_size=4)))
    row = st.tuples(*[st.integers(-3, 3)] * len(primitives))
    weights = tuple(draw(st.lists(row, min_size=1, max_size=3)))
    return query(codes, primitives), measurement(weights)


def row_sums(task: BoundedQuery) -> list[tuple[int, ...]]:
    """Return what one row can add to the primitives, over all of its codes, null where it has no default."""
    out = []
    ranges = [
        [*range(c.grid.hull_steps + 1), *([None] if c.default is None else [])]
        for c in task.codes
        if isinstance(c, Fixed)
    ]
    for values in itertools.product(*ranges):
        row = []
        for p in task.primitives:
            v = None if p.code is None else values[p.code]
            if p.kind in ("rows", "persons"):
                row.append(1)
            elif v is None:
                row.append(0)
            else:
                row.append(v**p.power if p.kind == "power" else int(p.low <= v <= p.high))
        out.append(tuple(row))
    return [*out, (0,) * len(task.primitives)]  # the last one: no row


def norm(weights: tuple[tuple[int, ...], ...], one: tuple[int, ...], two: tuple[int, ...]) -> int:
    return sum(
        abs(sum(w * (a - b) for w, a, b in zip(row, one, two, strict=True))) for row in weights
    )


class TestRowMoves:
    @settings(max_examples=whole(150, 400))
    @given(measured())
    def test_never_below_brute_force_whatever_is_summed(
        self, made: tuple[BoundedQuery, Measurement]
    ) -> None:
        task, cells = made
        l1_added_row, l1_replaced_row = row_sensitivity(
            task, cells, tuple(range(len(task.primitives)))
        )
        rows = row_sums(task)
        none = rows[-1]
        assert max(norm(cells.weights, r, none) for r in rows) <= l1_added_row
        assert max(norm(cells.weights, a, b) for a in rows for b in rows) <= l1_replaced_row

    def test_equal_measures_of_different_codes_do_not_cancel(self) -> None:
        both = (Primitive("power", 0, 1), Primitive("power", 1, 1))
        task = query((code(4, column="x"), code(4, column="y")), both)
        assert row_sensitivity(task, measurement(((1, -1),)), (0, 1)) == (4, 8)
        # the twin reads both as the same code: x - x = 0
        twin = query((code(4), code(4)), (Primitive("power", 0, 1), Primitive("power", 0, 1)))
        assert row_sensitivity(twin, measurement(((1, -1),)), (0, 1)) == (0, 0)

    def test_rows_and_non_null_rows_do_not_cancel(self) -> None:
        task = query((code(4),), (Primitive("rows"), Primitive("power", 0, 0)))
        assert row_sensitivity(task, measurement(((1, -1),)), (0, 1))[0] >= 1

    def test_a_bin_that_counts_in_two_cells_moves_both(self) -> None:
        task = query(
            (code(4),), (Primitive("between", 0, 0, 0, 1), Primitive("between", 0, 0, 2, 4))
        )
        assert row_sensitivity(task, measurement(((1, 0), (0, 1))), (0, 1)) == (1, 2)
        assert row_sensitivity(task, measurement(((1, 0), (1, 0), (0, 1))), (0, 1)) == (2, 4)

    def test_overlapping_bins_add_up(self) -> None:
        task = query(
            (code(4),), (Primitive("between", 0, 0, 0, 2), Primitive("between", 0, 0, 2, 4))
        )
        assert row_sensitivity(task, measurement(((1, 0), (0, 1))), (0, 1)) == (2, 4)

    @pytest.mark.parametrize(("default", "moves"), [(9, (9, 9)), (-3, (4, 7))])
    def test_a_default_beyond_the_range_counts(self, default: int, moves: tuple[int, int]) -> None:
        task = query((code(4, default=default),), (Primitive("power", 0, 1),))
        assert row_sensitivity(task, measurement(((1,),)), (0,)) == moves

    def test_a_default_beyond_the_range_counts_in_a_scatter(self) -> None:
        shape = tuple(Primitive("power", 0, p, max_rows=1) for p in (1, 2, 0))
        scatter = measurement((), form="scatter", public_rows=5)
        for default, width in ((0, 4), (9, 9), (-3, 7)):
            task = query((code(4, default=default),), shape)
            assert row_sensitivity(task, scatter, (0, 1, 2)) == (width**2 * 4,) * 2

    def test_a_polynomial_may_be_greatest_between_the_ends(self) -> None:
        task = query((code(6),), (Primitive("power", 0, 1), Primitive("power", 0, 2)))
        assert row_sensitivity(task, measurement(((6, -1),)), (0, 1)) == (
            9,
            9,
        )  # 6 k - k^2 at k = 3

    def test_a_replaced_row_takes_one_distinct_value_and_brings_another(self) -> None:
        task = query((code(4),), (Primitive("distinct", 0),))
        assert row_sensitivity(task, measurement(((1,),)), (0,)) == (1, 1)
        assert row_sensitivity(task, measurement(((1,), (-2,))), (0,)) == (3, 3)

    @pytest.mark.parametrize(
        "primitive", [Primitive("power", 0, 3), Primitive("median", 0), Primitive("power", None, 1)]
    )
    def test_what_has_no_proved_bound_is_refused(self, primitive: Primitive) -> None:
        with pytest.raises(InternalError, match="no proved bound") as caught:
            row_sensitivity(query((code(4),), (primitive,)), measurement(((1,),)), (0,))
        assert caught.value.code == "DPR902"


class TestRecompute:
    USER = UserUnit("who", 2, 3, 5)
    TASK = query(
        (code(4),),
        (Primitive("power", 0, 0, max_rows=3), Primitive("power", 0, 1, max_rows=3)),
        user="who",
        max_groups=1,
        max_rows=3,
        max_rows_total=5,
    )
    CELLS = measurement(((0, 1), (4, -1)), "two_sums")

    def claim(
        self,
        task: BoundedQuery,
        *,
        cells: Measurement | None = None,
        unit: Unit | None = None,
        adjacency: Adjacency = Adjacency.add_remove,
        whole: bool = True,
        groups: int = 1,
    ) -> int:
        return recompute(
            task,
            cells or self.CELLS,
            tuple(range(len(task.primitives))),
            None,
            unit=unit or self.USER,
            adjacency=adjacency,
            groups=groups,
            whole=whole,
            per=None,
        ).l1_over_groups

    def test_an_honest_query(self) -> None:
        assert self.claim(self.TASK) == 3 * 4

    @pytest.mark.parametrize(
        "wrong",
        [
            {"max_groups": 2},
            {"user": None},
            {"user": "x"},
            {"max_rows_total": None},
            {"max_rows_total": 6},
            {"primitives": (Primitive("power", 0, 0, max_rows=4), TASK.primitives[1])},
            {"primitives": (Primitive("power", 0, 0), TASK.primitives[1]), "max_rows": 4},
            {"groups": GroupKeys((), ((), ()))},
        ],
        ids=lambda w: ",".join(w),
    )
    def test_a_query_that_keeps_more_than_declared_is_refused(
        self, wrong: dict[str, object]
    ) -> None:
        with pytest.raises(InternalError) as caught:
            self.claim(replace(self.TASK, **wrong))  # type: ignore[arg-type]
        assert caught.value.code == "DPR902"

    PUBLIC = query((code(4, default=0),), (Primitive("power", 0, 1, max_rows=1),))
    SUM = measurement(((1,),), public_rows=10)

    def test_a_public_size(self) -> None:
        total = self.claim(
            self.PUBLIC, cells=self.SUM, unit=RowUnit(), adjacency=Adjacency.substitution
        )
        assert total == 4

    @pytest.mark.parametrize(
        ("wrong", "arguments"),
        [
            ({}, {"adjacency": Adjacency.add_remove}),
            ({}, {"whole": False}),
            ({"codes": (code(4),)}, {}),
            ({"user": "who"}, {"unit": UserUnit("who", 1, 1)}),
            ({"groups": GroupKeys((), ((), ()))}, {"groups": 2}),
            ({"view": SimpleNamespace(keeps_rows=False)}, {}),
        ],
        ids=["add/remove", "filtered", "nulls dropped", "user", "groups", "a view that drops rows"],
    )
    def test_a_private_size_is_never_taken_for_a_public_one(
        self, wrong: dict[str, object], arguments: dict[str, object]
    ) -> None:
        settings_ = {"unit": RowUnit(), "adjacency": Adjacency.substitution, **arguments}
        with pytest.raises(InternalError, match="private number of rows") as caught:
            self.claim(replace(self.PUBLIC, **wrong), cells=self.SUM, **settings_)  # type: ignore[arg-type]
        assert caught.value.code == "DPR902"

    def test_a_view_that_keeps_rows_leaves_their_number_public(self) -> None:
        task = replace(self.PUBLIC, view=SimpleNamespace(keeps_rows=True))  # type: ignore[arg-type]
        unit, adjacency = RowUnit(), Adjacency.substitution
        assert self.claim(task, cells=self.SUM, unit=unit, adjacency=adjacency) == 4

    def test_signed_cells_have_the_longer_square(self) -> None:
        task = query((code(4),), (Primitive("power", 0, 0), Primitive("power", 0, 1)))
        squares = []
        for weights in (((0, 1), (4, -1)), ((0, 1), (4, -2))):  # the latter is negative above 2
            got = recompute(
                task,
                measurement(weights, "two_sums", form="linear"),
                (0, 1),
                None,
                unit=RowUnit(),
                adjacency=Adjacency.substitution,
                groups=1,
                whole=True,
                per=None,
            )
            squares.append(got.l2_squared)
        assert squares == [2 * 4**2, 12**2]

    @pytest.mark.parametrize(
        "cells",
        [
            measurement(((1, 0), (0, 2)), "truncated_mean", scale=4),
            measurement(((1, 0), (0, 1)), "truncated_mean", scale=3),
            measurement(((0, 1), (1, 0)), "truncated_mean", scale=4),
        ],
        ids=["sum doubled", "scale too small", "swapped"],
    )
    def test_a_truncated_mean_of_something_else_is_refused(self, cells: Measurement) -> None:
        honest = measurement(((1, 0), (0, 1)), "truncated_mean", scale=4)
        assert self.claim(self.TASK, cells=honest) == 3
        with pytest.raises(InternalError, match="size and a sum"):
            self.claim(self.TASK, cells=cells)


def test_a_scatter_of_two_columns_is_refused() -> None:
    shape = tuple(Primitive("power", c, p, max_rows=1) for c, p in ((0, 1), (1, 2), (0, 0)))
    task = query((code(4, 0), code(4, 0, "y")), shape)
    with pytest.raises(InternalError, match="own moments"):
        row_sensitivity(task, measurement((), form="scatter", public_rows=5), (0, 1, 2))


class TestBounds:
    def test_unit_bounds_follow_from_the_declared_unit(self) -> None:
        assert unit_bounds(RowUnit(), 7, 5) == Bounds(1, 1)
        assert unit_bounds(UserUnit("who", 9, 3, 4), None, 5) == Bounds(3, 5, 4)
        assert unit_bounds(UserUnit("who", 2, 3), 1, 5) == Bounds(1, 2)

    def test_total_caps_rows_everywhere(self) -> None:
        cell = measurement(((1,),), l1_added_row=1, l1_replaced_row=1)
        got = sensitivity(cell, Bounds(rows=3, groups=4, total=5), Adjacency.add_remove, 9)
        assert (got.l1_per_group, got.l1_over_groups, got.changed_groups, got.chain_length) == (
            3,
            5,
            4,
            4,
        )

    def test_only_cells_that_are_nowhere_negative_move_less_in_l2(self) -> None:
        signed = measurement(((1, 0), (0, -1)), form="linear", l1_added_row=2, l1_replaced_row=4)
        one, both = Bounds(rows=1, groups=1), (False, True)
        squares = [
            sensitivity(signed, one, Adjacency.substitution, 1, positive=p).l2_squared for p in both
        ]
        assert squares == [16, 8]

    def test_the_engine_is_told_every_bound(self) -> None:
        unit = {"user": "who", "max_groups": 1, "max_rows_per_group": 3, "max_rows": 4}
        task = planned(["count"], unit=unit, by=["g"]).query
        assert (task.user, task.max_groups, task.max_rows, task.max_rows_total) == ("who", 1, 3, 4)

    def test_persons_count_once_per_group(self) -> None:
        plan = planned(
            ["count(persons)"],
            unit={"user": "who", "max_groups": 2, "max_rows_per_group": 9},
            by=["g"],
        )
        assert plan.blocks[0].measurement.sensitivity["l1_over_groups"] == "2"


class TestBound:
    def test_equal_primitives_are_summed_once(self) -> None:
        plan = planned(["mean(x)", "variance(x)", "std(x)", "count"])
        kinds = [(p.kind, p.power) for p in plan.query.primitives]
        assert len(kinds) == len(set(kinds)) == 4

    def test_a_column_of_many_steps_may_be_squared(self) -> None:
        wide = {"kind": "number", "range": [0, 2**33], "step": 1}
        query_ = asked(["variance(x)"], x=wide)
        measurement = layout(query_)[0].options[0]
        bounded_query(query_, ((measurement, None),))
        make_plan(query_)
