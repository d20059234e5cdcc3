"""Publication: whole or not at all, never elsewhere, never changed."""

from __future__ import annotations

import errno
import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError, ConfigError, VerificationError, WithheldError
from dprelease.results import publish
from dprelease.results.formats.json_ import VERSION
from dprelease.results.publish import folder_for, publish_files
from dprelease.results.published_folder import listing
from tests.budget.samples import die, in_processes, killed_in_fork
from tests.published import read_folder


def files_of(period, **said):
    """What a release of this period holds, as far as publication reads it."""
    manifest = json.dumps({"dprelease": VERSION, "period": period, "early": None, **said})
    return {"release.json": manifest.encode(), "data.csv": b"a,b\n" * 9, "empty": b""}


FILES = files_of("2030")


def code_of(kind, call, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return caught.value.code


def test_the_folder_holds_exactly_the_files(tmp_path):
    folder = publish_files(tmp_path / "deep" / "public", "weekly", "2030", FILES)
    assert folder == tmp_path / "deep" / "public" / "weekly" / "2030"
    assert read_folder(folder) == FILES
    assert read_folder(folder.parent / "latest") == FILES
    assert sorted(p.name for p in folder.parent.iterdir()) == ["2030", "latest"]


def test_modes_whatever_the_umask(tmp_path):
    for mask in (0, 0o077):
        before = os.umask(mask)
        try:
            folder = publish_files(tmp_path, "weekly", f"p{mask}", FILES)
        finally:
            os.umask(before)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        assert {stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {0o644}


def test_a_repeat_touches_nothing(tmp_path):
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    before = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in [folder, *folder.iterdir()]}
    publish_files(tmp_path, "weekly", "2030-W01", dict(reversed(FILES.items())))
    assert before == {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in before}


@pytest.mark.parametrize(
    "other",
    [
        FILES | {"data.csv": b"changed"},
        FILES | {"more": b""},
        {"release.json": b"{}"},
    ],
    ids=["changed", "more", "fewer"],
)
def test_other_bytes_never_replace_published_ones(tmp_path, other):
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    assert code_of(WithheldError, publish_files, tmp_path, "weekly", "2030-W01", other) == "DPR713"
    assert read_folder(folder) == FILES


def test_what_finder_left_in_a_published_folder_is_named(tmp_path):
    """To publish again, free of cost, was refused as other bytes, without the file that stands in the way."""
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    (folder / ".DS_Store").write_bytes(b"")
    with pytest.raises(WithheldError) as caught:
        publish_files(tmp_path, "weekly", "2030-W01", FILES)
    assert str(caught.value.fix).startswith("remove .DS_Store, which the Finder of macOS made")
    (folder / ".DS_Store").unlink()
    assert publish_files(tmp_path, "weekly", "2030-W01", FILES) == folder


def test_an_existing_folder_with_a_link_inside_is_not_the_release(tmp_path):
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    (folder / "data.csv").rename(tmp_path / "data.csv")
    (folder / "data.csv").symlink_to(tmp_path / "data.csv")
    assert code_of(WithheldError, publish_files, tmp_path, "weekly", "2030-W01", FILES) == "DPR713"
    assert code_of(VerificationError, listing, folder) == "DPR810"


def test_latest_is_the_greatest_period_in_natural_order(tmp_path):
    for period, greatest in [
        ("2030-W09", "2030-W09"),
        ("2030-W10", "2030-W10"),
        ("2030-W2", "2030-W10"),
        ("2029-W52", "2030-W10"),
        ("2030-W11", "2030-W11"),
    ]:
        publish_files(tmp_path, "weekly", period, files_of(period))
        assert os.readlink(tmp_path / "weekly" / "latest") == greatest


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"release.json": b""},
        {"release.json": b"[]"},
        {"release.json": b"{}"},
        {"release.json": b'{"dprelease": 5, "period": "zzz"}'},
        files_of("zzz", dprelease="release/1"),
        files_of("zzz", early="2031-01-01T00:00:00Z"),
        files_of("2030-W01"),
    ],
    ids=["empty", "no json", "a list", "nothing", "a number", "revoked", "early", "a copy"],
)
def test_latest_names_no_folder_that_is_not_a_release_of_its_period(tmp_path, held):
    (tmp_path / "weekly" / "zzz").mkdir(parents=True)
    for name, data in held.items():
        (tmp_path / "weekly" / "zzz" / name).write_bytes(data)
    publish_files(tmp_path, "weekly", "2030-W01", files_of("2030-W01"))
    assert os.readlink(tmp_path / "weekly" / "latest") == "2030-W01"


