"""Publish the committed bytes: written aside, synced, then one atomic rename.

    <to>/<pipeline>/<period>/    the files, 0644 in a folder 0755
    <to>/<pipeline>/latest       a link to the greatest period that stands and was over when it was
                                 released, replaced atomically; never to a folder that is none of
                                 ours, or a copy of a period under another name
    <to>/<pipeline>/<file>       what is said of all periods: status.json, index.html, feed.xml …

A reader sees a whole period or none. Publication only copies bytes that the ledger has already
committed, so it may be repeated at any time: a folder with the same bytes is left alone, one with
other bytes is never touched. Every step works on open folder descriptors and follows no link, so
nothing that is swapped in meanwhile can send the files elsewhere. A lock on the pipeline's folder
orders publishers, which is also why leftovers of a crash may be removed.

Period order is natural: runs of digits compare as numbers, the rest as text, so `2013-W9` comes
before `2013-W10`.

Limits   folders above `to` are the operator's; `sync` is the disk's word.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from dprelease.budget.citation import MANIFEST
from dprelease.budget.record import check_identifier
from dprelease.core.errors import (
    UNREADABLE,
    ArgumentError,
    ConfigError,
    VerificationError,
    WithheldError,
)
from dprelease.core.strict_json import read_file, read_json
from dprelease.results import corrections
from dprelease.results.formats.json_ import VERSION
from dprelease.results.published_folder import (
    files_of_pipeline,
    holds,
    left_by,
    not_a_release,
    record_at,
)

LATEST = "latest"
_ASIDE = ".publishing-"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_PROBE = 2**16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_for(to: Path, pipeline: str, period: str) -> Path:
    """Return `<to>/<pipeline>/<period>`, checked before anything is spent.

    Raises:
        ConfigError: a name is not 1 to 64 of A-Z a-z 0-9 _ -, the period is called "latest"
            (DPR150), or a folder on the way is a link or not a folder (DPR151).
    """
    check_identifier(pipeline, "pipeline")
    check_identifier(period, "period")
    if period == LATEST:
        raise ConfigError(
            'a period cannot be called "latest"',
            why="that name links to the greatest period",
            fix="choose another period name",
            code="DPR150",
        )
    folder = Path(to) / pipeline / period
    for place in (Path(to), folder.parent, folder):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise ConfigError(
                "a folder to publish into is a link, or not a folder",
                where=str(place),
                why="a link could lead the release outside the declared place",
                fix="name the real folder",
                code="DPR151",
            )
    latest = folder.parent / LATEST
    if latest.exists() and not latest.is_symlink():  # found before the charge, not after it
        raise ConfigError(
            "`latest` is not a link",
            where=str(latest),
            why="it names the greatest period; a copy that followed links has made a folder of it",
            fix="move it out of the way: the next run makes the link again",
            code="DPR151",
        )
    return folder


def publish_files(
    to: Path,
    pipeline: str,
    period: str,
    files: Mapping[str, bytes],
    *,
    stamp: datetime | None = None,
) -> Path:
    """Make `<to>/<pipeline>/<period>` hold exactly `files`, atomically and durably; idempotent.

    Args:
        files: name to bytes, as committed to the ledger.
        stamp: the modification time of the files and their folder, the scheduled instant: when
            the run really ended would say how long it took.

    Returns:
        The period's folder.

    Raises:
        ConfigError: as `folder_for`.
        ArgumentError: there is no file, or a name is not a plain file name (DPR652).
        WithheldError: the folder exists with other bytes (DPR713), the record of corrections
            beside it is broken (DPR720), or the system refuses a step (DPR714). The ledger keeps the release: the same call may be repeated.
    """
    folder = folder_for(to, pipeline, period)
    if not files or not all(isinstance(n, str) and _FILE.fullmatch(n) for n in files):
        raise ArgumentError(
            "a release needs files with plain names",
            why="a name with a slash or a leading dot could leave the folder or hide in it",
            fix="use A-Z a-z 0-9 . _ -, not starting with a dot",
            code="DPR652",
        )
    try:
        with _pipeline_folder(Path(to), pipeline) as parent:
            _remove_leftovers(parent)
            gone = _gone(parent)
            if not _already_there(parent, period, folder, files):
                _place(parent, period, files, stamp)
            _point_latest(parent, gone)
            os.fsync(parent)
    except VerificationError as broken:
        raise WithheldError(
            "the release is drawn and stored, but not published: " + broken.what,
            where=str(folder.parent / corrections.FILE),
            why=broken.why,
            fix="restore that file, then run again: the stored bytes are published for free",
            code="DPR720",
        ) from None
    except OSError as error:
        raise WithheldError(
            "the release is drawn and stored, but could not be published",
            where=str(folder),
            why=error.strerror or "the system refused a step",
            fix="make room or give access, then run again: the stored bytes are published for free",
            code="DPR714",
        ) from None
    return folder


def must_be_writable(folder: Path) -> None:
    """Refuse, before the charge, a folder that a file cannot be written into, or that cannot be made.

    A small file is written to the nearest folder that exists, and removed: rights, mounts and full disks show.

    Raises:
        ConfigError: the system refuses it (DPR151).
    """
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".probe-", buffering=0) as file:
            file.write(bytes(_PROBE))
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(
            "nothing can be written where this run has to write",
            where=str(there),
            why=error.strerror or "the system refused",
            fix="make room or give this user write access, then run again",
            code="DPR151",
        ) from None


def must_be_free(folder: Path, *, stored: Callable[[], bool]) -> None:
    """Refuse, before the charge, what would keep a first release from its folder.

    Args:
        stored: whether the ledger holds the release: another process may have published it a moment ago.

    Raises:
        VerificationError: a folder of the period is there (DPR811), or the record of corrections beside it is broken
            (DPR830). Other periods can go on.
    """
    if os.path.lexists(folder) and not stored():
        raise VerificationError(
            "the period's folder exists, and the ledger holds no release of it",
            where=str(folder),
            why="published bytes never change, so this run could not publish into it",
            fix="move the folder away and run again",
            code="DPR811",
        )
    record = folder.parent / corrections.FILE
    if os.path.lexists(record):
        try:
            corrections.parse(record_at(record))
        except VerificationError as broken:
            raise broken.from_error(broken, where=str(record)) from None


def update_files_of_pipeline(
    folder: Path, make: Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
) -> tuple[str, ...]:
    """Replace files beside the periods of the pipeline folder `folder`, each atomically.

    Args:
        make: gets the files that are there, by name, and returns those to write, in the order of
            writing. Called under the lock of the pipeline's folder, so nothing is published
            meanwhile; may read periods.

    Returns:
        The names that changed, in order.

    Raises:
        VerificationError: there is no such folder (DPR810), or the record of corrections is
            broken (DPR830).
        OSError: the system refuses a step; what was not replaced is as before.
    """
    # Only a folder that exists: a misspelt name must not become a published one.
    if folder.is_symlink() or not folder.is_dir():
        raise not_a_release(folder, "it is a link, or not a folder")
    with _pipeline_folder(folder.parent, folder.name) as parent:
        _remove_leftovers(parent)
        before = files_of_pipeline(parent)
        made = make(before)
        changed = tuple(name for name in made if made[name] != before.get(name))
        for name in changed:
            if not _FILE.fullmatch(name):
                raise ArgumentError("a file beside periods needs a plain name", code="DPR652")
            aside = f"{_ASIDE}{secrets.token_hex(8)}"
            _write(parent, aside, made[name])
            os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
        _point_latest(parent, _gone(parent))
        os.fsync(parent)
    return changed


def _make(to: Path) -> None:
    """Make the public folder durably: a power cut must not take back what is called published."""
    made = [place for place in (to, *to.parents) if not place.exists()]
    to.mkdir(mode=0o755, parents=True, exist_ok=True)
    for place in made:
        with _opened(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as outer:
            os.fsync(outer)


@contextmanager
def _opened(place: Path | str, flags: int = _FOLDER, within: int | None = None) -> Iterator[int]:
    """Open a folder, by its name in another one if that is given, and close it."""
    descriptor = os.open(place, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _pipeline_folder(to: Path, pipeline: str) -> Iterator[int]:
    """Open, and if needed make, the pipeline's folder; hold its lock."""
    _make(to)
    with _opened(to) as outer:
        with suppress(FileExistsError):
            os.mkdir(pipeline, 0o755, dir_fd=outer)
            os.fsync(outer)
        with _opened(pipeline, within=outer) as inner:
            fcntl.flock(inner, fcntl.LOCK_EX)
            yield inner


