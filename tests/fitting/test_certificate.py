"""The certificate: its bound by enumeration, any multipliers, forged values."""

from __future__ import annotations

import copy
import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.certificate import violations
from dprelease.fitting.structure import crossed
from dprelease.intervals.noise import Laplace
from tests.fitting.small import members, noisy_of, plain, tree
from tests.fitting.test_nearest import CASES, GAP, Fitted

SMALL = crossed([plain(2), plain(2)], {"a": (1, 0), "b": (0, 1), "ab": (1, 1)})
SMALL_NOISES = {name: Laplace(1) for name in ("a", "b", "ab")}


def objective(case, values):
    """The finest table's objective in squared steps of its most accurate cell."""
    from dprelease.fitting import certificate as c

    name = case.structure.finest.name
    total = 0.0
    for v, t, w in zip(
        values, c._aims(case.estimates.values[name]), c._weights(case.variances[name]), strict=True
    ):
        total += w * (2**16 * v - t) ** 2
    for place in case.structure.sides:
        side = case.structure.tables[place]
        weight = c._margin_weight(case.variances[name], case.variances[side.name])
        sums = np.bincount(side.of, values, minlength=side.cells)
        for s, t in zip(sums, c._aims(case.estimates.values[side.name]), strict=True):
            total += weight * (2**16 * s - t) ** 2
    return total / 2**42


@pytest.mark.parametrize("domain", [((0, 6),), ((0, 0), (2, 6))])
def test_the_bound_holds_by_enumeration(domain):
    case = Fitted(SMALL, SMALL_NOISES, {"ab": domain})
    rng = np.random.default_rng(2)
    reached = 0
    for _ in range(30):
        noisy = {
            name: (v := rng.integers(-2, 9, n)).tolist()
            for name, n in (("a", 2), ("b", 2), ("ab", 4))
        }
        fit = case.fit(noisy)
        above = fit.values["a"] if SMALL.tables[SMALL.chain[0]].name == "a" else fit.values["b"]
        of = SMALL.parent(1)
        best = min(
            objective(case, v)
            for v in itertools.product(members(domain), repeat=4)
            if np.array_equal(np.bincount(of, v), above)
        )
        own = objective(case, fit.values["ab"])
        assert own - best <= float(case.gaps(fit)["ab"]) + 1e-6
        reached += own <= best + 1e-9
        assert len(v) == 4
    assert reached >= 15


def lagrangian(case, above, proof):
    """Return the least of the Lagrangian over every cell and every sum of a margin, by looking at all."""
    from dprelease.fitting import certificate as c

    structure, variances, estimates = case.structure, case.variances, case.estimates.values
    name, side, ring = structure.finest.name, structure.tables[structure.sides[0]], 2**16
    margin = [int(m) for m in proof[name]["margins"][side.name]]
    parents = [int(m) for m in proof[name]["parents"]]
    of, sums = structure.parent(1), side.of
    heavy = c._margin_weight(variances[name], variances[side.name])
    total = sum(2 * ring * m * v for m, v in zip(parents, above, strict=True))
    aims, weights = c._aims(estimates[name]), c._weights(variances[name])
    for k, (t, w) in enumerate(zip(aims, weights, strict=True)):
        pull = parents[of[k]] + margin[sums[k]]
        options = members(case.feasible.sets[name][k])
        total += min(w * (ring * v - t) ** 2 - 2 * ring * pull * v for v in options)
    for t, m in zip(c._aims(estimates[side.name]), margin, strict=True):
        total += min(heavy * (ring * s - t) ** 2 + 2 * ring * m * s for s in range(-500, 500))
    return Fraction(total, 2**42)


def test_with_crossing_margins_the_gap_is_the_distance_to_the_lagrangian():
    case = Fitted(SMALL, SMALL_NOISES, {"ab": ((0, 0), (2, 6))})
    rng = np.random.default_rng(11)
    below = 0
    for k in range(40):
        noisy = {
            name: rng.integers(-2, 9, n).tolist() for name, n in (("a", 2), ("b", 2), ("ab", 4))
        }
        fit = case.fit(noisy)
        above = fit.values[SMALL.tables[SMALL.chain[0]].name]
        stated = copy.deepcopy(fit.proof)
        if k % 2:
            part = stated["ab"]
            part["parents"] = [m + int(rng.integers(-(2**27), 2**27)) for m in part["parents"]]
            part["margins"] = {
                side: [m + int(rng.integers(-(2**27), 2**27)) for m in margin]
                for side, margin in part["margins"].items()
            }
        least = lagrangian(case, above, stated)
        own = Fraction(objective(case, fit.values["ab"]))
        found = case.gaps(type(fit)(fit.values, stated, fit.mended))["ab"]
        assert abs(found - (own - least)) < Fraction(1, 10**6)
        below += any(int(m) for margin in stated["ab"]["margins"].values() for m in margin)
    assert below >= 20  # many a case whose margins have multipliers


@pytest.mark.parametrize("name", ["tree", "gaps", "cross"])
def test_any_multipliers_give_a_bound(name):
    case = Fitted(*CASES[name])
    rng = np.random.default_rng(6)
    noisy = noisy_of(case.structure, CASES[name][1], rng)
    fit = case.fit({table: [v + 100 for v in values] for table, values in noisy.items()})
    honest = case.gaps(fit)
    for _ in range(20):
        forged = copy.deepcopy(fit)
        for part in forged.proof.values():
            part["parents"] = [m + int(rng.integers(-(2**30), 2**30)) for m in part["parents"]]
        found = case.gaps(forged)
        assert all(found[name] >= least for name, least in honest.items() if least == 0)
        assert sum(found.values()) > sum(honest.values()) >= 0


def test_forged_values_are_found():
    case = Fitted(*CASES["gaps"])
    fit = case.fit(noisy_of(case.structure, CASES["gaps"][1], np.random.default_rng(8)))
    assert case.broken(fit.values) == []
    honest = case.gaps(fit)
    for cell in range(12):
        forged = copy.deepcopy(fit.values)
        forged["leaf"][cell] += 1
        assert any("is not the sum of its parts" in line for line in case.broken(forged))
        # Its parents forged with it: valid, but not the nearest point any more.
        forged["region"][int(case.structure.table("region").of[cell])] += 1
        forged["nation"][0] += 1
        twin = type(fit)(forged, fit.proof, fit.mended)
        wider = case.gaps(twin)
        assert case.broken(forged) or sum(wider.values()) > sum(honest.values())


def test_every_kind_of_violation_is_named():
    structure = tree(np.arange(12) == 0)
    domains = {"leaf": GAP}
    values = {"leaf": [0, *[10] * 11], "region": [40, 30, 40], "nation": [110]}

    def of(**changes):
        some = {**values, **{k: v for k, v in changes.items() if k in values}}
        counts = changes.get("counts")
        return violations(
            structure, domains, changes.get("totals", {}), some, counts=counts, between=(1, 2)
        )

    assert of() == []
    assert of(nation=[111]) == ["nation: cell 1 is not the sum of its parts"]
    assert of(nation=[]) == ["nation: 0 values for 1 cells"]
    assert "leaf: cell 1 is not 0" in of(leaf=[10] * 12)
    assert "leaf: cell 2 is outside its domain" in of(leaf=[0, 5, 15, *[10] * 9])
    assert of(totals={"region": [40, 30, 41]}) == ["region: cell 3 is not its public total"]
    counts = {"leaf": [0, *[8] * 10, 4], "region": [32, 24, 28], "nation": [84]}
    assert of(counts=counts) == ["leaf: cell 12 does not fit the count beside it"]
