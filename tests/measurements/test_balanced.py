"""Bins of a public number of rows: what the planner takes, what the wall refuses, what is published."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.budget.exact_rho import rho_of_pure, rho_of_zero_sum
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.balanced import BalancedLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.planning.requests import PUBLIC_X, planned, public

WHOLE = "histogram(x, [0, 4, 7, 10])"


def law(plan: ReleasePlan) -> object:
    return plan.blocks[0].law


def test_bins_that_hold_every_row_have_noise_that_adds_up_to_zero() -> None:
    for text, gain in (("histogram(x, [0, 4, 10])", 0.45), (WHOLE, 0.65)):
        plan = public([text])
        draw = law(plan)
        assert isinstance(draw, BalancedLaw)
        assert draw.rows == 900
        best, other = plan.statistics[0].chosen[:2]
        assert best.expected_error is not None
        assert other.expected_error is not None
        assert best.expected_error < gain * other.expected_error
        assert "adds up to zero" in best.note
        assert execute.check(plan) <= 1


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("histogram(x, [0, 4, 7])", {}),  # values beyond 7 are in no bin
        ("histogram(x, [1, 4, 10])", {}),
        ("histogram(x, [0, 10])", {}),  # one bin of all rows
        (WHOLE, {"rows": {"max": 900}}),
        (WHOLE, {"rows": {"max": 900}, "adjacency": "add_remove"}),
        (WHOLE, {"where": "x > 1"}),
        (WHOLE, {"by": ["g"]}),
    ],
)
def test_where_a_row_may_leave_the_bins_their_sum_is_not_kept(
    text: str, more: dict[str, object]
) -> None:
    request = {"adjacency": "substitution", "rows": {"exact": 900}, "x": PUBLIC_X, **more}
    plan = planned([text], **request)  # type: ignore[arg-type]
    draws = [b.law for b in plan.blocks]
    assert not any(isinstance(d, BalancedLaw) and d.rows is not None for d in draws)


def test_bins_that_may_lose_a_row_are_refused_at_the_wall() -> None:
    """A plan that claims this noise for bins that do not hold every row is not drawn."""
    honest, other = public([WHOLE]), public(["histogram(x, [0, 4, 7, 9.5])"])
    forged = replace(other.blocks[0], law=honest.blocks[0].law)
    with pytest.raises(InternalError) as refused:
        execute.check(replace(other, blocks=(forged,)))
    assert refused.value.code == "DPR901"
    private = planned([WHOLE], adjacency="substitution", rows={"max": 900}, x=PUBLIC_X)
    forged = replace(private.blocks[0], law=honest.blocks[0].law)
    with pytest.raises(InternalError) as refused:
        execute.check(replace(private, blocks=(forged,)))
    assert refused.value.code == "DPR901"


def test_no_replaced_row_changes_what_the_bins_hold_together() -> None:
    """All tables of three rows over the ends of bins, nulls and values out of range, through an engine."""
    plan = public([WHOLE], n=3)
    values = [None, -3.0, 0.0, 3.5, 4.0, 7.0, 10.0, 99.0, float("nan")]
    found = set()
    for rows in itertools.combinations_with_replacement(values, 3):
        table = pa.table(
            {"who": ["a", "b", "c"], "x": pa.array(rows, pa.float64()), "g": ["a"] * 3}
        )
        answer = answer_of(plan, table, ReferenceEngine())
        (cells,) = cells_of(plan, answer)
        assert cells.sum() == 3
        found.add(tuple(cells[0].tolist()))
    assert len(found) == 10  # every way to put three rows into three bins


def test_what_is_drawn_adds_up_and_what_does_not_is_not_drawable() -> None:
    plan = public([WHOLE], n=60)
    draw = law(plan)
    assert isinstance(draw, BalancedLaw)
    exact = np.array([[10, 20, 30]], dtype=object)
    raw = draw.draw(exact, ReplayBits("bins"))
    assert raw.sum() == 60
    assert draw.drawable(raw).all()
    raw[0, 0] += 1
    assert not draw.drawable(raw).any()
    assert draw.added is None  # whoever adds noises up as independent must not
    low, high = draw.box(exact, 0.95)
    assert ((low <= exact) & (exact <= high)).all()
    assert draw.noise.quantile(0.95) < draw.noise.noise.quantile(0.95)


def test_intervals_cover_by_enumeration() -> None:
    """The chance that a bin's noise stays within the interval, summed over all vectors."""
    plan = public([WHOLE], epsilon=2, n=60)
    draw = law(plan)
    assert isinstance(draw, BalancedLaw)
    rate, half = float(draw.noise.noise.rate), draw.noise.quantile(0.95)
    weights = {
        (a, b): math.exp(-rate * (abs(a) + abs(b) + abs(a + b)))
        for a in range(-40, 41)
        for b in range(-40, 41)
    }
    total = sum(weights.values())
    inside = [
        sum(w for (a, _), w in weights.items() if abs(a) <= k) / total for k in (half, half - 1)
    ]
    assert inside[0] >= 0.95 > inside[1]


def test_bins_of_a_public_number_of_rows_cost_the_rho_of_one_row_that_moves() -> None:
    plan = public([WHOLE], epsilon=2)
    draw = law(plan)
    assert isinstance(draw, BalancedLaw)
    proved = execute.concentrated(plan)
    assert proved == rho_of_zero_sum(draw.noise.noise.rate, draw.noise.cells)
    assert proved < rho_of_pure(Fraction(2))
