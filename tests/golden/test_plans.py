"""Plans, certificates, stated errors, exact integers and drawn tables are those that were recorded.

A sample with each change, all of them under `make evidence`. `python -m tests.golden compare plans`
names every difference; `make plans` records what is wanted, and its commit says why.
"""

from __future__ import annotations

import copy
import os

import pytest

from dprelease.core import registry
from tests.golden.plan_cases import cases, sample
from tests.golden.plans import records
from tests.golden.records import PORTABLE, arithmetic, differences, read
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
    said = "law, certificate, errors, exact integers and draws as recorded"
    if stored["arithmetic"] != made["arithmetic"]:
        said = "choice, errors and exact integers as recorded; draws on another processor are not compared"
    evidence("golden plans", size, said)


def test_the_records_cover_every_kind_and_most_are_plans(stored):
    assert stored["records"].keys() == cases().keys()
    plans = [r for r in stored["records"].values() if "refused" not in r]
    assert len(plans) >= 500
    drawn = {m for r in plans for m in r["mechanisms"]}
    # a sign is drawn for a value of two signs, which no statistic of this registry is
    assert drawn >= {*registry.names("mechanisms")} - {"stochastic_sign"}
    asked = {function for r in plans for function in r["functions"]}
    assert asked == {*registry.names("aggregates")}


@pytest.mark.parametrize(
    "field", ["mechanisms", "planned", "laws", "certificates", "exact", "table"]
)
def test_a_changed_record_shows(made, field):
    changed = copy.deepcopy(made)
    key, record = next((k, r) for k, r in changed["records"].items() if "refused" not in r)
    record[field] = "another"
    (line,) = differences(made, changed)
    assert line.startswith(f"{key}: {field}")
    changed["arithmetic"] = "another"  # whatever field it is: a word in its place shows
    (line,) = differences(made, changed)
    assert line.startswith(f"{key}: {field}")


@pytest.mark.parametrize("field", sorted(PORTABLE - {"refused"}))
def test_on_another_processor_a_changed_choice_or_sum_shows(made, field):
    changed = copy.deepcopy(made)
    changed["arithmetic"] = "another"
    record = next(r for r in changed["records"].values() if "refused" not in r)
    record[field] = [*record[field][1:], "0123456789ab"] if isinstance(record[field], list) else "0"
    assert [line.split(": ")[1] for line in differences(made, changed)] == [field]
