"""Plans, certificates, stated errors, exact integers and drawn tables are those that were recorded.

A sample with each change, all of them under `make evidence`. `python -m tests.golden compare plans`
names every difference; `make plans` records what is wanted, and its commit says why.
"""

from __future__ import annotations

import copy
import os

import pytest

from tests.golden.plan_cases import cases, sample
from tests.golden.plans import records
from tests.golden.records import arithmetic, differences, read
from tests.sizes import NIGHTLY

FULL = NIGHTLY or "DPRELEASE_EVIDENCE" in os.environ


@pytest.fixture(scope="module")
def stored():
    return read("plans")


@pytest.fixture(scope="module")
def names():
    return list(cases()) if FULL else sample()


@pytest.fixture(scope="module")
def made(names):
    return {"arithmetic": arithmetic(), "records": records(names)}


def test_plans_draws_and_exact_integers_are_as_recorded(stored, made, names, evidence):
    asked = {**stored, "records": {n: stored["records"][n] for n in names}}
    found = differences(asked, made)
    assert not found, "\n".join(found[:40])
    size = f"{len(names)} of {len(stored['records'])} plans"
    evidence("golden plans", size, "law, certificate, errors, exact integers and draws as recorded")


def test_the_records_cover_every_mechanism_and_most_are_plans(stored):
    assert stored["records"].keys() == cases().keys()
    plans = [r for r in stored["records"].values() if "refused" not in r]
    assert len(plans) >= 500
    assert {
        "bounded_gaussian", "bounded_laplace", "discrete_laplace", "exponential", "optimal_grid",
        "public_constant", "randomized_response", "rectified_gaussian", "rectified_laplace",
        "reflected_laplace", "staircase",
    } <= {m for r in plans for m in r["mechanisms"]}  # fmt: skip


@pytest.mark.parametrize(
    "field", ["mechanisms", "planned", "laws", "certificates", "exact", "table"]
)
def test_a_changed_record_shows(made, field):
    changed = copy.deepcopy(made)
    key, record = next((k, r) for k, r in changed["records"].items() if "refused" not in r)
    record[field] = "another"
    (line,) = differences(made, changed)
    assert line.startswith(f"{key}: {field}")
