"""What doubles settle is what the exact rules say; what they do not settle is left to those."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.pipeline.planned import plan_release
from dprelease.query.load import as_schema
from dprelease.results.validate.joint import moment_rules
from dprelease.results.validate.joint_pairs import pair_rules

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
    rule = moment_rules(planned("mean(x)", "variance(x)", "std(x)"))[place]
    random = np.random.default_rng(place)
    settled = 0
    for _ in range(40):
        first, second = (near(random, s, 40) for s in rule.members)
        sure = rule.surely_holds(np.array([first, second], dtype=float))
        exact = np.array([rule.holds(pair) for pair in zip(first, second, strict=True)])
        assert not (sure & ~exact).any()
        settled += int(sure.sum())
    assert settled > 50


def test_a_value_on_the_edge_itself_is_left_to_the_exact_rule():
    rule = moment_rules(planned("mean(x)", "variance(x)"))[0]
    rule = replace(rule, low=Fraction(0), high=Fraction(10))
    s, v = (member.step for member in rule.members)
    mean = 5 * s
    edge = (10 - mean) * mean + abs(10 - 2 * mean) * s + v
    assert rule.holds((mean, edge))
    assert not rule.surely_holds(np.array([[float(mean)], [float(edge)]]))[0]


def test_pairs_too():
    (rule, *_) = pair_rules(
        planned("variance(x)", "variance(y)", "covariance(x, y)", "correlation(x, y)")
    )
    random = np.random.default_rng(5)
    settled = 0
    for _ in range(40):
        values = [near(random, s, 40) for s in rule.members]
        sure = rule.surely_holds(np.array([[float(x) for x in v] for v in values]))
        exact = np.array([rule.holds(v) for v in zip(*values, strict=True)])
        assert not (sure & ~exact).any()
        settled += int(sure.sum())
    assert settled >= 5  # most such triples break the rule
