"""Rows of several levels: what is chosen by a draw of its own is covered, what is chosen by itself is not.

First all outcomes of a small tree, their probabilities summed exactly; then many draws of a larger plan,
most of whose groups are near the size at which they are published in detail. The twin chooses by the
published values, with the same needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dprelease as dp
from dprelease.intervals.noise import Laplace
from dprelease.release_plan.detail import PlannedDetail
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import columns_of, fits_of
from dprelease.results.one_fit import OneFit
from tests.fitting.test_draws import SIGMAS, noise
from tests.several_tables import schema
from tests.sizes import some, whole

DRAWS = whole(250, 10_000)
FAR = whole(10, 12)
"""Noise beyond it is left out of the enumeration: less than 10^-4 of the probability, stated below."""
COUNT = ["count"]


def planned(
    by: list[str], goal: float, unit: Any = "row", **release: Any
) -> tuple[ReleasePlan, PlannedDetail]:
    detail = {"statistic": "count", "max_relative_error": goal, "share": 0.5}
    tables = [
        {"name": "coarse", "by": by, "statistics": COUNT},
        {"name": "fine", "by": [*by, "sex"], "statistics": COUNT, "detail": detail},
    ]
    plan = dp.plan(schema(tables, unit=unit, release=release))
    assert plan.tables is not None
    assert plan.tables.detail is not None
    return plan, plan.tables.detail


# --- every outcome ----------------------------------------------------------------------------


def chances(plan: ReleasePlan, block: str) -> dict[int, float]:
    """Return the probability of each noise of a block within `FAR`."""
    law = noise_of(plan.block(block).law)
    assert isinstance(law, Laplace)
    p = np.exp(-float(law.rate))
    return {k: float((1 - p) / (1 + p) * p ** abs(k)) for k in range(-FAR, FAR + 1)}


@cache
def published(drawn: tuple[int, ...]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
    """Return the ends of all rows, coarse first, and the coarse value: whatever was counted before the draw."""
    plan, _ = two_groups()
    assert plan.tables is not None
    fit, cells = plan.tables.fits[0], {"fine.count": tuple((k,) for k in drawn)}
    one = OneFit(plan, fit, cells)
    values = fits_of(plan, cells)[fit.name]["values"]  # intervals hold what is published
    columns = [one.column(table, values) for table in ("coarse", "fine")]
    low, high = (np.concatenate([c[end] for c in columns]) for end in ("lower", "upper"))
    return low, high, max(0, round(columns[0]["unbiased"][0]))


@cache
def two_groups() -> tuple[ReleasePlan, PlannedDetail]:
    return planned([], 0.5, epsilon=2)


def outcomes(
    plan: ReleasePlan, exact: tuple[int, ...]
) -> Iterator[tuple[float, int, npt.NDArray[np.bool_]]]:
    """Yield, per outcome of the published draw: its probability, the coarse value, which rows are covered.

    Rows: the coarse one, then the fine ones.
    """
    chance = chances(plan, "fine.count")
    for drawn in itertools.product(chance, repeat=len(exact)):
        low, high, coarse = published(tuple(x + k for x, k in zip(exact, drawn, strict=True)))
        truth = np.array([sum(exact), *exact])
        inside = (low <= truth) & (truth <= high)
        yield float(np.prod([chance[k] for k in drawn])), coarse, inside


@cache
def every_outcome(
    exact: tuple[int, int],
) -> tuple[ReleasePlan, PlannedDetail, tuple[tuple[float, int, npt.NDArray[np.bool_]], ...]]:
    """Return a plan of two groups, and all outcomes of its published draw."""
    plan, detail = two_groups()
    return plan, detail, tuple(outcomes(plan, exact))


@pytest.mark.parametrize("exact", some([(1, 1), (0, 0), (3, 0), (2, 4)], 2), ids=str)
def test_by_enumeration_rows_chosen_apart_are_covered(exact: tuple[int, int]) -> None:
    plan, detail, found = every_outcome(exact)
    assert [b.name for b in plan.blocks] == ["fine.count", "coarse.count-detail"]
    assert detail.block == "coarse.count-detail"
    sizing, whole_of = chances(plan, detail.block), sum(exact)
    assert sum(p for p, _, _ in found) > 1 - 1e-4
    for place, rows in ((0, [0]), (1, [1, 2])):
        here = sum(p for k, p in sizing.items() if detail.chosen([whole_of + k]) == [place])
        if not here:
            continue
        joint = sum(here * p * covered[rows] for p, _, covered in found)
        assert (joint / here >= 0.95 - 1e-4).all(), (place, joint / here)


def test_by_enumeration_rows_chosen_by_their_own_draw_are_not_covered() -> None:
    _, detail, found = every_outcome((1, 1))
    here, joint = 0.0, np.zeros(2)
    for p, coarse, covered in found:
        if detail.chosen([coarse]) == [1]:
            here, joint = here + p, joint + p * covered[1:]
    assert 0.02 < here < 0.5  # it happens
    assert (joint / here < 0.92).all(), joint / here


# --- many draws -------------------------------------------------------------------------------

TINY = np.array([0, 1, 1, 1, 0, 2, 150, 300, 2, 1, 1, 0])
"""Rows of each finest group: six districts by two sexes."""

Chooser = Callable[[dict[str, Any], dict[str, Any]], list[int]]


def covered_in_detail(
    plan: ReleasePlan, choosers: tuple[Chooser, ...], draws: int
) -> tuple[npt.NDArray[np.float64], ...]:
    """Return for each way to choose, per draw, (covered, all) of the finest rows that were published."""
    assert plan.tables is not None
    exact = {t.name: np.bincount(t.of, TINY) for t in plan.tables.tables}
    chance = np.random.default_rng(23)
    out: list[list[tuple[float, float]]] = [[] for _ in choosers]
    for _ in range(draws):
        cells = {
            b.name: tuple(
                (int(v),)
                for v in exact[b.table or ""]
                + noise(noise_of(b.law), len(exact[b.table or ""]), chance)
            )
            for b in plan.blocks
        }
        fits = fits_of(plan, cells)
        column = columns_of(plan, cells, fits)["fine", "count"]
        inside = (column["lower"] <= exact["fine"]) & (exact["fine"] <= column["upper"])
        for choose, found in zip(choosers, out, strict=True):
            shown = np.repeat(np.array(choose(cells, fits)) == 1, 2)
            small = shown & (
                np.repeat(exact["coarse"], 2) < 10
            )  # of large groups every choice is right
            found.append((float(inside[small].sum()), float(small.sum())))
    return tuple(np.array(found) for found in out)


def share(pairs: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the covered share of all rows, and its standard error over draws."""
    covered, of = pairs.T
    rate = covered.sum() / of.sum()
    return rate, float(np.sqrt(((covered - rate * of) ** 2).sum()) / of.sum())


