"""What is read from published folders, and what is left out."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from dprelease.core.errors import VerificationError
from dprelease.results.series.collect import collect
from dprelease.results.series.correct import withdraw
from dprelease.results.series.write import files_of
from tests.results.series.made import publish, year


@pytest.fixture
def folder(tmp_path):
    return year(tmp_path)


def test_every_period_group_and_column_is_there_in_order(folder):
    series = collect(folder)
    assert [p.name for p in series.periods] == [f"2026-W0{i}" for i in range(1, 7)]
    assert [t.column for t in series.tracks] == ["count", "hist[0,40)", "hist[40,80]"]
    assert [list(t.lines) for t in series.tracks] == [[("g000",), ("g001",), ("g002",)]] * 3
    assert all(len(line) == 6 for t in series.tracks for line in t.lines.values())
    assert series.tracks[0].lines[("g000",)][0].value == 200
    assert (series.pipeline, series.by, series.unreadable) == ("weekly", ("region",), ())


def test_a_csv_folder_gives_the_same_series_as_a_parquet_folder(tmp_path):
    """Labels that a spreadsheet would run are guarded in CSV; here the guard is taken off."""
    labels = ("=1+1", "plain", "-x", "'=1+1", "'plain")
    one = year(tmp_path / "a", 2, formats=("parquet",), labels=labels)
    two = year(tmp_path / "b", 2, formats=("csv",), labels=labels)
    assert collect(one).tracks == collect(two).tracks
    assert list(collect(two).tracks[0].lines) == [(label,) for label in labels]


def test_of_a_table_in_two_formats_the_smaller_file_is_read_and_hashed(tmp_path):
    both, one = (
        year(tmp_path / n, 2, formats=f) for n, f in (("a", ("csv", "parquet")), ("b", ("csv",)))
    )
    assert collect(both).tracks == collect(one).tracks
    table = min(("data.csv", "data.parquet"), key=lambda n: (both / "2026-W01" / n).stat().st_size)
    shutil.copy(both / "2026-W02" / table, both / "2026-W01" / table)
    assert collect(both).unreadable == ("2026-W01",)


def test_natural_order_gaps_and_late_groups(tmp_path):
    publish(tmp_path, "p10", 1, groups=3)
    publish(tmp_path, "p9", 0, groups=2)
    series = collect(tmp_path / "weekly")
    assert [p.name for p in series.periods] == ["p9", "p10"]
    lines = series.tracks[0].lines
    assert lines[("g002",)][0] is None
    assert lines[("g002",)][1] is not None


def test_another_definition_under_the_same_name_is_another_track(tmp_path):
    publish(tmp_path, "p1", 0)
    publish(tmp_path, "p2", 1, text="count(persons)")
    tracks = [t for t in collect(tmp_path / "weekly").tracks if t.column == "count"]
    assert [t.statistic.text for t in tracks] == ["count(persons)", "count"]  # the newest first
    assert [[v is None for v in t.lines[("g000",)]] for t in tracks] == [
        [True, False],
        [False, True],
    ]


@pytest.mark.parametrize(
    "fault",
    ["no manifest", "not json", "renamed", "other table", "a link", "old version", "text as entry"],
)
def test_a_folder_that_holds_no_good_release_is_named_and_hides_nothing(folder, tmp_path, fault):
    bad = folder / "2026-W03"
    manifest = bad / "release.json"
    if fault == "no manifest":
        manifest.unlink()
    elif fault == "not json":
        manifest.write_text("{")
    elif fault == "renamed":
        bad.rename(folder / "2026-W33")
        bad = folder / "2026-W33"
    elif fault == "other table":
        shutil.copy(folder / "2026-W04" / "data.parquet", bad / "data.parquet")
    elif fault == "a link":
        (bad / "data.parquet").unlink()
        (bad / "data.parquet").symlink_to(folder / "2026-W04" / "data.parquet")
    else:
        said = json.loads(manifest.read_text())
        other = {"dprelease": "release/0"}
        if fault == "text as entry":
            other = {"ledger": {**said["ledger"], "seq": str(said["ledger"]["seq"])}}
        manifest.write_text(json.dumps({**said, **other}))
    series = collect(folder)
    assert series.unreadable == (bad.name,)
    assert len(series.periods) == 5


def test_what_changed_since_a_process_read_it_is_read_again(folder):
    before = collect(folder)
    path = folder / before.periods[0].name / "release.json"
    said, text = path.read_bytes(), before.periods[0].epsilon
    other = said.replace(b'"epsilon":"%s"' % str(text).encode(), b'"epsilon":"7/3"')
    assert other != said
    path.write_bytes(other)
    assert collect(folder).periods[0].epsilon != text
    (path.parent / "data.parquet").write_bytes(b"")
    assert collect(folder).unreadable == (before.periods[0].name,)


def test_a_folder_whose_name_is_not_text_hides_nothing(folder):
    os.mkdir(os.fsencode(folder) + b"/\xff\x1b[2J")
    series = collect(folder)
    assert (len(series.periods), series.unreadable) == (6, ("\\udcff\\x1b[2J",))
    assert all(files_of(series).values())


def test_hidden_folders_links_and_files_are_no_periods(folder):
    (folder / ".publishing-x").mkdir()
    (folder / "notes.txt").write_text("x")
    series = collect(folder)  # `latest` is a link
    assert (len(series.periods), series.unreadable) == (6, ())


def test_a_correction_is_the_standing_of_its_period(folder):
    withdraw(folder / "2026-W02", reason="test rows")
    corrections = {p.name: p.correction for p in collect(folder).periods}
    assert corrections.pop("2026-W02").reason == "test rows"
    assert set(corrections.values()) == {None}


def test_a_broken_record_is_an_error_not_silence(folder):
    withdraw(folder / "2026-W02", reason="test rows")
    text = (folder / "status.json").read_text().replace("test rows", "nothing")
    (folder / "status.json").write_text(text)
    with pytest.raises(VerificationError, match="hash chain"):
        collect(folder)
