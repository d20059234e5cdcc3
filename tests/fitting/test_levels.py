"""Which tables to measure: closed forms beside the estimator, the choice beside trials."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.levels import choose, fitted_variances, own_variance
from dprelease.fitting.structure import crossed
from dprelease.intervals.noise import Gaussian
from tests.fitting.small import cube, even, plain, tree

FLIGHTS = crossed(
    [plain(6), plain(3), even(4, 3)],
    {"carrier": (1, 0, 0), "origin": (0, 1, 0), "both": (1, 1, 0), "month": (1, 1, 2)},
)
STRUCTURES = {
    "tree": tree(),
    "zeros": tree(np.arange(12) % 4 == 0),
    "cube": cube(),
    "flights": FLIGHTS,
}


def ones(structure):
    return {table.name: 1 for table in structure.tables}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("missing", [0, 1])
def test_variances_are_those_of_the_estimator(name, missing):
    structure = STRUCTURES[name]
    noises = {t.name: Gaussian(3 + k) for k, t in enumerate(structure.tables)}
    noises[structure.tables[missing].name] = None
    found = fitted_variances(structure)(
        {t: None if noise is None else float(noise.variance()) for t, noise in noises.items()}
    )
    made = estimator(structure, noises)
    for table in structure.tables:
        assert found[table.name] == pytest.approx(made.variance(table.name).mean())


@pytest.mark.parametrize("name", ["tree", "flights"])
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_never_worse_than_every_table_alone(name, kind):
    structure = STRUCTURES[name]
    found = choose(structure, ones(structure), budget=Fraction(1, 100), kind=kind)
    assert sum(found.shares.values()) == 1
    assert all(found.after[t] <= found.alone[t] * (1 + 1e-9) for t in found.after)
    equal = fitted_variances(structure)(dict(found.alone))
    assert found.reached <= sum(equal[t] / found.alone[t] for t in equal)


def test_no_two_shares_can_be_moved_for_the_better():
    """A convex problem: no better grid point next to it means none far away."""
    structure, budget = FLIGHTS, Fraction(1, 100_000)
    found = choose(structure, ones(structure), budget=budget, kind="zcdp")
    fitted = fitted_variances(structure)
    rng = np.random.default_rng(3)
    for _ in range(200):
        parts = rng.dirichlet(np.ones(4))
        own = {
            t.name: own_variance("zcdp", budget, Fraction(p), 1)
            for t, p in zip(structure.tables, parts, strict=True)
        }
        after = fitted(own)
        assert sum(after[t] / found.alone[t] for t in after) >= found.reached * (1 - 1e-6)


@pytest.mark.parametrize("structure", [FLIGHTS, cube()])
def test_near_the_residual_planner(structure):
    found = choose(structure, ones(structure), budget=Fraction(1, 100_000), kind="zcdp")
    assert found.bound <= found.reached <= 1.1**2 * found.bound


def test_given_shares_stay_and_the_rest_is_shared():
    given = {"region": Fraction(2, 5)}
    found = choose(tree(), ones(tree()), budget=Fraction(1), kind="pure", fixed=given)
    assert found.shares["region"] == Fraction(2, 5)
    assert sum(found.shares.values()) == 1
    assert found.bound is None


def test_what_no_unit_moves_is_measured_free():
    sensitivities = {**ones(tree()), "nation": 0}
    found = choose(tree(), sensitivities, budget=Fraction(1), kind="pure")
    assert found.own["nation"] == found.after["nation"] == 0
    assert found.shares["nation"] == 0
    assert sum(found.shares.values()) == 1


def test_weights_pull_the_budget():
    some = choose(FLIGHTS, ones(FLIGHTS), budget=Fraction(1, 9), kind="pure")
    more = choose(FLIGHTS, ones(FLIGHTS), budget=Fraction(1, 9), kind="pure", weights={"month": 50})
    assert more.after["month"] < some.after["month"]


@pytest.mark.parametrize(
    "given",
    [
        {"nation": Fraction(1, 2), "region": Fraction(1, 2)},
        {"nation": Fraction(2)},
        dict.fromkeys(("nation", "region", "leaf"), Fraction(1, 4)),
    ],
)
def test_shares_that_do_not_add_up_are_refused(given):
    with pytest.raises(PlanError) as found:
        choose(tree(), ones(tree()), budget=Fraction(1), kind="pure", fixed=given)
    assert found.value.code == "DPR285"


def test_an_uneven_cross_has_no_bound():
    uneven = crossed([plain(2), even(1, 3)], {"a": (1, 0), "b": (0, 2), "ab": (1, 2)})
    assert choose(uneven, ones(uneven), budget=Fraction(1, 10**6), kind="zcdp").bound is not None
    from dprelease.fitting.structure import Dimension

    axis = Dimension((np.array([0, 0, 1]), np.arange(3)))
    odd = crossed([plain(2), axis], {"a": (1, 0), "b": (0, 1), "ab": (1, 2)})
    assert choose(odd, ones(odd), budget=Fraction(1, 10**6), kind="zcdp").bound is None
