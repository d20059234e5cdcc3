"""The statistic contract takes the built-in sums and counts; a lost factor is enumerated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.statistics.base import kind_named
from dprelease.testing import aggregates
from dprelease.testing.aggregates import COLUMNS, cases, check_aggregate, enumerated_sensitivity
from tests.sizes import some, whole

ASKED = {"sum": None, "mean": None, "variance": None, "histogram": "histogram(x, [{low}, {high}])"}


@pytest.mark.parametrize("name", ASKED)
def test_the_built_in_ones_keep_it(name):
    columns = dict(some(COLUMNS.items(), 2))
    assert check_aggregate(name, ASKED[name], columns) >= whole(12, 18)


def test_settings_that_ask_for_the_same_sums_share_them(monkeypatch):
    asked, compute = [], aggregates.ReferenceEngine.compute

    def counted(self, source, task, salt):
        asked.append((task, repr(source.payload.to_pydict())))
        return compute(self, source, task, salt)

    monkeypatch.setattr(aggregates.ReferenceEngine, "compute", counted)
    aggregates._sums.cache_clear()
    columns = dict(some(COLUMNS.items(), 2))
    tasks = [case.task for case in cases("mean(x)", columns)]
    assert check_aggregate("mean", columns=columns) == len(tasks)
    assert len(asked) == len(set(asked)) > len(set(tasks)) < len(tasks)


@pytest.mark.parametrize("lost", ["l1_added_row", "l1_replaced_row"])
def test_twin_one_step_too_few(lost, monkeypatch):
    true = aggregates.cases

    def lying(*asked):
        for case in true(*asked):
            less = getattr(case.measurement, lost) - 1
            yield replace(case, measurement=replace(case.measurement, **{lost: less}))

    monkeypatch.setattr(aggregates, "cases", lying)
    with pytest.raises(AssertionError, match=r"changes? by"):
        check_aggregate("sum")


def test_twin_a_finish_that_forgets_a_column(monkeypatch):
    mean = kind_named("mean")
    monkeypatch.setattr(type(mean), "finish", lambda self, measurement, cells: cells)
    with pytest.raises(AssertionError, match="finish has shape"):
        check_aggregate("mean")


def test_an_author_says_which_columns_a_statistic_takes():
    positive = {"low": {"range": [1, 4], "step": 1}, "high": {"range": [20, 26], "step": 2}}
    assert {c.context.lowest for c in cases("sum(x)", positive)} == {1, 20}
    assert check_aggregate("sum", columns=positive) >= 12
    with pytest.raises(AssertionError, match="give two ranges"):
        check_aggregate("sum", columns={"low": positive["low"]})


def test_the_enumeration_reaches_the_stated_moves():
    for case in cases("count"):
        assert enumerated_sensitivity(case)[0] >= 1
