"""The wall's bounds of products against every row of small boxes, and a broken twin."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.query.bounded import Primitive
from dprelease.wall.code_sensitivity import coefficients, pair_sensitivity

PRIMITIVES = tuple(
    Primitive("product", 0, p, other=1, other_power=q) for p, q in product(range(3), repeat=2)
)
weights = st.lists(st.integers(-9, 9), min_size=9, max_size=9)


def value(row: list[int], a: int, b: int) -> int:
    return sum(w * a**p.power * b**p.other_power for w, p in zip(row, PRIMITIVES, strict=True))


@given(st.lists(weights, min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=150)
def test_no_row_and_no_replacement_moves_further(cells: list[list[int]], a: int, b: int) -> None:
    box = list(product(range(a + 1), range(b + 1)))
    found = [[value(row, *at) for row in cells] for at in box]
    for absent in (True, False):
        l1_added_row, l1_replaced_row = pair_sensitivity(cells, PRIMITIVES, (a, b), absent=absent)
        rows = [*found, [0] * len(cells)] if absent else found
        assert max(sum(map(abs, row)) for row in found) <= l1_added_row
        assert (
            max(
                sum(abs(x - y) for x, y in zip(one, other, strict=True))
                for one in rows
                for other in rows
            )
            <= l1_replaced_row
        )


@given(weights, st.integers(1, 6), st.integers(1, 6))
def test_a_cell_lies_between_its_least_and_greatest_coefficient(
    row: list[int], a: int, b: int
) -> None:
    found = coefficients(row, PRIMITIVES, (a, b))
    values = [value(row, *at) for at in product(range(a + 1), range(b + 1))]
    assert min(found) <= min(values)
    assert max(values) <= max(found)
    assert (found[0], found[-1]) == (value(row, 0, 0), value(row, a, b))


def test_twin_corners_alone_miss_the_middle() -> None:
    """a(A - a) is 0 at both ends: a bound from the corners would allow no noise at all."""
    row = [0, 0, 0, 4, 0, 0, -1, 0, 0]
    corners = [value(row, a, b) for a in (0, 4) for b in (0, 4)]
    assert corners == [0, 0, 0, 0]
    assert pair_sensitivity([row], PRIMITIVES, (4, 4), absent=True)[0] >= value(row, 2, 0) == 4
