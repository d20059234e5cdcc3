"""What can be published at all, beside enumeration."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting.feasible import check_pair, feasible
from dprelease.fitting.sets import MOST_RUNS, added, holds, joined, met, nearest_in, times
from dprelease.fitting.structure import crossed, nested
from tests.fitting.small import cube, members, plain

PAIR = nested({"whole": np.zeros(3, dtype=int), "half": np.array([0, 0, 1]), "part": np.arange(3)})


def some_set(rng, top=9):
    return joined((low, low + rng.randint(0, 3)) for low in rng.sample(range(top), 2))


def test_sets_are_those_of_their_members():
    rng = random.Random(3)
    for _ in range(200):
        a, b = some_set(rng), some_set(rng)
        assert set(members(added(a, b))) == {x + y for x in members(a) for y in members(b)}
        assert set(members(met(a, b))) == set(members(a)) & set(members(b))
        sums = {sum(c) for c in itertools.product(members(a), repeat=3)}
        assert set(members(times(a, 3))) == sums
        value, unit = rng.randint(-30, 60), rng.choice([1, 3, 4])
        best = min(members(a), key=lambda x: (abs(x * unit - value), x))
        assert nearest_in(a, value, unit) == best
        assert all(holds(a, x) == (x in members(a)) for x in range(-2, 15))


def test_what_is_feasible_is_what_enumeration_finds():
    rng = random.Random(7)
    for _ in range(120):
        domains = {
            "part": [some_set(rng) for _ in range(3)],
            "half": joined([(0, 0), (rng.randint(3, 6), 20)]),
            "whole": joined([(0, rng.randint(0, 6)), (12, 30)]),
        }
        valid = [
            v
            for v in itertools.product(*[members(s) for s in domains["part"]])
            if holds(domains["half"], v[0] + v[1])
            and holds(domains["half"], v[2])
            and holds(domains["whole"], sum(v))
        ]
        try:
            found = feasible(PAIR, domains)
        except PlanError:
            assert not valid
            continue
        assert set(members(found.sets["whole"][0])) == {sum(v) for v in valid}


def test_an_empty_set_is_refused():
    with pytest.raises(PlanError) as found:
        feasible(PAIR, {"part": ((0, 0), (10, 12)), "half": ((0, 40),), "whole": ((5, 5),)})
    assert found.value.code == "DPR281"
    assert "cell 1 of the table `whole`" in found.value.what


def test_totals_and_zeros_decide_too():
    domains = {"part": ((0, 9),)}
    found = feasible(PAIR, domains, {"half": [4, 5]})
    assert found.sets["half"] == [((4, 4),), ((5, 5),)]
    assert found.sets["whole"] == [((9, 9),)]
    assert found.hull("part") == (0, 9)
    with pytest.raises(PlanError):
        feasible(PAIR, domains, {"half": [4, 5], "whole": [10]})
    zeros = nested({"half": np.array([0, 0, 1]), "part": np.arange(3)}, np.array([0, 1, 1], bool))
    assert feasible(zeros, {"part": ((3, 9),)}).sets["half"] == [((3, 9),), ((0, 0),)]
    with pytest.raises(PlanError):
        feasible(zeros, domains, {"half": [4, 5]})


@pytest.mark.parametrize(
    ("domains", "totals"),
    [
        ({}, {}),
        ({"part": [((0, 9),)] * 2}, {}),
        ({"part": ((0, 9),)}, {"half": [1]}),
    ],
)
def test_missing_domains_and_totals_are_refused(domains, totals):
    with pytest.raises(PlanError) as found:
        feasible(PAIR, domains, totals)
    assert found.value.code == "DPR281"


def test_a_margin_with_a_gap_is_refused():
    wide = {"all": ((0, 50),), "b": ((0, 100),)}
    found = feasible(cube(), wide)
    assert found.sets["a"] == [((0, 200),)] * 3  # at most the roots together
    feasible(cube(), {**wide, "a": ((0, 200),)})
    for domain in (((0, 0), (10, 200)), ((0, 199),)):
        with pytest.raises(PlanError) as refused:
            feasible(cube(), {**wide, "a": domain})
        assert refused.value.code == "DPR283"
        # the table of all rows is there: it does not mend a gap
        assert ("allow all values" in str(refused.value)) == (len(domain) > 1)
    with pytest.raises(PlanError) as refused:
        feasible(cube(), wide, {"a": [1, 2, 3]})
    assert refused.value.code == "DPR283"


def test_sets_in_too_many_pieces_are_refused():
    combs = tuple((k * k * k, k * k * k) for k in range(200))
    with pytest.raises(PlanError) as found:
        feasible(PAIR, {"part": combs})
    assert found.value.code == "DPR282"
    assert MOST_RUNS < 200 * 199 / 2


def test_sums_of_some_children_are_in_no_more_pieces_than_that_of_all():
    """Of 48 values up to 8,000 the sums of two and of four have fewer pieces than those of three."""
    rng = random.Random(1)
    some = joined((v, v) for v in sorted({0, 8000, *rng.sample(range(1, 8000), 46)}))
    assert max(len(times(some, 2)), len(times(some, 4))) < MOST_RUNS
    with pytest.raises(PlanError):
        added(some, times(some, 2))
    tables = {"whole": np.zeros(5, dtype=int), "part": np.arange(5)}
    for count in (3, 4):  # of 4 only what the fit may have to add up after the draw
        small = {name: of[:count] for name, of in tables.items()}
        with pytest.raises(PlanError) as found:
            feasible(nested(small), {"part": some})
        assert found.value.code == "DPR282"


def test_counts_and_sums_must_fit_for_every_count():
    structure = crossed([plain(2)], {"all": (0,), "part": (1,)})
    counts = feasible(structure, {"part": ((0, 10),), "all": ((0, 20),)})
    sums = feasible(structure, {"part": ((-30, 50),)})
    check_pair(structure, counts, sums, -3, 5)
    for other in (((-30, 49),), ((0, 50),), ((-30, 0), (10, 50))):
        with pytest.raises(PlanError) as found:
            check_pair(structure, counts, feasible(structure, {"part": other}), -3, 5)
        assert found.value.code == "DPR284"
