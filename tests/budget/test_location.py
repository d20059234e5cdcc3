"""Where a ledger may live."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from dprelease.budget import location, storage
from dprelease.budget.ledger import Ledger
from dprelease.budget.location import filesystem_type
from dprelease.core.errors import LedgerError
from tests.budget.samples import die, entry, in_processes, killed_in_fork, new_ledger, release

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/x /srv nfs4 rw 0 0
/dev/vdb /srv/local xfs rw 0 0
me@host /mnt/with\\040space fuse.sshfs rw 0 0
tmpfs /again tmpfs rw 0 0
//host/share /again cifs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/a", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/x", "nfs4"),
        ("/srvx", "ext4"),
        ("/srv/local/x", "xfs"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/again/x", "cifs"),
    ],
)
def test_the_deepest_and_last_mount_decides(path, kind):
    assert filesystem_type(Path(path), MOUNTS) == kind


def test_no_mount_table_decides_nothing():
    assert filesystem_type(Path("/x"), "") == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuseblk", "ceph"])
def test_network_file_systems_are_refused(tmp_path, monkeypatch, kind):
    ledger = new_ledger(tmp_path)
    monkeypatch.setattr(location, "_mounts", lambda: f"x / {kind} rw 0 0\n")
    for attempt in (lambda: type(ledger).open(ledger.path), lambda: new_ledger(tmp_path, name="b")):
        with pytest.raises(LedgerError) as caught:
            attempt()
        assert caught.value.code == "DPR408"


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "apfs"])
def test_local_file_systems_are_taken(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(location, "_mounts", lambda: f"x / {kind} rw 0 0\n")
    new_ledger(tmp_path)


def test_modes_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        ledger = new_ledger(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger.path.parent.stat().st_mode) == 0o700


def test_a_folder_that_existed_keeps_its_mode(tmp_path):
    (tmp_path / "l").mkdir(mode=0o755)
    new_ledger(tmp_path)
    assert stat.S_IMODE((tmp_path / "l").stat().st_mode) == 0o755


def test_eight_processes_create_one_ledger(tmp_path):
    def work(i: int) -> None:
        (tmp_path / f"id{i}").write_text(new_ledger(tmp_path).head().ledger_id)

    assert in_processes(8, work) == [0] * 8
    assert len({(tmp_path / f"id{i}").read_text() for i in range(8)}) == 1


def test_a_crash_while_creating_leaves_no_ledger_and_the_next_one_works(tmp_path, monkeypatch):
    def work() -> None:
        monkeypatch.setattr(storage, "DDL", dict(list(storage.DDL.items())[:3]))
        monkeypatch.setattr(os, "link", lambda *_: die())
        new_ledger(tmp_path)

    assert killed_in_fork(work) == 9
    assert not (tmp_path / "l" / "ledger.db").exists()
    assert new_ledger(tmp_path).verify().ok
    assert sorted(p.name for p in (tmp_path / "l").iterdir()) == ["ledger.db"]


def test_a_left_over_log_is_not_replayed_into_a_new_ledger(tmp_path):
    ledger = new_ledger(tmp_path)
    ledger.path.rename(tmp_path / "away")
    Path(f"{ledger.path}-wal").write_bytes(b"x")
    with pytest.raises(LedgerError) as caught:
        new_ledger(tmp_path)
    assert caught.value.code == "DPR401"


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "l").write_text("a file")
    with pytest.raises(LedgerError) as caught:
        new_ledger(tmp_path)
    assert caught.value.code == "DPR402"


def test_a_storage_that_cannot_be_filled_is_one_clear_error_and_no_ledger(tmp_path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(storage, "build", full)
    with pytest.raises(LedgerError) as caught:
        new_ledger(tmp_path)
    assert caught.value.code == "DPR402"
    assert not (tmp_path / "l" / "ledger.db").exists()


def test_a_system_without_a_mount_table_is_not_refused(tmp_path, monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", absent)
    new_ledger(tmp_path)


def test_the_folder_is_synced_once_the_ledger_has_its_name(tmp_path, monkeypatch):
    """Else a power cut could take the name back, and an empty ledger would be made again."""
    place, synced, sync = tmp_path / "l" / "ledger.db", [], os.fsync

    def watched(descriptor):
        synced.append((os.fstat(descriptor).st_ino, place.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    new_ledger(tmp_path)
    assert (place.parent.stat().st_ino, True) in synced


def test_no_ledger_is_made_beside_manifests_that_rest_on_one(tmp_path):
    first = new_ledger(tmp_path)
    release(first, entry(), tmp_path / "public")
    place = tmp_path / "other" / "l.db"
    declared = {"dataset": "clinic", "epsilon": 1, "adjacency": "add_remove", "unit": '"row"'}
    with pytest.raises(LedgerError) as caught:
        Ledger.create(place, anchors=[tmp_path / "public"], **declared)
    assert caught.value.code == "DPR401"
    assert not place.exists()
    Ledger.create(place, **declared)  # control: without manifests it is made
