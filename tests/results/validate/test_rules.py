"""The built-in rules: a good table passes, each kind of broken one is caught, twins are not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.codec import decode
from dprelease.results.draw import Draw
from dprelease.results.validate.joint import JointRule, moment_rules
from dprelease.results.validate.rules import check, on_step
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.domain import Domain
from tests.results.formats import releases

GOOD = releases.clinic()
COLUMNS = 7  # published columns per group; rows are group-major


def failed(release: Draw) -> set[tuple[str, str]]:
    verdict = check(release)
    assert verdict.ok == (not verdict.failures)
    return {(r.name, r.statistic) for r in verdict.failures}


def test_a_good_release_is_valid_and_every_rule_looked_at_something():
    verdict = check(GOOD)
    assert verdict.ok, str(verdict)
    assert all(r.checked > 0 for r in verdict.rules)
    assert {r.name for r in verdict.rules} == {
        "shape", "groups", "finite", "domain", "step", "consistent", "interval", "status",
        "joint_mean_variance", "joint_mean_std", "joint_variance_std",
    }  # fmt: skip
    assert decode(Verdict, verdict.to_json()) == verdict


@pytest.mark.parametrize(
    ("column", "row", "value", "rules"),
    [
        ("value", 0, 5.0, {"domain"}),
        ("value", 0, math.nan, {"finite", "domain", "step"}),
        ("value", 0, math.inf, {"finite", "domain", "step"}),
        ("value", 0, None, {"finite", "domain", "step"}),
        ("value", 0, 50001.0, {"domain"}),
        ("value", 0, -1.0, {"domain"}),
        ("value", 0, 1204.5, {"step"}),
        ("consistent", 0, 5.0, {"consistent"}),
        ("consistent", 0, 1204.5, {"consistent"}),
        ("consistent", 0, None, {"consistent"}),
        ("lower", 0, 1229.0, {"interval"}),
        ("upper", 0, math.nan, {"interval"}),
        ("upper", 0, 49999.5, {"interval"}),
        ("lower", 0, 0.5, {"interval"}),
        ("status", 0, "fine", {"status"}),
        ("status", 0, None, {"status"}),
        ("statistic", 0, "median_age", {"shape", "groups"}),
        ("statistic", 0, None, {"shape", "groups"}),
        ("region", 0, "west", {"shape", "groups"}),
        ("region", 0, "south", {"groups"}),
    ],
)
def test_one_broken_cell_is_caught_and_named(column, row, value, rules):
    names = failed(releases.replaced(GOOD, column, row, value))
    assert {name for name, _ in names} == rules
    assert all(statistic in {"count", "*"} for _, statistic in names)


def test_a_missing_or_repeated_row_is_caught():
    table = GOOD.table
    short = Draw(GOOD.plan, table.slice(0, table.num_rows - 1), GOOD.cells)
    assert failed(short) == {("groups", "histogram_age")}
    twice = Draw(GOOD.plan, pa.concat_tables([table, table.slice(0, 1)]), GOOD.cells)
    assert failed(twice) == {("groups", "count")}
    empty = Draw(GOOD.plan, table.slice(0, 0), GOOD.cells)
    assert {name for name, _ in failed(empty)} == {"groups"}


def test_a_table_of_another_shape_is_refused_without_an_exception():
    for table in (
        GOOD.table.drop_columns(["status"]),
        GOOD.table.rename_columns(["group", *GOOD.table.column_names[1:]]),
        GOOD.table.set_column(2, "value", pa.array(["1"] * GOOD.table.num_rows)),
    ):
        assert failed(Draw(GOOD.plan, table, GOOD.cells)) == {("shape", "*")}


def test_row_order_does_not_matter():
    order = np.random.default_rng(0).permutation(GOOD.table.num_rows)
    assert check(Draw(GOOD.plan, GOOD.table.take(pa.array(order)), GOOD.cells)) == check(GOOD)


def test_a_release_without_groups_and_one_with_two_key_columns():
    count = releases.statistic("count", "count", Domain(0, 9), "1", block="b")
    one = releases.plan([count], [releases.block("b")], by=(), keys=[()])
    assert check(releases.noised(one, {"count": [(3.0, 1.0, 5.0, "ok")]})).ok
    keys = [(a, b) for a in ("x", "y") for b in ("x", "z")]
    two = releases.plan([count], [releases.block("b")], by=("a", "b"), keys=keys)
    good = releases.noised(two, {"count": [(3.0, 1.0, 5.0, "ok")] * 4})
    assert check(good).ok
    # Each label is declared, the pair (x, x) twice is not.
    assert failed(releases.replaced(good, "b", 1, "x")) == {("groups", "count")}
    sparse = releases.plan([count], [releases.block("b")], by=("a", "b"), keys=keys[:3])
    three = releases.noised(sparse, {"count": [(3.0, 1.0, 5.0, "ok")] * 3})
    assert {
        n for n, _ in failed(releases.replaced(releases.replaced(three, "a", 0, "y"), "b", 0, "z"))
    } == {
        "shape",
        "groups",
    }


def test_the_comparison_that_forgets_nan_would_pass_it():
    """The control: why the domain rule asks for membership, not for absence of violations."""
    values = np.array([math.nan])
    twin = ~((values < 0) | (values > 10))
    assert twin.all()
    assert not Domain(0, 10).contains(values).any()


@given(
    st.fractions("1/1000", 50, max_denominator=1000),
    st.integers(-(10**12), 10**12),
)
def test_multiples_of_a_step_are_on_it_and_their_neighbours_are_not(step, k):
    value = float(k * step)
    near = np.array([np.nextafter(value, math.inf), np.nextafter(value, -math.inf)])
    assert on_step(np.array([value]), step).all()
    if abs(value) < 2**50 * step:  # beyond, neighbouring doubles are multiples themselves
        assert not on_step(near, step).any()


@pytest.mark.parametrize(
    ("value", "step", "on"),
    [
        (2.0**60, Fraction(1000), True),  # the double nearest to the multiple 24 away
        (2.0**60 + 512, Fraction(1000), False),
        (1e22, Fraction(10**21), True),
        (1.5e21, Fraction(10**21), False),
        (2.0**70, Fraction(2**71, 3), False),
    ],
)
def test_a_value_of_more_than_53_bits_is_on_a_multiple_or_not(value, step, on):
    assert on_step(np.array([value]), step).tolist() == [on]


def test_a_product_that_is_not_the_nearest_double_is_off_step():
    assert on_step(np.array([0.3]), Fraction(1, 10)).all()
    assert not on_step(np.array([3 * 0.1]), Fraction(1, 10)).any()


# --- joint rules


def rule(kind: str) -> JointRule:
    return next(r for r in moment_rules(GOOD.plan) if r.name == f"joint_{kind}")


LOW, HIGH = Fraction(10), Fraction(80)


def rounded(value: Fraction, step: Fraction, top: Fraction) -> Fraction:
    """The nearest multiple of step in [0, top], relative to 0, as post-processing makes it."""
    k = math.floor(value / step + Fraction(1, 2))
    return min(k, math.floor(top / step)) * step


@given(
    st.fractions(0, 1, max_denominator=10**6),
    st.fractions(0, 1, max_denominator=10**6),
    st.sampled_from(["0.01", "0.3", "7", "13"]),
    st.sampled_from(["0.1", "11", "900"]),
    st.sampled_from(["0.01", "0.7", "9"]),
)
def test_no_pair_from_the_joint_domain_is_ever_refused(place, share, s_mean, s_var, s_std):
    """Exact pairs with variance up to the bound, rounded by any steps: a false alarm would
    withhold a charged release."""
    bernstein = {"offset": "10", "scale": "700", "step_size": "1/10"}
    plan = releases.plan(
        [
            releases.statistic("m", "mean(bmi)", Domain(10, 80), s_mean, block="b"),
            releases.statistic("v", "variance(bmi)", Domain(0, 1225), s_var, block="b"),
            releases.statistic("s", "std(bmi)", Domain(0, 35), s_std, block="b"),
        ],
        [releases.block("b", family="bernstein2", measurement=bernstein)],
    )
    mean = LOW + place * (HIGH - LOW)
    variance = share * (HIGH - mean) * (mean - LOW)
    steps = {name: Fraction(s) for name, s in zip("mvs", (s_mean, s_var, s_std), strict=True)}
    m = rounded(mean, steps["m"], HIGH)
    m = m if m >= LOW else math.ceil(LOW / steps["m"]) * steps["m"]
    v = rounded(variance, steps["v"], Fraction(1225))
    s = rounded(Fraction(math.sqrt(variance)), steps["s"], Fraction(35))
    rules = {r.name.removeprefix("joint_"): r for r in moment_rules(plan)}
    assert rules["mean_variance"].holds((m, v))
    assert rules["variance_std"].holds((v, s))
    assert rules["mean_std"].holds((m, s))


def test_pairs_outside_the_joint_domain_are_refused():
    assert not rule("mean_variance").holds((Fraction(11), Fraction(75)))  # bound: 69 + slack .78
    assert rule("mean_variance").holds((Fraction(11), Fraction(69)))
    assert not rule("variance_std").holds((Fraction(30), Fraction(6)))
    assert not rule("variance_std").holds((Fraction(30), Fraction(5)))
    assert not rule("mean_std").holds((Fraction(11), Fraction(9)))
    broken = releases.replaced(GOOD, "value", COLUMNS + 2, 1224.0)
    assert ("joint_mean_variance", "mean_bmi, bmi_variance") in failed(broken)


def test_the_twin_without_slack_raises_false_alarms():
    """Control: mean 11.004 rounds to 11.00 and its variance 69.27 to 69.3, above f(11.00) = 69."""
    mean, variance = Fraction("11.004"), Fraction("69.27")
    assert variance <= (HIGH - mean) * (mean - LOW)
    m, v = Fraction("11.00"), Fraction("69.3")
    assert v > (HIGH - m) * (m - LOW)
    assert rule("mean_variance").holds((m, v))


def test_gaps_narrow_domains_and_other_blocks_are_in_no_joint_rule():
    bernstein = {"offset": "10", "scale": "700", "step_size": "1/10"}

    def kinds(
        mean: Domain, variance: Domain, family: str = "bernstein2", other: str = "b"
    ) -> set[str]:
        plan = releases.plan(
            [
                releases.statistic("m", "mean(bmi)", mean, "0.01", block="b"),
                releases.statistic("v", "variance(bmi)", variance, "0.1", block=other),
            ],
            [releases.block(b, family=family, measurement=bernstein) for b in sorted({"b", other})],
        )
        return {r.name.removeprefix("joint_") for r in moment_rules(plan)}

    whole, spread = Domain(10, 80), Domain(0, 1225)
    assert kinds(whole, spread) == {"mean_variance"}
    assert kinds(Domain(10, 80, forbidden=[(39, 41)]), spread) == set()
    assert kinds(Domain(20, 80), spread) == set()
    assert kinds(whole, Domain(0, 100)) == set()
    assert kinds(whole, spread, family="scalar") == set()
    assert kinds(whole, spread, other="c") == set()


def test_a_hundred_thousand_values_are_checked_at_once():
    count = releases.statistic("count", "count", Domain(0, 10**6), "1", block="b")
    keys = [(str(i),) for i in range(100_000)]
    big = releases.plan([count], [releases.block("b")], keys=keys)
    verdict = check(releases.noised(big, {"count": [(3.0, 1.0, 5.0, "ok")] * len(keys)}))
    assert verdict.ok
    assert verdict.rules[1].checked == 100_000
