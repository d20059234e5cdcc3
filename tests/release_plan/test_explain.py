"""What a plan says of the laws beside the one that it takes."""

from __future__ import annotations

from fractions import Fraction

from tests.planning.requests import planned

SHORT = {"kind": "number", "range": [0, 99], "step": 1}


def test_under_a_rho_it_would_cost_more() -> None:
    """Many medians share a rho: at an equal one the exponential mechanism has twice the epsilon."""
    columns = {f"x{i}": {**SHORT, "range": [0, 9]} for i in range(24)}
    medians = [{"statistic": f"quantile(x{i}, 0.5)", "as": f"m{i}"} for i in range(24)]
    plan = planned(medians, delta=Fraction(1, 10**6), columns=columns)
    assert plan.composition is not None
    assert plan.composition.method == "zcdp/1"
    assert {b.mechanism for b in plan.blocks} == {"exponential"}
