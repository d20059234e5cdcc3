"""What changed between two releases: Holm's test over everything that is compared."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import dprelease as dp
from dprelease.reading.changes import holm
from dprelease.reading.interval import intervals
from dprelease.reading.quantity import combined
from dprelease.reading.released_values import ReleasedValues
from tests.end_to_end.projects import repeatable
from tests.reading.drawn import release, schema, table
from tests.redrawn import redrawn


@pytest.fixture(scope="module")
def held():
    return release()


@pytest.fixture(scope="module")
def other():
    return release(shift=3)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_releases_of_the_same_integers_by_chance_are_two(held):
    """Without a ledger nothing else tells two draws apart: their noise does not cancel."""
    alike = ReleasedValues(held.noised), ReleasedValues(replace(held.noised))
    same = ReleasedValues(held.noised)
    assert alike[0].identity != alike[1].identity
    assert alike[0].identity == same.identity
    paid = replace(held.noised.receipt, head_hash="0" * 64)
    first, again = (ReleasedValues(replace(held.noised, receipt=paid)) for _ in range(2))
    assert first.identity == again.identity
    change = combined("-", alike[0].quantity("count", 0), alike[1].quantity("count", 0))
    ((low, high, _),) = intervals([change], 0.95)
    assert low < 0 < high


def test_a_release_and_itself_differ_in_nothing(held):
    found = dp.diff(held, held).to_pandas()
    counts = found[found["statistic"] == "count"]
    assert (counts["value"] == 0).all()
    assert set(found["status"]) == {"within_noise"}
    assert (found["p"] == 1).all()


def test_what_says_nothing_is_not_a_value_before_or_after():
    quiet, loud = (release(epsilon=e, statistics=["count", "mean(x)"]) for e in ("0.001", 8))
    found = dp.diff(quiet, loud).to_pandas()
    weak = quiet.to_pandas()["count_status"].isin(["uninformative", "empty_signal"])
    counts = found[found["statistic"] == "count"].reset_index(drop=True)
    assert weak.any() and counts["before"].isna().tolist() == weak.tolist()
    assert counts["after"].notna().all()
    assert counts["value"].isna().tolist() == weak.tolist()
    assert set(counts["status"][weak]) <= {"uninformative", "changed"}


def test_the_page_of_changes_has_the_publisher_s_titles(tmp_path):
    asked = {"statistics": ({"statistic": "count", "title": "Trips <made>"}, "mean(x)")}
    page = dp.diff(release(**asked), release(shift=3, **asked)).write(tmp_path / "a.html")
    text = page.read_text(encoding="utf-8")
    assert "Trips &lt;made&gt;" in text and "Mean of x" in text
    assert "mean_x" not in text


def test_equal_headings_are_told_apart(tmp_path):
    asked = {"statistics": ("count", "mean(x)", {"statistic": "mean(x)", "as": "again"})}
    found = dp.diff(release(**asked), release(**asked))
    text = found.write(tmp_path / "a.html").read_text(encoding="utf-8")
    headings = re.findall("<h3>(.*?)</h3>", text)
    assert len(set(headings)) == len(headings) == 3
    assert found.called.title(("", "again")) == "Mean of x (again)"
    assert found.called.title(("", "count")) == "Number of rows"  # it alone has this heading


def test_a_large_change_is_called_one():
    asked = {"epsilon": 8, "statistics": ["count", "mean(x)"]}
    a, b = release(**asked), release(shift=300, **asked)
    found = dp.diff(a, b).to_pandas().set_index("statistic")
    assert (found.loc["count", "status"] == "changed").all()
    assert (found.loc["count", "lower"] > 0).all()
    assert (
        found.loc["count", "value"] == found.loc["count", "after"] - found.loc["count", "before"]
    ).all()


@pytest.mark.statistical
def test_holm_calls_hardly_anything_a_change_where_nothing_changed():
    """120 pairs of 24 comparisons: with 'none' many rows are called, with 'holm' few pairs have one."""
    pairs = list(pairwise(redrawn(table(), schema(("count", "sum(late)"), epsilon=1), 13)))
    each = [np.array(dp.diff(a, b, adjust="none").table["p"].to_pylist()) for a, b in pairs]
    wrong = sum((p <= 0.05).sum() for p in each)
    called = sum("changed" in dp.diff(a, b).table["status"].to_pylist() for a, b in pairs)
    assert wrong <= 24  # of 144, 7.2 expected; more than 24 has a chance below 1e-6
    assert called <= 7  # of 12 dependent pairs, 0.6 expected


def test_what_cannot_be_compared(held):
    other = release(statistics=["count", "median(x)"])
    found = dp.diff(held, other)
    assert set(found.table["statistic"].to_pylist()) == {"count"}
    assert any("median_x" in note for note in found.notes)
    with pytest.raises(dp.errors.ArgumentError) as caught:
        dp.diff(held, release(statistics=["median(x)"]))
    assert caught.value.code == "DPR679"
    assert "a key that is no part of the date" in caught.value.fix
    with pytest.raises(dp.errors.ArgumentError) as caught:
        dp.diff(held, held, adjust="bonferroni")
    assert caught.value.code == "DPR689"
    with pytest.raises(dp.errors.ArgumentError) as caught:
        dp.diff(held, 3)
    assert caught.value.code == "DPR694"


def test_groups_of_one_release_alone_are_told(held):
    fewer = schema()
    carrier = fewer["release"]["by"][0]
    labels = fewer["columns"][carrier]["values"]
    fewer["columns"][carrier]["values"] = labels[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        other = dp.release(table(), fewer)
    gone = len(held.plan.keys) - len(other.plan.keys)
    assert gone > 0
    for pair in ((held, other), (other, held)):
        assert any(f"{gone} groups are in one" in note for note in dp.diff(*pair).notes)
    assert not any("in one of both" in note for note in dp.diff(held, held).notes)


def test_a_page_has_a_picture_per_statistic_each_with_its_own_scale(tmp_path, held, other):
    found = dp.diff(held, other)
    text = found.write(tmp_path / "diff.html").read_text(encoding="utf-8")
    statistics = list(dict.fromkeys(found.to_pandas()["statistic"]))
    assert len(statistics) > 1
    assert text.count("<svg") == len(statistics)
    for name in statistics:
        assert f"<h3>{found.called.title(('', name))}</h3>" in text
    assert found.called.title(("", "mean_x")) == "Mean of x"


def test_a_row_without_a_value_has_no_dot(tmp_path, monkeypatch):
    repeatable(monkeypatch, "l0")  # one draw in ten says something even at this epsilon
    asked = {"by": [], "statistics": ["count", "mean(x)"]}
    found = dp.diff(release(epsilon=8, **asked), release(epsilon="0.0001", **asked))
    rows = found.to_pandas()
    assert rows["value"].isna().all()
    text = found.write(tmp_path / "a.html").read_text(encoding="utf-8")
    assert 'class="dot"' not in text
    assert ">–</td>" in text
    assert "<circle" not in found.plot().svg


def test_a_picture_of_a_comparison_has_a_part_per_statistic(held, other):
    found = dp.diff(held, other)
    statistics = list(dict.fromkeys(found.table["statistic"].to_pylist()))
    picture = found.plot()
    assert picture.svg.count("<svg ") == 1 + len(statistics)
    places = [int(y) for y in re.findall(r'<svg y="(\d+)"', picture.svg)]
    assert places == sorted(set(places))
    for statistic in statistics:
        assert found.called.title(("", statistic)) in picture.svg
    alone = dp.diff(release(statistics=["count"]), release(statistics=["count"])).plot()
    assert alone.svg.count("<svg ") == 1
