"""Computing with values of tables that add up: their errors are those of the estimates behind them."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction

import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.fitting.estimate import ONE
from dprelease.intervals import law as laws
from dprelease.intervals import quotient
from dprelease.reading import forms
from dprelease.reading.estimated import expanded
from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.joint import joint
from dprelease.reading.linear_interval import ratio_ends
from dprelease.reading.table_values import values_of
from tests.benchmarks.test_scripts import load
from tests.redrawn import redrawn
from tests.rules_alone import built_in_rules_only
from tests.several_tables import REGION, TREE, people, schema
from tests.sizes import whole

DRAWS = whole(1_800, 3_000)
MOST = whole(137, 212)
"""More misses have a chance below 1e-6 if the coverage is 95 %."""

tables = load("derived_tables")
_PEOPLE = pa.table({"region": ["r0", "r1"], "people": [1000, 3000]})


def released_of(data, made):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.UnledgeredWarning)
        return dp.release(data, made)


def released(made=None, **asked):
    return released_of(people(**asked), made or schema())


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
    variable = next(iter(values.quantity("count", 3).form.terms))
    fit = variable.of._one
    assert (
        abs(variable.raw - Fraction(fit.estimates.values["districts"][3], ONE))
        <= fit.estimates.slack
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
    cells = release.derive("count", table="districts", level=0.9).to_pandas()
    shares = release.derive("share(count)", table="districts", level=0.9).to_pandas()
    assert list(shares["upper"] - shares["lower"]) == pytest.approx(
        list((cells["upper"] - cells["lower"]) / 560), rel=1e-3
    )


def test_a_mean_from_a_sum_and_a_count_stays_in_the_range_of_a_row(release):
    """Made of two tables, too: all that is known of it holds whatever the rows are."""
    for text in ("sum_income / count", "regions.sum_income / regions.count"):
        found = release.derive(text, table="districts").to_pandas()
        assert len(found) == 12
        assert (found["lower"] >= -20).all() and (found["upper"] <= 100).all()
    other = release.derive("sum_income / nation.count", table="districts")
    assert other.domain[0] < -20  # not the rows that are counted


def test_one_expression_over_two_tables(release):
    """Of a region in the nation: as the difference to the other region shows, shared noise cancels."""
    shares = release.derive("count / nation.count", table="regions").to_pandas()
    alone = release.derive("share(count)", table="regions").to_pandas()
    assert list(shares["region"]) == ["r0", "r1"]
    assert list(shares["value"]) == pytest.approx(list(alone["value"]), abs=0.01)
    for column in ("lower", "upper"):
        assert list(shares[column]) == pytest.approx(list(alone[column]), abs=0.001)
    places = release.derive("count / regions.count", table="districts").to_pandas()
    whole = release.derive("count", table="regions").to_pandas().set_index("region")["value"]
    parts = release.derive("count", table="districts").to_pandas()
    regions = [whole[REGION[d]] for d in parts["district"]]
    assert list(places["value"]) == pytest.approx(
        [c / r for c, r in zip(parts["value"], regions, strict=True)]
    )
    assert (places["upper"] <= 1).all() and (places["lower"] >= 0).all()
    zero = release.derive(
        "nation.count - regions.count[region='r0'] - regions.count[region='r1']", table="districts"
    )
    assert (zero.table["lower"][0].as_py(), zero.table["upper"][0].as_py()) == pytest.approx(
        (0, 0), abs=1e-6
    )
    finer = release.derive("districts.count - count", table="regions").to_pandas()
    assert list(finer["lower"]) == pytest.approx([0, 0], abs=1e-6)


def test_a_name_of_another_table_with_some_columns_fixed_keeps_the_row_s_place(release):
    """Women of a region, not of the nation; a name whose every column is fixed is one number."""
    parts = release.derive("count", table="districts").to_pandas()
    women = parts[parts["sex"] == "f"]
    per_region = women.groupby(women["district"].map(REGION))["value"].sum()
    found = release.derive("districts.count[sex='f']", table="regions").to_pandas()
    assert dict(zip(found["region"], found["value"], strict=True)) == per_region.to_dict()
    beside = release.derive("districts.count[sex='f'] - 0 * count", table="regions").to_pandas()
    assert list(beside["value"]) == list(found["value"])
    assert release.derive("regions.count[region='r0']", table="districts").table.num_rows == 1


DETAIL = [
    {"name": "nation", "by": [], "statistics": ["count"]},
    {"name": "regions", "by": ["region"], "statistics": ["count"]},
    {"name": "places", "by": ["district"], "statistics": ["count"]},
    {
        "name": "fine",
        "by": ["district", "sex"],
        "statistics": ["count"],
        "detail": {
            "statistic": "count",
            "max_relative_error": 0.2,
            "levels": ["regions", "places"],
        },
    },
]


@pytest.mark.parametrize(
    ("epsilon", "levels"), [("0.0001", {"regions"}), ("0.3", {"places"}), (8, {"fine"})]
)
def test_names_of_other_tables_beside_rows_of_several_levels(epsilon, levels):
    """A row's number stands for no cell by its place among the rows: both ways, at every level."""
    made = schema(DETAIL, release={"epsilon": epsilon})
    for release in redrawn(
        people(), made, 20
    ):  # which levels are drawn is random: until these are among them
        rows = release.to_pandas("fine")
        if levels <= set(rows["level"]):
            break
    assert levels <= set(rows["level"])
    regions = release.to_pandas("regions").set_index("region")["count"]
    found = release.derive("count - count + regions.count", table="fine").to_pandas()
    assert list(found["value"]) == [regions[r] for r in rows["region"]]
    places = release.to_pandas("places").set_index("district")["count"]
    inside = {p: {p} for p in places.index} | {"all": set()}
    found = release.derive("places.count", table="fine").to_pandas()
    for place, region, value in zip(rows["district"], rows["region"], found["value"], strict=True):
        held = inside[place] or {p for p in places.index if REGION[p] == region}
        assert value == sum(places[p] for p in held)
    back = release.derive("fine.count", table="regions").to_pandas().set_index("region")["value"]
    assert back.to_dict() == rows.groupby("region")["count"].sum().to_dict()
    assert (
        release.derive("fine.count", table="nation").table["value"][0].as_py()
        == rows["count"].sum()
    )


