"""What a plan states is what its law errs near the declared number of rows; what it promises holds wherever the answer lies.

Everything is enumerated: all likely answers, all outputs with their chances, all noise of two cells. Nothing here asks
the planner for an error.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

from dprelease.audit.sampler import chances_of
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.consistency import to_domain
from tests.planning.requests import planned
from tests.sizes import some

ROWS = 12
AGES = {"kind": "integer", "range": [0, 3]}
LIKELY = {"count": range(ROWS // 2, 2 * ROWS + 1), "sum(x)": range(3 * ROWS + 1)}
CASES: list[tuple[str, str, int, Any]] = [
    *itertools.product(("count",), ("0.1", "1", "4"), (2, 50), (None, {"step": 4})),
    *itertools.product(("sum(x)",), ("0.05", "1"), (2, 10), (None,)),
    ("count", "0.3", 5, {"forbidden": [[8, 15]]}),
]

MECHANISMS = (
    "bounded_gaussian",
    "bounded_laplace",
    "discrete_laplace",
    "optimal_grid",
    "rectified_laplace",
    "reflected_laplace",
    "staircase",
)


def plan_of(statistic: Any, epsilon: object, cap: int = 50, **more: Any) -> ReleasePlan:
    rows = {"max": cap * ROWS, "expected": ROWS, **more.pop("rows", {})}
    return planned([statistic], epsilon=epsilon, rows=rows, x=AGES, **more)


once = cache(plan_of)
"""A plan of a statistic without options, for the tests that go through all cases."""


def off_by(plan: ReleasePlan, answers: range) -> np.ndarray[Any, Any]:
    """Return the exact mean error of what is published, `(answers,)`."""
    (statistic,), (block,) = plan.statistics, plan.blocks
    assert isinstance(block.law, ScalarCellLaw)
    out = []
    for answer in answers:
        raw, chance = chances_of(block.law.law, answer)  # type: ignore[arg-type]
        values = block.law.cells(raw.astype(object)[:, None])
        value = to_domain(values, statistic.domain, statistic.step)[:, 0]
        out.append(float(np.abs(value - answer) @ chance / chance.sum()))
    return np.array(out)


@pytest.mark.parametrize(("text", "epsilon", "cap", "domain"), [*some(CASES[:-1], 3), CASES[-1]])
def test_the_stated_error_is_the_mean_over_likely_answers(
    text: str, epsilon: str, cap: int, domain: dict[str, Any] | None
) -> None:
    of = {} if domain is None else {"domain": {"range": [0, cap * ROWS], **domain}}
    plan = plan_of({"statistic": text, **of}, epsilon, cap)
    stated, wanted = plan.statistics[0].planned_error, off_by(plan, LIKELY[text]).mean()
    slack = 0.1 if domain and "step" in domain else 0.02  # of noise as of an exponential law
    assert stated == pytest.approx(wanted, rel=slack)


def test_averaged_over_the_whole_domain_it_would_be_a_third_more() -> None:
    """The control: what was stated before, of a cap far above the rows."""
    factors = []
    for text, epsilon, cap, _ in CASES:
        plan = once(text, epsilon, cap)
        whole = off_by(plan, range(0, cap * ROWS * (1 if text == "count" else 3) + 1, 5)).mean()
        factors.append(whole / off_by(plan, LIKELY[text]).mean())
    assert max(factors) > 1.25


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_is_so_of_every_mechanism(mechanism: str) -> None:
    plan = plan_of({"statistic": "count", "mechanism": mechanism}, "0.5", 3)
    wanted = off_by(plan, LIKELY["count"]).mean()
    assert plan.statistics[0].planned_error == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize(("expected", "cap"), [(ROWS, 50), (ROWS, 2), (4 * ROWS, 5)])
def test_bins_state_what_is_left_of_noise_where_counts_end(expected: int, cap: int) -> None:
    """Bins of up to twice an even part of the rows; noise below 0 and above the cap is cut off."""
    top = cap * ROWS
    rows = {"max": top, "expected": expected}
    plan = planned([{"statistic": "histogram(x, [0, 1, 2, 4])"}], epsilon="0.3", rows=rows, x=AGES)
    law = plan.blocks[0].law
    assert isinstance(law, CellLaw)
    rate = float(law.noise.noise.rate)
    noise = np.arange(-2000, 2001)
    chance = np.exp(-rate * np.abs(noise))
    counts = np.arange(min(top, 2 * expected // 3) + 1)
    off = np.abs(np.clip(counts[:, None] + noise, 0, top) - counts[:, None])
    wanted = float((off @ chance / chance.sum()).mean())
    assert plan.statistics[0].planned_error == pytest.approx(wanted, rel=1e-6)
    assert wanted < 0.95 * float(np.abs(noise) @ chance / chance.sum())


def test_a_guess_of_the_size_chooses_no_law() -> None:
    """A law that is better near the declared size alone would be worse elsewhere, and the size is a guess."""
    nearer = 0
    for text, epsilon, cap, _ in CASES:
        rows = {"max": cap * ROWS}
        blind = planned([text], epsilon=epsilon, rows=rows, x=AGES)
        plan = once(text, epsilon, cap)
        assert plan.blocks[0].law.to_json() == blind.blocks[0].law.to_json()
        first, *others = plan.statistics[0].chosen
        assert first.expected_error is not None
        nearer += any((o.expected_error or 0) < 0.95 * first.expected_error for o in others)
    assert nearer  # the control: ranked by what is stated, other laws would have been drawn


@pytest.mark.parametrize(("cap", "text"), [(2, "count"), (50, "count"), (2, "sum(x)")])
def test_a_goal_holds_wherever_the_answer_lies(cap: int, text: str) -> None:
    each = 1 if text == "count" else 3
    goal = ROWS * each / 3
    plan = plan_of({"statistic": text, "max_error": goal}, 20, cap)
    every = off_by(plan, range(cap * ROWS * each + 1))
    assert every.max() <= goal * 1.001
    assert every.max() > goal * 0.9  # and no more is spent than that takes


def of_two_cells(plan: ReleasePlan, share: float, size: int) -> float:
    """Return the exact mean error of the mean of `size` rows at `share` of its range, over all noise of both cells."""
    law, statistic = plan.blocks[0].law, plan.statistics[0]
    assert isinstance(law, CellLaw)
    rate = float(law.noise.noise.rate)
    reach = int(16 / rate)
    noise = np.arange(-reach, reach + 1)
    chance = np.exp(-rate * np.abs(noise))
    chance /= chance.sum()
    up, down = round(3 * size * share), round(3 * size * (1 - share))
    top = np.maximum(0, up + noise)[:, None]
    total = top + np.maximum(0, down + noise)[None, :]
    mean = np.where(total > 0, 3 * top / np.maximum(total, 1), 1.5)
    values = to_domain(mean.reshape(-1, 1), statistic.domain, statistic.step)[:, 0]
    off = np.abs(values - 3 * up / (up + down)).reshape(mean.shape)
    return float(chance @ off @ chance)


def test_a_goal_of_a_mean_holds_for_rows_at_an_end_of_the_range() -> None:
    size, goal = 1000, 0.005
    plan = planned(
        [{"statistic": "mean(x)", "max_error": goal}],
        epsilon=5,
        rows={"max": 1000, "expected": size},
        x=AGES,
    )
    places = [of_two_cells(plan, share, size) for share in (0.02, 0.25, 0.5, 0.98)]
    assert max(places) <= goal * 1.05
    assert max(places) > goal * 0.9
    assert places[2] < 0.85 * max(places)  # what an average over means would have hidden
    stated = plan.statistics[0].planned_error
    assert stated is not None
    assert min(places) < stated < max(places)
