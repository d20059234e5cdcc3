"""The grid of a scalar: as fine as its noise asks for, found with little work, its rounding accounted for."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.measurements import scalar, scalar_grid
from dprelease.measurements.scalar import ScalarCellLaw, grid_sensitivity
from dprelease.planning.make import make_plan
from dprelease.statistics.sensitivity import Sensitivity
from tests.planning.requests import asked, planned


class Counted(int):
    """A sensitivity that counts how often somebody tries to divide it."""

    tries = 0

    def __mod__(self, other: int) -> int:
        Counted.tries += 1
        return int(self) % other


@pytest.mark.parametrize("sensitivity", [2**40, 2**53, 2**53 - 111, 10**18, 3**40, 2**127 - 1])
@pytest.mark.parametrize("steps", [1024, 10**6, 2**40])
def test_a_divisor_is_found_with_little_work(sensitivity: int, steps: int) -> None:
    factor = max(2, sensitivity // steps)
    Counted.tries = 0
    for found in scalar_grid._divisor(Counted(sensitivity), factor):
        assert sensitivity % found == 0
        assert factor / 2 < found <= factor
    assert Counted.tries <= 4 * 1024 + 1


def test_the_divisor_is_the_largest_one() -> None:
    for sensitivity in range(4097, 4400):
        for factor in (2, 3, 4, 7):
            wanted = [f for f in range(factor, factor // 2, -1) if sensitivity % f == 0][:1]
            wanted = [f for f in wanted if 2 * f > factor]
            assert (
                scalar_grid._divisor(sensitivity, factor) == wanted
                or sensitivity // factor > 4 * 1024
            )


@pytest.mark.parametrize("high", [2**20, 2**40, 2**53])
def test_wide_sums_take_few_laws(high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not timed: laws that are built and priced."""
    built = []
    original = scalar.grid_laws
    monkeypatch.setattr(
        scalar, "grid_laws", lambda request: built.append(request) or original(request)
    )
    scalar.priced_laws.cache_clear()
    plan = make_plan(asked(["sum(x)"], x={"kind": "integer", "range": [0, high]}))
    assert plan.statistics[0].planned_error
    assert len(built) <= 4


@pytest.mark.parametrize("epsilon", [12, 50, 200, 600, 1000])
@pytest.mark.parametrize(
    "x", [(-1_000_000, 1_000_000, 0.001), (0, 500_000, 0.01), (0, 1, "0.000000001")]
)
@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_a_large_epsilon_publishes_the_sum_itself(
    epsilon: int, x: tuple[Any, Any, Any], adjacency: str
) -> None:
    """It was rounded to a thousandth of the range, whatever the epsilon: -978.132 became -800."""
    low, high, step = x
    column = {"kind": "number", "range": [low, high], "step": step}
    plan = planned(["sum(x)"], epsilon=epsilon, x=column, adjacency=adjacency, rows={"max": 1000})
    (block,), (statistic,) = plan.blocks, plan.statistics
    draw = block.law
    assert isinstance(draw, ScalarCellLaw)
    assert statistic.planned_error is not None
    assert draw.rounded <= max(statistic.planned_error, 0)
    step_size = Fraction(block.measurement.step_size)
    cell = math.floor((Fraction("0.37") * Fraction(high)) / step_size) + 7
    truth = float(Fraction(block.measurement.offset) + step_size * cell)
    raw = draw.draw(np.array([[cell]] * 400, dtype=object), ReplayBits(f"{epsilon}"))
    off = np.abs(draw.cells(raw) - truth)
    assert float(off.mean()) <= 2 * statistic.planned_error + 4 * float(off.std()) / 20
    lower, upper = draw.box(raw, 0.95)
    assert ((lower - 1e-6 <= truth) & (truth <= upper + 1e-6)).mean() >= 0.9


# --- rounding after the sum: privacy --------------------------------------------------------------


def changes(cells: int, per_group: int, total: int) -> list[tuple[int, ...]]:
    """Return every change of `cells` sums of at most `per_group` each and `total` together."""
    one = range(-per_group, per_group + 1)
    return [m for m in itertools.product(one, repeat=cells) if sum(map(abs, m)) <= total]


