"""Where a ledger may live, and how its file comes into being: whole, or not at all.

A new ledger is built aside and linked into place under a lock on its folder. So a crash never
leaves a half-made file that a later run could take for an empty budget, two processes never make
two ledgers, and an existing file is never replaced.

Limits   network and FUSE file systems are recognised by the type that statfs gives and by
         /proc/self/mounts, which knows more names (Linux only). 9p and virtiofs are not refused:
         they are the root of some containers, and where their shared memory does not work SQLite
         itself fails.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.budget import refusals, storage

_NETWORK = re.compile(
    r"fuse.*|nfs\d?|cifs|smb\w*|afs|ceph|glusterfs|lustre|gpfs|beegfs|ocfs2|gfs2|davfs|ncpfs|coda"
    r"|orangefs|pvfs2|vboxsf|prl_fs"
)

_MAGIC = {
    0x6969: "nfs", 0x517B: "smb", 0xFE534D42: "smb2", 0xFF534D42: "cifs", 0x65735546: "fuse",
    0x5346414F: "afs", 0x6B414653: "afs", 0xC36400: "ceph", 0xBD00BD0: "lustre",
    0x47504653: "gpfs", 0x19830326: "beegfs", 0x7461636F: "ocfs2", 0x1161970: "gfs2",
    0x564C: "ncpfs", 0x73757245: "coda", 0x20030528: "orangefs", 0x786F4256: "vboxsf",
}  # fmt: skip
"""Types as statfs(2) names them: linux/magic.h and the file systems' own headers."""


def absolute(path: Path) -> Path:
    """Return `path` with its folder resolved but not its last part: a link there is refused."""
    return path.parent.resolve() / path.name


def aside_of(path: Path) -> Path:
    """Return where a new ledger is built before it gets its name."""
    return path.parent / f".{path.name}.new"


def place_new(path: Path, first: Callable[[sqlite3.Connection], object], *, allowed: bool) -> None:
    """Put a new ledger at `path` unless something is there: file 0600, an own folder 0700.

    Args:
        first: writes the first event.
        allowed: False if published manifests already rest on a ledger.

    Raises:
        LedgerError: nothing is there and it may not be created, or only its write-ahead log is
            left (DPR401); the folder cannot hold a ledger (DPR402, DPR408, DPR409).
    """
    parent = path.parent
    made = not parent.exists()
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network(parent)
        with locked(parent) as folder:
            if os.path.lexists(path):
                return
            if not allowed:
                raise refusals.missing(path, refusals.RESTING)
            if any(os.path.lexists(f"{path}{end}") for end in ("-wal", "-journal")):
                raise refusals.missing(path, "but its write-ahead log is still there")
            aside = aside_of(path)
            for leftover in ("", "-wal", "-shm"):
                Path(f"{aside}{leftover}").unlink(missing_ok=True)
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            storage.build(aside, first)
            # link, not rename: it never replaces what another program may have put there.
            os.link(aside, path)
            aside.unlink()
            os.fsync(folder)
        if made:
            with locked(parent.parent) as folder:
                os.fsync(folder)
    except (OSError, sqlite3.Error) as error:
        raise refusals.cannot_create(path, error) from None


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the exclusive lock of an existing folder; give its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def refuse_network(folder: Path) -> None:
    """Refuse file systems on which WAL's shared memory does not hold between hosts.

    Raises:
        LedgerError: the folder is on a network or FUSE file system (DPR408).
    """
    kind = _MAGIC.get(_statfs_type(folder)) or filesystem_type(folder, _mounts())
    if _NETWORK.fullmatch(kind):
        raise refusals.network(folder, kind)


def filesystem_type(path: Path, mounts: str) -> str:
    """Return the type of the mount that holds `path` by the text of a mount table, or "".

    The deepest mount point wins, and of two on one point the later.
    """
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), parts[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, parts[2]
    return kind


def _statfs_type(folder: Path) -> int:
    """Return `f_type` of statfs(2), or 0 where there is none: `os.statvfs` leaves it out."""
    if not sys.platform.startswith("linux"):
        return 0
    # f_type is the struct's first word; the whole of it is below 256 bytes everywhere.
    answer = (ctypes.c_long * 64)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(folder), ctypes.byref(answer)) != 0:
        return 0
    return int(answer[0]) & 0xFFFFFFFF


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
