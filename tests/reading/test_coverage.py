"""Intervals of derived values hold at least 95 % of the time.

10,000 draws per function, or fewer: the most misses that are let pass have a chance below 1e-6 to be exceeded if the
coverage is 95 %. The control is the same count for intervals that are a tenth too short. All functions and the delta method
beside them: `benchmarks/derived.py`.
"""

from __future__ import annotations

import pytest

import dprelease as dp
from dprelease.reading.evaluation import Periods
from tests.benchmarks.test_scripts import load
from tests.sizes import whole

DRAWS, MOST = whole(7_500, 10_000), whole(468, 607)
RATIOS, MOST_RATIOS = whole(2_500, 10_000), whole(180, 607)

derived = load("derived")
CASES = {case.name: case for case in derived.CASES}


def drawn(draws, epsilon, *statistics):
    """Return one period, drawn so often."""
    made = derived.drawn(dp.plan(derived.schema(draws, epsilon, statistics)), 1)
    return Periods(made, "1", {"1": made})


@pytest.mark.statistical
def test_derived_intervals_cover_at_their_level():
    """Of 400 rows: of 2 every interval is the whole domain, and none could miss."""
    few = drawn(RATIOS, 0.3, "count", "sum(late)")
    found = derived.measured(few, CASES["ratio of counts"], "c", beside=False)
    assert 0 < found.misses <= MOST_RATIOS
    assert found.length < 0.9


@pytest.mark.statistical
def test_a_tenth_too_short_shows(monkeypatch):
    many, case = drawn(DRAWS, 0.1, "count"), CASES["difference of groups"]
    found = derived.evaluated(many, case.expression.replace("{g}", "b"), case)
    monkeypatch.setattr(derived, "evaluated", lambda *asked: found)
    assert derived.measured(many, case, "b", beside=False).misses <= MOST
    assert derived.measured(many, case, "b", beside=False, shrink=0.9).misses > MOST
