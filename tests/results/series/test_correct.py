"""Withdrawals and supersessions: nothing is removed, everything shows it."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from dprelease.core.errors import ArgumentError, VerificationError, WithheldError
from dprelease.results import corrections
from dprelease.results.published_folder import standing_of
from dprelease.results.series.correct import supersede, withdraw
from tests.end_to_end.projects import tree
from tests.published import read_folder
from tests.results.series.made import publish, year


@pytest.fixture
def folder(tmp_path):
    return year(tmp_path, 4)


def periods(folder):
    return {name: data for name, data in tree(folder).items() if "/" in name}


def test_no_published_byte_changes_and_latest_passes_over_it(folder):
    before = periods(folder)
    withdraw(folder / "2026-W04", reason="test rows")
    supersede(folder / "2026-W03", by=folder / "2026-W02", reason="late rows")
    assert periods(folder) == before
    assert os.readlink(folder / "latest") == "2026-W02"


def test_when_nothing_stands_there_is_no_latest(folder):
    for i in range(1, 5):
        withdraw(folder / f"2026-W0{i}", reason="all of it")
    assert not os.path.lexists(folder / "latest")
    publish(folder.parent, "2026-W05", 4)
    assert os.readlink(folder / "latest") == "2026-W05"


def test_a_release_that_is_published_again_is_still_withdrawn(folder):
    withdraw(folder / "2026-W04", reason="test rows")
    shutil.rmtree(folder / "2026-W04")
    publish(folder.parent, "2026-W04", 3)
    assert os.readlink(folder / "latest") == "2026-W03"


def looked(path):
    files = read_folder(path)
    manifest = json.loads(files["release.json"])
    import hashlib

    return standing_of(path, manifest, hashlib.sha256(files["release.json"]).hexdigest())


def test_verification_says_whether_a_release_was_corrected(folder, tmp_path):
    assert looked(folder / "2026-W01") == (True, "no correction is recorded beside the folder")
    withdraw(folder / "2026-W04", reason="test rows")
    assert looked(folder / "2026-W01")[0]
    assert looked(folder / "latest")[0]  # the link is W03 by now
    ok, detail = looked(folder / "2026-W04")
    assert (ok, detail.endswith(": test rows")) == (False, True)
    shutil.copytree(folder / "2026-W04", tmp_path / "copy")
    assert looked(tmp_path / "copy")[0]  # a copy without its record: nothing is known


def test_a_record_of_another_release_of_the_period_does_not_pass(folder):
    withdraw(folder / "2026-W04", reason="test rows")
    shutil.rmtree(folder / "2026-W04")
    publish(folder.parent, "2026-W04", 17)
    ok, detail = looked(folder / "2026-W04")
    assert (ok, "another release" in detail) == (False, True)


def test_twice_is_once(folder):
    first = withdraw(folder / "2026-W01", reason="test rows")
    again = withdraw(folder / "2026-W01", reason="test rows")
    assert first == again
    assert len(corrections.parse((folder / "status.json").read_bytes())) == 1


def test_a_successor_may_be_of_another_pipeline(folder):
    other = publish(folder.parent, "2026-W01", 9, pipeline="corrected")
    entry = supersede(folder / "2026-W01", by=other, reason="late rows")
    assert (entry.by["pipeline"], entry.by["period"]) == ("corrected", "2026-W01")


def test_not_by_itself(folder):
    with pytest.raises(ArgumentError) as refused:
        supersede(folder / "2026-W03", by=folder / "2026-W03", reason="x")
    assert refused.value.code == "DPR692"


def test_not_by_a_release_that_does_not_stand_itself(folder):
    supersede(folder / "2026-W01", by=folder / "2026-W02", reason="late rows")
    with pytest.raises(ArgumentError, match=r"superseded by .* 2026-W02") as refused:
        supersede(folder / "2026-W02", by=folder / "2026-W01", reason="x")
    assert refused.value.code == "DPR692"


@pytest.mark.parametrize("place", ["nowhere", "empty", "moved"])
def test_only_a_release_where_it_was_published(folder, tmp_path, place):
    path = tmp_path / place
    if place == "empty":
        path.mkdir()
    elif place == "moved":
        shutil.copytree(folder / "2026-W01", path)
    with pytest.raises(VerificationError) as refused:
        withdraw(path, reason="x")
    assert refused.value.code == {"nowhere": "DPR810", "empty": "DPR801", "moved": "DPR831"}[place]


def test_a_broken_record_is_neither_extended_nor_ignored(folder):
    withdraw(folder / "2026-W01", reason="test rows")
    status = folder / "status.json"
    broken = status.read_text().replace("test rows", "nothing")
    status.write_text(broken)
    for attempt in (
        lambda: withdraw(folder / "2026-W02", reason="more"),
        lambda: looked(folder / "2026-W02"),
    ):
        with pytest.raises(VerificationError) as refused:
            attempt()
        assert refused.value.code == "DPR830"
    with pytest.raises(WithheldError) as withheld:
        publish(folder.parent, "2026-W09", 8)
    assert withheld.value.code == "DPR720"
    assert not (folder / "2026-W09").exists()
    assert status.read_text() == broken


def test_the_record_is_written_before_the_pages_that_show_it(folder, monkeypatch):
    """A crash in between leaves a record that the next refresh shows, never a page without it."""
    from dprelease.results import publish as publishing

    def stop(parent, name, data, stamp=None):
        if b"status/1" not in data:
            raise OSError(28, "No space left on device")
        write(parent, name, data, stamp)

    write = publishing._write
    monkeypatch.setattr(publishing, "_write", stop)
    with pytest.raises(OSError, match="No space"):
        withdraw(folder / "2026-W01", reason="test rows")
    assert not looked(folder / "2026-W01")[0]