def test_a_table_s_own_name_may_stand_before_the_dot(release):
    named = release.derive("nation.count", table="nation").to_pandas()
    plain = release.derive("count", table="nation").to_pandas()
    assert named.equals(plain)
    both = release.derive("districts.count / nation.count", table="districts").to_pandas()
    assert both.equals(release.derive("count / nation.count", table="districts").to_pandas())


def test_a_label_of_a_coarser_level_says_where_to_write_it(release):
    made = schema([*TREE[:2], {**TREE[2], "by": ["region", "district"]}])
    found = released(made)
    with pytest.raises(ArgumentError) as caught:
        found.derive("count[region='r0']", table="districts")
    assert "regions.count[region='r0']" in str(caught.value.fix)
    assert "the other key columns are the row's" in str(caught.value.why)
    assert len(found.derive("count / regions.count[region='r0']", table="districts").table) == 6
    with pytest.raises(ArgumentError) as caught:  # no table of such columns: pooled
        found.derive("count[district='d0']", table="districts")
    assert "by=['district']" in str(caught.value.fix)
    assert len(found.derive("count[district='d0']", table="districts", by=["district"]).table) > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("count / towns.count", "no table `towns`"),
        ("count / nation.late", "table `nation` has no `late`"),
        ("count / nation.", "table `nation` has no"),
        ("count / regions.count[district='d0']", "`district` is not a key column"),
    ],
)
def test_names_of_other_tables_are_checked(release, text, said):
    with pytest.raises(dp.errors.ConfigError, match=said):
        release.derive(text, table="districts")


def test_tables_are_named(release):
    with pytest.raises(ArgumentError, match="3 tables") as caught:
        release.derive("count")
    assert caught.value.code == "DPR669"
    with pytest.raises(ArgumentError, match="no table `towns`"):
        release.derive("count", table="towns")


