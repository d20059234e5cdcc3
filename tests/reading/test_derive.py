"""`derive` on real plans: values by hand, forms where they exist, and what cannot be computed."""

from __future__ import annotations

import json
import math
import re
import warnings
from dataclasses import replace

import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.reading.derive import _finished as finished_row
from dprelease.reading.derive import derive
from dprelease.reading.evaluation import Periods
from dprelease.reading.forms import Linear
from dprelease.reading.page import page
from dprelease.reading.quantity import Quantity
from tests.reading.drawn import REGIONS, pair, periods, release, schema, table

WIDE = {}


def rows(text, **asked):
    return derive(pair(), text, **asked).table.to_pylist()


def published(name, region, half="first", period="2"):
    held = pair().named(period)
    group = held.groups[region, half]
    return held.quantity(name, group).value


EVERY = (
    "count", "sum(late)", "mean(x)", "variance(x)", "std(x)", "proportion(x > 4)", "covariance(x, late)",
    "correlation(x, late)", "cdf(x, [2, 5])", "histogram(x, [0, 3, 10])", "winsorised_mean(x, 0.1)",
    {"statistic": "histogram(x, [0, 2, 4, 10])", "accurate_for": "ranges", "as": "bins"},
    {"statistic": "mean(x)", "domain": {"range": [2, 6]}, "as": "cut"},
    {"statistic": "count", "domain": {"range": [0, 9]}, "as": "few"},
)  # fmt: skip


@pytest.mark.parametrize("epsilon", [2, 60])
def test_a_published_value_is_itself_with_its_interval(epsilon):
    held = release(statistics=EVERY, epsilon=epsilon)
    frame = held.to_pandas()
    names = [c for c in frame.columns if f"{c}_lower" in frame.columns and "x_p" not in c]
    assert len(names) >= len(EVERY)
    for name in names:
        found = held.derive(f'"{name}"').to_pandas()
        for column in ("value", "lower", "upper"):
            own = frame[name if column == "value" else f"{name}_{column}"]
            assert found[column].to_numpy(float).tolist() == own.to_numpy(float).tolist(), name


def test_arithmetic_is_that_of_the_published_values():
    found = rows("2 * count[region='north'] - count / 4")
    assert [(r["region"], r["half"]) for r in found][:2] == [
        ("north", "first"),
        ("north", "second"),
    ]
    for row in found:
        expected = (
            2 * published("count", "north", row["half"])
            - published("count", row["region"], row["half"]) / 4
        )
        assert row["value"] == pytest.approx(expected)
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["method"] == "exact"


def test_what_is_fixed_everywhere_is_not_a_key_of_the_result():
    found = derive(pair(), "count[region='north'] / count[region='west']")
    assert found.keys == ("half",)
    assert derive(pair(), "count[region='north', half='first']").keys == ()


def test_the_same_draw_cancels():
    same, other = rows("count - count"), rows("count - count@previous")
    assert all(r["value"] == r["lower"] == r["upper"] == 0 for r in same)
    means = rows("mean_x - mean_x[region='north']")
    assert all(r["lower"] == r["upper"] == 0 for r in means if r["region"] == "north")
    assert all(r["upper"] - r["lower"] > 1 for r in other)


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("count", "exact"),
        ("sum_late / count", "exact"),
        ("mean_x * 3 - 1", "exact"),
        ("1 / mean_x", "exact"),
        ("2 - mean_x", "exact"),
        ("share(count)", "exact"),
        ("growth(count)", "exact"),
        ("mean_x - mean_x@previous", "conservative"),
        ("variance_x", "conservative"),
        ("variance_x / mean_x", "conservative"),
        ("mean_x * count", "conservative"),
    ],
)
def test_pivots_are_used_where_they_exist(text, method):
    found = rows(text)
    assert {r["method"] for r in found} == {method}
    assert all(r["lower"] <= r["value"] <= r["upper"] for r in found)