def _remove_leftovers(parent: int) -> None:
    # We hold the lock, so whoever made these is dead.
    for name in os.listdir(parent):
        if name.startswith(_ASIDE):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)


def _already_there(parent: int, period: str, folder: Path, files: Mapping[str, bytes]) -> bool:
    try:
        descriptor = os.open(period, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return False
    left = None
    try:
        same = holds(descriptor, files)
        others = sorted(set(os.listdir(descriptor)) - set(files))  # noqa: PTH208 - a descriptor
        left = next((f"{n}, which {who} made" for n in others if (who := left_by(n))), None)
    except OSError:
        same = False
    finally:
        os.close(descriptor)
    if not same:
        first = "" if left is None else f"remove {left}, and run again; if it differs still, "
        raise WithheldError(
            "the period's folder exists and differs from the release in the ledger",
            where=str(folder),
            why="published bytes never change",
            fix=f"{first}move the folder away and run again: the stored bytes are published for free",
            code="DPR713",
        )
    return True


def _place(parent: int, period: str, files: Mapping[str, bytes], stamp: datetime | None) -> None:
    aside = f"{_ASIDE}{secrets.token_hex(8)}"
    os.mkdir(aside, 0o700, dir_fd=parent)
    with _opened(aside, within=parent) as folder:
        for name in sorted(files):
            _write(folder, name, files[name], stamp)
        _finish(folder, 0o755, stamp)
    os.rename(aside, period, src_dir_fd=parent, dst_dir_fd=parent)
    os.fsync(parent)


def _write(folder: int, name: str, data: bytes, stamp: datetime | None = None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        _finish(file.fileno(), 0o644, stamp)


def _finish(descriptor: int, mode: int, stamp: datetime | None) -> None:
    """Give what was written its mode, whatever the umask, and its time, and wait for the disk."""
    os.fchmod(descriptor, mode)
    if stamp is not None:
        os.utime(descriptor, (stamp.timestamp(), stamp.timestamp()))
    os.fsync(descriptor)


def _gone(parent: int) -> frozenset[str]:
    """Return the periods that were withdrawn or superseded; VerificationError DPR830."""
    if corrections.FILE not in os.listdir(parent):
        return frozenset()
    return frozenset(corrections.current(corrections.parse(record_at(corrections.FILE, parent))))


def _point_latest(parent: int, gone: frozenset[str]) -> None:
    periods = [
        name
        for name in os.listdir(parent)
        if not name.startswith(".")
        and name not in gone
        and stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    ]
    try:
        now = os.readlink(LATEST, dir_fd=parent)
    except FileNotFoundError:
        now = None
    ordered = sorted(periods, key=period_order, reverse=True)
    greatest = next((name for name in ordered if _over(parent, name)), None)
    if now == greatest:
        return
    if greatest is None:  # everything was withdrawn, or released early
        os.unlink(LATEST, dir_fd=parent)
        return
    aside = f"{_ASIDE}{secrets.token_hex(8)}"
    os.symlink(greatest, aside, dir_fd=parent)
    os.rename(aside, LATEST, src_dir_fd=parent, dst_dir_fd=parent)


def _over(parent: int, period: str) -> bool:
    """Return whether the folder holds a release of this very period, made when it was over."""
    try:
        said = read_json(read_file(f"{period}/{MANIFEST}", within=parent))
        ours = said["dprelease"] == VERSION and said["period"] == period
        return ours and said.get("early") is None
    except (*UNREADABLE, OSError, MemoryError):
        return False  # not one of ours


def period_order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key: runs of digits compare as numbers, the rest as text."""
    parts = re.findall(r"\d+|\D+", name, re.ASCII)
    # Of all digits `\d` means ten here; others are text, and of some (`²`) there is no number.
    return [(0, int(p), "") if p.isascii() and p.isdigit() else (1, 0, p) for p in parts], name
