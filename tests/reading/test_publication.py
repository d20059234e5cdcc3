"""Folders as something to compute with: verified first, `latest`, periods beside each other."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.reading import page
from tests.reading.drawn import schema, table
from tests.rules_alone import built_in_rules_only

ASKED = schema(("count", "sum(late)", "mean(x)"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three periods of one pipeline, published."""
    place = tmp_path_factory.mktemp("published")
    ledger = dp.create_ledger(place / "ledger.db", ASKED, epsilon=10)
    with pytest.MonkeyPatch.context() as patch:
        built_in_rules_only(patch)
        for i, period in enumerate(("2026-W01", "2026-W02", "2026-W03")):
            held = dp.release(table(i), ASKED, ledger=ledger, period=period)
            held.publish(place / "public")
    return place / "public" / "trips"


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "trips", symlinks=True)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_what_is_read_is_what_was_released(folder):
    held = dp.read(folder / "latest")
    assert isinstance(held, dp.Publication)
    assert isinstance(held, dp.Released)
    assert held.folder.name == "2026-W03"
    assert held.receipt.period == "2026-W03"
    assert held.verify().ok
    assert held.schema.name == "trips"
    assert set(held.laws) == {b.name for b in held.plan.blocks}
    import pandas as pd

    wide = pd.read_csv(held.folder / "wide.csv")
    assert held.to_pandas()["count"].tolist() == wide["count"].tolist()
    assert "count_lower" not in held.to_pandas(intervals=False)
    assert held.plot("mean_x").svg.startswith("<svg")
    assert repr(held) == "<Publication trips/2026-W03: 3 statistics over 6 groups>"


def test_long_and_pivoted_forms_hold_the_same_numbers(folder):
    held = dp.read(folder / "latest")
    wide, by = held.to_pandas(), list(held.plan.by)
    long = held.long()
    assert len(long) == len(wide) * 3
    for name in ("count", "mean_x"):
        assert long[long["statistic"] == name]["value"].tolist() == wide[name].tolist()
    indexed = held.to_pandas(pivot=[])
    assert indexed.index.names == by
    assert indexed["count"].tolist() == wide["count"].tolist()
    first, last = by[0], by[-1]
    turned = held.to_pandas(pivot=last, status=False)
    assert list(turned.index.names) == by[:-1]
    for row in wide.to_dict("records"):
        assert (
            turned["count"][row[last]][
                tuple(row[k] for k in by[:-1]) if len(by) > 2 else row[first]
            ]
            == row["count"]
        )
    declared = list(dict.fromkeys(wide[last]))
    assert list(turned["count"].columns) == declared
    assert len(held.to_pandas(pivot=by)) == 1
    with pytest.raises(dp.ArgumentError, match="no key") as caught:
        held.to_pandas(pivot="count")
    assert caught.value.code == "DPR681"
    with pytest.raises(dp.ArgumentError, match="`an object of type bool` is no key"):
        held.to_pandas(pivot=True)


def test_a_column_in_place_of_a_name_is_not_printed(folder):
    """Its text would be of rows: of whatever frame it comes from."""
    place, column = folder / "2026-W02", pd.Series(["cell one", "cell two"])
    held = dp.read(place)
    asked = [
        lambda: held.to_pandas(pivot=column),
        lambda: held.derive("count", by=column),
        lambda: held.plot("count", group=column),
        lambda: held.plot(column),
        lambda: held.long([column]),
        lambda: held.derive("count", table=column),
        lambda: dp.verify(place, public_key=column),
    ]
    for ask in asked:
        with pytest.raises(dp.ArgumentError) as refused:
            ask()
        assert "cell" not in str(refused.value)
        assert "Series" in str(refused.value)


def test_a_notebook_says_which_values_say_nothing():
    weak = dp.release(table(1), schema(("count", "mean(x)")), epsilon=0.0001)
    assert "says nothing" in weak._repr_html_()
    strong = dp.release(table(1), schema(("count", "mean(x)")), epsilon=100)
    assert "says nothing" not in strong._repr_html_()
    nothing = weak.to_pandas()["mean_x_status"].isin(["uninformative", "empty_signal"])
    assert nothing.any()  # each alone is drawn: one mean in thirty is `ok`
    assert weak.to_pandas(status=False)["mean_x"].isna().tolist() == nothing.tolist()


def test_a_notebook_table_is_made_at_once(monkeypatch):
    """A frame is copied for every column that is set in it: of 300 bins that took 5 seconds."""
    release = dp.release(table(1), schema(("count", "histogram(x, [0, 2, 5, 9])")), epsilon=1)
    changed = []
    for name in ("pop", "__setitem__"):
        monkeypatch.setattr(pd.DataFrame, name, lambda *_, name=name: changed.append(name))
    assert "histogram_x[2,5)</th>" in release._repr_html_()
    assert not changed


def test_a_release_and_its_publication_say_the_same(folder):
    assert isinstance(dp.read(folder / "2026-W01"), dp.Released)
    held = dp.read(folder / "2026-W01")
    assert f"{held.plan.guarantee}. spent epsilon" in held._repr_html_()
    one = held.derive("share(count)")
    two = dp.read(folder / "2026-W01", verify=False).derive("share(count)")
    assert one.table.equals(two.table)


def test_other_periods_are_read_from_the_folders_beside(folder):
    held = dp.read(folder / "2026-W02")
    found = held.derive("count / count@previous - 1").to_pandas()
    assert found["value"].tolist() == held.derive("growth(count)").to_pandas()["value"].tolist()
    assert held.derive("count - count@2026-W03").table.num_rows == 6