def test_shares_add_up_and_lie_in_the_unit_interval():
    found = rows("share(count)")
    assert sum(r["value"] for r in found) == pytest.approx(1)
    assert all(0 <= r["lower"] <= r["upper"] <= 1 for r in found)


def test_pooling_sums_counts_and_averages_means_by_their_rows():
    by_region = rows("count", by=["region"])
    assert [r["region"] for r in by_region] == list(REGIONS)
    assert by_region[0]["value"] == sum(published("count", "north", h) for h in ("first", "second"))
    (mean,) = rows("mean_x", by=[])
    parts = [r["value"] for r in rows("mean_x")]
    assert min(parts) < mean["value"] < max(parts)
    assert mean["method"] == "exact"
    assert mean["upper"] - mean["lower"] < min(r["upper"] - r["lower"] for r in rows("mean_x"))


def test_a_variance_is_not_pooled():
    with pytest.raises(dp.errors.ArgumentError, match="does not follow") as caught:
        rows("variance_x", by=["region"])
    assert caught.value.code == "DPR663"
    assert "by=['region', 'half'], or --by region,half" in caught.value.fix
    assert rows("variance_x", by=["region", "half"])  # what the message says


def test_different_values_of_several_groups_are_not_added_up():
    """One value in every group is one value of all of them, not six."""
    late = table().slice(0, 0), schema(["count_distinct(late)", "count"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        held = dp.release(*late)
    with pytest.raises(dp.errors.ArgumentError, match="does not follow") as caught:
        held.derive("count_distinct_late", by=["region"])
    assert caught.value.code == "DPR663"
    both = held.derive("count_distinct_late[half='first'] + count_distinct_late[half='second']")
    assert both.table.num_rows == len(REGIONS)


@pytest.mark.parametrize(("groups", "adds_up"), [(1, True), (2, False)])
def test_units_add_up_only_where_each_is_in_one_group(groups, adds_up):
    """Whoever is counted in two groups is one unit of both together."""
    asked = schema(["count(persons)", "count"])
    asked["unit"] = {"user": "id", "max_groups": groups, "max_rows_per_group": 1}
    asked["columns"]["id"] = {"kind": "identifier"}
    data = table()
    data = data.append_column("id", pa.array([str(i % 50) for i in range(data.num_rows)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        held = dp.release(data, asked)
    assert held.derive("count", by=[]).table.num_rows == 1
    if adds_up:
        assert held.derive("count_persons", by=[]).table.num_rows == 1
        return
    with pytest.raises(dp.errors.ArgumentError, match="does not follow") as caught:
        held.derive("count_persons", by=[])
    assert caught.value.code == "DPR663"


def _drawn_in_many(statistics, rows, columns, **more):
    """Return a release of 200 groups that all hold the same rows."""
    groups = [f"g{i:03d}" for i in range(200)]
    asked = {
        **schema(statistics, **more),
        "columns": {"group": {"kind": "category", "values": groups}, **columns},
    }
    asked["release"]["by"] = ["group"]
    data = {"group": [g for g in groups for _ in rows]}
    data |= {name: [row[i] for row in rows] * 200 for i, name in enumerate(columns)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        return dp.release(pa.table(data), asked)


@pytest.mark.statistical
def test_bins_that_a_domain_cuts_are_not_added_up():
    """30 rows in a bin of at most 12: the bins say 12 and 0, and their exact cells 30 and 0."""
    asked = {"statistic": "histogram(x, [0, 5, 10])", "domain": {"range": [0, 12]}}
    column = {"x": {"kind": "integer", "range": [0, 10]}}
    held = _drawn_in_many([asked], [(1,)] * 30, column, epsilon=1)
    found = held.derive('"histogram_x[0,5)" + "histogram_x[5,10]"').table.to_pylist()
    assert {row["method"] for row in found} == {"conservative"}
    assert sum(not row["lower"] <= 12 <= row["upper"] for row in found) <= 28  # of 200, p < 1e-6
    with pytest.raises(dp.errors.ArgumentError, match="does not follow"):
        held.derive('"histogram_x[0,5)"', by=[])
    whole = _drawn_in_many([asked["statistic"]], [(1,)] * 30, column, epsilon=1)
    assert whole.derive('"histogram_x[0,5)"', by=[]).table.to_pylist()[0]["method"] == "exact"


@pytest.mark.statistical
@pytest.mark.parametrize("text", ["ratio_y_z", "3 * ratio_y_z + 1", "1 - ratio_y_z"])
def test_a_ratio_beyond_its_domain_is_held_at_the_end_of_the_domain(text):
    """The noise of a small denominator makes far quotients of the other sign possible: they are not nearer."""
    asked = {"statistic": "ratio(y, z)", "domain": {"range": [0, 1]}}
    columns = {
        "y": {"kind": "integer", "range": [-9, 9]},
        "z": {"kind": "integer", "range": [0, 9]},
    }
    held = _drawn_in_many([asked], [(-9, 1)] * 3, columns, epsilon=3)
    truth = {"ratio_y_z": 0, "3 * ratio_y_z + 1": 1, "1 - ratio_y_z": 1}[text]
    found = held.derive(text).table.to_pylist()
    assert sum(not row["lower"] <= truth <= row["upper"] for row in found) <= 28
    assert {row["method"] for row in found} == {"exact"}
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in found)


def test_a_ratio_beyond_its_domain_is_divided_by_as_it_is_published():
    asked = {"statistic": "ratio(y, z)", "domain": {"range": [0.5, 1]}}
    columns = {
        "y": {"kind": "integer", "range": [-9, 9]},
        "z": {"kind": "integer", "range": [0, 9]},
    }
    held = _drawn_in_many([asked], [(-9, 1)] * 3, columns, epsilon=3)
    found = held.derive("1 / ratio_y_z").table.to_pylist()
    assert {row["method"] for row in found} == {"conservative"}


@pytest.mark.statistical
def test_two_domains_of_one_quotient_are_two_values():
    """1 is held at 1 by one domain and at 6 by the other; both are read from the same integers."""
    asked = ["mean(x)", {"statistic": "mean(x)", "domain": {"range": [6, 9]}, "as": "high"}]
    column = {"x": {"kind": "integer", "range": [0, 9]}}
    held = _drawn_in_many(asked, [(1,)] * 30, column, epsilon=3)
    assert len({statistic.block for statistic in held.plan.statistics}) == 1
    for text, truth in (("mean_x + high", 7), ("high - mean_x", 5), ("mean_x * high", 6)):
        found = held.derive(text).table.to_pylist()
        missed = sum(not row["lower"] - 1e-9 <= truth <= row["upper"] + 1e-9 for row in found)
        assert missed <= 28  # of 200, p < 1e-6


def test_a_share_of_parts_of_two_signs_may_be_more_than_the_whole():
    """50 of 60 rows are taken away in the second half alone: the first one has 3 times the total."""
    asked = schema(["count"], epsilon=20)
    asked["release"]["by"] = ["half"]
    data = pa.table({"half": ["first"] * 60 + ["second"] * 10})
    away = pa.table({"half": ["first", "second"], "away": [0, 50]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        held = dp.release(data, {**asked, "columns": {"half": asked["columns"]["half"]}})
    first, second = held.derive("share(count - away)", public=away).table.to_pylist()
    assert first["lower"] <= first["value"] <= first["upper"] and first["value"] > 2
    assert second["value"] < -1
    assert first["value"] + second["value"] == pytest.approx(1)
    one, _ = held.derive("share(count)").table.to_pylist()
    assert 0 <= one["lower"] <= one["upper"] <= 1


def test_public_tables_have_exact_numbers():
    people = pa.table({"region": list(REGIONS), "people": [0.1, 0.2, 0.3], "weight": [5, 3, 2]})
    found = rows("rate(count, people, 0.1)", public=people)
    assert found[0]["value"] == pytest.approx(published("count", "north"))
    (total,) = rows("standardise(count, weight)", public=people, by=[])
    expected = sum(
        w * published("count", r, h)
        for r, w in zip(REGIONS, (5, 3, 2), strict=True)
        for h in ("first", "second")
    )
    assert total["value"] == pytest.approx(expected / 20)
    assert total["method"] == "exact"


@pytest.mark.parametrize(
    ("public", "code"),
    [
        ({"region": ["north", "north"], "people": [1, 2]}, "DPR665"),
        ({"region": ["north"], "people": [1]}, "DPR666"),
        ({"region": list(REGIONS), "people": [1.0, None, 2.0]}, "DPR666"),
        ({"region": list(REGIONS), "people": [1.0, math.nan, 2.0]}, "DPR666"),
    ],
)
def test_faulty_public_tables(public, code):
    with pytest.raises(dp.errors.ArgumentError) as caught:
        rows("count / people", public=pa.table(public))
    assert caught.value.code == code


def test_something_that_is_not_a_table():
    with pytest.raises(dp.errors.ArgumentError) as caught:
        rows("count", public=3)
    assert caught.value.code == "DPR667"


def test_a_division_by_zero_has_no_value_and_says_nothing():
    found = rows("mean_x / (count - count)")
    assert all(r["value"] is None and r["status"] == "uninformative" for r in found)


def test_ranks_lie_between_what_is_sure_above_and_below():
    found = {(r["region"], r["half"]): r for r in rows("rank(count)")}
    top = found["west", "second"]
    assert top["lower"] <= 1 <= top["upper"] < 6
    assert found["north", "first"]["lower"] > 1
    counts = {(r["region"], r["half"]): r["value"] for r in rows("count")}
    places = {g: 1 + sum(other > own for other in counts.values()) for g, own in counts.items()}
    assert {g: r["value"] for g, r in found.items()} == places  # equal counts share a place


def test_of_many_periods_the_last_are_named_and_more_are_hinted_at():
    here = Periods(None, "2029", dict.fromkeys(map(str, range(2020, 2030))))
    with pytest.raises(dp.errors.ArgumentError, match="published are: …, 2025, 2026"):
        here.named("2019")


def test_unknown_periods_and_columns():
    for text, code in (("count@2025", "DPR664"), ("count@previous@2", "DPR120")):
        with pytest.raises(dp.errors.DpreleaseError) as caught:
            rows(text)
        assert caught.value.code == code
    with pytest.raises(dp.errors.ArgumentError) as caught:
        rows("count", by=["carrier"])
    assert caught.value.code == "DPR661"
    with pytest.raises(dp.errors.ArgumentError) as caught:
        rows("count", level=1.5)
    assert caught.value.code == "DPR625"


def test_one_key_column_is_asked_for_by_its_name():
    assert rows("count", by="region") == rows("count", by=["region"])
    with pytest.raises(dp.errors.ArgumentError, match="`carrier` is not a key column"):
        rows("count", by="carrier")


@pytest.mark.parametrize("asked", [{"a": "count"}, ["count"], None, 3])
def test_what_is_no_text_is_no_expression(asked):
    with pytest.raises(
        dp.errors.ArgumentError, match="an expression is one text, not of type"
    ) as caught:
        rows(asked)
    assert caught.value.code == "DPR660"


@pytest.mark.parametrize("asked", [(), ("",), ("  ",)])
def test_what_to_compute_is_to_be_said(asked):
    with pytest.raises(dp.errors.ArgumentError, match="one text, not empty") as caught:
        release().derive(*asked, by=[])
    assert caught.value.code == "DPR660" and 'derive("late / count"' in caught.value.fix


def test_a_release_alone_has_no_other_periods():
    with pytest.raises(dp.errors.ArgumentError, match="no period before"):
        release().derive("growth(count)")


def test_a_choice_by_rank_has_no_interval_to_compute_with():
    held = release(statistics=["count", "median(x)"])
    with pytest.raises(dp.errors.ArgumentError) as caught:
        held.derive("median_x / count")
    assert caught.value.code == "DPR662"


def test_a_table_that_is_not_there():
    held = release()
    assert list(held.tables) == ["data"]
    with pytest.raises(dp.errors.ArgumentError) as caught:
        held.derive("count", table="regions")
    assert caught.value.code == "DPR669"


def test_ranks_are_whole_numbers_on_their_page(tmp_path):
    text = derive(pair(), "rank(count)").write(tmp_path / "a.html").read_text()
    assert ">1</td>" in text and "1.0" not in text.partition("<main>")[2]
    assert re.search(
        r">0\.\d+</td>", derive(pair(), "share(count)").write(tmp_path / "b.html").read_text()
    )


@pytest.mark.parametrize("wide", [True, False])
def test_a_bar_that_leaves_the_picture_has_arrows_and_one_that_does_not_has_none(tmp_path, wide):
    found = derive(pair(), "count")
    rows = [
        {**row, "lower": row["value"] - 5, "upper": row["value"] + 5}
        for row in found.table.to_pylist()
    ]
    if wide:
        rows[0].update(lower=-9999, upper=9999)
    drawn = replace(found, table=pa.Table.from_pylist(rows, schema=found.table.schema))
    text = drawn.write(tmp_path / "a.html").read_text(encoding="utf-8")
    assert text.count('class="cut"') == (2 if wide else 0)
    assert ("Arrows: the interval goes on." in text) == wide
    assert ".weak .cut { stroke-dasharray: none; }" in text  # dashes leave two specks of an arrow


def test_the_picture_of_medians_says_that_hollow_dots_say_nothing_and_speaks_of_no_interval(tmp_path):  # fmt: skip
    found = derive(pair(), "count")
    rows = [
        {**row, "lower": None, "upper": None, "status": "no_interval", "method": "none"}
        for row in found.table.to_pylist()
    ]
    rows[0].update(value=9999, status="uninformative")
    drawn = replace(found, table=pa.Table.from_pylist(rows, schema=found.table.schema))
    text = drawn.write(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Arrows: the value lies beyond. Hollow dots say nothing.</figcaption>" in text
    clear = derive(pair(), "count").write(tmp_path / "b.html").read_text(encoding="utf-8")
    assert "Hollow dots" not in clear


def test_a_histogram_s_name_alone_is_answered_with_names_that_can_be_written():
    held = release(statistics=[{"statistic": "histogram(x, [0, 2, 4, 6, 10])", "as": "bins"}])
    for text in ("bins", "share(bins)", "bins[0,2)"):
        with pytest.raises(dp.errors.ConfigError, match="`bins` is several values") as caught:
            held.derive(text)
        named = re.findall(r'"[^"]+"', caught.value.fix)
        assert (caught.value.code, len(named)) == ("DPR122", 4)
        for name in named:
            assert held.derive(name).table.num_rows


def test_a_derived_table_is_written_in_each_format(tmp_path):
    found = derive(pair(), "count / (sum_late - sum_late@previous)", name='=a, "b"', source="here")
    for ending in (".csv", ".parquet", ".json", ".html"):
        assert found.write(tmp_path / f"out{ending}").stat().st_size > 100
    text = (tmp_path / "out.csv").read_text().splitlines()
    assert text[0] == "region,half,value,lower,upper,status,method"
    assert len(text) == 7
    said = json.loads((tmp_path / "out.json").read_text())
    assert len(said["rows"]) == 6
    page = (tmp_path / "out.html").read_text()
    assert "<script" not in page
    assert "=a, &#34;b&#34;" in page
    assert found.plot().svg.startswith("<svg")
    with pytest.raises(dp.errors.ArgumentError) as caught:
        found.write(tmp_path / "out.xlsx")
    assert caught.value.code == "DPR668"
    with pytest.raises(dp.errors.ArgumentError):
        found.write(tmp_path / "nowhere" / "out.csv")


def test_gaussian_and_truncated_laws_are_read_too():
    held = release(statistics=["count", "mean(x)", "histogram(x, [0, 5, 10])"], delta="1/1000000")
    found = held.derive('"histogram_x[0,5)" / count').to_pandas()
    assert (found["method"] == "exact").all()
    flat = release(statistics=[{"statistic": "count", "mechanism": "bounded_laplace"}])
    both = flat.derive("count[half='first'] - count[half='second']").to_pandas()
    assert (both["method"] == "conservative").all()
    assert (both["lower"] <= both["value"]).all()


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "staircase"])
def test_a_sum_with_more_weights_than_are_convolved_one_by_one(mechanism):
    many = [f"r{i:02}" for i in range(14)]
    asked = schema([{"statistic": "count", "mechanism": mechanism}])
    asked["columns"] = {"region": {"kind": "category", "values": many}}
    asked["release"]["by"] = ["region"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        held = dp.release(pa.table({"region": many * 40}), asked)
    text = " + ".join(f"{i} * count[region='{r}']" for i, r in enumerate(many, start=1))
    (row,) = held.derive(text).table.to_pylist()
    (draw,) = (block.law for block in held.plan.blocks)
    scale = math.sqrt(draw.added.noise.variance() * sum(i * i for i in range(1, 15)))
    assert row["lower"] < row["value"] < row["upper"]
    assert 1.9 < (row["upper"] - row["lower"]) / 2 / scale < 2.3  # of nearly normal noise: 1.96


def test_counts_near_an_end_that_reflects_are_not_added_up_as_independent_noise():
    """Every error at an empty group points away from the end: their sum grows with their number."""
    asked = schema([{"statistic": "count", "mechanism": "reflected_laplace"}])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        empty = dp.release(table().slice(0, 0), asked)
    with pytest.raises(dp.errors.ArgumentError) as refused:
        empty.derive("count", by=[])
    assert refused.value.code == "DPR663"
    both = empty.derive("count[region='north'] + count[region='west']").table.to_pylist()
    assert {row["method"] for row in both} == {"conservative"}


def test_one_mean_cut_by_two_domains_is_two_values():
    """Rows at 9 of [0, 10]: the mean is 9, and 5 where its domain ends at 5."""
    cut = {"statistic": "mean(x)", "as": "m2", "domain": {"range": [0, 5]}}
    asked = schema([{"statistic": "mean(x)", "as": "m1"}, cut], epsilon=50)
    rows = table()
    nines = rows.set_column(3, "x", pa.array([9.0] * len(rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        held = dp.release(nines, asked)
    assert len({statistic.block for statistic in held.plan.statistics}) == 1
    for text, exact in (("m1 - m2", 4), ("m2 - m1", -4), ("m1 * m2", 45), ("m1 / m2", 1.8)):
        for row in held.derive(text).table.to_pylist():
            assert [row["lower"], row["upper"]] == pytest.approx([exact, exact], rel=0.05)


@pytest.mark.parametrize("level", [None, "0.9", 0, 1, float("nan")])
def test_what_is_no_level_is_refused(level):
    with pytest.raises(dp.errors.ArgumentError) as refused:
        release().derive("count", level=level)
    assert refused.value.code == "DPR625"


def test_a_choice_by_rank_is_read_over_periods_without_an_interval():
    """As it is published; what is computed of two has none, unless both have one."""
    two = periods(statistics=["count", "median(x)"])
    found = derive(two, "median_x@previous")
    one = two.named("1")
    kept = [one.published[key, "median_x"] for key in one.keys]
    rows = found.table.to_pylist()
    assert [row["value"] for row in rows] == [value for value, *_ in kept]
    assert {(r["lower"], r["upper"], r["status"], r["method"]) for r in rows} == {
        (None, None, "no_interval", "none")
    }
    assert "near in rank" in page(found) and found.plot().svg.startswith("<svg")
    assert "certainty" not in page(found) and "95 %" not in page(found)
    assert "with no intervals" in repr(found) and "95 %" in repr(derive(two, "count"))
    bare = pa.nulls(found.table.num_rows, pa.float64())
    empty = replace(
        found, table=found.table.set_column(found.table.column_names.index("value"), "value", bare)
    )
    assert "chosen by rank" in page(found) and "chosen by rank" not in page(empty)
    for text in ("median_x - median_x@previous", "growth(median_x)", "rank(median_x)"):
        with pytest.raises(dp.errors.ArgumentError, match="no interval to compute with"):
            derive(two, text)
    with pytest.raises(dp.errors.ArgumentError, match="no certain interval"):
        derive(two, "median_x", certain=True)


def test_medians_with_intervals_differ_at_a_lower_level():
    """Each of the two misses in 5 % at most and is known at no other level: together they miss in 10 % at most."""
    two = periods(statistics=[{"statistic": "median(x)", "interval": True}], epsilon=20)
    text = "median_x - median_x@previous"
    (note,) = derive(two, text).notes
    assert note.endswith("an interval at the level 0.9")
    rows = derive(two, text, level=0.9).to_pandas()
    now, before = (derive(two, name).to_pandas() for name in ("median_x", "median_x@previous"))
    assert list(rows["lower"]) == pytest.approx(list(now["lower"] - before["upper"]))
    assert list(rows["upper"]) == pytest.approx(list(now["upper"] - before["lower"]))
    growth = derive(two, "growth(median_x)", level=0.9)  # the number 1 takes no part of the risk
    assert not growth.notes and set(growth.table["status"].to_pylist()) == {"ok"}
    assert not derive(two, text, level=0.91).table["status"].to_pylist().count("ok")


def test_a_group_that_is_new_is_left_out_alone():
    two = periods(statistics=["count"])
    before, now = two.named("1"), two.named("2")
    before.keys = before.keys[:4]
    found = derive(two, "growth(count)")
    assert found.table.num_rows == 4
    assert found.notes == ("left out, as not in the other period: west · first, west · second",)
    pooled = derive(two, "growth(count)", by=["half"])
    assert pooled.table.num_rows == 2 and "do not have the same groups" in pooled.notes[0]
    assert not derive(periods(statistics=["count"]), "growth(count)", by=[]).notes
    assert derive(Periods(now, "2", {"2": now}), "count").table.num_rows == 6
    with pytest.raises(dp.errors.ArgumentError, match="no group west"):
        derive(two, "growth(share(count))")  # a share of other groups than now


def test_a_picture_says_what_its_bars_are():
    held = release(statistics=["count", "median(x)"])
    assert "bars are 90 % intervals for the noise" in held.derive("count", level=0.9).plot().svg
    assert "bars are 99.5 % intervals" in held.derive("count", level=0.995).plot().svg
    assert "there is no interval" in held.derive("median_x").plot().svg
    assert "bars are" not in held.derive("median_x").plot().svg


def _status(form, low: float, high: float, **more) -> str:
    quantity = Quantity(form, 5.0, (-80.0, 920.0), **more)
    return finished_row(quantity, low, high, "conservative")[3]


def test_what_is_computed_of_a_value_that_says_nothing_says_nothing_unless_its_interval_is_short():
    form = Linear()
    assert _status(form, -80.0, 919.0) == "ok"
    assert _status(form, -80.0, 420.0, weak=True) == "uninformative"  # half of what is possible
    assert _status(form, -80.0, 419.0, weak=True) == "ok"
    assert _status(form, 0.0, 6.0, weak=True) == "ok"  # as a part of many
    assert _status(form, 0.0, 6.0, weak=True, shown=(0.0, 6.0)) == "uninformative"  # itself