@pytest.mark.statistical
def test_cells_that_a_domain_cuts_are_not_added_up():
    """30 rows in a cell of at most 12, and none in another: they are published as 12 and 0."""
    data = people(40).assign(district=["d0"] * 30 + ["d2"] * 8 + ["d1"] * 2, sex="f")
    cut = {"statistic": "count", "domain": {"range": [0, 12]}}
    made = schema([TREE[0], {"name": "places", "by": ["district"], "statistics": [cut]}])
    missed = 0
    for held in redrawn(data, made, 60):
        both = "count[district='d0'] {} count[district='d3']"
        for sign in "+-":
            row = held.derive(both.format(sign), table="places").table.to_pylist()[0]
            assert row["method"] == "conservative" and row["lower"] <= row["upper"]
            missed += not row["lower"] <= 12 <= row["upper"]
    assert missed <= 30  # of 120, two of each draw: p < 1e-6
    with pytest.raises(ArgumentError, match="does not follow") as caught:
        held.derive("count", table="places", by=[])
    assert caught.value.code == "DPR663"
    wide = {"statistic": "count", "domain": {"range": [0, 5000], "forbidden": [[0, 3]]}}
    made = schema([TREE[0], {"name": "places", "by": ["district"], "statistics": [wide]}])
    pooled = released_of(data, made).derive("count", table="places", by=[]).table.to_pylist()
    assert [row["method"] for row in pooled] == ["exact"]


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
    ratio = RatioForm(income, count)
    few = ratio_ends(ratio, 0.95, (-100, 200))
    monkeypatch.setattr(laws, "FEW", 0)
    laws.quantile.cache_clear()
    quotient._pivot.cache_clear()
    many = ratio_ends(ratio, 0.95, (-100, 200))
    middle = sum(few) / 2
    assert many == pytest.approx(few, abs=0.1 * (few[1] - few[0]))
    assert many[0] < middle < many[1]


def test_linear_chances_by_levels_are_rounded_up(release, monkeypatch):
    from dprelease.reading import linear_interval

    values = values_of(release.noised, "districts")
    form = values.quantity("count", 6).form.plus(Linear(Fraction(-30)))
    few = linear_interval.linear_chance(form)
    monkeypatch.setattr(laws, "FEW", 0)
    laws.quantile.cache_clear()
    many = linear_interval.linear_chance(form)
    assert few <= 1.05 * many and many <= 1.3 * few + 1e-6


@pytest.fixture(scope="module")
def drawn():
    return tables.Draws(0.5, DRAWS)


@pytest.mark.statistical
def test_intervals_of_shares_over_tables_cover_at_their_level(drawn):
    assert tables.measured(drawn, "share of all", "t0").misses <= MOST


@pytest.mark.statistical
def test_a_fifth_too_short_shows(drawn):
    assert tables.measured(drawn, "difference of towns", "t0").misses <= MOST
    assert tables.measured(drawn, "difference of towns", "t0", shrink=0.8).misses > MOST


def test_a_notebook_names_the_tables_and_says_what_they_cost(release):
    shown = release._repr_html_()
    assert [shown.count(f"<p>{name}</p>") for name in release.tables] == [1] * len(release.tables)
    assert release.plan.guarantee in shown


def test_levels_of_a_hierarchy_are_keys_of_a_finer_table(release):
    """The table `regions` holds the same estimates, so the same numbers and intervals follow from `districts`."""
    asked = ("share(count)", "sum_income / count", "count - 10 * regions.count")
    for text in asked:
        fine = release.derive(text, table="districts", by=["region"]).to_pandas()
        coarse = release.derive(text, table="regions").to_pandas()
        assert list(fine["region"]) == list(coarse["region"])
        for column in ("value", "lower", "upper"):
            assert list(fine[column]) == pytest.approx(list(coarse[column]), rel=1e-6)
    both = release.derive("count", table="districts", by=["sex", "region"])
    assert both.keys == ("region", "sex") and both.table.num_rows == 4
    with pytest.raises(ArgumentError, match="`town` is not a key") as caught:
        release.derive("count", table="districts", by=["town"])
    assert "coarser levels: region" in str(caught.value.fix)
    with pytest.raises(ConfigError, match="`region` is not a key column") as fixed:
        release.derive("count[region='north']", table="districts")
    assert fixed.value.fix.endswith("; a coarser level goes into `by`: region")
    with pytest.raises(ArgumentError, match="`district` is not a key"):
        release.derive("count", table="regions", by=["district"])


