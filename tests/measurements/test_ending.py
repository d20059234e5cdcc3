"""Blocks whose noise ends: what they claim is enumerated over every neighbour, and refused where it is too little."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import ConfigError, InternalError
from dprelease.measurements.ending import EndingLaw
from dprelease.mechanisms.kernels.ending_laplace import EndingLaplaceNoise
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.mechanisms.kernels.test_ending_laplace import law_of
from tests.planning.requests import USER, planned, public

COUNT = {"statistic": "count", "certain": True}
BINS = {"statistic": "histogram(x, [0, 5, 10])", "certain": True}
SUM = {"statistic": "sum(x)", "certain": True}
GROUPS = 3


def ended(*statistics: Any, **more: Any) -> ReleasePlan:
    given = {"delta": Fraction(1, 100), "rows": {"max": 500}, **more}
    return planned(list(statistics), **given)


def held(rows: int, groups: int, parts: int) -> list[tuple[int, ...]]:
    """Return all that one unit can add to `GROUPS` groups of `parts` cells: rows in at most `groups` of them."""
    each = [c for c in itertools.product(range(rows + 1), repeat=parts) if sum(c) <= rows]
    out = []
    for cells in itertools.product(each, repeat=GROUPS):
        if sum(any(c) for c in cells) <= groups:
            out.append(tuple(itertools.chain.from_iterable(cells)))
    return out


def delta_of(law: EndingLaw, moves: tuple[int, ...]) -> float:
    """Return the probability that no draw of the other table is as this one, cell by cell."""
    masses = law_of(law.noise.rate, law.bound)
    kept = 1.0
    for k in map(abs, moves):
        kept *= 1 - float(sum(masses[d] for d in range(law.bound + 1 - k, law.bound + 1)))
    return 1 - kept


def moves_of(adjacency: str, rows: int, groups: int, parts: int) -> Iterator[tuple[int, ...]]:
    every = held(rows, groups, parts)
    if adjacency == "add_remove":
        yield from every
        return
    for before, after in itertools.combinations(every, 2):
        yield tuple(b - a for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)])
@pytest.mark.parametrize("asked", [COUNT, BINS])
def test_no_neighbours_lose_more_than_a_block_claims_and_some_lose_it_all(
    asked: Any, rows: int, groups: int, adjacency: str
) -> None:
    unit = {**USER, "max_rows_per_group": rows, "max_groups": groups}
    plan = ended(asked, unit=unit, adjacency=adjacency, by=["g"])
    (block,) = plan.blocks
    law = block.law
    assert isinstance(law, EndingLaw)
    assert len(plan.keys) == GROUPS
    claimed = law.noise.delta(law.in_a_cell, law.l1_over_groups)
    most_delta, most_loss = 0.0, Fraction(0)
    for moves in set(moves_of(adjacency, rows, groups, len(block.cells))):
        most_delta = max(most_delta, delta_of(law, moves))
        most_loss = max(most_loss, law.noise.rate * sum(map(abs, moves)))
    assert execute.check(plan) == plan.epsilon
    assert most_loss == law.noise.rate * law.l1_over_groups <= block.epsilon
    assert most_delta == pytest.approx(float(claimed), rel=1e-9)
    assert claimed <= block.delta == plan.delta == Fraction(1, 100)
    short = replace(law.noise, bound=law.bound - 1)
    assert short.delta(law.in_a_cell, law.l1_over_groups) > block.delta


def test_bins_of_a_public_number_of_rows_move_by_one_each() -> None:
    plan = public([BINS], n=9, delta=Fraction(1, 10**6))
    (block,) = plan.blocks
    law = block.law
    assert isinstance(law, EndingLaw)
    assert (law.in_a_cell, law.l1_over_groups) == (1, 2)
    assert execute.check(plan) == plan.epsilon


def tampered(plan: ReleasePlan, **wrong: Any) -> ReleasePlan:
    block, *others = plan.blocks
    return replace(plan, blocks=(replace(block, law=replace(block.law, **wrong)), *others))


class TestTheWall:
    def plan(self) -> ReleasePlan:
        return ended(COUNT, SUM, unit={**USER, "max_rows_per_group": 2, "max_groups": 2}, by=["g"])

    @pytest.mark.parametrize("field", ["in_a_cell", "l1_over_groups"])
    def test_it_refuses_moves_that_are_claimed_too_small(self, field: str) -> None:
        plan = self.plan()
        law = plan.blocks[0].law
        with pytest.raises(InternalError, match="smaller sensitivity") as refused:
            execute.check(tampered(plan, **{field: getattr(law, field) - 1}))
        assert refused.value.code == "DPR901"

    @pytest.mark.parametrize("noise", [{"bound": -1}, {"rate": Fraction(1, 10**6)}])
    def test_it_refuses_noise_that_ends_too_soon_or_is_too_small(
        self, noise: dict[str, Any]
    ) -> None:
        plan = self.plan()
        own = plan.blocks[0].law.noise  # type: ignore[attr-defined]
        wrong = EndingLaplaceNoise(
            own.rate + noise.get("rate", Fraction(0)), own.bound + noise.get("bound", 0)
        )
        with pytest.raises(InternalError, match="costs more than it claims"):
            execute.check(tampered(plan, noise=wrong))

    def test_it_refuses_deltas_that_add_up_to_more_than_that_of_the_plan(self) -> None:
        plan = self.plan()
        more = tuple(replace(b, delta=plan.delta) for b in plan.blocks)
        assert execute.check(replace(plan, blocks=more)) == plan.epsilon  # what is proved counts
        with pytest.raises(InternalError, match="more than its delta"):
            execute.check(replace(plan, delta=plan.delta / 2))
        free = tuple(replace(b, delta=Fraction(0)) for b in plan.blocks)
        with pytest.raises(InternalError, match="costs more than it claims"):
            execute.check(replace(plan, blocks=free))

    def test_it_knows_no_rho(self) -> None:
        assert execute.concentrated(self.plan()) is None


class TestDelta:
    def deltas(self, plan: ReleasePlan) -> dict[str, Fraction]:
        return {b.name: b.delta for b in plan.blocks}

    def test_it_is_divided_equally_between_the_blocks_that_need_it(self) -> None:
        third = Fraction(1, 300)
        assert set(self.deltas(ended(COUNT, SUM, BINS)).values()) == {third}

    def test_where_the_others_use_none_those_that_end_have_all(self) -> None:
        plan = ended(COUNT, "mean(x)")
        assert self.deltas(plan) == {"count": plan.delta, "mean_x": 0}
        assert plan.composition is not None
        assert (plan.composition.method, plan.composition.evidence.rho) == ("basic/1", None)

    def test_others_are_composed_with_what_is_left(self) -> None:
        others = [f"proportion(x > {i})" for i in range(1, 9)]
        plan = ended(COUNT, *others, epsilon=2)
        assert plan.composition is not None
        assert plan.composition.method in ("kov/1", "zcdp/1", "normal/1")
        assert self.deltas(plan)["count"] == plan.delta / 2
        assert execute.check(plan) <= plan.epsilon

    def test_a_plan_without_certain_statistics_says_nothing_of_it(self) -> None:
        plan = ended("count", "mean(x)")
        assert "delta" not in plan.to_json()["blocks"][0]
        assert not plan.blocks[0].certain("count")

    def test_goals_are_met_by_noise_that_ends(self) -> None:
        plan = ended({**COUNT, "max_error": 2}, epsilon=None)
        (statistic,) = plan.statistics
        assert statistic.planned_error is not None
        assert statistic.planned_error <= 2
        assert plan.epsilon < 1

    def test_the_plan_says_what_it_means(self) -> None:
        said = str(ended(COUNT))
        assert "never more than" in said
        assert "of 100 persons that is one, on average and at most" in " ".join(said.split())


class TestRefusals:
    def test_without_a_delta(self) -> None:
        with pytest.raises(ConfigError, match="cannot be certain without a delta") as refused:
            ended(COUNT, delta=0)
        assert refused.value.code == "DPR135"

    def test_by_rho(self) -> None:
        with pytest.raises(ConfigError, match="cannot be certain under zcdp"):
            ended(COUNT, composition="zcdp")

    @pytest.mark.parametrize("text", ["mean(x)", "variance(x)", "median(x)", "cdf(x, [0, 1])"])
    def test_of_statistics_that_are_no_sums(self, text: str) -> None:
        with pytest.raises(ConfigError, match="has no certain interval"):
            ended({"statistic": text, "certain": True})

    @pytest.mark.parametrize(
        "option", [{"mechanism": "staircase"}, {"spikes": "forbid"}, {"accurate_for": "ranges"}]
    )
    def test_beside_another_way_to_draw(self, option: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match="both say how the noise is drawn"):
            ended({**BINS, **option})

    def test_of_a_value_that_is_not_true_or_false(self) -> None:
        with pytest.raises(ConfigError, match="`certain` is true or false"):
            ended({**COUNT, "certain": 1})


def test_a_law_reads_its_own_file() -> None:
    law = ended(SUM).blocks[0].law
    assert EndingLaw.from_json(law.to_json()) == law
    raw = np.array([[-5], [7], [10**9]], dtype=object)
    low, high = law.certain(raw)
    assert low.min() == 0
    assert (high - raw == law.bound).all()