def rounded(value: int, step_size: int, step: int) -> int:
    return math.floor(Fraction(value * step_size, step) + Fraction(1, 2))


@pytest.mark.parametrize(
    ("step_size", "step"), [(1, 1), (1, 2), (1, 3), (2, 3), (3, 2), (2, 5), (1, 7)]
)
@pytest.mark.parametrize(
    ("per_group", "total", "changed_groups"),
    [(1, 1, 1), (2, 2, 1), (3, 3, 2), (2, 4, 2), (3, 5, 2)],
)
def test_rounded_sums_move_no_further_than_stated(
    step_size: int, step: int, per_group: int, total: int, changed_groups: int
) -> None:
    """By enumeration of all moves from all residues; the two broken twins are caught somewhere below."""
    s = Sensitivity(per_group, total, changed_groups, changed_groups)
    linear = grid_sensitivity(s, Fraction(step_size), Fraction(step), linear=True)
    each = grid_sensitivity(s, Fraction(step_size), Fraction(step), linear=False)
    most = most_each = 0
    for start in itertools.product(range(step), repeat=changed_groups):
        for change in changes(changed_groups, per_group, total):
            off = [
                abs(rounded(a + d, step_size, step) - rounded(a, step_size, step))
                for a, d in zip(start, change, strict=True)
            ]
            most, most_each = max(most, sum(off)), max(most_each, *off)
    assert most <= linear
    assert most_each <= each
    assert most == linear  # nor is more noise drawn than that takes


def test_without_the_step_per_component_a_move_is_understated() -> None:
    """The broken twin: a total of two cells over two groups, on steps of three, is not ceil(2 / 3) = 1."""
    s = Sensitivity(1, 2, 2, 2)
    forgotten = math.ceil(Fraction(s.l1_over_groups, 3))
    moved = 2 * abs(rounded(2, 1, 3) - rounded(1, 1, 3))
    assert moved == 2 > forgotten
    assert grid_sensitivity(s, Fraction(1), Fraction(3), linear=True) == moved


def test_the_wall_refuses_a_draw_that_forgets_it() -> None:
    unit = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
    column = {"kind": "integer", "range": [0, 99_991]}
    plan = planned(["sum(x)"], unit=unit, by=["g"], x=column, adjacency="substitution")
    (block,) = plan.blocks
    draw = block.law
    stored = block.measurement.sensitivity
    s = Sensitivity(
        int(stored["l1_per_group"]),
        int(stored["l1_over_groups"]),
        stored["changed_groups"],
        stored["chain_length"],
    )
    assert isinstance(draw, ScalarCellLaw)
    draw.certify(s)
    less = replace(draw.law, sensitivity=draw.law.sensitivity - 1)  # type: ignore[type-var]
    with pytest.raises(InternalError):
        replace(draw, law=less).certify(s)


def test_rounding_rows_would_bias_a_sum_with_their_number() -> None:
    """Why components are rounded after the sum: 1,000 rows of 0.5 steps, rounded one by one, are 500 too many."""
    rows = [1] * 1000  # cells of half a step
    one_by_one = sum(rounded(r, 1, 2) for r in rows)
    assert one_by_one - sum(rows) / 2 == 500
    assert abs(rounded(sum(rows), 1, 2) - sum(rows) / 2) <= 0.5


def test_stated_errors_hold_the_rounding() -> None:
    step = 8.0
    off = (np.arange(8000) + 0.5) / 8000 * step - step / 2
    assert scalar_grid.rounded_error(0.0, step, squared=False) == pytest.approx(
        float(np.abs(off).mean())
    )
    assert scalar_grid.rounded_error(0.0, step, squared=True) == pytest.approx(
        float((off**2).mean()), rel=1e-6
    )
    noise = np.random.default_rng(1).laplace(scale=5, size=8000)
    with_noise = float(np.abs(noise + np.random.default_rng(2).permutation(off)).mean())
    assert scalar_grid.rounded_error(5.0, step, squared=False) == pytest.approx(
        with_noise, rel=0.06
    )
    assert scalar_grid.rounded_error(0.0, step, squared=False, worst=True) == step / 2