PERSON = {"user": "id", "max_groups": 12, "max_rows_per_group": 1}
CASES: dict[str, dict[str, Any]] = {
    "Laplace": {"epsilon": 1},
    "Gaussian": {"epsilon": 1, "delta": "1/1000", "unit": PERSON},
}


@pytest.mark.parametrize("name", CASES)
def test_rows_in_detail_are_covered_unless_their_own_draw_chose_them(
    name: str, evidence: Any
) -> None:
    plan, detail = planned(["district"], 0.5, **CASES[name])
    assert {type(noise_of(b.law)).__name__ for b in plan.blocks} == {name}

    def apart(cells: dict[str, Any], fits: dict[str, Any]) -> list[int]:
        del fits
        return detail.chosen(detail.sizes(cells))

    def itself(cells: dict[str, Any], fits: dict[str, Any]) -> list[int]:
        del cells
        return detail.chosen(fits["count"]["values"]["coarse"])

    honest, broken = covered_in_detail(plan, (apart, itself), DRAWS)
    mean, error = share(honest)
    assert mean + SIGMAS * error >= 0.95, (mean, error)
    twin, wide = share(broken)
    assert twin + SIGMAS * wide < 0.95, (twin, wide)
    evidence(
        f"tables in detail, {name}",
        f"{DRAWS} draws",
        f"finest rows of small groups are covered {mean:.3f}; chosen by the published draw {twin:.3f}",
    )


def test_the_draw_of_sizes_weighs_nothing_when_ways_to_spend_are_compared() -> None:
    """It is not published; counted like a table it made Laplace noise win, at twice the published error."""
    plan, _ = planned(["district"], 0.5, epsilon=3, delta="1/1000", unit=PERSON)
    assert {type(noise_of(b.law)).__name__ for b in plan.blocks} == {"Gaussian"}
    assert all((s.planned_error or 0) < 7 for s in plan.statistics)


def test_needs_are_those_of_the_stated_errors() -> None:
    plan, detail = planned(["district"], 0.25, epsilon=1)
    error = next(s.planned_error for s in plan.statistics if s.table == "fine")
    assert error is not None
    expected = 2 * error / 0.25  # two cells, each with this error, a quarter of the average size
    assert detail.needed == ((int(np.ceil(expected)),) * 6,)
    assert Fraction(plan.block(detail.block or "").epsilon) == Fraction(1, 2)
    assert sum(b.epsilon for b in plan.blocks) == plan.epsilon == 1
