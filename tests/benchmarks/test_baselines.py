"""The page beside other libraries: the same rows, exact values by another road, errors of what was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.test_scripts import load


def test_exact_values_are_numpys() -> None:
    script = load("baselines")
    x = script.ages()
    assert len(x) == 1000
    assert x == script.ages()
    assert 0 <= min(x) < max(x) <= 120
    exact = script.exact(x)
    assert exact["mean"] == pytest.approx(np.mean(x))
    assert exact["variance"] == pytest.approx(np.var(x))
    assert exact["histogram"] == np.histogram(x, [*script.EDGES[:-1], 130])[0].tolist()
    assert exact["median"] == np.quantile(x, 0.5, method="inverted_cdf")
    assert exact["quantile 0.9"] == np.quantile(x, 0.9, method="inverted_cdf")


def test_the_table_shows_errors_and_promises_of_who_answered() -> None:
    script = load("baselines")
    exact = script.exact(script.ages())
    drawn = {"private, mean": [exact["mean"] + 3, exact["mean"] - 1], "private, count": [1000]}
    bins = {"private, histogram": [[v + 1 for v in exact["histogram"]]]}
    lines = script.table({"dprelease": {**drawn, **bins}, "OpenDP": drawn}, {"OpenDP": "9"})
    assert "| mean | private | 2 | 2 |" in lines
    assert f"| histogram | private | {len(script.EDGES) - 1} |  |" in lines
    assert not any("public |" in line for line in lines)
    assert sum(line.startswith("| OpenDP 9 |") for line in lines) == 1


def test_dprelease_draws_every_statistic_it_can() -> None:
    script = load("baselines")
    found = script.dprelease(script.ages(), 30)
    assert len(found) == 2 * len(script.STATISTICS) - 1
    exact = script.exact(script.ages())
    for place, values in found.items():
        error = script.error(values, exact[place.split(", ")[1]])
        assert error < 600, place
    assert script.error(found["private, mean"], exact["mean"]) > 0.02  # there is noise
