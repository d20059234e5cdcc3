"""What doubles settle is what the exact rules say; what they do not settle is left to those."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.pipeline.planned import plan_release
from dprelease.query.load import as_schema
from dprelease.results.validate.joint import holds, joint_rules, surely_holds
from dprelease.results.validate.joint_pairs import pair_holds, pair_rules, pair_surely_holds

SCHEMA = {
    "dprelease": "schema/1",
    "name": "t",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 100_000, "expected": 1000},
    "columns": {
        "x": {"kind": "number", "range": [-3, 40], "step": 0.5, "nulls": {"default": 1}},
        "y": {"kind": "number", "range": [0, 7], "step": 0.5, "nulls": {"default": 1}},
    },
}


def planned(*statistics):
    return plan_release(as_schema(SCHEMA), {"epsilon": 1, "statistics": list(statistics)})


def near(random, statistic, count):
    low, high = statistic.domain.hull
    step = float(statistic.step)
    spread = random.choice(
        [random.uniform(low, high, count), np.full(count, low), np.full(count, high)]
    )
    multiples = np.rint(spread / step) + random.integers(-3, 4, count)
    return [int(m) * statistic.step for m in multiples]


@pytest.mark.parametrize("place", range(3))
def test_what_doubles_settle_holds_exactly(place):
    rule = joint_rules(planned("mean(x)", "variance(x)", "std(x)"))[place]
    random = np.random.default_rng(place)
    settled = 0
    for _ in range(40):
        first, second = near(random, rule.first, 40), near(random, rule.second, 40)
        sure = surely_holds(rule, np.array(first, dtype=float), np.array(second, dtype=float))
        exact = np.array([holds(rule, a, b) for a, b in zip(first, second, strict=True)])
        assert not (sure & ~exact).any()
        settled += int(sure.sum())
    assert settled > 50


def test_a_value_on_the_edge_itself_is_left_to_the_exact_rule():
    rule = joint_rules(planned("mean(x)", "variance(x)"))[0]
    rule = replace(rule, low=Fraction(0), high=Fraction(10))
    s, v = rule.first.step, rule.second.step
    mean = 5 * s
    edge = (10 - mean) * mean + abs(10 - 2 * mean) * s + v
    assert holds(rule, mean, edge)
    assert not surely_holds(rule, np.array([float(mean)]), np.array([float(edge)]))[0]


def test_pairs_too():
    (rule, *_) = pair_rules(
        planned("variance(x)", "variance(y)", "covariance(x, y)", "correlation(x, y)")
    )
    random = np.random.default_rng(5)
    settled = 0
    for _ in range(40):
        values = [near(random, s, 40) for s in rule.members]
        sure = pair_surely_holds(rule, np.array([[float(x) for x in v] for v in values]))
        exact = np.array([pair_holds(rule, list(v)) for v in zip(*values, strict=True)])
        assert not (sure & ~exact).any()
        settled += int(sure.sum())
    assert settled >= 5  # most such triples break the rule
