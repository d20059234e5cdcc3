"""Damage: flipped bytes and truncations of the database and its log; tampering in six ways.

Allowed are a refusal, or a ledger that says what it said before: never a lower spent total, never
other released bytes, never an exception outside the family of ledger errors.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.budget.head_file import check_head, write_head
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import DpreleaseError, LedgerError
from tests.budget.samples import entry, key, new_ledger, release, tamper
from tests.budget.test_chain import halve, rewrite
from tests.faults.protocol import COST, check, published
from tests.faults.sizes import FILLINGS, FLIPS, WAL_FLIPS

PERIODS = ("2030-01", "2030-02", "2030-03")


def truth(ledger):
    return (
        ledger.budget("clinic").spent,
        ledger.budget("clinic").epsilon,
        [(row.entry.to_json(), row.anchor) for row in ledger.entries()],
        [ledger.payload(key(p)) for p in PERIODS],
        [ledger.files(key(p)) for p in PERIODS],
        ledger.salt("clinic"),
    )


def judged(path: Path, public: Path, head: Path, before) -> str:
    """Return "detected" or "harmless"; fail on anything else."""
    try:
        ledger = Ledger.open(path, public=public)
        check_head(head, ledger)
        after = truth(ledger)
    except LedgerError:  # anything else ends the test
        return "detected"
    assert after == before
    return "harmless"


def damaged(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    if chance.random() < 0.1:
        return data[:at]
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def made(folder: Path) -> tuple[Ledger, Path, Path]:
    ledger, public, head = new_ledger(folder), folder / "public", folder / "elsewhere" / "head.json"
    for period in PERIODS:
        release(ledger, entry(period), public)
    write_head(head, ledger.head())
    return ledger, public, head


def counted(results: list[str]) -> str:
    return f"{results.count('detected')} detected, {results.count('harmless')} harmless, 0 other"


def test_damage_to_the_database_is_detected_or_harmless(place, evidence):
    ledger, public, head = made(place)
    good, before = ledger.path.read_bytes(), truth(ledger)
    chance, results = random.Random(1), []
    for _ in range(FLIPS):
        ledger.path.write_bytes(damaged(good, chance))
        results.append(judged(ledger.path, public, head, before))
        for end in ("-wal", "-shm", "-journal"):
            Path(f"{ledger.path}{end}").unlink(missing_ok=True)
    assert results.count("detected") > FLIPS / 20  # much of a young database is empty space
    evidence("corruption of the database", f"{FLIPS} flips and truncations", counted(results))


def test_damage_to_the_log_is_detected_or_harmless(place, evidence):
    """All of three releases is still in the log: another process held the ledger open."""
    ledger, public, head = new_ledger(place), place / "public", place / "elsewhere" / "head.json"
    reader = sqlite3.connect(ledger.path)
    reader.execute("BEGIN").connection.execute("SELECT COUNT(*) FROM chain").fetchone()
    for period in PERIODS:
        release(ledger, entry(period), public)
    write_head(head, ledger.head())
    before = truth(ledger)
    files = {p.name: p.read_bytes() for p in ledger.path.parent.iterdir() if "shm" not in p.name}
    reader.close()
    log = f"{ledger.path.name}-wal"
    assert len(files[log]) > 100_000
    chance, results = random.Random(2), []
    for n in range(WAL_FLIPS + 1):
        for old in ledger.path.parent.iterdir():
            old.unlink()
        for name, data in files.items():
            hurt = damaged(data, chance) if name == log and n else data
            (ledger.path.parent / name).write_bytes(hurt)
        results.append(judged(ledger.path, public, head, before))
    assert results[0] == "harmless"  # control: nothing was flipped
    evidence("corruption of the log", f"{WAL_FLIPS} flips and truncations", counted(results[1:]))


# -- tampering -----------------------------------------------------------------------------


def edited(ledger, backup):
    tamper(ledger, "UPDATE entry SET nano_epsilon = 1")


def deleted(ledger, backup):
    tamper(ledger, "DELETE FROM chain WHERE seq = (SELECT MAX(seq) FROM chain)")


def swapped(ledger, backup):
    tamper(
        ledger,
        "UPDATE chain SET seq = 1000 WHERE seq = 4",
        "UPDATE chain SET seq = 4 WHERE seq = 5",
        "UPDATE chain SET seq = 5 WHERE seq = 1000",
    )


def rewritten(ledger, backup):
    rewrite(ledger, halve)


def restored(ledger, backup):
    shutil.copy(backup, ledger.path)


def renewed(ledger, backup):
    ledger.path.unlink()
    new_ledger(ledger.path.parent.parent)


WAYS = (edited, deleted, swapped, rewritten, restored, renewed)


def opened(ledger, public, head):
    found = Ledger.open(ledger.path, public=public)
    if head is not None:
        check_head(head, found)


@pytest.mark.parametrize("witness", ["manifests", "head file"])
def test_tampering_in_six_ways_is_detected(place, evidence, witness):
    codes = {}
    for way in WAYS:
        folder = place / way.__name__
        ledger, public, head = new_ledger(folder), folder / "public", folder / "head" / "head.json"
        backup = folder / "backup"
        shutil.copy(ledger.path, backup)
        release(ledger, entry(), public)
        write_head(head, ledger.head())
        if witness == "head file":
            shutil.rmtree(public)  # nothing was published, or it is gone
        Ledger.open(ledger.path, public=public)
        check_head(head, ledger)  # control
        way(ledger, backup)
        with pytest.raises(LedgerError) as caught:
            opened(ledger, public, head if witness == "head file" else None)
        codes[way.__name__] = caught.value.code
    evidence(f"tampering, shown by {witness}", f"{len(WAYS)} ways", ", ".join(
        f"{name} {code}" for name, code in codes.items()
    ))  # fmt: skip


def test_without_any_witness_the_last_three_are_not_seen(place):
    """Control of the test above: it is the witnesses that show them."""
    for way in (rewritten, restored, renewed):
        folder = place / way.__name__
        ledger = new_ledger(folder)
        shutil.copy(ledger.path, folder / "backup")
        ledger.charge(entry())
        way(ledger, folder / "backup")
        assert Ledger.open(ledger.path).budget("clinic").spent < COST


# -- disks that refuse ---------------------------------------------------------------------


def cramped(folder: Path, limit: int) -> int:
    """Run the protocol in a child whose files cannot grow beyond `limit` bytes."""
    import resource

    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            release(Ledger(folder / "l" / "ledger.db"), entry(), folder / "public")
            os._exit(0)
        except DpreleaseError as refused:
            os._exit(refused.exit_status)
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_files_that_cannot_grow(place, evidence):
    codes = []
    for n in range(FILLINGS):
        folder = place / str(n)
        ledger = new_ledger(folder)
        codes.append(cramped(folder, n * 80_000 // FILLINGS))
        check(ledger.path, folder / "public", COST, {})
        # 3: charged, and held up at any later step, the last of which follows the publication.
        if codes[-1] == 1:
            assert not published(folder / "public")
            assert not ledger.has(key())
        release(ledger, entry(), folder / "public")
        check(ledger.path, folder / "public", COST, {})
    assert set(codes) <= {0, 1, 3}
    assert {0, 1} <= set(codes)
    evidence(
        "files that cannot grow",
        f"{FILLINGS} limits from 0 to 80 kB",
        f"{codes.count(1)} refused, {codes.count(3)} withheld, {codes.count(0)} released",
    )


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None and sys.platform == "linux"


@pytest.mark.skipif(not may_mount(), reason="only root can mount a small disk")
def test_a_full_and_a_read_only_disk(place, evidence):
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this container may not mount")
    try:
        ledger, public = new_ledger(place), place / "public"
        codes = []
        for free in range(0, 140, 12):
            period = f"p{free}"
            ballast = place / "ballast"
            stat = os.statvfs(place)
            room = stat.f_bavail * stat.f_frsize - free * 1024
            ballast.write_bytes(b"x" * max(0, room))
            try:
                release(ledger, entry(period, epsilon=Fraction(1, 20)), public)
                codes.append(0)
            except DpreleaseError as refused:
                codes.append(refused.exit_status)
            ballast.unlink()
            check(ledger.path, public, Fraction(1), {})
            if codes[-1] == 0:
                break
        assert codes[0] != 0
        assert codes[-1] == 0
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises(DpreleaseError) as caught:
            ledger.charge(entry("2031-01"))
        assert caught.value.exit_status == 1
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        assert not ledger.has(key("2031-01"))
    finally:
        subprocess.run(["umount", str(place)], check=True)
    evidence(
        "full and read-only disk",
        f"a disk of 256 kB, {len(codes)} fillings, then read-only",
        f"{codes.count(1)} refused, {codes.count(3)} withheld, {codes.count(0)} released",
    )
