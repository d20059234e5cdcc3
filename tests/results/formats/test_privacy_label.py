"""The fields of a privacy label: one promise, one number, for every way that losses add up."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.budget.population import MemberLoss
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.formats.privacy_label import privacy_label
from dprelease.results.formats.public_words import public_words
from dprelease.results.validate.rules import check
from tests.results.formats import releases

GOOD = releases.clinic()
PLAIN = build_manifest(GOOD, check(GOOD), {}, software=releases.SOFTWARE)
BASIC = {"spent": "17/2", "total": "12", "delta": "0", "composition": "basic"}


def label(**changes):
    manifest = {**PLAIN, **changes}
    return dict(privacy_label(manifest, public_words(manifest)))


def guarantee(**changes):
    return {**PLAIN["guarantee"], **changes}


def test_a_release_states_its_loss_its_unit_and_its_neighbours():
    said = label(budget=None)
    assert said["Privacy loss"] == "ε = 0.5"
    assert said["An even guess"] == "becomes right in at most 63 of 100 cases"
    assert (
        said["Two tables are neighbours"] == f"if they differ by {PLAIN['guarantee']['protects']}"
    )
    assert said["All releases so far"] == "unknown: no ledger adds this release up with others"
    assert "A whole person" not in said
    assert "Over time" not in said


def test_all_releases_so_far_are_those_of_the_ledger():
    said = label(budget=BASIC)["All releases so far"]
    assert said.startswith(f"ε = 8.5 for one unit of {PLAIN['dataset']}, of a budget of ε = 12; ")
    assert said.endswith("in at most 9,998 of 10,000 cases")


def test_a_delta_counts():
    said = label(guarantee=guarantee(delta="1/20"), budget={**BASIC, "spent": "1", "delta": "1/5"})
    assert said["Privacy loss"] == "ε = 0.5, δ = 0.05"
    assert said["An even guess"] == "becomes right in at most 65 of 100 cases"
    assert "ε = 1, δ = 0.2 for one unit" in said["All releases so far"]
    assert said["All releases so far"].endswith("at most 79 of 100 cases")


def test_rho_is_said_where_the_ledger_adds_it_up_and_only_there():
    plan = {**PLAIN["plan"], "composition": {"method": "zcdp/1", "evidence": {"rho": "1/50"}}}
    by_rho = {**BASIC, "composition": "zcdp", "delta": "1/1000000"}
    assert label(plan=plan, budget=by_rho)["Privacy loss"].endswith(
        "; ρ = 0.02 in the ledger, which adds up zCDP"
    )
    assert "ρ" not in label(plan=plan, budget=BASIC)["Privacy loss"]


TIME = {"column": "at", "timezone": "UTC", "dates": False, "immutable": True}


@pytest.mark.parametrize(
    ("person", "said"),
    [
        ({"epsilon": "2", "delta": "0"}, "an even guess becomes right in at most 89 of 100 cases"),
        ({"epsilon": "2", "delta": "1/10", "rho": "1/9"}, "an even guess becomes right in at most 90 of 100 cases"),
        ({"epsilon": "2", "delta": "1"}, "an even guess becomes right in up to nearly every case: next to no limit"),
        ({"epsilon": "400", "delta": "0"}, "an even guess becomes right in up to nearly every case: next to no limit"),
        (None, "no bound: a release without a period reads all of time"),
    ],
)  # fmt: skip
def test_a_whole_person_has_a_bound_of_their_own(person, said):
    by_week = guarantee(time=TIME, person={"epsilon": "1/2", "delta": "0"})
    found = label(guarantee=by_week, budget={**BASIC, "person": person})
    assert found["A whole person"] == said
    assert "for the most charged unit of" in found["All releases so far"]
    alone = label(guarantee=by_week, budget=None)
    assert alone["A whole person"] == "an even guess becomes right in at most 63 of 100 cases"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "one of the members, over 3 tables: an even guess becomes right in at most 89 of 100 cases"),
        ({"delta": "1/10"}, "one of the members, over 3 tables: an even guess becomes right in at most 90 of 100 cases"),
        ({"composition": "zcdp", "delta": "1/10", "total_delta": "1/10"}, "one of the members, over 3 tables: an even guess becomes right in at most 90 of 100 cases"),
        ({"interval": "week", "tables": 1}, "one of the members in one week, over 1 table: an even guess becomes right in at most 89 of 100 cases"),
    ],
)  # fmt: skip
def test_a_member_of_a_population_has_one_over_all_its_tables(changes, said):
    loss = MemberLoss("members", 3, Fraction(2), Fraction(3))
    member = {**loss.to_json(), **changes}
    found = label(budget={**BASIC, "member": member})
    assert found["A member of the population"] == said
    assert "A member of the population" not in label(budget=BASIC)


def test_beside_a_member_s_loss_that_of_one_table_is_said_to_be_of_it():
    by_week = guarantee(time=TIME, person={"epsilon": "1/2", "delta": "0"})
    budget = {**BASIC, "person": {"epsilon": "2", "delta": "0"}}
    member = MemberLoss("members", 3, Fraction(5), Fraction(9)).to_json()
    for more, of in (({}, ""), ({"member": member}, ", from this table alone")):
        found = label(guarantee=by_week, budget={**budget, **more})
        assert found["A whole person"].endswith(f"in at most 89 of 100 cases{of}")
        assert f"unit of {PLAIN['dataset']}{of}, of a budget" in found["All releases so far"]


def test_what_is_not_proved_is_named():
    notes = ["observed, not proved: a view", "declared, not checked: the time of a row", "else"]
    said = label(plan={**PLAIN["plan"], "notes": notes})["Not proved"]
    assert said == "; ".join(notes[:2])
    assert label(plan={**PLAIN["plan"], "notes": []})["Not proved"].startswith("nothing")


def test_noise_that_is_charged_is_named_once():
    blocks = [
        {"mechanism": m, "epsilon": e}
        for m, e in (("discrete_laplace", "1"), ("public_constant", "0"), ("discrete_laplace", "1"))
    ]
    assert label(plan={**PLAIN["plan"], "blocks": blocks})["Noise"] == "discrete Laplace"
    assert Fraction(PLAIN["guarantee"]["epsilon"]) == Fraction(1, 2)
