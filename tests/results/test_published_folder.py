"""What other programs leave in published folders, and the folder above them, are told for what they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dprelease as dp
from dprelease.core.errors import VerificationError
from dprelease.pipeline.run import run
from dprelease.results.published_folder import left_by, listing
from dprelease.verification.verify import verify
from tests.faults.weekly_project import PERIOD, make_project
from tests.rules_alone import built_in_rules_only

FOLDERS = (".ipynb_checkpoints", "__MACOSX")
FILES = (".DS_Store", "Thumbs.db", "desktop.ini", "._data.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    built_in_rules_only(monkeypatch)
    return run(make_project(tmp_path), period=PERIOD).folder


def test_a_folder_of_another_program_is_named_and_removing_it_helps(folder: Path) -> None:
    for name in FOLDERS:
        (folder / name).mkdir()
        for call in (verify, dp.read, listing):
            with pytest.raises(VerificationError) as caught:
                call(folder)
            assert caught.value.code == "DPR810"
            assert caught.value.why == f"it holds {name}, which {left_by(name)} made"
        assert caught.value.fix == f"remove it: {folder / name}"
        shutil.rmtree(folder / name)
    assert verify(folder).ok


def test_a_file_of_another_program_fails_the_check_and_is_named(folder: Path) -> None:
    for name in FILES:
        (folder / name).touch()
        found = verify(folder)
        assert not found.ok
        assert (
            f"{name} does not follow from the release: {left_by(name)} made it, remove it"
            in str([check.detail for check in found.checks])
        )
        (folder / name).unlink()
    assert verify(folder).ok
    assert left_by("note.txt") is None


def test_the_folder_of_a_pipeline_names_its_periods(folder: Path) -> None:
    for call in (verify, dp.read):
        with pytest.raises(VerificationError) as caught:
            call(folder.parent)
        assert caught.value.code == "DPR810"
        assert str(caught.value.why) == f"it is the folder of a pipeline, with 1 period: {PERIOD}"
    named = str(caught.value.fix).removeprefix("name one of them: ")
    assert verify(Path(named)).ok


def test_the_folder_of_a_pipeline_says_that_it_lists_the_last_periods(tmp_path: Path) -> None:
    for year in range(2020, 2024):
        (tmp_path / str(year)).mkdir()
        (tmp_path / str(year) / "release.json").touch()
    with pytest.raises(VerificationError, match="with 4 periods: …, 2021, 2022, 2023"):
        dp.read(tmp_path)


def test_beside_the_periods_they_disturb_nothing(folder: Path) -> None:
    for name in FOLDERS:
        (folder.parent / name).mkdir()
    for name in FILES:
        (folder.parent / name).touch()
    assert dp.read(folder).receipt
