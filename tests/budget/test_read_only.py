"""A ledger where nothing can be written is read to its last commit; what would write is refused before a debit."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.budget import read_only
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import LedgerError
from tests.budget.samples import entry, new_ledger


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Give what mounts a folder again, for reading alone; as root on Linux, where that is allowed."""
    place = tmp_path / "mounted"
    made: list[Path] = []

    def mount(folder: Path) -> Path:
        place.mkdir(exist_ok=True)
        for how in (["--bind", str(folder)], ["-o", "remount,ro,bind"]):
            done = subprocess.run(["mount", *how, str(place)], capture_output=True, check=False)
            if done.returncode:
                pytest.skip("this user may not mount a folder for reading alone")
            made[:] = [place]
        return place

    if shutil.which("mount") is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no mount of Linux here")
    yield mount
    for point in made:
        subprocess.run(["umount", "-l", str(point)], check=True)


def debits(path: Path) -> int:
    ledger = Ledger.open(path)
    assert ledger.verify().ok
    return len(ledger.entries())


def with_log(folder: Path, *, kept: bool) -> Path:
    """Return a ledger of two debits, of which the second stands in the log alone; `kept`: with shared memory."""
    ledger = new_ledger(folder / "own")
    ledger.charge(entry("2030-01"))
    reader = sqlite3.connect(ledger.path)  # the last one to close would empty the log
    reader.execute("SELECT COUNT(*) FROM entry").fetchone()
    ledger.charge(entry("2030-02"))
    left = folder / "left"
    shutil.copytree(ledger.path.parent, left)
    reader.close()
    if not kept:
        (left / f"{ledger.path.name}-shm").unlink()
    assert (left / f"{ledger.path.name}-wal").stat().st_size > 0
    return left / ledger.path.name


def test_a_ledger_on_a_read_only_mount_is_read(
    tmp_path: Path, mounted: Callable[[Path], Path]
) -> None:
    ledger = new_ledger(tmp_path / "own")
    ledger.charge(entry())
    there = mounted(ledger.path.parent) / ledger.path.name
    assert debits(there) == 1
    with pytest.raises(LedgerError, match="can only be read here") as caught:
        Ledger.open(there).charge(entry("2030-02"))
    assert (caught.value.code, caught.value.spent) == ("DPR402", "nothing")
    ledger.charge(entry("2030-02"))  # where it can be written it goes on, and is read
    assert debits(there) == 2


def test_a_log_that_somebody_writes_is_read(
    tmp_path: Path, mounted: Callable[[Path], Path]
) -> None:
    ledger = new_ledger(tmp_path / "own")
    ledger.charge(entry())
    there = mounted(ledger.path.parent) / ledger.path.name
    writer = sqlite3.connect(ledger.path)
    writer.execute("SELECT COUNT(*) FROM entry").fetchone()
    ledger.charge(entry("2030-02"))
    assert Path(f"{ledger.path}-wal").stat().st_size > 0
    assert debits(there) == 2
    writer.close()


@pytest.mark.parametrize("kept", [True, False])
def test_a_log_that_a_crash_left_is_read(
    kept: bool, tmp_path: Path, mounted: Callable[[Path], Path]
) -> None:
    """`immutable` alone would pass over it, and show a debit less."""
    ledger = with_log(tmp_path, kept=kept)
    there = mounted(ledger.parent) / ledger.name
    assert debits(there) == 2
    uri = f"{there.as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        (less,) = db.execute("SELECT COUNT(*) FROM entry").fetchone()
    assert less == 1


@pytest.mark.parametrize("kept", [None, True, False])
def test_a_folder_without_write_rights_is_read_by_another_user(
    kept: bool | None, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    ledger = with_log(tmp_path, kept=kept) if kept is not None else _plain(tmp_path)
    for path in (*ledger.parent.iterdir(), ledger.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for above in (tmp_path, *tmp_path.parents):
        if above.owner() == "root" and not above.stat().st_mode & 0o001 and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        found = 0
        try:
            found = debits(ledger)
        finally:
            os._exit(found)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (1 if kept is None else 2)


def _plain(folder: Path) -> Path:
    ledger = new_ledger(folder / "left")
    ledger.charge(entry())
    return ledger.path


def test_what_was_read_while_a_writer_came_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new_ledger(tmp_path)
    ledger.charge(entry())
    with monkeypatch.context() as patch:
        patch.setattr("dprelease.budget.storage.is_read_only", lambda _path: True)
        assert len(ledger.entries()) == 1
        with pytest.raises(LedgerError, match="DPR402"):
            _read_while_charged(ledger, patch)
    assert not read_only.is_read_only(ledger.path)


def _read_while_charged(ledger: Ledger, patch: pytest.MonkeyPatch) -> None:
    with ledger._read() as db:
        db.execute("SELECT COUNT(*) FROM entry").fetchone()
        patch.undo()
        ledger.charge(entry("2030-02"))
