"""The table of beliefs on the page about epsilon, and the line that holds under `add_remove`."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

import dprelease as dp
from tests.end_to_end.projects import ROOT

PAGE = (ROOT / "docs" / "how-to" / "choose-epsilon.md").read_text(encoding="utf-8")
LINE = re.compile(r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$", re.MULTILINE)


def belief(before, epsilon):
    """Return the percentage that a belief can grow to where odds grow by e^epsilon."""
    odds = before / (1 - before) * math.exp(epsilon)
    return 100 * odds / (1 + odds)


def test_every_line_is_what_odds_times_e_to_the_epsilon_give():
    lines = [tuple(map(float, found)) for found in LINE.findall(PAGE)]
    assert len(lines) == 5
    for epsilon, half, hundredth in lines:
        assert half == pytest.approx(belief(0.5, epsilon), abs=0.05)
        assert hundredth == pytest.approx(belief(0.01, epsilon), abs=0.05)


def rate_of_counts(adjacency):
    """Return the rate of the Laplace noise of counts by group at epsilon 1."""
    schema = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": adjacency,
        "rows": {"max": 50, "expected": 10},
        "columns": {"g": {"kind": "category", "values": ["a", "b"]}},
    }  # fmt: skip
    plan = dp.plan(schema, epsilon=1, by=["g"], statistics=["count"])
    [block] = plan.blocks
    return float(Fraction(block.law.to_json()["law"]["noise"]["rate"]))


@pytest.mark.parametrize(("adjacency", "line"), [("add_remove", 2), ("substitution", 1)])
def test_what_the_data_of_a_person_say_is_the_line_of_two_epsilon_under_add_remove(adjacency, line):
    """A person of one of two groups, and the noisy counts (9, 2): tables (6, 5) and (5, 6)."""
    rate, drawn = rate_of_counts(adjacency), (9, 2)
    apart = [sum(abs(y - n) for y, n in zip(drawn, t, strict=True)) for t in ((6, 5), (5, 6))]
    odds = math.exp(rate * (apart[1] - apart[0]))
    assert 100 * odds / (1 + odds) == pytest.approx(belief(0.5, line), rel=1e-6)
    assert "At ε = 1 that is 88.1 %, not 73.1 %." in " ".join(PAGE.split())