def test_a_series_has_a_row_per_period(folder):
    series = dp.read_series(folder)
    assert list(series) == ["2026-W01", "2026-W02", "2026-W03"]
    assert series["2026-W02"].receipt.period == "2026-W02"
    every = series.derive("share(count)")
    assert every.keys == ("period", "region", "half")
    assert every.table.num_rows == 18
    assert series.derive("count", by=["period"]).keys == ("period",)
    assert series.derive("count", by="period").table == series.derive("count", by=[]).table
    growth = series.derive("growth(count)", by=["period", "region"])
    assert growth.table == series.derive("growth(count)", by=["region"]).table
    assert growth.table.num_rows == 6
    assert growth.notes[0].startswith("2026-W01: there is no period before 2026-W01")
    assert growth.called.read.endswith(", week 2 of 2026 to week 3 of 2026")
    with pytest.raises(dp.errors.ArgumentError):
        series.derive("count@2020-W01")


def test_what_does_not_verify_is_not_read(copy):
    target = copy / "2026-W02" / "release.json"
    said = json.loads(target.read_text())
    said["draw"]["cells"]["count"][0][0] = "500"
    target.write_text(json.dumps(said))
    with pytest.raises(dp.errors.VerificationError) as caught:
        dp.read(copy / "2026-W02")
    assert caught.value.code == "DPR806"
    assert "files" in str(caught.value)
    assert dp.read(copy / "2026-W02", verify=False).to_pandas()["count"][0] == 500
    series = dp.read_series(copy)
    assert list(series) == ["2026-W01", "2026-W03"]
    assert "does not verify" in series.left_out["2026-W02"]
    with pytest.raises(dp.errors.VerificationError):  # the period before is the faulty one
        dp.read(copy / "2026-W03").derive("growth(count)")


def test_growth_over_a_withdrawn_period_says_which_two_it_compares(copy):
    run("withdraw", copy / "2026-W02", "--reason", "rows were missing")
    notes = dp.read_series(copy).derive("growth(count)").notes
    assert notes[0].startswith("2026-W02 is left out: does not verify: status (withdrawn on ")
    assert notes[2:] == ("compared with 2026-W01: no period in between stands here",)


def test_withdrawn_periods_are_left_out(copy):
    done = run("withdraw", copy / "2026-W01", "--reason", "rows were missing")
    assert done.exit_code == 0, done.output
    with pytest.raises(dp.errors.VerificationError, match="status"):
        dp.read(copy / "2026-W01")
    assert "(withdrawn on " in dp.read_series(copy).left_out["2026-W01"]


def test_places_that_hold_nothing(tmp_path):
    with pytest.raises(dp.errors.VerificationError):
        dp.read(tmp_path)
    with pytest.raises(dp.errors.VerificationError):
        dp.read(tmp_path, verify=False)
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(dp.errors.VerificationError) as caught:
            dp.read_series(place)
        assert caught.value.code == "DPR807"
    (tmp_path / "above" / "weekly" / "2026-W01").mkdir(parents=True)
    (tmp_path / "above" / "weekly" / "2026-W01" / "release.json").write_text("{}")
    with pytest.raises(dp.errors.VerificationError) as caught:
        dp.read_series(tmp_path / "above")
    assert str(tmp_path / "above" / "weekly") in str(caught.value.fix)
    (tmp_path / "2026-W01").mkdir()
    (tmp_path / "2026-W01" / "release.json").write_text("{}")
    with pytest.raises(dp.errors.VerificationError, match=f"`dprelease verify {tmp_path}`"):
        dp.read_series(tmp_path)


def test_the_command_line(folder, tmp_path):
    done = run("derive", folder / "latest", "share(count)", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["rows"]) == 6
    done = run("derive", folder, "growth(count)", "--by", "region", "--to", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.csv").read_text().startswith("period,region,value,")
    done = run("derive", folder / "latest", "count - count[region='north']")
    assert "count[region='north']" in done.output  # brackets are not markup
    done = run("derive", folder / "latest", "shar(count)")
    assert (done.exit_code, "did you mean `share`?" in done.output) == (2, True)
    done = run("diff", folder / "2026-W01", folder / "2026-W02")
    assert done.exit_code == 0, done.output
    assert "18 comparisons, adjusted by holm" in done.output


def test_a_series_says_what_its_periods_say(folder):
    """A note of every period stands once; of some, with their names."""
    series = dp.read_series(folder)
    (note,) = series.derive("top(count, 2)").notes
    assert note.startswith("a group that does not belong")
    series = dp.read_series(folder)
    first = series._values(None)["2026-W01"]
    first.keys = first.keys[:4]
    found = series.derive("growth(count)")
    assert found.table.num_rows == 4 + 6
    assert found.notes[0].startswith("2026-W01: there is no period before 2026-W01")
    assert found.notes[1].startswith("2026-W02: left out, as not in the other period: west")


@pytest.mark.parametrize(
    ("value", "outward", "shown"),
    [(-0.0434, -1, "−0.1"), (0.26, -1, "0.2"), (0.26, 1, "0.3"), (0.3, -1, "0.3"), (0.3, 1, "0.3")],
)
def test_an_end_of_an_interval_is_rounded_away_from_it(value, outward, shown):
    """A growth from -0.0434 on was shown to begin at 0."""
    assert page._text(value, 1, outward) == shown
    assert page._text(float("inf"), 1, 1) == "∞"
    assert page._text(1.5e308, 6, outward).startswith("1")
