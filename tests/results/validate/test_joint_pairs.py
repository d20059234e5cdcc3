"""Covariance, correlation and variances of one tensor: the rule is a theorem, and it bites."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw, assemble
from dprelease.results.validate.joint import moment_rules
from dprelease.results.validate.joint_pairs import PairRule, pair_rules
from dprelease.results.validate.rules import check
from tests.planning.requests import planned
from tests.sizes import whole

KEPT = {"nulls": {"default": 1}}
ALL = ["covariance(x, y)", "variance(x)", "variance(y)", "correlation(x, y)", "mean(x)", "std(y)"]


def plan_of(statistics: list[Any], groups: int = whole(40, 120)) -> ReleasePlan:
    return planned(
        statistics,
        x={"kind": "number", "range": [0, 10], "step": 0.5, **KEPT},
        columns={"y": {"kind": "number", "range": [-5, 15], "step": 1, **KEPT}},
        groups=[f"g{i}" for i in range(groups)],
        by=["g"],
    )


def noised(plan: ReleasePlan, seed: int) -> Draw:
    """Return a release of noise alone and of few rows: the worst for a joint domain."""
    random = np.random.default_rng(seed)
    (block,) = plan.blocks
    total = block.measurement.l1_added_row
    raw = random.normal(0, 3, (len(plan.keys), 9)) + random.integers(0, 9, (len(plan.keys), 9))
    cells = {block.name: tuple(tuple(int(v * total) for v in row) for row in raw)}
    return Draw(plan, assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells), cells)


@pytest.mark.parametrize("statistics", [ALL, ALL[:3]])
def test_no_release_is_ever_refused(statistics: list[Any]) -> None:
    plan = plan_of(statistics)
    kinds = {r.name for r in pair_rules(plan)}
    assert kinds == {"joint_covariance_variance" + ("_correlation" if len(statistics) > 3 else "")}
    for seed in range(4):
        verdict = check(noised(plan, seed))
        assert verdict.ok, str(verdict)
    if len(statistics) > 3:  # the margins' own rules are there too
        assert {r.name for r in moment_rules(plan)} == {"joint_mean_variance", "joint_variance_std"}


def rule_of(*steps: Fraction) -> PairRule:
    plan = plan_of(ALL, 2)
    (rule,) = pair_rules(plan)
    return PairRule(tuple(replace(s, step=g) for s, g in zip(rule.members, steps, strict=False)))


def test_values_outside_the_joint_domain_are_refused() -> None:
    tenth = Fraction(1, 10)
    rule = rule_of(tenth, tenth, tenth)
    good = (Fraction(3), Fraction(4), Fraction(9, 4))
    assert rule.holds(good)
    assert not rule.holds((Fraction(4), *good[1:]))
    assert not rule.holds((-Fraction(4), *good[1:]))
    full = rule_of(tenth, tenth, tenth, Fraction(1, 100))
    assert full.holds((Fraction(3, 2), Fraction(4), Fraction(9, 4), Fraction(1, 2)))
    for broken in (
        (Fraction(3, 2), Fraction(4), Fraction(9, 4), Fraction(9, 10)),
        (Fraction(3, 2), Fraction(4), Fraction(9, 4), Fraction(1, 10)),
        (Fraction(3, 2), Fraction(4), Fraction(9, 4), -Fraction(1, 2)),
    ):
        assert not full.holds(broken)


def test_a_broken_table_fails_the_verdict() -> None:
    plan = plan_of(ALL, 2)
    release = noised(plan, 1)
    values = release.table.column("value").to_pylist()
    names = release.table.column("statistic").to_pylist()
    values[names.index("covariance_x_y")] = 50.0
    values[names.index("variance_x")] = 0.0
    place = release.table.schema.get_field_index("value")
    table = release.table.set_column(place, "value", pa.array(values, pa.float64()))
    verdict = check(replace(release, table=table))
    assert "joint_covariance_variance_correlation" in {r.name for r in verdict.rules if r.failed}


def test_narrow_domains_take_no_part() -> None:
    narrow = {"statistic": "covariance(x, y)", "domain": {"range": [0, 10]}}
    assert pair_rules(plan_of([narrow, *ALL[1:]], 2)) == ()
