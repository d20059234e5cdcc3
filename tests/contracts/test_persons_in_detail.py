"""Persons at several levels of one table: what a unit can do to them, and which of their rows add up.

Everything that one unit may hold is enumerated, before and after, beside three sets of other rows. What an engine
counts goes through the wall's own map to the cells of each block, and the loss of each follows from its noise.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError
from dprelease.intervals.noise import Gaussian, Laplace
from dprelease.release_plan.block import Block
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.contracts.test_own_values import PLACES, REGION, exact, neighbours, schema

PERSONS = ["count(persons)"]
GOAL = {"statistic": "count_persons", "max_relative_error": 0.2, "share": 0.1}
TABLES: list[dict[str, Any]] = [
    {"name": "regions", "by": ["region"], "statistics": PERSONS},
    {"name": "districts", "by": ["district"], "statistics": PERSONS, "detail": GOAL},
]
OTHERS: tuple[tuple[tuple[str, ...], ...], ...] = ((), (("d0", "d1"), ("d2",)), (("d1",),) * 3)
"""Where other persons are."""
ADJACENCIES = ("add_remove", "substitution")


def user(groups: int) -> dict[str, Any]:
    return {"user": "id", "max_groups": groups, "max_rows_per_group": 1}


def held(unit: Any, adjacency: str) -> list[tuple[str, ...]]:
    """Return all places that one unit may be in; a replaced row stays one."""
    most = 1 if unit == "row" else unit["max_groups"]
    least = int(unit == "row" and adjacency == "substitution")
    return [
        places
        for count in range(least, most + 1)
        for places in itertools.combinations(PLACES, count)
    ]


@cache
def worlds(
    groups: int, adjacency: str, delta: str = ""
) -> tuple[ReleasePlan, list[list[dict[str, Any]]]]:
    """Return a plan, and per set of other persons the exact cells of every block with all that a unit may hold."""
    unit: Any = user(groups) if groups else "row"
    release: Any = {"composition": "zcdp", "delta": delta, "epsilon": 1} if delta else {}
    plan = dp.plan(schema(unit, adjacency, TABLES, **release))
    out = []
    for others in OTHERS:
        beside = [(f"o{i}", (place, 0)) for i, places in enumerate(others) for place in places]
        out.append(
            [
                {
                    name: np.array(cells, dtype=int).ravel()
                    for name, cells in exact(
                        plan, [*beside, *(("me", (place, 0)) for place in mine)]
                    ).items()
                }
                for mine in held(unit, adjacency)
            ]
        )
    return plan, out


def loss(block: Block, moved: Any) -> float:
    """Return epsilon of Laplace noise, rho of normal noise, where cells move by so much."""
    noise = noise_of(block.law)
    if isinstance(noise, Laplace):
        return float(noise.rate * int(np.abs(moved).sum()))
    assert isinstance(noise, Gaussian)
    return float(Fraction(int((moved**2).sum())) / (2 * Fraction(noise.square)))


def losses(plan: ReleasePlan, every: list[list[dict[str, Any]]], adjacency: str) -> list[float]:
    """Return what all blocks together lose between any two neighbours."""
    return [
        sum(loss(b, one[b.name] - other[b.name]) for b in plan.blocks)
        for same in every
        for one, other in neighbours(same, adjacency)
    ]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("groups", [0, 1, 2, 3], ids=["row", "one", "two", "three"])
def test_what_is_stated_is_lost_and_no_more(groups: int, adjacency: str) -> None:
    plan, every = worlds(groups, adjacency)
    sizing = plan.blocks[-1]
    assert (sizing.name, sizing.epsilon) == ("regions.count_persons-detail", Fraction(2, 5))
    if groups > 1:  # each level is drawn: no sum makes it
        assert [b.table for b in plan.blocks[:-1]] == ["regions", "districts"]
    assert max(losses(plan, every, adjacency)) == pytest.approx(float(plan.epsilon), rel=1e-12)
    assert execute.check(plan) <= plan.epsilon


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("groups", [2, 3])
def test_the_stated_rho_is_lost_and_no_more(groups: int, adjacency: str) -> None:
    plan, every = worlds(groups, adjacency, "1e-2")
    assert plan.composition is not None
    stated = plan.composition.evidence.rho  # type: ignore[union-attr]
    assert {type(noise_of(b.law)) for b in plan.blocks} == {Gaussian}
    most = max(losses(plan, every, adjacency))
    assert float(stated or 0) * (1 - 1e-6) <= most <= float(stated or 0)


@pytest.mark.parametrize("block", range(3))
def test_the_wall_refuses_less_noise_and_a_count_of_every_group(block: int) -> None:
    plan, _ = worlds(2, "add_remove")
    own = plan.blocks[block]
    law = own.law.noise  # type: ignore[attr-defined]
    louder = replace(law, noise=replace(law.noise, rate=law.noise.rate * 2))
    forged = replace(own, law=replace(own.law, noise=louder))  # type: ignore[call-arg]
    once = tuple(replace(p, kind="persons", cells=()) for p in plan.query.primitives)
    for broken in (
        replace(plan, blocks=tuple(forged if b is own else b for b in plan.blocks)),
        replace(plan, query=replace(plan.query, primitives=once)),
    ):
        if broken.query is plan.query or own.table == "regions":
            with pytest.raises(InternalError):
                execute.check(broken)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_rows_add_up_where_a_person_is_in_one_group_alone(groups: int) -> None:
    """In every world of two persons: a region has as many as its places or fewer, and no place has more than it."""
    plan, _ = worlds(groups, "add_remove")
    places = held(user(groups), "add_remove")
    assert plan.tables is not None
    of = plan.tables.named("regions").of
    more = []
    for both in itertools.product(places, repeat=2):
        rows = [(str(i), (place, 0)) for i, mine in enumerate(both) for place in mine]
        cells = exact(plan, rows)
        districts = np.array(cells["districts.count_persons"], dtype=int).ravel()
        sizes = np.array(cells["regions.count_persons-detail"], dtype=int).ravel()
        assert sizes.tolist() == [
            sum(any(REGION[p] == key[0] for p in mine) for mine in both)
            for key in plan.tables.named("regions").keys
        ]
        for region, size in enumerate(sizes):
            own = districts[np.array(of) == region]
            assert max(own) <= size <= own.sum() <= groups * size
            more.append(own.sum() > size)
    assert any(more) == (groups > 1)