def test_beside_foreign_folders_alone_there_is_no_latest(tmp_path):
    (tmp_path / "weekly" / "zzz").mkdir(parents=True)
    publish.update_files_of_pipeline(tmp_path / "weekly", lambda _: {"index.html": b""})
    assert not os.path.lexists(tmp_path / "weekly" / "latest")


names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)


@given(names, names)
def test_natural_order_is_total_and_equal_only_for_the_same_name(one, other):
    first, second = publish.period_order(one), publish.period_order(other)
    assert (first == second) == (one == other)
    assert (first < second) != (first >= second)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_natural_order_reads_numbers(one, other):
    assert (publish.period_order(f"p{one}") < publish.period_order(f"p{other}")) == (one < other)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\x00", "é", "x" * 65, "/abs"])
def test_names_that_could_leave_the_folder_are_refused(tmp_path, name):
    for pipeline, period in ((name, "2030"), ("weekly", name)):
        assert code_of(ConfigError, folder_for, tmp_path, pipeline, period) == "DPR150"
        assert code_of(ConfigError, publish_files, tmp_path, pipeline, period, FILES) == "DPR150"
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_s_name_is_text_where_it_is_not_a_number(tmp_path):
    """Python holds `²` to be a digit of which there is no number."""
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    (folder.parent / "²").mkdir()
    (folder.parent / "٣").mkdir()
    assert publish_files(tmp_path, "weekly", "2030-W02", FILES).is_dir()


def test_a_foreign_manifest_of_any_size_is_not_read_whole_for_latest(tmp_path):
    """Sparse here, terabytes for whoever reads it: publication is after the charge."""
    folder = publish_files(tmp_path, "weekly", "2030-W01", FILES)
    foreign = folder.parent / "2031-W01"
    foreign.mkdir()
    (foreign / "release.json").touch()
    os.truncate(foreign / "release.json", 4 * 2**40)
    assert publish_files(tmp_path, "weekly", "2030-W02", FILES).is_dir()


def test_a_copy_that_followed_the_link_is_refused_before_anything_is_spent(tmp_path):
    folder = publish_files(tmp_path, "weekly", "2030", FILES)
    (folder.parent / "latest").unlink()
    (folder.parent / "latest").mkdir()
    assert code_of(ConfigError, folder_for, tmp_path, "weekly", "2030-W02") == "DPR151"


def test_a_period_is_not_called_latest(tmp_path):
    assert code_of(ConfigError, publish_files, tmp_path, "weekly", "latest", FILES) == "DPR150"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../x", "a\n", "x" * 129])
def test_file_names_that_could_leave_the_folder_are_refused(tmp_path, name):
    call = publish_files
    assert code_of(ArgumentError, call, tmp_path, "weekly", "2030", {name: b""}) == "DPR652"
    assert list(tmp_path.iterdir()) == []
    assert code_of(ArgumentError, call, tmp_path, "weekly", "2030", {}) == "DPR652"


