"""Computing with values of tables that add up: their errors are those of the estimates behind them."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pytest

import dprelease as dp
from dprelease.errors import ArgumentError
from dprelease.fitting.estimate import ONE
from dprelease.reading.estimated import expanded
from dprelease.reading.forms import Linear, Ratio
from dprelease.reading.ratio_interval import ratio_ends
from dprelease.reading.table_values import values_of
from tests.benchmarks.test_scripts import load
from tests.several_tables import REGION, TREE, people, schema

DRAWS = 3_000
MOST = 212
"""More misses have a chance below 1e-6 if the coverage is 95 %."""

tables = load("derived_tables")


def released(made=None, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.UnledgeredWarning)
        return dp.release(people(**asked), made or schema())


@pytest.fixture(scope="module")
def release():
    return released()


def test_a_cell_is_its_estimate_with_its_published_interval(release):
    for table in release.tables:
        tidy = release.tables[table].to_pandas()
        mine = tidy[tidy["statistic"] == "count"]
        found = release.derive("count", table=table).to_pandas()
        assert list(found["value"]) == list(mine["value"])
        # published ends are whole steps inside nearly the same interval
        low = mine["lower"].to_numpy() - found["lower"].to_numpy()
        high = found["upper"].to_numpy() - mine["upper"].to_numpy()
        assert all(-0.2 <= cut <= 1.2 for cut in (*low, *high))


def test_what_cells_have_in_common_cancels(release):
    values = values_of(release.noised, "districts")
    regions = values_of(release.noised, "regions")
    whole = regions.quantity("count", regions.groups["r0",]).form
    for key in values.keys:
        if REGION[key[0]] == "r0":
            part = values.quantity("count", values.groups[key]).form
            whole = whole.plus(part, Fraction(-1))
    left = expanded(whole)
    assert not left.terms
    assert left.slack < Fraction(1, 2**30)
    assert abs(left.observed) < Fraction(1, 2**30)


def test_estimates_are_those_behind_the_published_values(release):
    values = values_of(release.noised, "districts")
    atom = next(iter(values.quantity("count", 3).form.terms))
    fit = atom.of._one
    assert (
        abs(atom.raw - Fraction(fit.estimates.values["districts"][3], ONE)) <= fit.estimates.slack
    )


def test_shares_of_all_add_up(release):
    shares = release.derive("share(count)", table="districts").to_pandas()
    assert shares["value"].sum() == pytest.approx(1)
    assert (shares["lower"] <= shares["value"]).all() and (shares["value"] <= shares["upper"]).all()


def test_public_totals_are_no_noise():
    made = schema(
        adjacency="substitution",
        rows={"exact": 600},
        release={"totals": [{"table": "nation", "statistic": "count", "values": [["560"]]}]},
    )
    release = released(made)
    total = release.derive("count", table="nation").to_pandas().iloc[0]
    assert tuple(total[["lower", "value", "upper"]]) == (560, 560, 560)
    cells = release.derive("count", table="districts").to_pandas()
    shares = release.derive("share(count)", table="districts").to_pandas()
    assert list(shares["upper"] - shares["lower"]) == pytest.approx(
        list((cells["upper"] - cells["lower"]) / 560), rel=1e-3
    )


def test_tables_are_named(release):
    with pytest.raises(ArgumentError, match="3 tables") as caught:
        release.derive("count")
    assert caught.value.code == "DPR669"
    with pytest.raises(ArgumentError, match="no table `towns`"):
        release.derive("count", table="towns")


def test_a_diff_compares_every_table(release):
    found = dp.diff(release, released(seed=9, rows=900)).to_pandas()
    assert list(found.columns[:5]) == ["table", "region", "district", "sex", "statistic"]
    assert len(found) == 2 * (1 + 2 + 12)
    nation = found[(found["table"] == "nation") & (found["statistic"] == "count")].iloc[0]
    assert nation["status"] == "changed" and nation["lower"] > 100
    same = dp.diff(release, release).to_pandas()
    assert (same["value"] == 0).all() and (same["status"] != "changed").all()


def test_a_diff_with_one_table_fewer(release):
    found = dp.diff(released(schema(TREE[1:])), release)
    assert found.notes[-1] == "nation: not in both"
    assert set(found.to_pandas()["table"]) == {"regions", "districts"}


def test_many_different_terms_are_bracketed_as_few_are_convolved(release, monkeypatch):
    values = values_of(release.noised, "districts")
    count, income = (values.quantity(name, 0).form for name in ("count", "sum_income"))
    ratio = Ratio(income, count)
    few = ratio_ends(ratio, 0.95, (-100, 200))
    monkeypatch.setattr("dprelease.reading.ratio_interval._FEW", 0)
    many = ratio_ends(ratio, 0.95, (-100, 200))
    middle = sum(few) / 2
    assert many == pytest.approx(few, abs=0.1 * (few[1] - few[0]))
    assert many[0] < middle < many[1]


def test_linear_chances_by_levels_are_rounded_up(release, monkeypatch):
    from dprelease.reading import linear_interval

    values = values_of(release.noised, "districts")
    form = values.quantity("count", 6).form.plus(Linear(Fraction(-30)))
    few = linear_interval.linear_chance(form)
    monkeypatch.setattr(linear_interval, "FEW", 0)
    many = linear_interval.linear_chance(form)
    assert few <= 1.05 * many and many <= 1.3 * few + 1e-6


@pytest.fixture(scope="module")
def drawn():
    return tables.Draws(0.5, DRAWS)


@pytest.mark.statistical
def test_coverage(drawn):
    assert tables.measured(drawn, "share of all", "t0").misses <= MOST


@pytest.mark.statistical
def test_a_fifth_too_short_shows(drawn):
    assert tables.measured(drawn, "difference of towns", "t0").misses <= MOST
    assert tables.measured(drawn, "difference of towns", "t0", shrink=0.8).misses > MOST
