"""The rules of the Great Expectations suite look at all statistics at once, and at each as its own."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from dprelease.results.validate.gx_process import undisturbed
from dprelease.results.validate.gx_release import group_labels

DOMAINS = {"a": [[0.0, 10.0]], "b": [[0.0, 2.0], [5.0, 9.0]], "c": [[-1.0, -1.0]]}


@pytest.fixture(scope="module")
def rules():
    with undisturbed():
        from dprelease.results.validate import gx_expectations

        return gx_expectations


def rows(*cells):
    frame = pd.DataFrame(cells, columns=["statistic", "value"])
    frame.index = frame.index[::-1]  # nothing may depend on an index of 0, 1, 2
    return frame


@pytest.mark.parametrize(
    ("statistic", "value", "good"),
    [
        ("a", 10.0, True), ("a", 10.5, False), ("a", np.nan, False), ("a", np.inf, False),
        ("b", 2.0, True), ("b", 3.0, False), ("b", 5.0, True), ("b", 9.5, False),
        ("c", -1.0, True), ("c", 0.0, False), ("c", 6.0, False),  # b's second interval is not c's
        ("unknown", 1.0, False),
    ],
)  # fmt: skip
def test_a_value_is_held_to_its_own_statistics_domain(rules, statistic, value, good):
    crowd = rows(("a", 1.0), (statistic, value), ("b", 1.0), ("c", -1.0))
    found = rules.in_domain(crowd, DOMAINS)
    assert found.index.equals(crowd.index)
    assert found.tolist() == [True, good, True, True]


def test_a_suppressed_row_has_no_value_and_another_has_one(rules):
    crowd = rows(("a", np.nan), ("a", 3.0), ("a", np.nan), ("a", 3.0))
    crowd["status"] = ["suppressed", "suppressed", "ok", "ok"]
    assert rules.in_domain(crowd, DOMAINS).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("statistic", "lower", "upper", "good"),
    [("a", 1.0, 2.0, True), ("a", 2.0, 2.0, True), ("a", 2.5, 2.0, False), ("a", np.nan, 2.0, False),
     ("a", 1.0, np.inf, False), ("a", np.nan, np.nan, False), ("rank", np.nan, np.nan, True),
     ("rank", 1.0, 2.0, False)],
)  # fmt: skip
def test_an_interval_has_two_ends_in_order_and_a_choice_by_rank_has_none(
    rules, statistic, lower, upper, good
):
    crowd = pd.DataFrame([("a", 0.0, 1.0), (statistic, lower, upper), ("rank", np.nan, np.nan)])
    assert rules.in_order(crowd, ["rank"]).tolist() == [True, good, True]


def test_a_suite_without_statistics_passes_nothing(rules):
    assert not rules.in_domain(rows(("a", 1.0)), {}).any()


def test_domains_are_looked_at_interval_by_interval_not_statistic_by_statistic(rules, monkeypatch):
    """A thousand statistics cost as many look-ups as one: counted, not timed."""
    looks = []
    honest = pd.Index.get_indexer

    def counted(*arguments):
        looks.append(arguments)
        return honest(*arguments)

    monkeypatch.setattr(pd.Index, "get_indexer", counted)
    many = {f"s{i}": [[0.0, 1.0]] for i in range(1000)}
    assert rules.in_domain(rows(*((name, 0.5) for name in many)), many).all()
    assert len(looks) == 1


def test_labels_of_many_keys_are_the_labels_of_each():
    keys = [("a", "b"), ('q"', "é"), ("a", "b"), ("b", "a"), ("\\", ""), (), ("a, b",)]
    assert [tuple(json.loads(label)) for label in group_labels(keys)] == keys
    assert group_labels(keys) == [json.dumps(key, ensure_ascii=False) for key in keys]
    assert len(set(group_labels(keys))) == len(set(keys))