@pytest.mark.parametrize("place", ["public", "public/weekly", "public/weekly/2030"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_links_and_files_on_the_way_are_refused(tmp_path, place, kind):
    outside = tmp_path / "outside"
    outside.mkdir()
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(outside)
    else:
        path.write_text("a file")
    call = publish_files
    assert code_of(ConfigError, call, tmp_path / "public", "weekly", "2030", FILES) == "DPR151"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("place", ["public", "public/weekly", "public/weekly/2030"])
def test_a_link_swapped_in_after_the_check_leads_nowhere(tmp_path, monkeypatch, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).symlink_to(outside)
    target = tmp_path / "public" / "weekly" / "2030"
    monkeypatch.setattr(publish, "folder_for", lambda *_: target)  # broken twin of the check
    with pytest.raises(WithheldError):
        publish_files(tmp_path / "public", "weekly", "2030", FILES)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["fsync", "rename", "mkdir", "symlink"])
def test_a_full_disk_withholds_and_a_repeat_completes(tmp_path, monkeypatch, name):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, full)
    (tmp_path / "public").mkdir() if name != "mkdir" else None
    with pytest.raises(WithheldError) as caught:
        publish_files(tmp_path / "public", "weekly", "2030", FILES)
    assert (caught.value.code, caught.value.spent) == ("DPR714", "charged")
    monkeypatch.undo()
    folder = publish_files(tmp_path / "public", "weekly", "2030", FILES)
    assert read_folder(folder) == FILES
    assert sorted(p.name for p in folder.parent.iterdir()) == ["2030", "latest"]


def test_everything_is_synced_before_the_rename_and_the_folder_after(tmp_path, monkeypatch):
    events = []
    fsync, rename = os.fsync, os.rename

    def note_sync(descriptor):
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def note_rename(source, target, **kwargs):
        events.append(f"-> {target}")
        rename(source, target, **kwargs)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note_rename)
    publish_files(tmp_path, "weekly", "2030", FILES)
    aside = events[4]
    assert aside.startswith(".publishing-")
    assert events == [
        tmp_path.name,
        "data.csv",
        "empty",
        "release.json",
        aside,
        "-> 2030",
        "weekly",
        "-> latest",
        "weekly",
    ]


def test_killed_at_every_step_a_reader_sees_all_or_nothing(tmp_path):
    n, done = 0, False
    while not done:
        n += 1
        public = tmp_path / str(n)

        def work(n=n, public=public) -> None:
            left = [n]

            def around(call):
                def wrapped(*args, **kwargs):
                    left[0] -= 1
                    if left[0] == 0:
                        die()
                    return call(*args, **kwargs)

                return wrapped

            for name in ("fsync", "rename", "symlink", "mkdir", "open", "fchmod"):
                setattr(os, name, around(getattr(os, name)))
            publish_files(public, "weekly", "2030", FILES)

        done = killed_in_fork(work) == 0
        folder = public / "weekly" / "2030"
        assert not folder.exists() or read_folder(folder) == FILES
        publish_files(public, "weekly", "2030", FILES)
        assert read_folder(folder) == FILES
        assert sorted(p.name for p in folder.parent.iterdir()) == ["2030", "latest"]
    assert n > 15


def test_eight_processes_publish_one_release(tmp_path):
    def work(_: int) -> None:
        publish_files(tmp_path, "weekly", "2030", FILES)

    assert in_processes(8, work) == [0] * 8
    assert read_folder(tmp_path / "weekly" / "2030") == FILES


def test_leftovers_of_any_kind_are_removed(tmp_path):
    parent = tmp_path / "weekly"
    parent.mkdir()
    (parent / ".publishing-a").mkdir()
    (parent / ".publishing-a" / "x").write_text("")
    (parent / ".publishing-b").symlink_to(tmp_path)
    publish_files(tmp_path, "weekly", "2030", FILES)
    assert sorted(p.name for p in parent.iterdir()) == ["2030", "latest"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_folder_with_anything_but_regular_files_is_not_read(tmp_path, kind):
    folder = publish_files(tmp_path, "weekly", "2030", FILES)
    odd = folder / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to("/etc/hostname")
    assert code_of(VerificationError, listing, folder) == "DPR810"


def test_what_is_not_a_folder_is_not_read(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        assert code_of(VerificationError, listing, path) == "DPR810"