def test_levels_need_no_table_of_their_own(tmp_path, monkeypatch):
    """Of one table too, read from its folder; a public table has the levels as keys."""
    made = schema(release={"by": ["district"], "statistics": ["count", "mean(age)", "median(age)"]})
    made["release"].pop("tables")
    built_in_rules_only(monkeypatch)
    ledger = dp.create_ledger(tmp_path / "ledger.db", made, epsilon=1)
    folder = dp.release(people(), made, ledger=ledger, period="2026").publish(tmp_path / "public")
    held = dp.read(folder)
    found = held.derive("rate(count, people, 1000)", by=["region"], public=_PEOPLE).to_pandas()
    counts = held.to_pandas().set_index("district")["count"]
    for region, value, by_thousand in zip(found["region"], found["value"], (1, 3), strict=True):
        sum_of = sum(counts[d] for d in counts.index if REGION[d] == region)
        assert value == pytest.approx(sum_of / by_thousand)
    assert held.derive("mean_age", by=["region"]).table.num_rows == 2
    with pytest.raises(ArgumentError, match="does not follow from that of each"):
        held.derive("median_age", by=["region"])


@pytest.mark.statistical
def test_sums_over_a_level_cover_at_their_level():
    """Of districts that are released alone: the rows of a region, known here."""
    data = people()
    made = schema([TREE[0], TREE[2]], release={"epsilon": 2})
    seen = data[data["sex"] != "?"]
    true = seen["district"].map(REGION).value_counts()
    missed = {1.0: 0, 0.1: 0}
    for held in redrawn(data, made, whole(40, 300)):
        rows = held.derive("count", table="districts", by=["region"])
        for row in rows.to_pandas().itertuples():
            middle = (row.lower + row.upper) / 2
            for part in missed:
                half = part * (row.upper - row.lower) / 2
                missed[part] += abs(true[row.region] - middle) > half
    most = whole(23, 71)  # two of each draw, at most 5 %: p < 1e-6
    assert missed[1.0] <= most < missed[0.1]


@pytest.mark.parametrize("name", ["districts", "regions"])
def test_counted_noise_is_the_noise_cell_by_cell(release, name):
    """`joint` never makes a term per cell; `expanded` does, and says the same."""
    values = values_of(release.noised, name)
    count, income = (values.quantity(n, 1).form for n in ("count", "sum_income"))
    total = forms.total([values.quantity("count", g).form for g in range(len(values.keys))])
    mixed = count.plus(total, Fraction(-1, 7))
    found = joint(mixed, income, total)
    wanted: Counter = Counter()
    parts = [expanded(form) for form in (mixed, income, total)]
    for source in dict.fromkeys(s for part in parts for s, _ in part.cells):
        wanted[source.noise, tuple(part.terms.get(source, Fraction(0)) for part in parts)] += 1
    assert found.draws == wanted
    assert found.rounding == tuple(part.rounding for part in parts)
    for observed, part in zip(found.observed, parts, strict=True):
        assert abs(observed - part.observed) <= Fraction(1, 2**20)


def test_a_cell_that_is_named_itself_and_in_an_estimate_is_one_noise(release):
    values = values_of(release.noised, "districts")
    form = values.quantity("count", 1).form
    source, weight = expanded(form).cells[0]
    assert weight
    mixed = form.plus(Linear(Fraction(0), {source: -weight}))
    draws = joint(mixed).draws
    assert sum(draws.values()) == sum(joint(form).draws.values()) - 1
