"""The index files: functions of the folders, replaced whole, never in the way of a release."""

from __future__ import annotations

import os
import shutil
import threading

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.core.errors import VerificationError
from dprelease.results.publish import publish_files
from dprelease.results.series import write
from dprelease.results.series.write import refresh, refresh_after_publication
from dprelease.verification.verify import verify
from tests.end_to_end.projects import tree
from tests.published import read_folder
from tests.results.series.made import publish, year

FILES = ("catalog.jsonld", "feed.xml", "index.html", "index.json")


def test_the_same_folders_give_the_same_bytes_wherever_they_are(tmp_path):
    one = year(tmp_path / "one", 3)
    refresh(one)
    two = tmp_path / "elsewhere" / "weekly"
    two.parent.mkdir()
    shutil.copytree(one, two, symlinks=True)
    for name in FILES:
        (two / name).unlink()
    assert sorted(refresh(two)) == list(FILES)
    assert tree(one) == tree(two)


def test_the_index_of_a_folder_without_releases_is_not_replaced(tmp_path):
    """`dprelease index public` wrote an index of 0 periods over the site's own page."""
    folder = year(tmp_path / "public", 2)
    home = tmp_path / "public" / "index.html"
    home.write_text("home")
    for other in (home.parent, tmp_path):
        before = sorted(p.name for p in other.iterdir())
        done = CliRunner().invoke(app, ["index", str(other)])
        assert (done.exit_code, "DPR810" in done.output) == (1, True)
        assert sorted(p.name for p in other.iterdir()) == before
    assert home.read_text() == "home"
    with pytest.raises(VerificationError, match="above those of pipelines") as caught:
        verify(home.parent)
    assert str(folder) in str(caught.value.fix)
    assert CliRunner().invoke(app, ["index", str(folder)]).exit_code == 0
    for period in folder.iterdir():  # moved away: an index of ours is kept up to date
        if period.is_dir() and not period.is_symlink():
            shutil.move(period, tmp_path / period.name)
    assert CliRunner().invoke(app, ["index", str(folder)]).exit_code == 0


def test_of_a_period_that_is_left_out_the_command_names_what_says_why(tmp_path):
    """Its release is readable; another file of it was changed."""
    folder = year(tmp_path, 2)
    (hurt,) = (p for p in folder.iterdir() if p.is_dir() and p.name.endswith("W01"))
    for file in hurt.glob("data.*"):
        file.write_bytes(b"")
    said = CliRunner().invoke(app, ["index", str(folder)]).output.replace("\n", "")
    assert f"left out: `dprelease verify {hurt}` says why" in said


def test_a_second_refresh_writes_nothing(tmp_path):
    folder = year(tmp_path, 2)
    assert sorted(refresh(folder)) == list(FILES)
    before = {n: (folder / n).stat().st_ino for n in FILES}
    assert refresh(folder) == ()
    assert before == {n: (folder / n).stat().st_ino for n in FILES}


def test_order_of_publication_does_not_matter(tmp_path):
    for i in (2, 0, 1):
        publish(tmp_path / "a", f"p{i}", i)
        refresh(tmp_path / "a" / "weekly")
    for i in range(3):
        publish(tmp_path / "b", f"p{i}", i)
    refresh(tmp_path / "b" / "weekly")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_periods_are_not_touched(tmp_path):
    folder = year(tmp_path, 3)
    before = {n: b for n, b in tree(folder).items() if "/" in n}
    refresh(folder)
    assert {n: b for n, b in tree(folder).items() if "/" in n} == before
    assert os.readlink(folder / "latest") == "2026-W03"


@pytest.mark.parametrize("made", ["nothing", "a file", "a link"])
def test_only_a_real_folder(tmp_path, made):
    place = tmp_path / "weekly"
    if made == "a file":
        place.write_text("x")
    elif made == "a link":
        year(tmp_path / "real", 1)
        place.symlink_to(tmp_path / "real" / "weekly")
    with pytest.raises(VerificationError) as refused:
        refresh(place)
    assert refused.value.code == "DPR810"


def test_a_link_in_place_of_a_page_is_replaced_never_followed(tmp_path):
    folder = year(tmp_path, 1)
    outside = tmp_path / "outside"
    outside.write_text("kept")
    (folder / "index.html").symlink_to(outside)
    refresh(folder)
    assert outside.read_text() == "kept"
    assert not (folder / "index.html").is_symlink()


def test_a_failure_after_publication_is_told_and_not_raised(tmp_path, monkeypatch):
    folder = year(tmp_path, 1)
    assert refresh_after_publication(folder) is None

    def fail(_):
        raise RuntimeError("CANARY")

    monkeypatch.setattr(write.page, "write", fail)
    problem = refresh_after_publication(folder)
    assert "RuntimeError" in problem
    assert "CANARY" not in problem
    (folder / "status.json").write_text("{}")
    assert "DPR830" in refresh_after_publication(folder)


def test_publishers_and_refreshers_at_once_leave_the_newest_page(tmp_path):
    folder = year(tmp_path, 1)
    files = [read_folder(publish(tmp_path / "source", f"q{i}", i)) for i in range(6)]

    def one(i):
        publish_files(tmp_path, "weekly", f"q{i}", files[i])
        refresh(folder)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refresh(folder) == ()  # whoever came last had seen all
    assert all(f'href="q{i}/"' in (folder / "index.html").read_text() for i in range(6))
